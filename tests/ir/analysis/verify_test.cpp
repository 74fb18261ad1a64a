#include "ir/analysis/verify.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <random>
#include <set>

#include "ir/analysis/check_given.h"
#include "ir/error.h"
#include "ir/structural.h"
#include "ir/text/parse.h"
#include "ir/text/print.h"
#include "tests/golden.h"

namespace lathe {
namespace {

std::string describe(const std::vector<Finding>& findings) {
  std::string text;
  for (const Finding& f : findings)
    text += fmt::format("{} ({}): {}\n", f.rule, f.proved_wrong ? "wrong" : "unproved", f.message);
  return text;
}

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  const size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return text.replace(at, from.size(), to);
}

constexpr const char* elementwise = R"(func f(x: f32[16, n], n: i64, y: f32[16, n]) facts {n in [1, 4096]} {
  block root() reads x[..] writes y[..] {
    alloc t: f32[16, n]
    for i in [0, 4) {
      for ii in [0, 4) {
        for j in [0, n) {
          block scale(space vi in [0, 16) = i * 4 + ii, space vj in [0, n) = j) reads x[vi, vj] writes t[vi, vj] {
            t[vi, vj] = x[vi, vj] * 2.0f32
          }
        }
      }
    }
    for i1 in [0, 16) {
      for j1 in [0, n // 8 + 1) {
        for jj1 in [0, 8) {
          block shift(space wi in [0, 16) = i1, space wj in [0, n) = j1 * 8 + jj1)
              where j1 * 8 + jj1 < n reads t[wi, wj] writes y[wi, wj] {
            y[wi, wj] = t[wi, wj] + 1.0f32
          }
        }
      }
    }
  }
})";

TEST(Verify, WhatNeverRunsPromisesAnything) {
  for (const auto& [extent, condition] :
       {std::pair("0", "0 < 1"), {"n - n", "0 < 1"}, {"5", "1 < 0"}, {"5", "0 < 1"}}) {
    const Func func = parse_func(fmt::format(R"(func f(x: f32[64], n: i64, y: f32[64]) facts {{n in [1, 400]}} {{
  for o in [0, n) {{
    for i in [0, {}) {{
      block late(space vi in [0, 64) = i + 64) where {} reads x[vi] writes y[vi] {{
        y[vi] = x[vi]
      }}
    }}
  }}
}})",
                                             extent, condition));
    bool runs = false;
    for (std::int64_t i = 0; i < (extent[0] == '5' ? 5 : 0); ++i) runs |= condition[0] == '0';
    const std::vector<Finding> findings = verify(func);
    EXPECT_EQ(!findings.empty(), runs) << extent << ", " << condition << "\n" << describe(findings);
  }
}

TEST(Verify, ABlockInATileIsSeenAtTheTilesIters) {
  // The block's iter is what it is bound to, not any value of its domain.
  for (int from = -1; from <= 1; ++from) {
    for (int extent = 0; extent <= 3; ++extent) {
      for (int at = 0; at <= 2; ++at) {
        const Func func = parse_func(fmt::format(R"(func f(x: f32[64], n: i64, y: f32[64]) facts {{n in [1, 40]}} {{
  for i in [2, n) {{
    block tile(space vi in [0, 64) = i) reads x[..] writes y[vi + {}:+{}] {{
      block inner(space wi in [0, 64) = vi + {}) reads x[wi] writes y[wi] {{
        y[wi] = x[wi]
      }}
    }}
  }}
}})",
                                                 from, extent, at));
        const bool inside = from <= at && at < from + extent;
        const std::vector<Finding> findings = verify(func);
        const bool found = std::any_of(findings.begin(), findings.end(),
                                       [](const Finding& f) { return f.rule == "block.writes_cover"; });
        EXPECT_EQ(!inside, found) << from << " " << extent << " " << at << "\n" << describe(findings);
      }
    }
  }
}

constexpr const char* reduction = R"(func f(x: f32[8, 20], y: f32[8]) {
  block root() reads x[..] writes y[..] {
    for i in [0, 8) {
      for k in [0, 20) {
        block sum(space vi in [0, 8) = i, reduce vk in [0, 20) = k) reads x[vi, vk], y[vi] writes y[vi] {
          reducer (a: f32) (b: f32) {a + b} identity {0.0f32}
          init {
            y[vi] = 0.0f32
          }
          let l = y[vi]
          let r = x[vi, vk]
          y[vi] = l + r
        }
      }
    }
  }
})";

