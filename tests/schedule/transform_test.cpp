#include "ir/analysis/verify.h"
#include "ir/error.h"
#include "ir/text/parse.h"
#include "ir/text/print.h"
#include "schedule/primitives/bind.h"
#include "schedule/primitives/cache_read.h"
#include "schedule/primitives/compute_at.h"
#include "schedule/primitives/pad_einsum.h"
#include "schedule/primitives/reorder.h"
#include "schedule/primitives/split.h"
#include "schedule/primitives/transform_layout.h"
#include "schedule/primitives/unroll.h"
#include "tests/schedule/support.h"

namespace lathe::testing {
namespace {

TEST(Bind, RunsALoopAlongAThreadAxis) {
  const Func before = program("chain");
  Schedule s(before);
  bind_loop(s, s.loop("scale", 0), "core");
  bind_loop(s, s.loop("scale", 1), "lane");
  expect_scheduled(s, before, "bind");
}

TEST(Bind, RefusesALoopThatIsNotSerialAndAnAxisWithoutAName) {
  Schedule s(program("chain"));
  unroll(s, s.loop("scale", 1));
  expect_refused(s, [&] { bind_loop(s, s.loop("scale", 1), "lane"); }, "bind", 1, "bind_refused_1");
  expect_refused(s, [&] { bind_loop(s, s.loop("scale", 0), ""); }, "bind", 1, "bind_refused_1_name");
}

TEST(Bind, RefusesAnAxisThatIsTaken) {
  Schedule s(program("chain"));
  bind_loop(s, s.loop("scale", 0), "lane");
  expect_refused(s, [&] { bind_loop(s, s.loop("scale", 1), "lane"); }, "bind", 2, "bind_refused_2");
}

TEST(Bind, RefusesAReduceLoop) {
  Schedule s(program("matmul"));
  expect_refused(s, [&] { bind_loop(s, s.loop("product", 2), "lane"); }, "bind", 3, "bind_refused_3");
}

TEST(Bind, RefusesAnElementThatEveryIterationWrites) {
  Schedule s(parse_func(R"(func same(x: f32[4], out: f32[4]) stage begin {
  for n in [0, 3) {
    for i in [0, 4) {
      block a(space vi in [0, 4) = i) reads x[vi] writes out[vi] {
        out[vi] = x[vi]
      }
    }
  }
}
)"));
  expect_refused(s, [&] { bind_loop(s, s.loop("a", 0), "lane"); }, "bind", 4, "bind_refused_4");
}

TEST(Bind, RefusesIterationsThatMeet) {
  Schedule s(parse_func(R"(func meet(x: f32[9], out: f32[9]) stage begin {
  for i in [0, 8) {
    block a(space vi in [0, 8) = i) reads x[vi] writes out[vi] {
      out[vi] = x[vi]
    }
    block b(space vi1 in [0, 8) = i) reads x[vi1] writes out[vi1 + 1] {
      out[vi1 + 1] = x[vi1]
    }
  }
}
)"));
  expect_refused(s, [&] { bind_loop(s, s.loop("a", 0), "lane"); }, "bind", 5, "bind_refused_5");
}

TEST(LayoutMap, ReadsWhatItPrints) {
  const LayoutMap map = parse_layout_map("i, j -> max(i // 4, 0), j,i % 4");
  EXPECT_EQ(print(map), "i, j -> max(i // 4, 0), j, i % 4");
  EXPECT_EQ(map.from.size(), 2u);
  EXPECT_EQ(map.to.size(), 3u);
}

TEST(LayoutMap, NamesWhatIsWrong) {
  const auto message = [](const char* text) -> std::string {
    try {
      parse_layout_map(text);
    } catch (const InputError& error) {
      return error.message();
    }
    return "no error";
  };
  EXPECT_EQ(message("i, j"), "layout map 'i, j': expected 'i, j -> i // 4, j, i % 4', found no '->'");
  EXPECT_NE(message("i -> k").find("k"), std::string::npos) << message("i -> k");
  EXPECT_NE(message("i -> i +").find("layout map 'i -> i +': "), std::string::npos) << message("i -> i +");
  EXPECT_NE(message("i -> ").find("layout map 'i -> ': "), std::string::npos);
  EXPECT_NE(message(" -> 1").find("layout map ' -> 1': "), std::string::npos);
  EXPECT_NE(message("i -> 1.5f32").find("layout map 'i -> 1.5f32': "), std::string::npos) << message("i -> 1.5f32");
}

TEST(TransformLayout, PacksAnIntermediate) {
  const Func before = program("chain");
  Schedule s(before);
  transform_layout(s, {"scale"}, "scaled", parse_layout_map("i, j -> j // 4, i, j % 4"));
  expect_scheduled(s, before, "transform_layout");
}

TEST(TransformLayout, TakesALayoutThatTheLoopsFollow) {
  const Func before = program("matmul");
  Schedule s(before);
  const BlockRef copy = cache_read(s, {"product"}, "b", "global");
  const auto [outer, inner] = split(s, s.loop("product", 1), 4);
  compute_at(s, copy, outer);
  transform_layout(s, {"product"}, "b_global", parse_layout_map("k, j -> j // 4, k, j % 4"));
  expect_scheduled(s, before, "transform_layout_panel");
}

const char* const symbolic = R"(func symbolic(x: f32[n, m], n: i64, m: i64, out: f32[n, m]) stage begin
    facts {n in [1, 100], m in [1, 100]} {
  block root() reads x[..] writes out[..] {
    alloc t: f32[n, m]
    for i in [0, n) {
      for j in [0, m) {
        block t(space vi in [0, n) = i, space vj in [0, m) = j) reads x[vi, vj] writes t[vi, vj] {
          t[vi, vj] = x[vi, vj] * 2.0f32
        }
      }
    }
    for i1 in [0, n) {
      for j1 in [0, m) {
        block store(space wi in [0, n) = i1, space wj in [0, m) = j1) reads t[wi, wj] writes out[wi, wj] {
          out[wi, wj] = t[wi, wj] + 1.0f32
        }
      }
    }
  }
}
)";

TEST(TransformLayout, TakesSymbolicExtents) {
  Schedule s(parse_func(symbolic));
  transform_layout(s, {"t"}, "t", parse_layout_map("i, j -> j // 8, i, j % 8"));
  EXPECT_TRUE(verify(s.func()).empty()) << print(s.func());
  const Buffer t = s.node(s.block("t")).f.writes[0].buffer;
  EXPECT_EQ(print(t->shape[0]), "(m + 7) // 8");
  EXPECT_EQ(print(t->shape[1]), "n");
  EXPECT_EQ(print(t->shape[2]), "8");
}

TEST(TransformLayout, RefusesWhatIsNoAllocation) {
  Schedule s(program("chain"));
  const LayoutMap map = parse_layout_map("i, j -> j, i");
  expect_refused(
      s, [&] { transform_layout(s, {"store"}, "out", map); }, "transform_layout", 1, "transform_layout_refused_1");
  expect_refused(
      s, [&] { transform_layout(s, {"store"}, "x", map); }, "transform_layout", 1, "transform_layout_refused_1_name");
}

TEST(TransformLayout, RefusesAMapOfAnotherRank) {
  Schedule s(program("chain"));
  const LayoutMap map = parse_layout_map("i -> i");
  expect_refused(
      s, [&] { transform_layout(s, {"scale"}, "scaled", map); }, "transform_layout", 2, "transform_layout_refused_2");
}

TEST(TransformLayout, RefusesAMapThatLaysElementsOverEachOther) {
  Schedule s(program("chain"));
  const std::pair<const char*, const char*> cases[] = {
      {"i, j -> i // 2, j", ""}, {"i, j -> i * 9 + j", "_sum"}, {"i, j -> i, j % 8", "_mod"}};
  for (const auto& [text, name] : cases) {
    const LayoutMap map = parse_layout_map(text);
    expect_refused(
        s, [&] { transform_layout(s, {"scale"}, "scaled", map); }, "transform_layout", 3,
        std::string("transform_layout_refused_3") + name);
  }
  Schedule wide(program("chain"));
  transform_layout(wide, {"scale"}, "scaled", parse_layout_map("i, j -> i * 10 + j"));
  expect_same(program("chain"), wide.func());
}

TEST(TransformLayout, RefusesAnIndexBelowZero) {
  Schedule s(program("chain"));
  const LayoutMap map = parse_layout_map("i, j -> i, 4 - j");
  expect_refused(
      s, [&] { transform_layout(s, {"scale"}, "scaled", map); }, "transform_layout", 4, "transform_layout_refused_4");
}

TEST(PadEinsum, PadsEveryOperandOfAContraction) {
  const Func before = program("matmul");
  Schedule s(before);
  pad_einsum(s, {"product"}, {4, 16, 8});
  expect_scheduled(s, before, "pad_einsum");
}

TEST(PadEinsum, PadsOnlyWhatGrows) {
  const Func before = program("matmul");
  Schedule s(before);
  reorder(s, {s.loop("product", 2), s.loop("product", 1)});
  pad_einsum(s, {"product"}, {1, 8, 6});
  expect_scheduled(s, before, "pad_einsum_columns");
}

TEST(PadEinsum, RefusesWhatIsNoWholeReduction) {
  Schedule s(program("matmul"));
  expect_refused(s, [&] { pad_einsum(s, {"bias"}, {4, 4}); }, "pad_einsum", 1, "pad_einsum_refused_1");
  split(s, s.loop("product", 0), 2);
  expect_refused(s, [&] { pad_einsum(s, {"product"}, {4, 4, 4}); }, "pad_einsum", 1, "pad_einsum_refused_1_split");
}

TEST(PadEinsum, RefusesFactorsThatDoNotFit) {
  Schedule s(program("matmul"));
  expect_refused(s, [&] { pad_einsum(s, {"product"}, {4, 4}); }, "pad_einsum", 2, "pad_einsum_refused_2");
  expect_refused(s, [&] { pad_einsum(s, {"product"}, {4, 0, 4}); }, "pad_einsum", 2, "pad_einsum_refused_2_zero");
}

/// `terms` over x[vh], w[vr] or others; the output has an element an h.
std::string reduction(const std::string& term, const std::string& reads) {
  return R"(func window(x: f32[12], w: f32[3], out: f32[5]) stage begin {
  for h in [0, 5) {
    for r in [0, 3) {
      block sum(space vh in [0, 5) = h, reduce vr in [0, 3) = r) reads out[vh], )" +
         reads + R"( writes out[vh] {
        reducer (lhs: f32) (rhs: f32) {lhs + rhs} identity {0.0f32}
        init {
          out[vh] = 0.0f32
        }
        let l: f32 = out[vh]
        let q: f32 = )" +
         term + R"(
        out[vh] = l + q
      }
    }
  }
}
)";
}

