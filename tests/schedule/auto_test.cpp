#include <fmt/format.h>

#include "ir/analysis/verify.h"
#include "ir/error.h"
#include "ir/text/parse.h"
#include "ir/text/print.h"
#include "ir/visitor.h"
#include "schedule/auto/auto_schedule.h"
#include "schedule/rewrite.h"
#include "tests/golden.h"
#include "tests/schedule/auto_support.h"
#include "tests/schedule/support.h"

namespace lathe::testing {
namespace {

/// A row's sum taken off each element, and the sum of squares of that divided out: three stages over rows.
Func rows(const std::string& outer, const std::string& inner, const std::string& params = "",
          const std::string& facts = "") {
  std::string text = R"(func rows(x: f32[@M, @N]@P, out: f32[@M, @N]) stage begin@F {
  block root() reads x[..] writes out[..] {
    alloc total: f32[@M]
    alloc shifted: f32[@M, @N]
    for i in [0, @M) {
      for k in [0, @N) {
        block total(space vi in [0, @M) = i, reduce vk in [0, @N) = k) reads total[vi], x[vi, vk] writes total[vi] {
          reducer (lhs: f32) (rhs: f32) {lhs + rhs} identity {0.0f32}
          init {
            total[vi] = 0.0f32
          }
          let l: f32 = total[vi]
          let r: f32 = x[vi, vk]
          total[vi] = l + r
        }
      }
    }
    for i1 in [0, @M) {
      for j1 in [0, @N) {
        block shift(space vi1 in [0, @M) = i1, space vj1 in [0, @N) = j1)
            reads x[vi1, vj1], total[vi1]
            writes shifted[vi1, vj1]
        {
          shifted[vi1, vj1] = exp(x[vi1, vj1] - total[vi1])
        }
      }
    }
    for i2 in [0, @M) {
      for j2 in [0, @N) {
        block store(space vi2 in [0, @M) = i2, space vj2 in [0, @N) = j2)
            reads shifted[vi2, vj2], total[vi2]
            writes out[vi2, vj2]
        {
          out[vi2, vj2] = shifted[vi2, vj2] * shifted[vi2, vj2] + total[vi2]
        }
      }
    }
  }
}
)";
  const auto put = [&](const std::string& mark, const std::string& value) {
    for (size_t at = text.find(mark); at != std::string::npos; at = text.find(mark))
      text.replace(at, mark.size(), value);
  };
  put("@M", outer);
  put("@N", inner);
  put("@P", params);
  put("@F", facts);
  return parse_func(text);
}

TEST(AutoSchedule, ComputesTheSameForRowsOfAnyLength) {
  for (const int m : {0, 1, 3}) {
    for (const int n : {0, 1, 2, 7, 16, 67, 130}) {
      SCOPED_TRACE(fmt::format("{} x {}", m, n));
      expect_scheduled_well(rows(std::to_string(m), std::to_string(n)));
    }
  }
}

TEST(AutoSchedule, MovesTheLastVectorOfAFunctionBack) {
  const auto shifts = [](const char* value, int columns) {
    const Func func = parse_func(fmt::format(R"(func map(x: f32[5, {0}], out: f32[5, {0}]) stage begin {{
  for i in [0, 5) {{ for j in [0, {0}) {{
    block map(space vi in [0, 5) = i, space vj in [0, {0}) = j) reads x[vi, vj] writes out[vi, vj] {{
      out[vi, vj] = {1} }} }} }} }})",
                                             columns, value));
    expect_scheduled_well(func);
    return print(auto_schedule(func, wide())).find("shift_last") != std::string::npos;
  };
  EXPECT_TRUE(shifts("exp(x[vi, vj]) * 2.0f32", 267));
  EXPECT_FALSE(shifts("exp(x[vi, vj]) * 2.0f32", 272));
  EXPECT_FALSE(shifts("exp(x[vi, vj]) * 2.0f32", 13));
  EXPECT_FALSE(shifts("x[vi, vj] * 2.0f32", 267));
}

