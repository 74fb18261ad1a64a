#include <fmt/format.h>

#include "ir/buffer.h"
#include "ir/error.h"
#include "ir/text/parse.h"
#include "ir/text/print.h"
#include "schedule/primitives/cache_read.h"
#include "schedule/primitives/cache_write.h"
#include "schedule/primitives/compute_at.h"
#include "schedule/primitives/decompose_reduction.h"
#include "schedule/primitives/parallel.h"
#include "schedule/primitives/reorder.h"
#include "schedule/primitives/rfactor.h"
#include "schedule/primitives/set_space.h"
#include "schedule/primitives/split.h"
#include "schedule/primitives/unroll.h"
#include "schedule/primitives/vectorize.h"
#include "schedule/record.h"
#include "tests/schedule/support.h"

namespace lathe::testing {
namespace {

TEST(ComputeAt, ComputesARowUnderItsReader) {
  const Func before = program("rows");
  Schedule s(before);
  compute_at(s, {"shift"}, s.loop("store", 0));
  compute_at(s, {"total"}, s.loop("store", 0));
  parallel(s, s.loop("store", 0));
  expect_scheduled(s, before, "compute_at_row");
}

TEST(ComputeAt, CutsATileOffWhereItReachesOverTheEdge) {
  const Func before = program("matmul");
  Schedule s(before);
  const auto [io, ii] = split(s, s.loop("bias", 0), 3);
  const auto [jo, ji] = split(s, s.loop("bias", 2), 8);
  reorder(s, {io, jo, ii, ji});
  compute_at(s, {"product"}, jo);
  expect_scheduled(s, before, "compute_at_tile");
}

TEST(ComputeAt, MovesAPredicateOnTheBlocksOwnIters) {
  const Func before = program("matmul");
  Schedule s(before);
  const auto [ko, ki] = split(s, s.loop("product", 2), 8);
  reorder(s, {ko, ki, s.loop("product", 0), s.loop("product", 1)});
  const BlockRef partial = rfactor(s, {"product"}, ko);
  ASSERT_TRUE(s.node(partial).f.predicate);
  compute_at(s, partial, s.loop("product", 1));
  expect_scheduled(s, before, "compute_at_predicate");
}

TEST(ComputeAt, ComputesNothingBeyondWhatAGuardedReaderNeeds) {
  const Func before = parse_func(R"(func pairs(x: f32[4, 3], y: f32[4, 3], out: f32[4, 6]) {
  block root() reads x[..], y[..] writes out[..] {
    alloc z: f32[4, 3]
    for i in [0, 4) {
      for j in [0, 3) {
        block twice(space vi in [0, 4) = i, space vj in [0, 3) = j) reads y[vi, vj] writes z[vi, vj] {
          z[vi, vj] = y[vi, vj] * 2.0f32
        }
      }
    }
    for i in [0, 4) {
      for j in [0, 6) {
        block join(space vi in [0, 4) = i, space vj in [0, 6) = j) reads x[..], z[..] writes out[vi, vj] {
          out[vi, vj] = select(vj < 3, x[vi, vj if vj < 3], z[vi, vj - 3 if 3 <= vj])
        }
      }
    }
  }
}
)");
  Schedule s(before);
  compute_at(s, {"twice"}, s.loop("join", 0));
  EXPECT_TRUE(is_int(s.node(s.loops({"twice"}).back()).extent, 3));
  EXPECT_FALSE(s.node(BlockRef{"twice"}).f.predicate);
  expect_same_results(before, s.func());
}

TEST(ComputeAt, RefusesABlockWhoseLoopsAreSplit) {
  Schedule s(program("rows"));
  split(s, s.loop("shift", 1), 4);
  expect_refused(s, [&] { compute_at(s, {"shift"}, s.loop("store", 0)); }, "compute_at", 1, "compute_at_refused_1");
}

TEST(ComputeAt, RefusesAnOutput) {
  Schedule s(program("rows"));
  expect_refused(s, [&] { compute_at(s, {"store"}, s.loop("shift", 0)); }, "compute_at", 2, "compute_at_refused_2");
}

TEST(ComputeAt, RefusesWhenAReaderLiesOutside) {
  Schedule s(program("rows"));
  expect_refused(s, [&] { compute_at(s, {"shift"}, s.loop("total", 0)); }, "compute_at", 3, "compute_at_refused_3");
}

TEST(ComputeAt, RefusesALoopAroundTheBlock) {
  Schedule s(program("rows"));
  expect_refused(s, [&] { compute_at(s, {"shift"}, s.loop("shift", 0)); }, "compute_at", 4, "compute_at_refused_4");
}

TEST(CacheWrite, WritesThroughAnotherSpace) {
  const Func before = program("chain");
  Schedule s(before);
  EXPECT_EQ(cache_write(s, {"store"}, space::registers).name, "store_copy");
  expect_scheduled(s, before, "cache_write");
}

TEST(CacheWrite, MakesARegisterTileOfAReduction) {
  const Func before = program("matmul");
  Schedule s(before);
  const BlockRef copy = cache_write(s, {"product"}, space::registers);
  const auto [io, ii] = split(s, s.loop(copy.name, 0), 2);
  const auto [jo, ji] = split(s, s.loop(copy.name, 2), 8);
  reorder(s, {jo, io, ii, ji});
  compute_at(s, {"product"}, io);
  reorder(s, {s.loop("product", 4), s.loop("product", 2), s.loop("product", 3)});
  decompose_reduction(s, {"product"}, s.loop("product", 2));
  unroll(s, s.loop("product", 3));
  vectorize(s, s.loop("product", 4));
  expect_scheduled(s, before, "register_tile");
}

/// Sums of which `left` says what terms there are.
Func left_out(const std::string& left) {
  return parse_func(fmt::format(R"(func left_out(x: f32[4, 5], out: f32[4]) stage begin {{
  block root() reads x[..] writes out[..] {{
    for i in [0, 4) {{
      for k in [0, 5) {{
        block sum(space vi in [0, 4) = i, reduce vk in [0, 5) = k) where {}
            reads x[vi, vk], out[vi] writes out[vi] {{
          reducer (lhs: f32) (rhs: f32) {{lhs + rhs}} identity {{0.0f32}}
          init {{ out[vi] = 0.0f32 }}
          let l: f32 = out[vi]
          let r: f32 = x[vi, vk]
          out[vi] = l + r
        }}
      }}
    }}
  }}
}}
)",
                                left));
}

