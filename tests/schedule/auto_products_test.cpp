#include <fmt/format.h>

#include <algorithm>

#include "ir/analysis/verify.h"
#include "ir/text/parse.h"
#include "ir/text/print.h"
#include "ir/visitor.h"
#include "schedule/auto/auto_schedule.h"
#include "tests/golden.h"
#include "tests/schedule/auto_support.h"
#include "tests/schedule/support.h"

namespace lathe::testing {
namespace {

TEST(AutoSchedule, ComputesTheSameForContractionsOfAnyShape) {
  for (const bool transposed : {false, true}) {
    for (const int m : {1, 2, 9}) {
      for (const int n : {1, 5, 33}) {
        for (const int k : {0, 1, 3, 16, 19}) {
          SCOPED_TRACE(fmt::format("{} x {} x {}{}", m, n, k, transposed ? " transposed" : ""));
          expect_scheduled_well(matmul(m, n, k, transposed));
        }
      }
    }
  }
}

/// A product whose result lies in memory by `strides`, with `params` after the buffers.
Func product_into(int m, int n, int k, const std::string& strides, const std::string& params = "") {
  return product_lying(m, n, k, "", "strides " + strides, params);
}

TEST(AutoSchedule, TilesAProductWhereverItsResultLies) {
  const Func turned = product_into(40, 50, 60, "[1, s]", ", s: i64");
  ScheduleLog log;
  const std::string text = print(auto_schedule(turned, wide(), &log));
  // The tile's sums lie with a vector's lanes side by side, whose dimension is not the result's last.
  EXPECT_NE(text.find("out_register: f32[50, 40] @register"), std::string::npos);
  const Func anyhow = product_into(40, 50, 60, "[s, t]", ", s: i64, t: i64");
  const std::string collected = print(auto_schedule(anyhow, wide(), &log));
  EXPECT_NE(fmt::format("{}", fmt::join(log.decisions, "\n")).find("collect the results of product"),
            std::string::npos);
  EXPECT_NE(collected.find("@register"), std::string::npos);
  EXPECT_NE(collected.find("vectorized for"), std::string::npos);
  const Func apart = product_into(40, 50, 60, "[s, 2]", ", s: i64");
  EXPECT_TRUE(decides(apart, wide(), "collect the results of product")) << "every second element";
  EXPECT_FALSE(decides(product_into(40, 50, 60, "[s, 1]", ", s: i64"), wide(), "collect the results of product"));
  for (const char* strides : {"[1, 40]", "[50, 1]"}) expect_scheduled_well(product_into(40, 50, 60, strides));
}

TEST(AutoSchedule, SharesRowsOutWhereTooFewPanelsDivideUnevenly) {
  Device two = narrow();
  two.cores = 2;
  const Func uneven = product_into(120, 17, 600, "[17, 1]");
  decisions_on(uneven, two, "product");
  const std::string text = print(auto_schedule(uneven, two));
  const size_t parallel = text.find("parallel for");
  ASSERT_NE(parallel, std::string::npos) << text;
  EXPECT_EQ(text.substr(parallel).find("in [0, 2)"), text.substr(parallel).find("in [0, ")) << text;
}

TEST(AutoSchedule, SharesRowsOutWhereAllPanelsStayNear) {
  const auto shares = [](int m, int n, int k, int cores) {
    Device device = with_caches(1 << 20);
    device.cores = cores;
    const Func func = matmul(m, n, k, false);
    const std::string text = print(auto_schedule(func, device));
    const bool rows = decides(func, device, "share out rows of product");
    EXPECT_TRUE(!rows || text.find("parallel for i1") != std::string::npos) << text;
    return rows;
  };
  EXPECT_TRUE(shares(222, 141, 5, 2));
  EXPECT_TRUE(shares(534, 128, 2, 2));
  EXPECT_TRUE(shares(300, 300, 300, 2));
  EXPECT_FALSE(shares(300, 300, 300, 1));
  EXPECT_FALSE(shares(300, 300, 900, 2)) << "panels fill the cache, or are packed";
  EXPECT_FALSE(shares(300, 16, 300, 2)) << "one panel";
  EXPECT_FALSE(shares(24, 1000, 8, 2)) << "three strips of rows divide unevenly";
  expect_scheduled_well(matmul(61, 71, 5, false));
}

/// out = a b, where the operand `made` is tanh of what is given.
Func product_of_made(int m, int n, int k, const std::string& made) {
  const std::string text = fmt::format(
      R"(func made(a: f32[{0}, {2}], b: f32[{2}, {1}], out: f32[{0}, {1}]) stage begin {{
  block root() reads a[..], b[..] writes out[..] {{
    alloc t: f32[{3}, {4}]
    for p in [0, {3}) {{ for q in [0, {4}) {{
      block maker(space vp in [0, {3}) = p, space vq in [0, {4}) = q) reads {5}[vp, vq] writes t[vp, vq] {{
        t[vp, vq] = tanh({5}[vp, vq]) }} }} }}
    for i in [0, {0}) {{ for j in [0, {1}) {{ for k in [0, {2}) {{
      block product(space vi in [0, {0}) = i, space vj in [0, {1}) = j, reduce vk in [0, {2}) = k)
          reads {6}[vi, vk], {7}[vk, vj], out[vi, vj] writes out[vi, vj] {{
        reducer (lhs: f32) (rhs: f32) {{lhs + rhs}} identity {{0.0f32}}
        init {{ out[vi, vj] = 0.0f32 }}
        let l: f32 = out[vi, vj]
        let r: f32 = {6}[vi, vk] * {7}[vk, vj]
        out[vi, vj] = l + r }} }} }} }} }} }})",
      m, n, k, made == "a" ? m : k, made == "a" ? k : n, made, made == "a" ? "t" : "a", made == "b" ? "t" : "b");
  return parse_func(text);
}