TEST(AutoSchedule, MovesTheLastRowsOfATileBackWhereThatComputesLittleTwice) {
  const auto shifts = [](int rows) {
    const Func func = matmul(rows, 64, 5, false);
    expect_scheduled_well(func);
    return print(auto_schedule(func, wide())).find("shift_last") != std::string::npos;
  };
  EXPECT_TRUE(shifts(839));
  EXPECT_FALSE(shifts(13)) << "a third would be computed twice";
  EXPECT_FALSE(shifts(840)) << "tiles are whole";
}

TEST(AutoSchedule, VectorizesWhatIsLongToComputeWhereverItLies) {
  const auto vectors = [](const char* value, int columns) {
    const Func func = parse_func(
        fmt::format(R"(func map(x: f32[9, {0}] strides [s0, s1], out: f32[9, {0}] strides [s2, s3], s0: i64, s1: i64,
    s2: i64, s3: i64) stage begin {{
  for i in [0, 9) {{ for j in [0, {0}) {{
    block map(space vi in [0, 9) = i, space vj in [0, {0}) = j) reads x[vi, vj] writes out[vi, vj] {{
      out[vi, vj] = {1} }} }} }} }})",
                    columns, value));
    return print(auto_schedule(func, wide())).find("vectorized for j") != std::string::npos;
  };
  EXPECT_TRUE(vectors("exp(x[vi, vj])", 16));
  EXPECT_FALSE(vectors("x[vi, vj] + 1.0f32", 16));
  // Over rows of two elements vectors along the other dimension hold more.
  EXPECT_FALSE(vectors("exp(x[vi, vj])", 2));
}

TEST(AutoSchedule, KeepsScalarWhatIsCheaperThanItsPlaces) {
  const auto vectors = [](const std::string& value, const char* place) {
    const Func func =
        parse_func(fmt::format(R"(func apart(x: f32[20, 300], y: f32[20, 30], out: bool[20, 300]) stage begin {{
  for i in [0, 20) {{ for j in [0, 30) {{
    block map(space vi in [0, 20) = i, space vj in [0, 30) = j) reads x[vi, ..], y[vi, vj] writes out[vi, {1}] {{
      out[vi, {1}] = {0} < y[vi, vj] }} }} }} }})",
                               value, place));
    expect_scheduled_well(func);
    return print(auto_schedule(func, wide())).find("vectorized") != std::string::npos;
  };
  EXPECT_TRUE(vectors("x[vi, vj]", "vj"));
  EXPECT_FALSE(vectors("x[vi, vj * 10]", "vj"));
  EXPECT_TRUE(vectors("exp(x[vi, vj * 10])", "vj"));
  EXPECT_FALSE(vectors("x[vi, vj]", "vj * 10"));
}

TEST(AutoSchedule, SumsInFewLanesWhatLiesApart) {
  const Func func = parse_func(R"(func sums(x: f32[5, 640], out: f32[5]) stage begin {
  for i in [0, 5) { for k in [0, 64) {
    block sum(space vi in [0, 5) = i, reduce vk in [0, 64) = k) reads x[vi, vk * 10], out[vi] writes out[vi] {
      reducer (l: f32) (r: f32) {l + r} identity {0.0f32}
      init { out[vi] = 0.0f32 }
      let a: f32 = out[vi]
      let b: f32 = x[vi, vk * 10]
      out[vi] = a + b } } } })");
  EXPECT_EQ(decisions_on(func, wide(), "sum"), "reduce sum in 4 vectors of 4 lanes\n");
}

TEST(AutoSchedule, TakesExtentsForNoMoreThanFactsAllow) {
  // Has it copies of vectors, and vectors of 16 lanes?
  const auto counts = [](const std::string& most) {
    const Func func = rows("m", "n", ", m: i64, n: i64", " facts {m in [2, " + most + "], n in [2, " + most + "]}");
    const std::string text = print(auto_schedule(func, wide()));
    const auto has = [&](const char* word) { return text.find(word) != std::string::npos; };
    return std::tuple(has("unrolled"), has("in [0, 16)"));
  };
  EXPECT_EQ(counts("1000"), std::tuple(true, true));
  EXPECT_EQ(counts("9"), std::tuple(false, true));
  EXPECT_EQ(counts("3"), std::tuple(false, false));
}