constexpr const char* scan = R"(func f(x: f32[8, 20], y: f32[8, 21]) {
  block root() reads x[..], y[..] writes y[..] {
    for i in [0, 8) {
      for k in [0, 5) {
        for kk in [0, 4) {
          block scan(space vi in [0, 8) = i, ordered vk in [0, 20) = k * 4 + kk) reads x[vi, vk], y[vi, vk] writes y[vi, vk + 1] {
            y[vi, vk + 1] = y[vi, vk] + x[vi, vk]
          }
        }
      }
    }
  }
})";

TEST(Verify, WellFormedFuncsHaveNoFindings) {
  for (const char* text : {elementwise, reduction, scan}) EXPECT_EQ(describe(verify(parse_func(text))), "");
}

struct Break {
  const char* base;
  const char* from;
  const char* to;
  const char* rule;
  bool wrong;
};

const Break breaks[] = {
    // Promise 1.
    {elementwise, "t[vi, vj] = x[vi, vj] * 2.0f32", "t[vi, vj] = x[vi, vj] * cast<f32>(j)", "block.own_variables",
     true},
    {elementwise, "space vi in [0, 16) = i * 4", "space vi in [0, 16 + 0 * ii) = i * 4", "block.own_variables", true},
    {elementwise, "for j in [0, n) {\n", "for j in [0, n) {\n let g = j * 2\n", "", false},
    // Promise 2.
    {elementwise, "* 2.0f32", "* x[0, 0]", "block.reads_cover", true},
    {elementwise, "reads x[vi, vj] writes t", "writes t", "block.reads_cover", true},
    {elementwise, "reads x[..] writes", "reads x[0:+8, ..] writes", "block.reads_cover", true},
    {elementwise, "writes t[vi, vj] {", "writes t[vi, vj] {\n y[vi, vj] = 0.0f32", "block.writes_cover", true},
    {reduction, "reads x[vi, vk], y[vi] writes", "reads x[vi, vk] writes", "", false},
    {reduction, "reads x[vi, vk], y[vi] writes", "reads y[vi] writes", "block.reads_cover", true},
    {scan, "writes y[vi, vk + 1]", "writes y[vi, vk]", "block.writes_cover", true},
    {scan, "reads x[vi, vk], y[vi, vk]", "reads x[vi, vk], y[vi, vk // 2]", "block.reads_cover", true},
    // Promise 3.
    {elementwise, "for i in [0, 4)", "for i in [0, 5)", "block.bindings_in_domain", true},
    {elementwise, "where j1 * 8 + jj1 < n reads", "reads", "block.bindings_in_domain", true},
    {elementwise, "where j1 * 8 + jj1 < n reads", "where j1 * 8 + jj1 <= n reads", "block.bindings_in_domain", true},
    // Promise 4.
    {elementwise, "writes t[vi, vj] {\n            t[vi, vj] =", "writes t[0, vj] {\n            t[0, vj] =",
     "block.space_iters_independent", true},
    {elementwise, "reads t[wi, wj] writes y[wi, wj] {\n            y[wi, wj] = t[wi, wj]",
     "reads y[15 - wi, wj] writes y[wi, wj] {\n            y[wi, wj] = y[15 - wi, wj]", "block.space_iters_independent",
     true},
    {elementwise, "writes t[vi, vj] {\n            t[vi, vj] =",
     "writes t[vi // 2, vj] {\n            t[vi // 2, vj] =", "block.space_iters_independent", true},
    // Promise 5.
    {reduction, "let r = x[vi, vk]\n          y[vi] = l + r", "let r = x[vi, vk]\n          y[vi] = l - r",
     "block.reduction_canonical", false},
    {reduction, "let r = x[vi, vk]", "let r = x[vi, vk] * y[vi]", "block.reduction_canonical", false},
    {reduction, "for k in", "parallel for k in", "block.reduce_iters_not_at_once", true},
    {reduction, "for k in", "vectorized for k in", "block.reduce_iters_not_at_once", true},
    // Promise 6.
    {scan, "= k * 4 + kk)", "= k + kk * 5)", "block.ordered_iters_in_order", true},
    {scan, "= k * 4 + kk)", "= 19 - k * 4 - kk)", "block.ordered_iters_in_order", true},
    {scan, "for kk in", "parallel for kk in", "block.ordered_iters_in_order", true},
    // The rule for init.
    {reduction, "y[vi] = 0.0f32", "y[vi] = cast<f32>(vk)", "block.init_per_space_point", true},
    {reduction, "y[vi] = 0.0f32", "y[vi] = y[vi] * 2.0f32", "block.init_per_space_point", false},
    // Scoping, accesses, loops, stages.
    {elementwise, "facts {n in [1, 4096]} {", "stage flatten {", "stage.blocks_lowered", true},
    {elementwise, "for j in [0, n)", "vectorized for j in [0, n)", "loop.constant_extent", true},
    {elementwise, "for j in [0, n)", "unrolled for j in [0, n)", "loop.constant_extent", false},
    {elementwise, "writes t[vi, vj] {", "writes t[vi, 0:+1, vj] {", "block.region_rank", true},
};

