/// compute_once, and the rule that evaluates once what comes out alike along an axis.
#include <fmt/format.h>

#include "ir/error.h"
#include "ir/text/parse.h"
#include "ir/text/print.h"
#include "schedule/auto/auto_schedule.h"
#include "schedule/primitives/compute_once.h"
#include "tests/golden.h"
#include "tests/schedule/auto_support.h"
#include "tests/schedule/support.h"

namespace lathe::testing {
namespace {

/// a[i, j] = x[i], b = f(a), out = g(b), of 4 x 5 elements.
Func chain(const std::string& made = "a[bi, bj] * 3i32", const std::string& read = "b[wi, wj] + y[wi, wj]") {
  return parse_func(fmt::format(R"(func chain(x: i32[4], y: i32[4, 5], out: i32[4, 5]) {{
  block root() reads x[..], y[..] writes out[..] {{
    alloc a: i32[4, 5]
    alloc b: i32[4, 5]
    for i in [0, 4) {{
      for j in [0, 5) {{
        block spread(space vi in [0, 4) = i, space vj in [0, 5) = j) reads x[vi] writes a[vi, vj] {{
          a[vi, vj] = x[vi]
        }}
      }}
    }}
    for i in [0, 4) {{
      for j in [0, 5) {{
        block make(space bi in [0, 4) = i, space bj in [0, 5) = j) reads a[..], x[..] writes b[bi, bj] {{
          b[bi, bj] = {}
        }}
      }}
    }}
    for i in [0, 4) {{
      for j in [0, 5) {{
        block read(space wi in [0, 4) = i, space wj in [0, 5) = j) reads b[..], y[..] writes out[wi, wj] {{
          out[wi, wj] = {}
        }}
      }}
    }}
  }}
}}
)",
                                made, read));
}

/// Twice the sum of a row, for each element of it.
Func row_sums() {
  return parse_func(R"(func row_sums(x: i32[4, 7], out: i32[4, 5]) {
  block root() reads x[..] writes out[..] {
    alloc s: i32[4, 5]
    for i in [0, 4) {
      for j in [0, 5) {
        for k in [0, 7) {
          block sum(space vi in [0, 4) = i, space vj in [0, 5) = j, reduce vk in [0, 7) = k)
              reads s[vi, vj], x[vi, vk]
              writes s[vi, vj]
          {
            reducer (lhs: i32) (rhs: i32) {lhs + rhs} identity {0i32}
            init {
              s[vi, vj] = 0i32
            }
            let l: i32 = s[vi, vj]
            let r: i32 = x[vi, vk]
            s[vi, vj] = l + r
          }
        }
      }
    }
    for i in [0, 4) {
      for j in [0, 5) {
        block twice(space wi in [0, 4) = i, space wj in [0, 5) = j) reads s[wi, wj] writes out[wi, wj] {
          out[wi, wj] = s[wi, wj] * 2i32
        }
      }
    }
  }
}
)");
}

TEST(ComputeOnce, OfWhatWasSpread) {
  const Func before = chain();
  Schedule s(before);
  compute_once(s, {"spread"}, s.loops(BlockRef{"spread"})[1]);
  compute_once(s, {"make"}, s.loops(BlockRef{"make"})[1]);
  expect_scheduled(s, before, "compute_once");
}

TEST(ComputeOnce, OfASum) {
  const Func before = row_sums();
  Schedule s(before);
  compute_once(s, {"sum"}, s.loops(BlockRef{"sum"})[1]);
  expect_scheduled(s, before, "compute_once_sum");
}

TEST(ComputeOnce, WhereReadersReadItElsewhere) {
  const Func before = chain("x[bi] * 3i32", "b[3 - wi, (wj * 2) % 5] + b[wi, 4 - wj] + y[wi, wj]");
  Schedule s(before);
  compute_once(s, {"make"}, s.loops(BlockRef{"make"})[1]);
  expect_scheduled(s, before, "compute_once_elsewhere");
}

TEST(ComputeOnce, RefusesWhatDependsOnTheLoop) {
  Schedule s(chain());
  const auto inner = [&](const char* block) { return s.loops(BlockRef{block})[1]; };
  expect_refused(s, [&] { compute_once(s, {"make"}, inner("make")); }, "compute_once", 5, "compute_once_refused_5");
  EXPECT_THROW(compute_once(s, {"spread"}, s.loops(BlockRef{"spread"})[0]), Refusal) << "the other loop";
  EXPECT_THROW(compute_once(s, {"read"}, inner("read")), Refusal) << "an output";
  EXPECT_THROW(compute_once(s, {"spread"}, inner("make")), Refusal) << "a loop of another block";
  Schedule sum(row_sums());
  EXPECT_THROW(compute_once(sum, {"sum"}, sum.loops(BlockRef{"sum"})[2]), Refusal) << "a reduce iter";
  Schedule counts(chain("x[bi] + cast<i32>(bj)"));
  EXPECT_THROW(compute_once(counts, {"make"}, counts.loops(BlockRef{"make"})[1]), Refusal);
}

TEST(ComputeOnce, RefusesAnIterThatNoStoreUses) {
  Schedule s(parse_func(R"(func column(x: i32[4], out: i32[4]) {
  block root() reads x[..] writes out[..] {
    alloc a: i32[4, 1]
    for i in [0, 4) {
      for j in [0, 1) {
        block make(space vi in [0, 4) = i, space vj in [0, 1) = j) reads x[vi] writes a[vi, 0] {
          a[vi, 0] = x[vi] * 3i32
        }
      }
    }
    for i in [0, 4) {
      block read(space wi in [0, 4) = i) reads a[wi, 0] writes out[wi] {
        out[wi] = a[wi, 0] + 1i32
      }
    }
  }
}
)"));
  EXPECT_THROW(compute_once(s, {"make"}, s.loops(BlockRef{"make"})[1]), Refusal);
}

TEST(EvaluateOnce, WithTheCopiesThatItReads) {
  const auto once = [](const Func& func, const char* block) {
    return decisions_on(func, wide(), block).find(fmt::format("compute {} once", block)) != std::string::npos;
  };
  EXPECT_TRUE(once(chain(), "make"));
  EXPECT_TRUE(once(chain(), "spread")) << "for what is made of it";
  EXPECT_FALSE(once(chain("a[bi, bj]"), "spread")) << "copies alone are inlined";
  EXPECT_FALSE(once(chain("a[bi, bj] + a[bi, 4 - bj]"), "make")) << "read backwards, too";
  EXPECT_TRUE(once(row_sums(), "sum"));
  for (const char* made : {"a[bi, bj] * 3i32", "a[bi, bj]", "a[bi, bj] + a[3 - bi, bj]", "a[bi, 4 - bj] * 2i32"})
    expect_scheduled_well(chain(made));
  expect_scheduled_well(row_sums());
}

}  // namespace
}  // namespace lathe::testing