TEST(AutoSchedule, WalksAnyNumberOfCompactRowsAsOne) {
  const Func func = parse_func(R"(func map(x: f32[n, 7], out: f32[n, 7], n: i64) stage begin facts {n in [2, 100]} {
  for i in [0, n) { for j in [0, 7) {
    block map(space vi in [0, n) = i, space vj in [0, 7) = j) reads x[vi, vj] writes out[vi, vj] {
      out[vi, vj] = x[vi, vj] + 1.0f32 } } } })");
  EXPECT_NE(print(auto_schedule(func, wide())).find("for i_jo in [0, (n * 7 + 31) // 32)"), std::string::npos)
      << print(auto_schedule(func, wide()));
}

TEST(AutoSchedule, KeepsRowsApartWhereAWalkWouldDivide) {
  const auto walks = [](const std::string& value) {
    const Func func = parse_func(R"(func map(x: f32[13, 3, 10], out: f32[6, 5, 13]) stage begin {
  for i in [0, 6) { for j in [0, 5) { for k in [0, 13) {
    block map(space vi in [0, 6) = i, space vj in [0, 5) = j, space vk in [0, 13) = k) reads x[..] writes out[vi, vj, vk] {
      out[vi, vj, vk] = )" + value +
                                 " } } } } }");
    expect_scheduled_well(func);
    return print(auto_schedule(func, wide())).find("i_j") != std::string::npos;
  };
  EXPECT_TRUE(walks("exp(x[0, 0, 0])"));
  EXPECT_FALSE(walks("select(vk < 3, exp(x[0, 0, 0]), 0.0f32)")) << "a value asks for the column";
  EXPECT_FALSE(
      walks("x[(vi * 65 + vj * 13 + vk) // 30, (vi * 65 + vj * 13 + vk) // 10 % 3, (vi * 5 + vj * 3 + vk) % 10]"))
      << "of the walk's digits the place is no step";
}

TEST(AutoSchedule, LeavesWhatItCannotChangeAsItWas) {
  for (const char* name : {"scan", "gather", "pad", "chain"}) {
    SCOPED_TRACE(name);
    expect_scheduled_well(program(name));
  }
}

TEST(AutoSchedule, TurnsATransposeAroundInSquares) {
  const auto transpose = [](int m, int n, const char* dtype) {
    return parse_func(
        fmt::format(R"(func transpose(x: {2}[{1}, {0}], y: {2}[{0}, {1}], out: {2}[{0}, {1}]) stage begin {{
  block root() reads x[..], y[..] writes out[..] {{
    for i in [0, {0}) {{
      for j in [0, {1}) {{
        block turn(space vi in [0, {0}) = i, space vj in [0, {1}) = j) reads x[vj, vi], y[vi, vj] writes out[vi, vj] {{
          out[vi, vj] = x[vj, vi] + y[vi, vj]
        }}
      }}
    }}
  }}
}}
)",
                    m, n, dtype));
  };
  expect_golden(print(auto_schedule(transpose(35, 50, "f32"), wide())), "auto_transpose.tir");
  for (const char* dtype : {"f32", "f64", "i16", "u8"}) {
    for (const auto& [m, n] : {std::pair(35, 50), {64, 128}, {16, 17}, {15, 64}, {33, 16}, {1, 40}})
      expect_scheduled_well(transpose(m, n, dtype));
  }
}

TEST(AutoSchedule, TilesAContractionAndAppliesTheEpilogueToTheTile) {
  ScheduleLog log;
  const Func scheduled = auto_schedule(matmul(64, 96, 128, false), wide(), &log);
  expect_golden(print(scheduled), "auto_matmul.tir");
  EXPECT_EQ(log.decisions, (std::vector<std::string>{"tile product: 8 rows x 3 vectors of 16 lanes",
                                                     "tile the reduction product", "parallel over j1o, about 32 us"}));
}