TEST(CacheWrite, TakesSumsOfWhichAPredicateLeavesOutTerms) {
  const Func before = left_out("k <= i");
  Schedule s(before);
  cache_write(s, {"sum"}, space::registers);
  expect_same(before, s.func());
  Schedule without_first(left_out("k < i"));
  EXPECT_THROW(cache_write(without_first, {"sum"}, space::registers), Refusal) << "the first result has no term";
}

TEST(CacheWrite, RefusesABlockWhoseLoopsAreSplit) {
  Schedule s(program("chain"));
  split(s, s.loop("store", 1), 4);
  expect_refused(s, [&] { cache_write(s, {"store"}, space::registers); }, "cache_write", 1, "cache_write_refused_1");
}

TEST(CacheWrite, RefusesASecondWriter) {
  Schedule two(parse_func(R"(func two(out: f32[4]) stage begin {
  block root() writes out[..] {
    for i in [0, 4) {
      block a(space v in [0, 4) = i) writes out[v] {
        out[v] = 1.0f32
      }
    }
    for j in [0, 4) {
      block b(space w in [0, 4) = j) writes out[w] {
        out[w] = 2.0f32
      }
    }
  }
}
)"));
  expect_refused(two, [&] { cache_write(two, {"b"}, space::registers); }, "cache_write", 2, "cache_write_refused_2");
}

