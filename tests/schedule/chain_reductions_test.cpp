#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "ir/passes/compact_buffers.h"
#include "ir/passes/lower_blocks.h"
#include "ir/passes/lower_reductions.h"
#include "ir/passes/mark_shiftable_tiles.h"
#include "ir/passes/partition_loops.h"
#include "ir/passes/place_allocations.h"
#include "ir/text/parse.h"
#include "ir/text/print.h"
#include "schedule/auto/auto_schedule.h"
#include "tests/golden.h"
#include "tests/schedule/support.h"

namespace lathe::testing {
namespace {

Device device() {
  Device device;
  device.name = "device";
  device.vector_bits = 128;
  device.vector_registers = 32;
  device.fused_multiply_add = true;
  return device;
}

/// Rows of v weighted by powers of two of the scores q k, which are whole numbers, so that every sum is exact.
Func chain(int rows, int keys, int width, const std::string& weight = "exp2(s[vi2, vk2] - m[vi2])") {
  return parse_func(fmt::format(
      R"(func chain(q: f32[{0}, 3], k: f32[3, {1}], v: f32[{1}, {2}], out: f32[{0}, {2}]) stage begin {{
  block root() reads q[..], k[..], v[..] writes out[..] {{
    alloc s: f32[{0}, {1}]
    alloc m: f32[{0}]
    alloc p: f32[{0}, {1}]
    for i in [0, {0}) {{ for k0 in [0, {1}) {{ for d in [0, 3) {{
      block score(space vi in [0, {0}) = i, space vk in [0, {1}) = k0, reduce vd in [0, 3) = d)
          reads s[vi, vk], q[vi, vd], k[vd, vk] writes s[vi, vk] {{
        reducer (lhs: f32) (rhs: f32) {{lhs + rhs}} identity {{0.0f32}}
        init {{ s[vi, vk] = 0.0f32 }}
        let l0: f32 = s[vi, vk]
        let r0: f32 = q[vi, vd] * k[vd, vk]
        s[vi, vk] = l0 + r0 }} }} }} }}
    for i1 in [0, {0}) {{ for k1 in [0, {1}) {{
      block most(space vi1 in [0, {0}) = i1, reduce vk1 in [0, {1}) = k1) reads m[vi1], s[vi1, vk1] writes m[vi1] {{
        reducer (lhs1: f32) (rhs1: f32) {{max(lhs1, rhs1)}} identity {{-inf(f32)}}
        init {{ m[vi1] = -inf(f32) }}
        let l1: f32 = m[vi1]
        let r1: f32 = s[vi1, vk1]
        m[vi1] = max(l1, r1) }} }} }}
    for i2 in [0, {0}) {{ for k2 in [0, {1}) {{
      block weigh(space vi2 in [0, {0}) = i2, space vk2 in [0, {1}) = k2) reads m[vi2], s[vi2, vk2] writes p[vi2, vk2] {{
        p[vi2, vk2] = {3} }} }} }}
    for i3 in [0, {0}) {{ for j in [0, {2}) {{ for k3 in [0, {1}) {{
      block mix(space vi3 in [0, {0}) = i3, space vj in [0, {2}) = j, reduce vk3 in [0, {1}) = k3)
          reads out[vi3, vj], p[vi3, vk3], v[vk3, vj] writes out[vi3, vj] {{
        reducer (lhs3: f32) (rhs3: f32) {{lhs3 + rhs3}} identity {{0.0f32}}
        init {{ out[vi3, vj] = 0.0f32 }}
        let l2: f32 = out[vi3, vj]
        let r2: f32 = p[vi3, vk3] * v[vk3, vj]
        out[vi3, vj] = l2 + r2 }} }} }} }} }} }}
)",
      rows, keys, width, weight));
}

Func scheduled(const Func& func, const std::string& decision, const Device& target = device()) {
  ScheduleLog log;
  const Func after = auto_schedule(func, target, &log);
  const bool decided = std::any_of(log.decisions.begin(), log.decisions.end(),
                                   [&](const std::string& line) { return line.starts_with(decision); });
  EXPECT_TRUE(decided) << decision << " is not among\n" << fmt::format("{}", fmt::join(log.decisions, "\n"));
  expect_same(func, after);
  return after;
}

TEST(ChainReductions, RunsInBlocksOfRowsThatHoldAShortAxis) {
  expect_golden(print(scheduled(chain(6, 8, 4), "run mix in blocks of 6 rows")), "auto_chain_rows.tir");
}

TEST(ChainReductions, RunsInBlocksOfALongAxisToo) {
  expect_golden(print(scheduled(chain(70, 640, 4), "run mix in blocks of 35 rows by 160 elements")),
                "auto_chain_axis.tir");
}