TEST(Verify, EveryBrokenRuleIsNamedAndNoOther) {
  std::set<std::string> broken;
  std::string all;
  for (const Break& b : breaks) {
    SCOPED_TRACE(fmt::format("{} -> {}", b.from, b.to));
    const std::vector<Finding> findings = verify(parse_func(replaced(b.base, b.from, b.to)));
    std::set<std::string> rules;
    bool wrong = false;
    for (const Finding& f : findings) {
      rules.insert(f.rule);
      wrong |= f.proved_wrong;
    }
    const std::set<std::string> expected = *b.rule ? std::set<std::string>{b.rule} : std::set<std::string>{};
    if (b.rule == std::string("stage.blocks_lowered")) rules.erase("access.index_count");
    EXPECT_EQ(rules, expected) << describe(findings);
    EXPECT_EQ(wrong, b.wrong) << describe(findings);
    broken.insert(b.rule);
    all += fmt::format("{} -> {}\n{}\n", b.from, b.to, describe(findings));
  }
  for (const Rule& rule : verify_rules()) {
    const bool promise = rule.name.starts_with("block.");
    EXPECT_TRUE(!promise || broken.contains(std::string(rule.name))) << rule.name << " is never broken";
  }
  testing::expect_golden(all, "verify_findings.txt");
}

TEST(Verify, ADataDependentStoreIsNotProvedAndNotRefuted) {
  const std::vector<Finding> findings = verify(parse_func(R"(func f(at: i64[8], x: f32[8], y: f32[8]) {
    for i in [0, 8) {
      block scatter(space vi in [0, 8) = i) reads at[vi], x[vi] writes y[..] {
        y[at[vi]] = x[vi]
      }
    }
  })"));
  ASSERT_EQ(findings.size(), 1u) << describe(findings);
  EXPECT_EQ(findings[0].rule, "block.space_iters_independent");
  EXPECT_FALSE(findings[0].proved_wrong);
}

TEST(Verify, ACheckedWriteHintNeedsAssertionsBeforeItsStores) {
  constexpr const char* text = R"(func f(at: i64[8], x: f32[8], y: f32[8]) {
    for i in [0, 8) {
      block scatter(ordered vi in [0, 8) = i) reads at[vi], x[vi] writes y[vi - 1:+3] checked "scatter" {
        CHECK
        y[at[vi]] = x[vi]
      }
    }
  })";
  const std::string check =
      R"(assert vi - 1 <= at[vi] && at[vi] < vi - 1 + 3, "scatter|dimension 0 of y|store at", at[vi])";
  EXPECT_EQ(describe(verify(parse_func(replaced(text, "CHECK", check)))), "");
  const std::vector<Finding> bare = verify(parse_func(replaced(text, "CHECK", "")));
  ASSERT_EQ(bare.size(), 1u) << describe(bare);
  EXPECT_EQ(bare[0].rule, "block.writes_cover");
}

