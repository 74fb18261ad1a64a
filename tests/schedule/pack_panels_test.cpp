// Which panels of a product's columns are copied to compact memory before tiles read them.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "ir/text/parse.h"
#include "ir/text/print.h"
#include "schedule/auto/auto_schedule.h"
#include "tests/schedule/auto_support.h"

namespace lathe {
namespace {

using testing::decides;

/// Two multiply-adds a cycle of vectors that are lines of the first cache.
Device lines() {
  Device device = testing::wide();
  device.fma_per_cycle = 2;
  device.caches = {{32 << 10, 8, 64, false}, {1 << 20, 16, 64, false}};
  return device;
}

/// One such vector in the same time.
Device slower() {
  Device device = lines();
  device.fma_per_cycle = 1;
  return device;
}

/// Two of vectors that are half a line, which fill half of the slots.
Device half_lines() {
  Device device = lines();
  device.vector_bits = 256;
  device.vector_registers = 16;
  device.mask_registers = 0;
  device.issue_width = 4;
  return device;
}

/// Two of these, which leave loads time, and a cache behind that cores share.
Device spacious() {
  Device device = half_lines();
  device.issue_width = 8;
  device.caches.push_back({32 << 20, 16, 64, true});
  return device;
}

/// Two of these, which leave loads time, but whose steps fill most of the slots.
Device filled() {
  Device device = spacious();
  device.issue_width = 6;
  return device;
}

bool packs(const Func& func, const Device& device) {
  return decides(func, device, "pack panels of b");
}

/// The values of an annotation, in the order of the text.
std::vector<std::string> annotations(const Func& func, const Device& device, const std::string& name) {
  const std::string text = print(auto_schedule(func, device));
  std::vector<std::string> found;
  for (size_t at = text.find(name); at != std::string::npos; at = text.find(name, at + 1))
    found.push_back(text.substr(at + name.size(), text.find('}', at) - at - name.size()));
  return found;
}

TEST(PackPanels, OfVectorsThatCrossLinesWhereEachMultiplicationWantsALine) {
  EXPECT_TRUE(packs(testing::matmul(127, 129, 131, false), lines()));
  EXPECT_FALSE(packs(testing::matmul(127, 128, 131, false), lines())) << "no vector crosses a line";
  EXPECT_FALSE(packs(testing::matmul(18, 129, 131, false), lines())) << "few tiles read a panel";
  EXPECT_FALSE(packs(testing::matmul(127, 129, 40, false), lines())) << "all of it stays in the first cache";
  EXPECT_FALSE(packs(testing::matmul(127, 33, 500, false), lines())) << "one panel lies in one piece already";
  EXPECT_FALSE(packs(testing::matmul(127, 129, 131, false), slower()));
}

TEST(PackPanels, ThatLieScatteredForFewTilesToo) {
  EXPECT_TRUE(packs(testing::matmul(32, 1024, 1024, false), lines()));
  EXPECT_FALSE(packs(testing::matmul(6, 1024, 1024, false), lines())) << "a single tile reads a panel";
  EXPECT_TRUE(packs(testing::matmul(64, 128, 4096, false), lines()));
  EXPECT_FALSE(packs(testing::matmul(64, 64, 4096, false), lines())) << "the one panel is the operand";
  EXPECT_FALSE(packs(testing::matmul(32, 1024, 1024, false), slower()));
  EXPECT_TRUE(packs(testing::matmul(256, 1024, 1024, false), slower()));
}

/// A 3x3 convolution of pixels whose channels lie beside each other: b are the weights.
Func channels_last(int rows, int pixels, int channels, int filters) {
  return parse_func(fmt::format(R"(
func conv(a: f32[{4}, {5}, {2}], b: f32[3, 3, {2}, {3}], out: f32[{0}, {1}, {3}]) stage begin {{
  block root() reads a[..], b[..], out[..] writes out[..] {{
    for y in [0, {0}) {{ for x in [0, {1}) {{ for f in [0, {3}) {{ for r in [0, 3) {{ for s in [0, 3) {{ for c in [0, {2}) {{
      block sum(space vy in [0, {0}) = y, space vx in [0, {1}) = x, space vf in [0, {3}) = f, reduce vr in [0, 3) = r,
                reduce vs in [0, 3) = s, reduce vc in [0, {2}) = c)
          reads out[vy, vx, vf], a[vy + vr, vx + vs, vc], b[vr, vs, vc, vf] writes out[vy, vx, vf] {{
        reducer (lhs: f32) (rhs: f32) {{lhs + rhs}} identity {{0.0f32}}
        init {{ out[vy, vx, vf] = 0.0f32 }}
        let l: f32 = out[vy, vx, vf]
        let t: f32 = a[vy + vr, vx + vs, vc] * b[vr, vs, vc, vf]
        out[vy, vx, vf] = l + t
      }}
    }} }} }} }} }} }}
  }}
}}
)",
                                rows, pixels, channels, filters, rows + 2, pixels + 2));
}

TEST(PackPanels, OutsideOfAllThatShareThem) {
  EXPECT_TRUE(packs(channels_last(14, 14, 256, 256), lines())) << "one tile a row, and fourteen rows";
  EXPECT_TRUE(packs(channels_last(56, 56, 48, 128), lines())) << "of less than others, for hundreds of tiles";
  EXPECT_FALSE(packs(channels_last(2, 14, 64, 64), lines())) << "few tiles read a panel";
  EXPECT_TRUE(packs(channels_last(14, 14, 256, 256), slower()));
  EXPECT_FALSE(packs(channels_last(4, 14, 256, 256), slower()));
  const std::string text = print(auto_schedule(channels_last(14, 14, 256, 256), lines()));
  const size_t copy = text.find("block b_"), tile = text.find("block sum_init");
  ASSERT_LT(copy, tile);
  EXPECT_NE(text.substr(copy, tile - copy).find(" in [0, 14) {"), std::string::npos) << "rows within panels";
}

TEST(PackPanels, TakeRowsThatLieNearer) {
  const std::string text = print(auto_schedule(channels_last(14, 14, 256, 256), lines()));
  EXPECT_NE(text.find("unrolled for x in [0, 14)"), std::string::npos) << "not y, whose lines share a set";
}

TEST(PackPanels, InGroupsWhereRowsComeFromBeyondTheSecondCache) {
  const auto groups = [](int m, int n, int k, const Device& device) {
    return decides(testing::matmul(m, n, k, false), device, "pack groups of panels of b");
  };
  EXPECT_TRUE(groups(512, 1024, 1024, lines()));
  EXPECT_FALSE(groups(120, 1024, 1024, lines())) << "rows stay in the second cache";
  EXPECT_FALSE(groups(512, 1024, 2048, lines())) << "two panels do not leave room there";
  EXPECT_FALSE(groups(512, 1000, 1024, lines())) << "the last panel is shorter";
  EXPECT_FALSE(groups(512, 1024, 1024, slower())) << "loads have time";
  Device shared = slower();
  shared.caches.push_back({32 << 20, 16, 64, true});
  EXPECT_FALSE(groups(384, 1024, 1024, shared)) << "rows lie in the shared cache as panels do";
  EXPECT_TRUE(groups(768, 768, 1024, shared));
  Device many = lines();
  many.cores = 8;
  EXPECT_FALSE(groups(512, 512, 1024, many)) << "each core is to have as many";
}

TEST(PackPanels, InGroupsThatStayNearWhereTilesFillTheSlots) {
  const auto panels = [](int m, int n, int k) {
    Device device = filled();
    device.cores = 1;
    device.caches[1].bytes = 512 << 10;
    const std::string text = print(auto_schedule(testing::matmul(m, n, k, false), device));
    const std::string loop = "for j1oi in [0, ";
    const size_t at = text.find(loop);
    return at == std::string::npos ? 1 : std::stoi(text.substr(at + loop.size()));
  };
  EXPECT_EQ(panels(510, 1024, 1024), 4) << "in half of the second cache";
  EXPECT_EQ(panels(510, 1024, 768), 4) << "five do not divide them";
  EXPECT_EQ(panels(510, 1024, 512), 8);
  EXPECT_EQ(panels(1020, 1024, 1536), 8) << "where two would fit, from the shared cache";
  EXPECT_EQ(panels(1020, 784, 1024), 7) << "no fewer divide 49 panels";
}

TEST(PackPanels, PartByPartWhereSomeRowsMeetDeepOnes) {
  Device device = filled();
  device.cores = 1;
  device.streams_at_once = 4;
  device.caches[0].bytes = 4 << 10;
  device.caches[1].bytes = 128 << 10;
  const auto decisions = [&](int m, int n, int k) {
    return testing::decisions_on(testing::matmul(m, n, k, false), device, "");
  };
  const std::string deep = decisions(18, 512, 1040);
  EXPECT_NE(deep.find("take product in parts of 260 steps"), std::string::npos) << deep;
  EXPECT_NE(deep.find("pack groups of panels of b"), std::string::npos) << deep;
  EXPECT_NE(decisions(16, 384, 1031).find("take product in parts of 344 steps"), std::string::npos) << "and of 343";
  const auto has_parts_outside = [&](int m, int n, int k, const Device& on) {
    const std::string text = print(auto_schedule(testing::matmul(m, n, k, false), on));
    const size_t part = text.find("for ko in "), panel = text.find("block b_copy");
    return part != std::string::npos && part < panel && panel != std::string::npos;
  };
  EXPECT_TRUE(has_parts_outside(18, 512, 1040, device));
  EXPECT_TRUE(has_parts_outside(96, 512, 1040, device));
  EXPECT_FALSE(has_parts_outside(102, 512, 1040, device)) << "results come from far away for each part";
  EXPECT_FALSE(has_parts_outside(30, 512, 1024, device)) << "such sums stay whole";
  EXPECT_FALSE(has_parts_outside(30, 256, 1040, device)) << "a part of a panel does not lie scattered";
  Device spare = device;
  spare.issue_width = 8;
  EXPECT_FALSE(has_parts_outside(30, 512, 1040, spare)) << "not timed there";
  Device slots = device;
  slots.issue_width = 4;
  EXPECT_FALSE(has_parts_outside(30, 512, 1040, slots)) << "nor there";
  for (const int cores : {2, 3, 8, 32}) {
    SCOPED_TRACE(cores);
    device.cores = cores;
    const std::string text = print(auto_schedule(testing::matmul(30, 512, 1040, false), device));
    const size_t copy = text.find("block b_copy"), part = text.rfind("for ko in ", copy);
    ASSERT_NE(copy, std::string::npos) << text;
    ASSERT_NE(part, std::string::npos) << text;
    const size_t task = text.rfind("parallel for", part), zeros = text.find("block product_init");
    EXPECT_TRUE(task != std::string::npos && task > zeros) << "cores go through all parts: " << text;
    EXPECT_EQ(text.substr(part, copy - part).find("for i1o in"), std::string::npos)
        << "no panel is packed for each tile of rows: " << text;
  }
}

TEST(PackPanels, InGroupsWhereEachStepIsAShortPieceOfAPage) {
  const auto groups = [](int m, int n, int k, const Device& device) {
    return decides(testing::matmul(m, n, k, false), device, "pack groups of panels of b");
  };
  Device few_slower = slower();
  few_slower.streams_at_once = 4;
  EXPECT_TRUE(groups(32, 1024, 1024, spacious()));
  EXPECT_TRUE(groups(32, 768, 1024, spacious()));
  EXPECT_FALSE(packs(testing::matmul(8, 1024, 1024, false), spacious())) << "tiles wait no longer than a copy would";
  EXPECT_FALSE(packs(testing::matmul(32, 128, 512, false), spacious())) << "it does not lie scattered";
  EXPECT_FALSE(groups(384, 1024, 1024, spacious())) << "many tiles read a panel, whose copy does not matter";
  EXPECT_TRUE(packs(testing::matmul(384, 1024, 1024, false), spacious()));
  EXPECT_TRUE(groups(2048, 2048, 2048, spacious())) << "rows come from beyond the second cache";
  EXPECT_FALSE(packs(testing::matmul(32, 1024, 1024, false), few_slower)) << "multiply-adds cover the wait";
  EXPECT_TRUE(packs(testing::matmul(32, 1024, 4096, false), few_slower)) << "but not that for lines from memory";
}

TEST(PackPanels, InGroupsOfNoMoreThanThereAre) {
  Device single = spacious();
  single.cores = 1;
  const auto decisions = [&](int columns) {
    const std::string dense = print(testing::matmul(32, columns, 1024, false));
    const std::string apart =
        testing::replaced_all(dense, fmt::format("f32[1024, {}]", columns), fmt::format("f32[1024, 64, {}]", columns));
    const Func func = parse_func(testing::replaced_all(apart, "b[vk, vj]", "b[vk, 5, vj]"));
    return std::pair(decides(func, single, "pack panels of b"), decides(func, single, "pack groups of panels of b"));
  };
  EXPECT_EQ(decisions(24), std::pair(true, false));
  EXPECT_EQ(decisions(48), std::pair(false, true));
}

TEST(PackPanels, OneByOneWhereStepsAreNotKnown) {
  const std::string dense = print(testing::matmul(32, 4096, 2048, false));
  const auto replaced = [&](std::string text, const std::string& from, const std::string& to) {
    EXPECT_NE(text.find(from), std::string::npos) << from;
    return testing::replaced_all(std::move(text), from, to);
  };
  std::string text = replaced(dense, "f32[32, 2048]", "f32[32, s]");
  text = replaced(text, "f32[2048, 4096]", "f32[s, 4096]");
  text = replaced(text, "[0, 2048)", "[0, s)");
  text = replaced(text, "out: f32[32, 4096])", "out: f32[32, 4096], s: i64)");
  EXPECT_TRUE(packs(parse_func(text), spacious())) << "what they take is not known";
  text = replaced(text, "stage begin", "stage begin facts {s in [64, 1024]}");
  EXPECT_TRUE(decides(parse_func(text), spacious(), "pack groups of panels of b"));
}

TEST(PackPanels, AskForLinesAheadWhereMultiplicationsLeaveNoTimeToWait) {
  const auto asked = [](int m, int n, int k, const Device& device) {
    return annotations(testing::matmul(m, n, k, false), device, "prefetch_offset: ");
  };
  using Asked = std::vector<std::string>;
  EXPECT_EQ(asked(512, 1000, 1024, lines()), (Asked{"8000", "192"})) << "eight rows of b, four steps of a panel";
  EXPECT_EQ(asked(200, 256, 300, lines()), (Asked{"256"})) << "b stays in the second cache";
  EXPECT_EQ(asked(512, 1000, 1024, slower()), Asked{});
}

TEST(PackPanels, TakeStepsTogetherWhereMultiplicationsFillHalfOfTheSlots) {
  const Func func = testing::matmul(510, 1024, 1024, false);
  EXPECT_TRUE(decides(func, half_lines(), "pack groups of panels of b"));
  EXPECT_EQ(annotations(func, half_lines(), "prefetch_offset: "), (std::vector<std::string>{"8192", "128"}))
      << "eight rows of b, eight steps of a panel";
  EXPECT_NE(print(auto_schedule(func, half_lines())).find("for ko in [0, 256)"), std::string::npos);
  EXPECT_EQ(annotations(func, filled(), "prefetch_offset: "), std::vector<std::string>{"128"}) << "copies have time";
  Device more = half_lines();
  more.issue_width = 8;
  EXPECT_FALSE(decides(func, more, "pack groups of panels of b"));
  EXPECT_EQ(annotations(func, more, "prefetch_offset: "), std::vector<std::string>{});
}

TEST(PackPanels, KeepsResultsOfGroups) {
  Device small = lines();
  small.cores = 2;
  small.caches[0].bytes = 1 << 10;
  small.caches[1].bytes = 8 << 10;
  const std::string dense = print(testing::matmul(132, 256, 8, false));
  const Func apart = parse_func(testing::replaced_all(testing::replaced_all(dense, "f32[8, 256]", "f32[8, 64, 256]"),
                                                      "b[vk, vj]", "b[vk, 5, vj]"));
  const std::string decisions = testing::decisions_on(apart, small, "panels");
  EXPECT_NE(decisions.find("pack groups of panels of b\n"), std::string::npos) << decisions;
  EXPECT_EQ(annotations(apart, small, "prefetch_offset: "), (std::vector<std::string>{"131072", "256"}));
}

TEST(PackPanels, KeepsResultsOfGroupsOfPieces) {
  const std::string dense = print(testing::matmul(33, 100, 40, false));
  const Func apart = parse_func(testing::replaced_all(testing::replaced_all(dense, "f32[40, 100]", "f32[40, 40, 100]"),
                                                      "b[vk, vj]", "b[vk, 5, vj]"));
  const std::string decisions = testing::decisions_on(apart, spacious(), "panels");
  EXPECT_NE(decisions.find("pack groups of panels of b\n"), std::string::npos) << decisions;
}

TEST(PackPanels, OneByOneWhereWindowsReachBeyondTheirEnds) {
  Device small = filled();
  small.cores = 1;
  small.caches[1].bytes = 512 << 10;
  const std::string text = R"(
func conv(x: f32[128, 34, 34], w: f32[36, 128, 3, 3], out: f32[36, 32, 32]) stage begin {
  block root() reads x[..], w[..], out[..] writes out[..] {
    for o in [0, 36) {
      for i in [0, 32) {
        for j in [0, 32) {
          for c in [0, 128) {
            for r in [0, 3) {
              for s in [0, 3) {
                block conv(space vo in [0, 36) = o, space vi in [0, 32) = i, space vj in [0, 32) = j,
                           reduce vc in [0, 128) = c, reduce vr in [0, 3) = r, reduce vs in [0, 3) = s)
                    reads x[vc, vi + vr, vj + vs], w[vo, vc, vr, vs], out[vo, vi, vj] writes out[vo, vi, vj] {
                  reducer (lhs: f32) (rhs: f32) {lhs + rhs} identity {0.0f32}
                  init { out[vo, vi, vj] = 0.0f32 }
                  let l0: f32 = out[vo, vi, vj]
                  let r0: f32 = x[vc, vi + vr, vj + vs] * w[vo, vc, vr, vs]
                  out[vo, vi, vj] = l0 + r0
                }
              }
            }
          }
        }
      }
    }
  }
})";
  EXPECT_TRUE(decides(parse_func(text), small, "pack panels of x"));
  EXPECT_FALSE(decides(parse_func(text), small, "pack groups of panels of x"));
  const std::string down = testing::replaced_all(testing::replaced_all(text, "vj + vs", "vj"), "34]", "32]");
  EXPECT_TRUE(decides(parse_func(down), small, "pack groups of panels of x")) << "columns alone";
}