TEST(ChainReductions, RoundsWeightsInABlockOfTheirOwn) {
  const std::vector<std::pair<std::string, std::string>> changes = {
      {"v: f32[40, 16]", "v: bf16[40, 16]"},
      {"    alloc p: f32[70, 40]", "    alloc p: f32[70, 40]\n    alloc w: bf16[70, 40]\n    alloc n: f32[70]"},
      {"p[vi3, vk3] * v[vk3, vj]", "cast<f32>(w[vi3, vk3]) * cast<f32>(v[vk3, vj])"},
      {"p[vi3, vk3]", "w[vi3, vk3]"},
      {"    for i3 in [0, 70)", R"(
    for i5 in [0, 70) {
      for k5 in [0, 40) {
        block total(space vi5 in [0, 70) = i5, reduce vk5 in [0, 40) = k5) reads n[vi5], p[vi5, vk5] writes n[vi5] {
          reducer (lhs5: f32) (rhs5: f32) {lhs5 + rhs5} identity {0.0f32}
          init { n[vi5] = 0.0f32 }
          let l5: f32 = n[vi5]
          let r5: f32 = p[vi5, vk5]
          n[vi5] = l5 + r5
        }
      }
    }
    for i4 in [0, 70) {
      for k4 in [0, 40) {
        block round(space vi4 in [0, 70) = i4, space vk4 in [0, 40) = k4) reads p[vi4, vk4], n[vi4] writes w[vi4, vk4] {
          w[vi4, vk4] = cast<bf16>(p[vi4, vk4] / n[vi4])
        }
      }
    }
    for i3 in [0, 70))"}};
  std::string text = print(chain(70, 40, 16));
  for (const auto& [from, to] : changes) {
    const size_t at = text.find(from);
    ASSERT_NE(at, std::string::npos) << from << " is not in\n" << text;
    text.replace(at, from.size(), to);
  }
  const std::string after = print(scheduled(parse_func(text), "run mix in blocks of 35 rows"));
  EXPECT_NE(after.find("cast<f32>(cast<bf16>(p["), std::string::npos) << after;
  EXPECT_EQ(after.find("alloc w: "), std::string::npos) << "rounded where they are widened: " << after;
}

TEST(ChainReductions, LaysKeysOutByThePanelsOfItsTiles) {
  const auto with_rows_of_keys = [](int keys, int rows = 70) {
    std::string text = print(chain(rows, keys, 4));
    for (const auto& [from, to] : {std::pair(fmt::format("k: f32[3, {}]", keys), fmt::format("k: f32[{}, 3]", keys)),
                                   std::pair(std::string("* k[vd, vk]"), std::string("* k[vk, vd]")),
                                   std::pair(std::string(", k[vd, vk]"), std::string(", k[vk, vd]"))}) {
      const size_t at = text.find(from);
      EXPECT_NE(at, std::string::npos) << text;
      if (at != std::string::npos) text.replace(at, from.size(), to);
    }
    return parse_func(text);
  };
  scheduled(with_rows_of_keys(640), "lay k_reindex out by panels of ");
  // Blocks of 167 keys end within a panel.
  const Func ragged = auto_schedule(with_rows_of_keys(4 * 167), device());
  EXPECT_NE(print(ragged).find("alloc k_reindex: f32[3, 668]"), std::string::npos) << print(ragged);
  // Few rows do not make up for that.
  scheduled(with_rows_of_keys(640, 9), "chain reductions around most");
  scheduled(with_rows_of_keys(640, 8), "not chain reductions around most: ");
}

TEST(ChainReductions, TakesStepsTogetherAndWholePanelsWhereMultiplicationsFillHalfOfTheSlots) {
  Device half = device();
  half.vector_bits = 256;
  half.vector_registers = 16;
  half.fma_per_cycle = 2;
  half.caches = {{32 << 10, 8, 64, false}, {1 << 20, 16, 64, false}};
  half.issue_width = 4;
  const Func func = chain(132, 128, 80);
  EXPECT_NE(print(scheduled(func, "tile mix: 4 rows x 2 vectors", half)).find("k3o in [0, 32)"), std::string::npos);
  half.issue_width = 6;
  EXPECT_NE(print(auto_schedule(func, half)).find("k3o in [0, 64)"), std::string::npos);
  half.issue_width = 8;
  EXPECT_EQ(print(auto_schedule(func, half)).find("k3o in [0, 32)"), std::string::npos);
}

TEST(ChainReductions, TakesAnExtremeOfNumbersForNoMask) {
  std::string text = print(chain(70, 640, 4));
  for (const auto& [from, to] : {std::pair("max(lhs1, rhs1)", "select(lhs1 < rhs1, rhs1, lhs1)"),
                                 std::pair("max(l1, r1)", "select(l1 < r1, r1, l1)")}) {
    const size_t at = text.find(from);
    ASSERT_NE(at, std::string::npos) << text;
    text.replace(at, std::string(from).size(), to);
  }
  scheduled(parse_func(text), "run mix in blocks of 35 rows by 160 elements");
}

TEST(ChainReductions, HasOneBodyOfATileWhereRowsAndKeysLeaveARest) {
  // 131 rows have no even blocks: two of 44, and one of 43, whose last tiles are shifted, as is that of 61 keys.
  const Func before = scheduled(chain(131, 61, 16), "run mix in blocks of 44 rows");
  Func after = lower_blocks(lower_reductions(mark_shiftable_tiles(before)));
  after = partition_loops(compact_buffers(place_allocations(after, device())));
  const std::string text = print(after);
  const auto count = [&](const std::string& part) {
    size_t found = 0;
    for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++found;
    return found;
  };
  EXPECT_EQ(count("alloc s_register"), 1) << text;
  EXPECT_EQ(count("alloc out_register"), 1) << text;
  expect_same_results(before, after);
}

TEST(ChainReductions, KeepsTheWholeAxisWhereWeightsDoNotFollowByAFactor) {
  scheduled(chain(70, 640, 4, "s[vi2, vk2] - m[vi2]"), "run mix in blocks of 35 rows");
}

}  // namespace
}  // namespace lathe::testing