TEST(PadEinsum, RefusesALoadThatIsNotAtIters) {
  Schedule s(parse_func(reduction("x[vh * 2 + vr] * w[vr]", "x[vh * 2 + vr], w[vr]")));
  expect_refused(s, [&] { pad_einsum(s, {"sum"}, {8, 4}); }, "pad_einsum", 3, "pad_einsum_refused_3");
  Schedule part(parse_func(reduction("x[vr] * w[vr]", "x[vr], w[vr]")));
  expect_refused(part, [&] { pad_einsum(part, {"sum"}, {8, 4}); }, "pad_einsum", 3, "pad_einsum_refused_3_part");
}

TEST(PadEinsum, RefusesTermsThatAreNotZeroInThePadding) {
  Schedule s(parse_func(reduction("w[vr] + 1.0f32", "w[vr]")));
  expect_refused(s, [&] { pad_einsum(s, {"sum"}, {1, 4}); }, "pad_einsum", 4, "pad_einsum_refused_4");
  Schedule rows(program("matmul"));
  pad_einsum(rows, {"product"}, {2, 1, 1});
  Schedule other(parse_func(R"(func outer(x: f32[5], w: f32[3], out: f32[5]) stage begin {
  for h in [0, 5) {
    for r in [0, 3) {
      block sum(space vh in [0, 5) = h, reduce vr in [0, 3) = r) reads out[vh], x[vh], w[vr] writes out[vh] {
        reducer (lhs: f32) (rhs: f32) {lhs + rhs} identity {0.0f32}
        init {
          out[vh] = 0.0f32
        }
        let l: f32 = out[vh]
        let q: f32 = x[vh] * w[vr]
        out[vh] = l + q
      }
    }
  }
}
)"));
  expect_refused(other, [&] { pad_einsum(other, {"sum"}, {1, 2}); }, "pad_einsum", 4, "pad_einsum_refused_4_load");
}

TEST(PadEinsum, RefusesASecondWriter) {
  Schedule s(parse_func(R"(func twice(w: f32[3], out: f32[5]) stage begin {
  block root() reads w[..] writes out[..] {
    for h in [0, 5) {
      for r in [0, 3) {
        block sum(space vh in [0, 5) = h, reduce vr in [0, 3) = r) reads out[vh], w[vr] writes out[vh] {
          reducer (lhs: f32) (rhs: f32) {lhs + rhs} identity {0.0f32}
          init {
            out[vh] = 0.0f32
          }
          let l: f32 = out[vh]
          let q: f32 = w[vr]
          out[vh] = l + q
        }
      }
    }
    for h1 in [0, 5) {
      block more(space vh1 in [0, 5) = h1) reads out[vh1] writes out[vh1] {
        out[vh1] = out[vh1] + 1.0f32
      }
    }
  }
}
)"));
  expect_refused(s, [&] { pad_einsum(s, {"sum"}, {8, 4}); }, "pad_einsum", 5, "pad_einsum_refused_5");
}

}  // namespace
}  // namespace lathe::testing