TEST(PackPanels, LaysGroupsOfConvertedOperandsOutByPanels) {
  Device small = spacious();
  small.caches[0].bytes = 1 << 10;
  small.caches[1].bytes = 8 << 10;
  const Func func = parse_func(R"(
func halves(a: f32[72, 128], b: f16[128, 1024], out: f32[72, 1024]) stage begin {
  block root() reads a[..], b[..] writes out[..] {
    alloc bw: f32[128, 1024]
    for k in [0, 128) { for j in [0, 1024) {
      block b_cast(space vk in [0, 128) = k, space vj in [0, 1024) = j) reads b[vk, vj] writes bw[vk, vj] {
        bw[vk, vj] = cast<f32>(b[vk, vj])
      }
    } }
    for i in [0, 72) { for j in [0, 1024) { for k in [0, 128) {
      block product(space vi in [0, 72) = i, space vj in [0, 1024) = j, reduce vk in [0, 128) = k)
          reads out[vi, vj], a[vi, vk], bw[vk, vj] writes out[vi, vj] {
        reducer (lhs: f32) (rhs: f32) {lhs + rhs} identity {0.0f32}
        init { out[vi, vj] = 0.0f32 }
        let l: f32 = out[vi, vj]
        let r: f32 = a[vi, vk] * bw[vk, vj]
        out[vi, vj] = l + r
      }
    } } }
  }
}
)");
  const std::string decisions = testing::decisions_on(func, small, "panels");
  EXPECT_NE(decisions.find("make bw by panels of 16 for product\n"), std::string::npos) << decisions;
}

