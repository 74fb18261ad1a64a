#include "ir/error.h"
#include "ir/text/parse.h"
#include "ir/text/print.h"
#include "schedule/primitives/compute_at.h"
#include "schedule/primitives/decompose_padding.h"
#include "schedule/primitives/decompose_reduction.h"
#include "schedule/primitives/partition.h"
#include "schedule/primitives/reindex.h"
#include "schedule/primitives/reverse_compute_inline.h"
#include "schedule/primitives/set_space.h"
#include "schedule/primitives/split.h"
#include "schedule/primitives/storage_align.h"
#include "schedule/primitives/unroll.h"
#include "tests/schedule/auto_support.h"
#include "tests/schedule/support.h"

namespace lathe::testing {
namespace {

/// A transposed producer, whose element-wise consumer reads a part of it.
const char* const transposed = R"(func transposed(x: f32[5, 8], y: f32[8], out: f32[6, 5]) stage begin {
  block root() reads x[..], y[..] writes out[..] {
    alloc t: f32[8, 5]
    for k in [0, 5) {
      for i in [0, 8) {
        block t(space vk in [0, 5) = k, space vi in [0, 8) = i) reads x[vk, vi] writes t[vi, vk] {
          let a: f32 = x[vk, vi] + 1.0f32
          t[vi, vk] = a * a
        }
      }
    }
    for i1 in [0, 6) {
      for j1 in [0, 5) {
        block scale(space wi in [0, 6) = i1, space wj in [0, 5) = j1) reads t[wi, wj], y[wi] writes out[wi, wj] {
          let b: f32 = t[wi, wj] * y[wi]
          out[wi, wj] = b + t[wi, wj]
        }
      }
    }
  }
}
)";

TEST(ReverseComputeInline, ComputesAConsumerWhereItsOperandIsProduced) {
  const Func before = parse_func(transposed);
  Schedule s(before);
  split(s, s.loop("t", 1), 3);
  reverse_compute_inline(s, {"scale"});
  expect_scheduled(s, before, "reverse_inline");
}

TEST(ReverseComputeInline, RefusesAReduction) {
  Schedule s(program("rows"));
  expect_refused(
      s, [&] { reverse_compute_inline(s, {"total"}); }, "reverse_compute_inline", 1, "reverse_inline_refused_1");
}

TEST(ReverseComputeInline, RefusesAnOperandReadInSeveralPlaces) {
  Schedule s(program("chain"));
  expect_refused(
      s, [&] { reverse_compute_inline(s, {"store"}); }, "reverse_compute_inline", 2, "reverse_inline_refused_2");
}

TEST(ReverseComputeInline, RefusesAProducerThatReduces) {
  Schedule s(program("matmul"));
  expect_refused(
      s, [&] { reverse_compute_inline(s, {"bias"}); }, "reverse_compute_inline", 3, "reverse_inline_refused_3");
}

TEST(ReverseComputeInline, RefusesWhatIsWrittenBetweenThem) {
  Schedule s(program("between"));
  expect_refused(
      s, [&] { reverse_compute_inline(s, {"use"}); }, "reverse_compute_inline", 4, "reverse_inline_refused_4");
}

TEST(Partition, FreesTheFirstPartOfItsPredicate) {
  const Func before = program("matmul");
  Schedule s(before);
  const auto [outer, inner] = split(s, s.loop("bias", 1), 8);
  const auto [main, rest] = partition(s, outer);
  EXPECT_TRUE(is_int(s.node(main).extent, 2));
  EXPECT_TRUE(is_int(s.node(rest).extent, 1));
  expect_scheduled(s, before, "partition");
}

TEST(Partition, TakesAPoint) {
  const Func before = program("chain");
  Schedule s(before);
  partition(s, s.loop("shift", 0), 4);
  expect_scheduled(s, before, "partition_point");
}

TEST(Partition, TakesAReductionWithoutItsInit) {
  const Func before = program("matmul");
  Schedule s(before);
  decompose_reduction(s, {"product"}, s.loop("product", 0));
  const auto [outer, inner] = split(s, s.loop("product", 2), 5);
  partition(s, outer);
  expect_scheduled(s, before, "partition_reduction");
}