/// out[b, i, j] = sum over k of x[b, i, k] · w[k, j]: the batch shares w.
Func batch_matmul(int batch, int m, int n, int k) {
  return parse_func(fmt::format(
      R"(func batch_matmul(x: f32[{0}, {1}, {3}], w: f32[{3}, {2}], out: f32[{0}, {1}, {2}]) stage begin {{
  for b in [0, {0}) {{
    for i in [0, {1}) {{
      for j in [0, {2}) {{
        for k in [0, {3}) {{
          block product(space vb in [0, {0}) = b, space vi in [0, {1}) = i, space vj in [0, {2}) = j, reduce vk in [0, {3}) = k)
              reads out[vb, vi, vj], x[vb, vi, vk], w[vk, vj]
              writes out[vb, vi, vj]
          {{
            reducer (lhs: f32) (rhs: f32) {{lhs + rhs}} identity {{0.0f32}}
            init {{
              out[vb, vi, vj] = 0.0f32
            }}
            let l: f32 = out[vb, vi, vj]
            let r: f32 = x[vb, vi, vk] * w[vk, vj]
            out[vb, vi, vj] = l + r
          }}
        }}
      }}
    }}
  }}
}}
)",
      batch, m, n, k));
}

TEST(AutoSchedule, TakesABatchOfRowsBesideOneMatrixForMoreRows) {
  EXPECT_NE(decisions_on(batch_matmul(4, 8, 96, 64), wide(), "product").find("join axes of product to 32 rows\n"),
            std::string::npos);
  expect_golden(print(auto_schedule(batch_matmul(4, 8, 96, 64), wide())), "auto_shared_operand.tir");
  expect_scheduled_well(batch_matmul(3, 5, 35, 7));
}

TEST(AutoSchedule, AsksAheadForPanelsThatLieFarApartAndAreNotPacked) {
  const auto offset = [](const Func& func) {
    std::int64_t found = 0;
    for_each_stmt(auto_schedule(func, wide())->body, [&](const Stmt& s) {
      if (!s.as<For>()) return;
      const Annotations& notes = s.as<For>()->annotations;
      if (auto at = notes.find("prefetch_offset"); at != notes.end()) found = std::get<std::int64_t>(at->second);
    });
    return found;
  };
  EXPECT_EQ(offset(matmul(32, 1536, 384, false)), 48);
  EXPECT_EQ(offset(matmul(32, 96, 128, false)), 0) << "stays in the caches";
  EXPECT_EQ(offset(matmul(512, 1536, 384, false)), 0) << "is packed";
}

TEST(AutoSchedule, TakesLongSumsInParts) {
  const auto takes = [](const Func& func) {
    ScheduleLog log;
    auto_schedule(func, wide(), &log);
    return std::find(log.decisions.begin(), log.decisions.end(), "take product in parts of 512 steps") !=
           log.decisions.end();
  };
  EXPECT_TRUE(takes(matmul(256, 192, 2048, false)));
  EXPECT_FALSE(takes(matmul(256, 192, 1024, false)));
  expect_scheduled_well(matmul(9, 33, 1031, false));
  expect_golden(print(auto_schedule(matmul(256, 192, 2048, false), wide())), "auto_long_sums.tir");
}

/// Each core's share of the last cache has so many bytes.
Device with_cache(std::int64_t bytes) {
  Device device = wide();
  device.caches = {{64, 8, 64, false}, {bytes * device.cores, 16, 64, true}};
  return device;
}

TEST(AutoSchedule, MakesDotProductsOfATransposedOperand) {
  expect_golden(print(auto_schedule(matmul(64, 96, 128, true), wide())), "auto_matmul_transposed.tir");
}

TEST(AutoSchedule, FusesRowsAndKeepsOneRowBetweenTheStages) {
  expect_golden(print(auto_schedule(rows("64", "256"), wide())), "auto_rows.tir");
}