TEST(PackPanels, TurnsThemWhereTilesReadThem) {
  const auto under_panels = [](const Func& func, const Device& device) {
    const std::string text = print(auto_schedule(func, device));
    return text.find("for j1o in") < text.find("block b_copy");
  };
  EXPECT_TRUE(under_panels(testing::matmul(128, 1536, 768, true), lines()));
  EXPECT_FALSE(under_panels(testing::matmul(128, 1530, 768, true), lines())) << "the last panel is shorter";
  EXPECT_FALSE(under_panels(testing::matmul(128, 1536, 768, true), slower()));
  Device small = lines();
  small.caches[0].bytes = 1 << 10;
  small.caches[1].bytes = 8 << 10;
  const Func func = testing::matmul(48, 128, 64, true);
  EXPECT_TRUE(under_panels(func, small));
  const std::string decisions = testing::decisions_on(func, small, "b around");
  EXPECT_EQ(decisions, "turn b around for product\n");
}

TEST(PackPanels, KeepsResults) {
  const std::string together = testing::decisions_on(testing::matmul(66, 128, 128, false), half_lines(), "product");
  EXPECT_NE(together.find("6 rows x 2 vectors"), std::string::npos) << together;
  const std::string decisions = testing::decisions_on(testing::matmul(50, 129, 100, false), lines(), "panels");
  EXPECT_NE(decisions.find("pack panels of b\n"), std::string::npos) << decisions;
}

}  // namespace
}  // namespace lathe