TEST(AutoSchedule, SharesPanelsOutThatAreMadeForTheirProduct) {
  Device device = with_caches(1 << 20);
  device.cores = 2;
  EXPECT_TRUE(decides(product_of_made(96, 192, 64, "a"), device, "share out rows of product"));
  EXPECT_FALSE(decides(product_of_made(96, 192, 64, "b"), device, "share out rows of product"));
  const std::string text = print(auto_schedule(product_of_made(96, 192, 64, "b"), device));
  EXPECT_LT(text.find("parallel for"), text.find("block maker")) << "by the core that reads it\n" << text;
}

TEST(AutoSchedule, SharesRowsOutBelowASinglePanel) {
  Device device = wide();
  device.cores = 4;
  const Func shared = auto_schedule(matmul(4099, 16, 256, false), device);
  EXPECT_EQ(verify(shared).size(), 0u);
  const std::string text = print(shared);
  const size_t parallel = text.find("parallel for");
  ASSERT_NE(parallel, std::string::npos) << text;
  const std::string loop = text.substr(parallel, text.find('{', parallel) - parallel);
  EXPECT_EQ(loop.find("in [0, 1)"), std::string::npos) << loop;
}

TEST(AutoSchedule, CutsALongReductionIntoParts) {
  Device device = wide();
  const Func func = matmul(4, 20, 200'000, false);
  device.cores = 4;
  EXPECT_EQ(decisions_on(matmul(4, 20, 200, false), device, "product").find("cut"), std::string::npos);
  ScheduleLog log;
  const Func cut = auto_schedule(func, device, &log);
  EXPECT_EQ(verify(cut).size(), 0u);
  EXPECT_NE(fmt::format("{}", fmt::join(log.decisions, "\n")).find("cut product into parts of "), std::string::npos);
  EXPECT_NE(print(cut).find("parallel for"), std::string::npos);
  // As many parts for any number of cores, so that results do not depend on it.
  Device larger = device;
  larger.cores = 64;
  EXPECT_EQ(print(auto_schedule(func, larger)), print(cut));
}

/// The iterations of each parallel loop, in order.
std::vector<int> shared_iterations(const Func& func) {
  std::vector<int> counts;
  for_each_stmt(func->body, [&](const Stmt& s) {
    const For* loop = s.as<For>();
    if (loop && loop->for_kind == ForKind::parallel) counts.push_back(static_cast<int>(*as_int(loop->extent)));
  });
  return counts;
}

TEST(AutoSchedule, SharesRowsBelowPackedPanelsAmongManyCores) {
  Device device = fused(wide(), 2);
  device.caches = {{32768, 8, 64, false}, {1 << 20, 16, 64, false}};
  const Func func = matmul(512, 512, 512, false);
  std::vector<std::vector<int>> counts;
  for (const int cores : {2, 16}) {
    SCOPED_TRACE(cores);
    device.cores = cores;
    ScheduleLog log;
    const Func shared = auto_schedule(func, device, &log);
    EXPECT_EQ(verify(shared).size(), 0u) << print(shared);
    counts.push_back(shared_iterations(shared));
    const std::string decisions = fmt::format("{}", fmt::join(log.decisions, "\n"));
    EXPECT_EQ(cores == 16, decisions.find("part what the loop over") != std::string::npos) << decisions;
  }
  ASSERT_EQ(counts[0].size(), 1u) << "panels are packed by those who use them";
  ASSERT_EQ(counts[1].size(), 2u) << "all panels are packed before parts of rows are shared out";
  EXPECT_EQ(counts[1][1], 16);
}

TEST(AutoSchedule, TakesNarrowerVectorsWhereTheyLeaveFewerLanesIdle) {
  const Func func = matmul(40, 24, 32, false);
  // A unit of 512 bits is two of 256: three vectors of 8 lanes do the work of one and a half of 16.
  EXPECT_NE(decisions_on(func, fused(wide(), 1), "product").find("x 3 vectors of 8 lanes\n"), std::string::npos);
  EXPECT_NE(decisions_on(func, fused(wide(), 2), "product").find("x 2 vectors of 16 lanes\n"), std::string::npos);
}

TEST(AutoSchedule, AddsUpInSeveralChainsWhereATileHasFewSums) {
  for (const int n : {5, 12, 32}) {
    for (const int k : {16, 37}) {
      for (const Device& device : {wide(), fused(narrow(), 2)}) {
        EXPECT_NE(decisions_on(matmul(1, n, k, false), device, "product").find(" chains\n"), std::string::npos);
      }
    }
  }
  expect_golden(print(auto_schedule(matmul(1, 12, 37, false), wide())), "auto_chains.tir");
  EXPECT_EQ(decisions_on(matmul(8, 32, 37, false), wide(), "product").find(" chains"), std::string::npos);
}

TEST(AutoSchedule, TurnsAnOperandOfFewColumnsAround) {
  for (const int n : {2, 3}) {
    for (const int k : {160, 163}) {
      SCOPED_TRACE(fmt::format("{} columns, depth {}", n, k));
      EXPECT_NE(decisions_on(matmul(37, n, k, false), wide(), "product").find("turn b around for product\n"),
                std::string::npos);
    }
  }
  expect_golden(print(auto_schedule(matmul(40, 3, 160, false), wide())), "auto_turned.tir");
  // What is read by one row alone is not worth a copy.
  EXPECT_EQ(decisions_on(matmul(1, 3, 160, false), wide(), "product").find("turn"), std::string::npos);
  EXPECT_EQ(decisions_on(matmul(37, 16, 160, false), wide(), "product").find("turn"), std::string::npos);
}

TEST(AutoSchedule, TurnsColumnsThatAreAFewElementsApart) {
  const auto product = [](int m, int n, int k) {
    const std::string text = replaced_all(print(matmul(m, n, k, false)), "b[vk, vj]", "b[vj, vk]");
    return parse_func(replaced_all(text, fmt::format("b: f32[{}, {}]", k, n), fmt::format("b: f32[{}, {}]", n, k)));
  };
  const auto turns = [](const Func& func) {
    ScheduleLog log;
    expect_same(func, auto_schedule(func, wide(), &log));
    return std::find(log.decisions.begin(), log.decisions.end(), "turn b around for product") != log.decisions.end();
  };
  EXPECT_TRUE(turns(product(17, 40, 4)));
  EXPECT_TRUE(turns(product(40, 33, 3)));
  EXPECT_FALSE(turns(product(8, 40, 4))) << "few rows pick them as soon";
}

TEST(AutoSchedule, PacksRowsThatAreNeighboursWhoseStepsLieFarApart) {
  const auto product = [](int m, int n, int k) {
    const std::string text = replaced_all(print(matmul(m, n, k, false)), "a[vi, vk]", "a[vk, vi]");
    return parse_func(replaced_all(text, fmt::format("a: f32[{}, {}]", m, k), fmt::format("a: f32[{}, {}]", k, m)));
  };
  const auto packs = [](const Func& func, const Device& device) {
    ScheduleLog log;
    const Func scheduled = auto_schedule(func, device, &log);
    for (const Finding& finding : verify(scheduled)) ADD_FAILURE() << finding.rule << ": " << finding.message;
    const auto& decisions = log.decisions;
    return std::find(decisions.begin(), decisions.end(), "pack rows of a for product") != decisions.end();
  };
  // Results of such a size are compared in tests/python/test_contractions.py: the interpreter would take a minute.
  for (const Device& device : {wide(), narrow()}) {
    EXPECT_TRUE(packs(product(1030, 400, 130), device));
    EXPECT_FALSE(packs(product(64, 200, 64), device)) << "stays in the caches";
    EXPECT_FALSE(packs(product(1030, 8, 130), device)) << "is read once or twice";
  }
  // A tile of 256-bit vectors is through a line of rows before hardware has the next.
  Device device = with_caches(std::int64_t{1} << 20);
  const auto asks = [&] {
    const std::string text = print(auto_schedule(product(1030, 400, 130), device));
    return text.find("prefetch_elements: 1024") != std::string::npos;
  };
  EXPECT_FALSE(asks());
  device.vector_bits = 256;
  device.vector_registers = 16;
  device.fma_per_cycle = 2;
  EXPECT_TRUE(asks());
}

/// out[i, j, b] = sum of x[i, k, b] * y[j, k, b]: a product of matrices for each lane.

Func weighted_rows(const std::string& reader) {
  return parse_func(R"(func weighted(x: f32[24, 64], w: f32[64], out: f32[)" + reader.substr(0, reader.find('|')) +
                    R"(]) stage begin {
  block root() {
    alloc total: f32[24, 1]
    for i in [0, 24) {
      for k in [0, 64) {
        block total(space vi in [0, 24) = i, reduce vk in [0, 64) = k) reads total[vi, 0], x[vi, vk], w[vk] writes total[vi, 0] {
          reducer (lhs: f32) (rhs: f32) {lhs + rhs} identity {0.0f32}
          init {
            total[vi, 0] = 0.0f32
          }
          let l: f32 = total[vi, 0]
          let r: f32 = x[vi, vk] * w[vk]
          total[vi, 0] = l + r
        }
      }
    }
)" + reader.substr(reader.find('|') + 1) +
                    "  }\n}\n");
}

TEST(AutoSchedule, TilesAMatrixVectorProductUnlessItsRowsAreReadAgain) {
  const Func product = weighted_rows(R"(24|    for i1 in [0, 24) {
      block store(space vi1 in [0, 24) = i1) reads total[vi1, 0] writes out[vi1] {
        out[vi1] = exp(total[vi1, 0])
      }
    }
)");
  EXPECT_NE(decisions_on(product, wide(), "total").find("tile total: 1 x 8 dot products"), std::string::npos);
  const Func shifted = weighted_rows(R"(24, 64|    for i1 in [0, 24) {
      for j1 in [0, 64) {
        block shift(space vi1 in [0, 24) = i1, space vj1 in [0, 64) = j1) reads x[vi1, vj1], total[vi1, 0] writes out[vi1, vj1] {
          out[vi1, vj1] = x[vi1, vj1] - total[vi1, 0]
        }
      }
    }
)");
  EXPECT_EQ(decisions_on(shifted, wide(), "total").find("tile"), std::string::npos);
  const Func centered = weighted_rows(R"(24, 64], mean: f32[24|    for i2 in [0, 24) {
      block mean(space vi2 in [0, 24) = i2) reads total[vi2, 0] writes mean[vi2] {
        mean[vi2] = total[vi2, 0] / 64.0f32
      }
    }
    for i1 in [0, 24) {
      for j1 in [0, 64) {
        block shift(space vi1 in [0, 24) = i1, space vj1 in [0, 64) = j1) reads x[vi1, vj1], mean[vi1] writes out[vi1, vj1] {
          out[vi1, vj1] = x[vi1, vj1] - mean[vi1]
        }
      }
    }
)");
  EXPECT_EQ(decisions_on(centered, wide(), "total").find("tile"), std::string::npos) << "by way of a mean";
}