/// Newton's steps y = (y + x / y) / 2, each in two blocks that both read y: dear enough to store, were it computed
/// twice.
TEST(AutoSchedule, ComputesOnceWhatSeveralStepsOfOneChainRead) {
  std::string allocs = "    alloc y0: f32[100]\n", nests;
  const auto nest = [&](const std::string& to, const std::string& reads, const std::string& value) {
    nests += "    for i_" + to + " in [0, 100) {\n      block " + to + "(space v in [0, 100) = i_" + to + ") reads " +
             reads + " writes " + to + "[v] {\n        " + to + "[v] = " + value + "\n      }\n    }\n";
  };
  nest("y0", "x[v]", "exp(x[v])");
  for (int i = 0; i < 12; ++i) {
    const std::string y = "y" + std::to_string(i), next = i == 11 ? "out" : "y" + std::to_string(i + 1),
                      quotient = "q" + std::to_string(i);
    allocs += "    alloc " + quotient + ": f32[100]\n" + (i == 11 ? "" : "    alloc " + next + ": f32[100]\n");
    nest(quotient, "x[v], " + y + "[v]", "x[v] / " + y + "[v]");
    nest(next, y + "[v], " + quotient + "[v]", "0.5f32 * (" + y + "[v] + " + quotient + "[v])");
  }
  const Func before = parse_func(
      "func newton(x: f32[100], out: f32[100]) stage begin {\n  block root() reads x[..] writes out[..] {\n" + allocs +
      nests + "  }\n}\n");
  const Func after = auto_schedule(before, wide());
  expect_same_results(before, after);
  int divisions = 0, allocations = 0, blocks = 0;
  for_each_stmt(after->body, [&](const Stmt& s) {
    const Block* block = s.as<Block>();
    if (!block) return;
    ++blocks;
    allocations += static_cast<int>(block->f.allocs.size());
    for_each_expr(block->f.body, [&](const Expr& e) {
      const Binary* node = e.as<Binary>();
      divisions += block != root_block(after) && node && node->op == BinaryOp::div;
    });
  });
  EXPECT_EQ(allocations, 0);
  EXPECT_EQ(divisions % 12, 0) << print(after);
  EXPECT_EQ(divisions / 12, blocks - 1) << "a copy of the body for each nest";
}

TEST(AutoSchedule, TakesSymbolicExtents) {
  const Func func = rows("m", "n", ", m: i64, n: i64", " facts {m in [2, 1000], n in [2, 1000]}");
  for (const Device& device : {wide(), narrow()}) {
    const Func scheduled = auto_schedule(func, device);
    for (const Finding& finding : verify(scheduled)) ADD_FAILURE() << finding.rule << ": " << finding.message;
  }
  expect_golden(print(auto_schedule(func, wide())), "auto_symbolic.tir");
}

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  const size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return text.replace(at, from.size(), to);
}

/// rows() of 8x256 whose last stage reads `shifted` twice, at two places: too dear to inline.
std::string mirrored_rows() {
  const std::string text =
      replaced(print(rows("8", "256")), "reads shifted[vi2, vj2], total", "reads shifted[vi2, ..], total");
  return replaced(text, "* shifted[vi2, vj2]", "* shifted[vi2, 255 - vj2]");
}

TEST(AutoSchedule, FusesAReductionOnlyWhileARowFitsTheNearestMemory) {
  const Func func = parse_func(mirrored_rows());  // a row of `shifted` has 1024 bytes
  EXPECT_NE(decisions_on(func, with_cache(2048), "shift").find("compute shift under i2\n"), std::string::npos);
  EXPECT_NE(decisions_on(func, with_cache(1020), "shift")
                .find("keep shift: an iteration of i2 would hold 1024 bytes, the nearest memory 1020\n"),
            std::string::npos);
  // A cache of its own need not be shared.
  Device own = wide();
  own.caches = {{1020, 8, 64, false}};
  EXPECT_NE(decisions_on(func, own, "shift").find("the nearest memory 1020"), std::string::npos);
  // Without caches the smallest space that has an end is the nearest.
  Device scratch = wide();
  scratch.spaces = {{.name = "scratch", .capacity_bits = 8 * 512}, {.name = "large", .capacity_bits = 8 << 20}};
  EXPECT_NE(decisions_on(func, scratch, "shift").find("the nearest memory 512"), std::string::npos);
  scratch.spaces.clear();
  EXPECT_NE(decisions_on(func, scratch, "shift").find("compute shift under i2"), std::string::npos);
}