TEST(Verify, HintsReplaceTheProofOfCoverage) {
  constexpr const char* text = R"(func f(at: i64[8], x: f32[64], y: f32[8]) {
    for i in [0, 8) {
      block gather(space vi in [0, 8) = i) reads at[vi], x[vi * 8:+8] HINT writes y[vi] {
        y[vi] = x[at[vi]]
      }
    }
  })";
  EXPECT_EQ(describe(verify(parse_func(replaced(text, "HINT", "checked \"gather\"")))), "");
  EXPECT_EQ(describe(verify(parse_func(replaced(text, "HINT", "trusted")))), "");
  const std::vector<Finding> inferred = verify(parse_func(replaced(text, "HINT", "")));
  ASSERT_EQ(inferred.size(), 1u);
  EXPECT_EQ(inferred[0].rule, "block.reads_cover");
  EXPECT_FALSE(inferred[0].proved_wrong);
}

TEST(Verify, AssertionsBeforeAReductionAreNoPartOfItsUpdate) {
  const std::string text = replaced(reduction, "let l = y[vi]", "assert vk < 20, \"sum|0|index\", vk\n let l = y[vi]");
  EXPECT_EQ(describe(verify(parse_func(text))), "");
}

TEST(Verify, InstancesAreToldApartByAllDimensionsTogether) {
  EXPECT_EQ(describe(verify(parse_func(R"(func f(y: f32[4, 4]) {
    for i in [0, 16) {
      block b(space v in [0, 16) = i) writes y[v // 4, v % 4] {
        y[v // 4, v % 4] = 1.0f32
      }
    }
  })"))),
            "");
  EXPECT_EQ(describe(verify(parse_func(R"(func f(y: f32[1000, 70, 4, 16]) {
    for i in [0, 64000) {
      for j in [0, 70) {
        block pack(space v in [0, 64000) = i, space w in [0, 70) = j) writes y[v // 64, w, v // 16 % 4, v % 16] {
          y[v // 64, w, v // 16 % 4, v % 16] = 1.0f32
        }
      }
    }
  })"))),
            "");
  EXPECT_EQ(describe(verify(parse_func(R"(func f(y: f32[64, 48], n: i64) facts {n in [0, 48]} {
    for i in [0, 64) {
      for j in [0, n) {
        block b(space v in [0, 64) = i, space w in [0, n) = j) writes y[v, ..] {
          for k in [0, 1) {
            y[v, n - 1 - w] = 1.0f32
          }
        }
      }
    }
  })"))),
            "");
}

TEST(Verify, TilesAreToldApartByTheBlocksInside) {
  const auto described = [](int stride) {
    return describe(verify(parse_func(fmt::format(R"(func f(x: f32[24, 560], y: f32[70, 560]) {{
    for i in [0, 70) {{ for k in [0, 6) {{ for m in [0, 70) {{ for j in [0, 8) {{
      block tile(space v in [0, 70) = i, ordered w in [0, 6) = k, space r in [0, 70) = m, space c in [0, 8) = j)
          reads x[.., v * {0} + c], y[r, v * {0} + c] writes y[r, v * {0} + c] {{
        for t in [0, 4) {{
          block sum(space vr in [0, 70) = r, space vc in [0, 560) = v * {0} + c, reduce vt in [0, 24) = w * 4 + t)
              reads x[vt, vc], y[vr, vc] writes y[vr, vc] {{
            reducer (a: f32) (b: f32) {{a + b}} identity {{0.0f32}}
            let l: f32 = y[vr, vc]
            let s: f32 = x[vt, vc]
            y[vr, vc] = l + s
          }}
        }}
      }}
    }} }} }} }}
  }})",
                                                  stride))));
  };
  EXPECT_EQ(described(8), "");
  EXPECT_NE(described(7).find("instances of different"), std::string::npos);
}

TEST(Verify, QuotientsAndRemaindersMayBeTurnedAround) {
  const auto verified = [](const char* remainder, const char* quotient) {
    return describe(verify(parse_func(fmt::format(R"(func f(y: f32[2, 70, 500]) {{
    for i in [0, 1000) {{
      for j in [0, 70) {{
        block b(space v in [0, 1000) = i, space w in [0, 70) = j) writes y[{0}, w, {1}] {{
          y[{0}, w, {1}] = 1.0f32
        }}
      }}
    }}
  }})",
                                                  remainder, quotient))));
  };
  EXPECT_EQ(verified("v % 2", "499 - v // 2"), "");
  EXPECT_EQ(verified("1 - v % 2", "499 - v // 2"), "");
  EXPECT_NE(verified("v % 2", "499 - v // 4"), "");
  EXPECT_NE(verified("1 - v % 2", "v // 4"), "");
}