TEST(Partition, RefusesALoopThatIsNotSerial) {
  Schedule s(program("pad"));
  unroll(s, s.loop("pad", 0));
  expect_refused(s, [&] { partition(s, s.loop("pad", 0), 2); }, "partition", 1, "partition_refused_1");
}

TEST(Partition, RefusesAPointThatIsNotProvedInside) {
  Schedule s(program("pad"));
  expect_refused(s, [&] { partition(s, s.loop("pad", 0), 9); }, "partition", 2, "partition_refused_2");
  expect_refused(s, [&] { partition(s, s.loop("pad", 0)); }, "partition", 2, "partition_refused_2_predicate");
  Schedule symbolic(parse_func(R"(func symbolic(x: f32[n], n: i64, out: f32[n]) stage begin facts {n in [4, 100]} {
  for i in [0, n) {
    block b(space v in [0, n) = i) reads x[v] writes out[v] {
      out[v] = x[v]
    }
  }
}
)"));
  expect_refused(
      symbolic, [&] { partition(symbolic, symbolic.loop("b", 0), 4); }, "partition", 2, "partition_refused_2_symbolic");
  partition(symbolic, symbolic.loop("b", 0), 3);
  EXPECT_EQ(symbolic.blocks().size(), 2u);
}

TEST(Partition, RefusesAReduceLoopThatWouldRunItsInitTwice) {
  Schedule s(program("matmul"));
  expect_refused(s, [&] { partition(s, s.loop("product", 2), 4); }, "partition", 3, "partition_refused_3");
}

TEST(StorageAlign, PadsRows) {
  const Func before = program("chain");
  Schedule s(before);
  storage_align(s, {"scale"}, "scaled", 0, 8, 1);
  expect_scheduled(s, before, "storage_align");
}

TEST(StorageAlign, RefusesWhatIsNoAllocationWithAddresses) {
  Schedule s(program("chain"));
  expect_refused(
      s, [&] { storage_align(s, {"store"}, "out", 0, 8, 0); }, "storage_align", 1, "storage_align_refused_1");
  set_space(s, {"scale"}, "register");
  expect_refused(
      s, [&] { storage_align(s, {"scale"}, "scaled", 0, 8, 0); }, "storage_align", 1, "storage_align_refused_1_space");
}

TEST(StorageAlign, RefusesTheLastDimension) {
  Schedule s(program("chain"));
  expect_refused(
      s, [&] { storage_align(s, {"scale"}, "scaled", 1, 8, 0); }, "storage_align", 2, "storage_align_refused_2");
}

TEST(StorageAlign, RefusesAnOffsetBeyondTheFactor) {
  Schedule s(program("chain"));
  expect_refused(
      s, [&] { storage_align(s, {"scale"}, "scaled", 0, 8, 8); }, "storage_align", 3, "storage_align_refused_3");
}

/// A strided window sum: the operand of a convolution.
const char* const window = R"(func window(x: f32[12], w: f32[3], out: f32[5]) stage begin {
  for h in [0, 5) {
    for r in [0, 3) {
      block sum(space vh in [0, 5) = h, reduce vr in [0, 3) = r)
          reads out[vh], x[vh * 2 + vr], w[vr]
          writes out[vh]
      {
        reducer (lhs: f32) (rhs: f32) {lhs + rhs} identity {0.0f32}
        init {
          out[vh] = 0.0f32
        }
        let l: f32 = out[vh]
        let q: f32 = x[vh * 2 + vr] * w[vr]
        out[vh] = l + q
      }
    }
  }
}
)";

TEST(Reindex, LaysAnOperandOutAlongTheItersOfItsReader) {
  const Func before = parse_func(window);
  Schedule s(before);
  const BlockRef copy = reindex(s, {"sum"}, "x");
  EXPECT_EQ(copy.name, "x_reindex");
  compute_at(s, copy, s.loop("sum", 0));
  expect_scheduled(s, before, "reindex");
}