TEST(AutoSchedule, TakesLongSumsOverAFarOperandInPartsAndAsksForTheNext) {
  Device device = fused(wide(), 2);
  device.caches = {{4096, 8, 64, false}, {65536, 16, 64, false}};
  const auto scheduled = [&](const Func& func, std::string* decisions) {
    ScheduleLog log;
    const std::string text = print(auto_schedule(func, device, &log));
    *decisions = fmt::format("{}", fmt::join(log.decisions, "\n"));
    return text;
  };
  const Func far = product_of_columns(64, 64, 480);
  const std::string parts = "take product in parts of 48 steps";
  std::string decisions;
  // Sums are cut alike on any number of cores: each core takes all parts of its own rows, or each tile does.
  for (const int cores : {1, 2, 16}) {
    SCOPED_TRACE(cores);
    device.cores = cores;
    const std::string text = scheduled(far, &decisions);
    EXPECT_NE(decisions.find(parts), std::string::npos) << decisions;
    EXPECT_NE(text.find("prefetch_param_0: 3072"), std::string::npos) << "48 steps of 64 rows: " << text;
    const size_t part = text.find("in [0, 10)"), parallel = text.find("parallel for");
    EXPECT_LT(part, text.find("in [0, 48)")) << text;
    if (cores > 1) {
      EXPECT_LT(parallel, part) << text;
    }
  }
  scheduled(product_of_columns(64, 64, 500), &decisions);
  EXPECT_NE(decisions.find("take product in parts of 50 steps"), std::string::npos) << "the next that divide 500";
  scheduled(product_of_columns(48, 56, 480), &decisions);
  EXPECT_NE(decisions.find(parts), std::string::npos) << "rows' operand, where the other is larger: " << decisions;
  scheduled(product_of_columns(64, 64, 96), &decisions);
  EXPECT_EQ(decisions.find("in parts of"), std::string::npos) << "24 KB stay";
  device.fma_per_cycle = 1;
  device.streams_at_once = 4;
  scheduled(far, &decisions);
  EXPECT_EQ(decisions.find("in parts of"), std::string::npos) << "arithmetic covers lines";
  scheduled(product_of_columns(64, 64, 4800), &decisions);
  EXPECT_NE(decisions.find("in parts of"), std::string::npos) << "of the third cache, not from beyond: " << decisions;
  // The same sums, of rows that end within a tile and within a core's share.
  device = fused(wide(), 2);
  device.cores = 2;
  device.caches = {{1024, 8, 64, false}, {32768, 16, 64, false}};
  EXPECT_NE(decisions_on(product_of_columns(67, 16, 96), device, "product").find("in parts of 48 steps"),
            std::string::npos);
}