TEST(Verify, AFlatIndexOfTwoItersIsInjectiveOnlyWithinItsRow) {
  constexpr const char* text = R"(func f(y: f32[800]) {
    for i in [0, 40) {
      for j in [0, 16) {
        block b(space v in [0, 40) = i, space w in [0, 16) = j) writes y[v * STRIDE + w] {
          y[v * STRIDE + w] = 1.0f32
        }
      }
    }
  })";
  const auto with_stride = [&](const std::string& stride) {
    return verify(parse_func(replaced(replaced(text, "STRIDE", stride), "STRIDE", stride)));
  };
  EXPECT_EQ(describe(with_stride("16")), "");
  EXPECT_EQ(describe(with_stride("20")), "");
  const std::vector<Finding> narrow = with_stride("15");
  ASSERT_EQ(narrow.size(), 1u);
  EXPECT_TRUE(narrow[0].proved_wrong) << describe(narrow);
}

// Programs that the parser refuses are built from nodes.

TEST(Verify, ScopingRules) {
  const Buffer x = BufferNode::make("x", f32, {index(4)}), stray = BufferNode::make("stray", f32, {index(4)});
  const VarRef i = Var::make("i");
  const auto rule_of = [](const Func& func) {
    const std::vector<Finding> findings = verify(func);
    return findings.size() == 1 && findings[0].proved_wrong ? findings[0].rule : describe(findings);
  };
  const Expr one = constant(f32, 1);
  EXPECT_EQ(rule_of(FuncNode::make("f", {x}, Store::make(x, {i}, one))), "scope.variable_bound");
  EXPECT_EQ(rule_of(FuncNode::make("f", {x}, Store::make(stray, {index(0)}, one))), "scope.buffer_declared");
  const Stmt loop = For::make(i, index(0), index(4), ForKind::serial, Store::make(x, {i}, one));
  EXPECT_EQ(rule_of(FuncNode::make("f", {x}, loop)), "");
  EXPECT_EQ(rule_of(FuncNode::make("f", {x}, Seq::make({loop, loop}))), "scope.bound_once");
  EXPECT_EQ(rule_of(FuncNode::make("f", {x, x}, loop)), "scope.bound_once");
  EXPECT_EQ(rule_of(FuncNode::make("f", {x}, Seq::make({loop, Store::make(x, {i}, one)}))), "scope.variable_bound");
  Block::Fields scope;
  scope.allocs = {stray};
  scope.body = Store::make(stray, {index(0)}, one);
  const Stmt block = Block::make(scope);
  EXPECT_EQ(rule_of(FuncNode::make("f", {x}, block)), "");
  EXPECT_EQ(rule_of(FuncNode::make("f", {x}, Seq::make({block, scope.body}))), "scope.buffer_declared");
}

TEST(Verify, TypesAreCheckedAlsoOfNodesThatNoMakeHasSeen) {
  const Buffer x = BufferNode::make("x", f32, {index(4)});
  const Expr mixed(new Binary(f32, BinaryOp::add, constant(f32, 1), constant(f64, 1)));
  const std::vector<Finding> findings = verify(FuncNode::make("f", {x}, Store::make(x, {index(0)}, mixed)));
  ASSERT_EQ(findings.size(), 1u) << describe(findings);
  EXPECT_EQ(findings[0].rule, "types.consistent");
}

TEST(Verify, IndexCountsFollowTheStage) {
  const Buffer x = BufferNode::make("x", f32, {index(4), index(4)});
  const Expr one = constant(f32, 1);
  const Func flat = FuncNode::make("f", {x}, Store::make(x, {index(0)}, one));
  const Func ranked = FuncNode::make("f", {x}, Store::make(x, {index(0), index(0)}, one));
  const auto findings = [](const Func& func, Stage stage) { return verify(with_stage(func, stage)).size(); };
  EXPECT_EQ(findings(ranked, Stage::begin), 0u);
  EXPECT_EQ(findings(flat, Stage::begin), 1u);
  EXPECT_EQ(findings(ranked, Stage::flatten), 1u);
  EXPECT_EQ(findings(flat, Stage::flatten), 0u);
  EXPECT_EQ(findings(flat, Stage::end), 0u);
}