TEST(Reindex, RefusesABufferThatTheBlockDoesNotReadSo) {
  Schedule s(program("chain"));
  expect_refused(s, [&] { reindex(s, {"store"}, "shifted"); }, "reindex", 1, "reindex_refused_1");
  expect_refused(s, [&] { reindex(s, {"store"}, "x"); }, "reindex", 1, "reindex_refused_1_name");
}

TEST(Reindex, CopiesWhatAMaskLetsThrough) {
  const Func before = parse_func(R"(func triangle(x: f32[5, 4], y: f32[4], out: f32[6]) stage begin {
  block root() reads x[..], y[..] writes out[..] {
    for i in [0, 6) {
      for k in [0, 4) {
        block sum(space vi in [0, 6) = i, reduce vk in [0, 4) = k) reads out[vi], x[..], y[vk] writes out[vi] {
          reducer (lhs: f32) (rhs: f32) {lhs + rhs} identity {0.0f32}
          init {
            out[vi] = 0.0f32
          }
          let l: f32 = out[vi]
          let r: f32 = x[vi - 1, vk if 0 < vi && vk < vi] * y[vk]
          out[vi] = l + r
        }
      }
    }
  }
}
)");
  Schedule s(before);
  reindex(s, {"sum"}, "x");
  expect_scheduled(s, before, "reindex_masked");
  const Func two = parse_func(replaced_all(print(before), "* y[vk]", "* y[vk] + x[vi - 1, vk if 0 < vi]"));
  Schedule several(two);
  EXPECT_THROW(reindex(several, {"sum"}, "x"), Refusal) << "two masks";
}

TEST(Reindex, TakesOneOfSeveralElements) {
  const Func before = parse_func(R"(func gram(x: f32[6, 5], out: f32[6, 6]) stage begin {
  block root() reads x[..] writes out[..] {
    for i in [0, 6) { for j in [0, 6) { for k in [0, 5) {
      block sum(space vi in [0, 6) = i, space vj in [0, 6) = j, reduce vk in [0, 5) = k)
          reads out[vi, vj], x[..] writes out[vi, vj] {
        reducer (lhs: f32) (rhs: f32) {lhs + rhs} identity {0.0f32}
        init { out[vi, vj] = 0.0f32 }
        let l: f32 = out[vi, vj]
        let r: f32 = x[vi, vk if vk <= vi] * x[vj, vk if vk <= vj]
        out[vi, vj] = l + r } } } } } })");
  Schedule s(before);
  expect_refused(s, [&] { reindex(s, {"sum"}, "x"); }, "reindex", 1, "reindex_refused_1_several");
  expect_refused(s, [&] { reindex(s, {"sum"}, "x", 2); }, "reindex", 1, "reindex_refused_1_number");
  reindex(s, {"sum"}, "x", 1);
  expect_scheduled(s, before, "reindex_element");
  reindex(s, {"sum"}, "x", 0);
  expect_same(before, s.func());
  EXPECT_EQ(print(s.func()).find("* x["), std::string::npos);
}

TEST(Reindex, LooksUpWhatDataSays) {
  const Func before = parse_func(R"(func decode(a: f32[3, 4], w: i64[5, 4], t: f32[16], out: f32[3, 5]) stage begin {
  block root() reads a[..], w[..], t[..] writes out[..] {
    for i in [0, 3) {
      for j in [0, 5) {
        for k in [0, 4) {
          block sum(space vi in [0, 3) = i, space vj in [0, 5) = j, reduce vk in [0, 4) = k)
              reads out[vi, vj], a[vi, vk], w[vj, vk], t[..] writes out[vi, vj] {
            reducer (lhs: f32) (rhs: f32) {lhs + rhs} identity {0.0f32}
            init {
              out[vi, vj] = 0.0f32
            }
            let l: f32 = out[vi, vj]
            let r: f32 = a[vi, vk] * t[min(max(w[vj, vk], 0), 15)]
            out[vi, vj] = l + r
          }
        }
      }
    }
  }
}
)");
  Schedule s(before);
  reindex(s, {"sum"}, "t");
  expect_scheduled(s, before, "reindex_by_data");
  Schedule unbounded(parse_func(replaced_all(print(before), "min(max(w[vj, vk], 0), 15)", "w[vj, vk]")));
  EXPECT_THROW(reindex(unbounded, {"sum"}, "t"), Refusal) << "may leave the table";
}