TEST(AutoSchedule, AWishForFusionDecidesBeforeTheRules) {
  const std::string text = mirrored_rows();
  const auto wished = [&](int wish) {
    return parse_func(
        replaced(text, "writes shifted[vi1, vj1]", fmt::format("writes shifted[vi1, vj1] @{{fuse: {}}}", wish)));
  };
  // Inlined where the cost says no, and for a memory that would be too small.
  EXPECT_EQ(decisions_on(wished(1), with_cache(1020), "shift"), "inline shift\n");
  EXPECT_EQ(decisions_on(wished(0), with_cache(2048), "shift"),
            "keep shift: it is to stay apart\nkeep shift: it is to stay apart\nvectorize shift over j1\n");
  // The sum of a row has four bytes.
  const std::string sums = print(rows("8", "256"));
  EXPECT_NE(decisions_on(parse_func(sums), with_cache(3), "total").find("keep total: an iteration of i2 would hold 4"),
            std::string::npos);
  const Func forced = parse_func(replaced(sums, "writes total[vi]\n", "writes total[vi] @{fuse: 1}\n"));
  EXPECT_NE(decisions_on(forced, with_cache(3), "total").find("compute total under i2"), std::string::npos);
  const Func kept = parse_func(replaced(sums, "writes total[vi]\n", "writes total[vi] @{fuse: 0}\n"));
  EXPECT_NE(decisions_on(kept, with_cache(2048), "total").find("keep total: it is to stay apart"), std::string::npos);
}

TEST(AutoSchedule, NothingGoesIntoOpaqueOrExternBlocks) {
  const auto through = [](const std::string& iter, const std::string& value) {
    return parse_func(fmt::format(R"(func f(x: f32[64], out: f32[64]) stage begin {{
  block root() {{
    alloc t: f32[64]
    for i in [0, 64) {{
      block first(space v in [0, 64) = i) reads x[v] writes t[v] {{
        t[v] = x[v] + 1.0f32
      }}
    }}
    for j in [0, 64) {{
      block second({} w in [0, 64) = j) reads t[w] writes out[w] {{
        out[w] = {}
      }}
    }}
  }}
}}
)",
                                  iter, value));
  };
  const auto decisions = [](const Func& func) {
    ScheduleLog log;
    auto_schedule(func, wide(), &log);
    std::string lines;
    for (const std::string& decision : log.decisions) {
      if (decision.find("first") != std::string::npos) lines += decision + "\n";
    }
    return lines;
  };
  EXPECT_EQ(decisions(through("space", "t[w]")), "inline first\n");
  for (const Func& func : {through("opaque", "t[w]"), through("space", "extern<f32>\"twice\"(t[w])")}) {
    const std::string lines = decisions(func);
    EXPECT_EQ(lines.find("keep first: second is opaque or calls what is extern\n"
                         "keep first: it or a reader is opaque or calls what is extern\n"),
              0u)
        << lines;
  }
}

TEST(AutoSchedule, ItsRulesOneAfterAnotherMakeTheSameSchedule) {
  for (const Device& device : {wide(), narrow(), with_cache(1 << 20)}) {
    for (const Func& func : {matmul(64, 96, 128, false), matmul(13, 7, 100, true), rows("64", "256"),
                             rows("m", "n", ", m: i64, n: i64", " facts {m in [2, 1000], n in [2, 1000]}")}) {
      Func staged = ask_for_schedule(func);
      for (const std::string& rule : scheduling_rules()) {
        // Between any two of them it can be printed and taken up again.
        staged = parse_func(print(apply_scheduling_rule(staged, device, rule)));
        EXPECT_EQ(print(apply_scheduling_rule(func, device, rule)), print(func)) << rule;
      }
      EXPECT_EQ(print(staged), print(auto_schedule(func, device)));
    }
  }
  try {
    apply_scheduling_rule(rows("4", "4"), wide(), "fuse_row");
    FAIL() << "an unknown rule ran";
  } catch (const InputError& error) {
    EXPECT_EQ(error.message().find("unknown scheduling rule 'fuse_row'; did you mean 'fuse_rows'?"), 0u);
  }
}

}  // namespace
}  // namespace lathe::testing