TEST(Verify, RegistersTakeConstantIndicesAndHaveNoAddress) {
  const auto text = [](const std::string& body, const std::string& stage) {
    return fmt::format("func f(n: i64) stage {} {{\n block() {{\n alloc r: f32[8] @register\n {}\n }}\n}}", stage,
                       body);
  };
  EXPECT_EQ(describe(verify(parse_func(text("r[3] = r[4]", "end")))), "");
  EXPECT_EQ(verify(parse_func(text("r[ramp(0, 1, 8)] = 0.0f32x8", "end"))).size(), 0u);
  EXPECT_EQ(verify(parse_func(text("r[n] = 0.0f32", "end")))[0].rule, "access.register_index");
  EXPECT_EQ(verify(parse_func(text("r[n] = 0.0f32", "tiling"))).size(), 0u);
  EXPECT_EQ(verify(parse_func(text("eval extern<u64> \"touch\"(&r[0])", "end")))[0].rule, "access.register_address");
}

/// Whatever parses can be verified: findings, but no crash and no other exception.
TEST(Verify, DamagedProgramsAreVerifiedWithoutHarm) {
  std::mt19937_64 random(5);
  std::vector<std::string> texts = {elementwise, reduction, scan};
  for (const auto& entry : std::filesystem::directory_iterator(LATHE_SOURCE_DIR "/tests/ir/text")) {
    if (entry.path().extension() == ".tir") texts.push_back(testing::read_file(entry.path()));
  }
  std::sort(texts.begin(), texts.end());
  constexpr const char* numbers[] = {"0", "1", "-1", "3", "n", "1099511627776", "-1099511627776"};
  int verified = 0, clean = 0;
  for (int i = 0; i < 3000; ++i) {
    std::string text = texts[random() % texts.size()];
    for (int edit = 0; edit < 2; ++edit) {
      // A number becomes another.
      const size_t at = text.find_first_of("0123456789", random() % text.size());
      if (at == std::string::npos) continue;
      const size_t end = text.find_first_not_of("0123456789", at);
      text.replace(at, end - at, numbers[random() % std::size(numbers)]);
    }
    Func func;
    try {
      func = parse_func(text);
    } catch (const InputError&) {
      continue;
    }
    ++verified;
    ASSERT_NO_THROW(clean += verify(func).empty()) << text;
  }
  EXPECT_GT(verified, 1000);
  EXPECT_GT(clean, 10);
  EXPECT_LT(clean, verified);
}

TEST(Verify, CheckVerifiedThrowsABugThatNamesThePass) {
  const Func func = parse_func(replaced(elementwise, "for i in [0, 4)", "for i in [0, 5)"));
  try {
    check_verified(func, "fold_loops");
    FAIL() << "nothing was thrown";
  } catch (const Bug& bug) {
    EXPECT_NE(bug.message().find("after fold_loops"), std::string::npos) << bug.message();
    EXPECT_NE(bug.message().find("block.bindings_in_domain"), std::string::npos) << bug.message();
  }
  EXPECT_NO_THROW(check_verified(parse_func(elementwise), "fold_loops"));
}

TEST(Verify, AProgramFromOutsideThatLeavesABufferIsTheCallersMistake) {
  const auto given = [](const std::string& load) {
    return parse_func(
        "func f(at: i64[8], x: f32[64], y: f32[16]) {\n"
        "  for i in [0, 16) {\n"
        "    block b(space vi in [0, 16) = i) reads x[..], at[..] writes y[vi] {\n"
        "      y[vi] = " +
        load +
        "\n"
        "    }\n"
        "  }\n"
        "}");
  };
  for (const char* inside : {"x[vi * 4]", "x[63 - vi]", "x[vi * 9 if vi < 8]", "select(vi < 8, x[vi * 9], 0.0f32)",
                             "x[at[vi // 2]]", "reduce_add(x[ramp(vi * 4, 1, 4)])"})
    EXPECT_NO_THROW(check_given(given(inside))) << inside;
  for (const char* outside : {"x[vi * 5]", "x[vi - 1]", "x[vi * 1000000000000]", "x[vi * 9 if vi < 9]", "x[at[vi]]",
                              "reduce_add(x[ramp(vi * 4, 2, 4)])", "reduce_add(x[ramp(3 - vi, 1, 4)])", "x[vi, 0]"})
    EXPECT_THROW(check_given(given(outside)), InputError) << outside;
}

}  // namespace
}  // namespace lathe