TEST(CacheRead, PacksAPanelUnderALoop) {
  const Func before = program("matmul");
  Schedule s(before);
  const auto [jo, ji] = split(s, s.loop("bias", 1), 8);
  reorder(s, {jo, s.loop("bias", 0)});
  compute_at(s, {"product"}, s.loop("bias", 1));
  const BlockRef copy = cache_read(s, {"product"}, "b", space::global);
  EXPECT_EQ(copy.name, "b_copy");
  compute_at(s, copy, jo);
  expect_scheduled(s, before, "cache_read");
}

TEST(CacheRead, RefusesABufferThatIsNotRead) {
  Schedule s(program("matmul"));
  expect_refused(s, [&] { cache_read(s, {"product"}, "c", space::global); }, "cache_read", 1, "cache_read_refused_1");
}

TEST(CacheRead, RefusesABufferThatItsNestWrites) {
  Schedule s(program("rows"));
  compute_at(s, {"shift"}, s.loop("store", 0));
  expect_refused(
      s, [&] { cache_read(s, {"store"}, "shifted", space::global); }, "cache_read", 2, "cache_read_refused_2");
}

/// x @ x.T, of whose reads the second is said to be `read`.
Func gram(const std::string& read) {
  return parse_func(fmt::format(R"(
func gram(x: f32[7, 5], out: f32[7, 7]) stage begin {{
  block root() reads x[..], out[..] writes out[..] {{
    for i in [0, 7) {{
      for j in [0, 7) {{
        for k in [0, 5) {{
          block sum(space vi in [0, 7) = i, space vj in [0, 7) = j, reduce vk in [0, 5) = k)
              reads x[vi, vk], {}, out[vi, vj] writes out[vi, vj] {{
            reducer (lhs: f32) (rhs: f32) {{lhs + rhs}} identity {{0.0f32}}
            init {{ out[vi, vj] = 0.0f32 }}
            let l: f32 = out[vi, vj]
            let r: f32 = x[vi, vk] * x[vj, vk]
            out[vi, vj] = l + r
          }}
        }}
      }}
    }}
  }}
}}
)",
                                read));
}

TEST(CacheRead, CopiesOneOfTheElementsThatABlockReads) {
  const Func before = gram("x[vj, vk]");
  for (const size_t place : {size_t{0}, size_t{1}}) {
    Schedule s(before);
    const BlockRef copy = cache_read(s, {"sum"}, "x", space::global, place);
    compute_at(s, copy, s.loop("sum", place));
    expect_same(before, s.func());
    const std::string text = print(s.func());
    EXPECT_NE(text.find(place == 0 ? "x_global[vi, vk] * x[vj, vk]" : "x[vi, vk] * x_global[vj, vk]"),
              std::string::npos)
        << text;
    Schedule again(before);
    replay(again, s.record());
    EXPECT_EQ(print(again.func()), text);
  }
}

TEST(CacheRead, RefusesAPlaceThatIsNoElementItReads) {
  Schedule s(gram("x[vj, vk]"));
  expect_refused(s, [&] { cache_read(s, {"sum"}, "x", space::global, 2); }, "cache_read", 4, "cache_read_refused_4");
  Schedule rows(gram("x[..]"));
  EXPECT_THROW(cache_read(rows, {"sum"}, "x", space::global, 1), Refusal) << "all elements";
}

TEST(SetSpace, MovesAnAllocation) {
  const Func before = program("rows");
  Schedule s(before);
  set_space(s, {"total"}, space::worker);
  expect_scheduled(s, before, "set_space");
}

TEST(SetSpace, RefusesAnOutput) {
  Schedule s(program("rows"));
  expect_refused(s, [&] { set_space(s, {"store"}, space::registers); }, "set_space", 1, "set_space_refused_1");
}

}  // namespace
}  // namespace lathe::testing