TEST(AutoSchedule, StepsAlongTheLinesOfRowsThatLieFarApart) {
  const Func func = parse_func(R"(func f(x: f32[32, 32, 31, 16], y: f32[31, 32, 4, 32], out: f32[4, 16]) stage begin {
  for b in [0, 4) { for a in [0, 16) { for c in [0, 32) { for e in [0, 32) { for d in [0, 31) {
    block sum(space vb in [0, 4) = b, space va in [0, 16) = a, reduce vc in [0, 32) = c, reduce ve in [0, 32) = e,
              reduce vd in [0, 31) = d)
        reads out[vb, va], x[vc, ve, vd, va], y[vd, ve, vb, vc] writes out[vb, va] {
      reducer (lhs: f32) (rhs: f32) {lhs + rhs} identity {0.0f32}
      init { out[vb, va] = 0.0f32 }
      let l: f32 = out[vb, va]
      let r: f32 = x[vc, ve, vd, va] * y[vd, ve, vb, vc]
      out[vb, va] = l + r } } } } } } })");
  Device device = fused(wide(), 1);
  device.cores = 1;
  const auto innermost = [&](std::int64_t own) {
    device.caches = {{32 << 10, 8, 64, false}, {own, 16, 64, false}};
    const std::string text = print(auto_schedule(func, device));
    const size_t rows = text.find("unrolled", text.find("for e")), loop = text.rfind("for ", rows);
    return text.substr(loop + 4, 1);
  };
  EXPECT_EQ(innermost(1 << 20), "c") << "four rows of y go on in their lines";
  EXPECT_EQ(innermost(4 << 20), "d") << "the order given";
}

}  // namespace
}  // namespace lathe::testing