TEST(Reindex, RefusesAnIndexThatTheNestWrites) {
  Schedule nest(parse_func(R"(func nest(x: f32[4], t: i64[4], out: f32[4]) stage begin {
  for i in [0, 4) {
    block a(space vi in [0, 4) = i) writes t[vi] {
      t[vi] = vi
    }
    block b(space wi in [0, 4) = i) reads x[..], t[wi] writes out[wi] {
      out[wi] = x[min(max(t[wi], 0), 3)]
    }
  }
}
)"));
  EXPECT_THROW(reindex(nest, {"b"}, "x"), Refusal);
}

TEST(Reindex, RefusesABufferThatTheNestWrites) {
  Schedule nest(parse_func(R"(func nest(t: f32[4], out: f32[4]) stage begin {
  for i in [0, 4) {
    block a(space vi in [0, 4) = i) writes t[vi] {
      t[vi] = 2.0f32
    }
    block b(space wi in [0, 4) = i) reads t[wi] writes out[wi] {
      out[wi] = t[wi]
    }
  }
}
)"));
  expect_refused(nest, [&] { reindex(nest, {"b"}, "t"); }, "reindex", 2, "reindex_refused_2");
}

TEST(Reindex, RefusesAnElementThatAPredicateKeepsInside) {
  Schedule s(parse_func(R"(func inside(x: f32[4], out: f32[6]) stage begin {
  for i in [0, 6) {
    block a(space vi in [0, 6) = i) where i < 4 reads x[vi] writes out[vi] {
      out[vi] = x[vi]
    }
  }
}
)"));
  expect_refused(s, [&] { reindex(s, {"a"}, "x"); }, "reindex", 3, "reindex_refused_3");
}

TEST(DecomposePadding, FillsFirstAndCopiesWhatIsInside) {
  const Func before = program("pad");
  Schedule s(before);
  const BlockRef fill = decompose_padding(s, {"pad"}, s.loop("pad", 0));
  EXPECT_EQ(fill.name, "pad_fill");
  expect_scheduled(s, before, "decompose_padding");
}

const char* const select_padding = R"(func select_padding(x: f32[4, 5], out: f32[4, 9]) stage begin {
  for i in [0, 4) {
    for j in [0, 9) {
      block pad(space vi in [0, 4) = i, space vj in [0, 9) = j) reads x[..] writes out[vi, vj] {
        out[vi, vj] = select(vj < 2 || vj >= 7, 3.0f32, x[vi, max(min(vj - 2, 4), 0)])
      }
    }
  }
}
)";

TEST(DecomposePadding, TakesASelectBelowAnOuterLoop) {
  const Func before = parse_func(select_padding);
  Schedule s(before);
  decompose_padding(s, {"pad"}, s.loop("pad", 1));
  expect_scheduled(s, before, "decompose_padding_select");
}

TEST(DecomposePadding, RefusesABlockThatPadsNothing) {
  Schedule s(program("chain"));
  expect_refused(
      s, [&] { decompose_padding(s, {"scale"}, s.loop("scale", 0)); }, "decompose_padding", 1,
      "decompose_padding_refused_1");
}

TEST(DecomposePadding, RefusesALoopThatIsNotAroundIt) {
  Schedule s(program("pad"));
  expect_refused(
      s, [&] { decompose_padding(s, {"pad"}, s.loop("twice", 0)); }, "decompose_padding", 2,
      "decompose_padding_refused_2");
}

TEST(DecomposePadding, RefusesABlockThatReadsWhatItWrites) {
  Schedule s(parse_func(R"(func in_place(out: f32[9]) stage begin {
  for j in [0, 9) {
    block pad(space vj in [0, 9) = j) reads out[vj] writes out[vj] {
      out[vj] = out[vj if vj >= 2]
    }
  }
}
)"));
  expect_refused(
      s, [&] { decompose_padding(s, {"pad"}, s.loop("pad", 0)); }, "decompose_padding", 3,
      "decompose_padding_refused_3");
}

}  // namespace
}  // namespace lathe::testing
