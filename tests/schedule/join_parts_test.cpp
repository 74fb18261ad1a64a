#include "schedule/auto/join_parts.h"

#include <fmt/format.h>

#include "ir/text/parse.h"
#include "ir/text/print.h"
#include "schedule/auto/auto_schedule.h"
#include "tests/schedule/auto_support.h"
#include "tests/schedule/support.h"

namespace lathe::testing {
namespace {

/// A first cache of so many bytes, and a second one for each core.
Device with_caches(std::int64_t first, std::int64_t second) {
  Device device = wide();
  device.caches = {{first, 8, 64, false}, {second, 8, 64, false}, {1 << 20, 8, 64, true}};
  return device;
}

bool joins(const Func& func, std::int64_t first = 1 << 12, std::int64_t second = 1 << 13) {
  const std::string decisions = decisions_on(func, with_caches(first, second), "join");
  EXPECT_NE(decisions.find("cut join"), std::string::npos) << decisions;
  return decisions.find("walk the rows of join and ") != std::string::npos;
}

/// 40 rows of a and b, joined along the rows.
Func sides(int left, int right) {
  return parse_func(fmt::format(R"(func sides(a: f32[40, {0}], b: f32[40, {1}], out: f32[40, {2}]) {{
  for i in [0, 40) {{ for j in [0, {2}) {{
    block join(space vi in [0, 40) = i, space vj in [0, {2}) = j) reads a[..], b[..] writes out[vi, vj] {{
      out[vi, vj] = select(vj < {0}, a[vi, vj if vj < {0}], b[vi, vj - {0} if {0} <= vj]) }} }} }} }})",
                                left, right, left + right));
}

/// One below the other.
Func below(int upper, int lower) {
  return parse_func(fmt::format(R"(func below(a: f32[{0}, 40], b: f32[{1}, 40], out: f32[{2}, 40]) {{
  for i in [0, {2}) {{ for j in [0, 40) {{
    block join(space vi in [0, {2}) = i, space vj in [0, 40) = j) reads a[..], b[..] writes out[vi, vj] {{
      out[vi, vj] = select(vi < {0}, a[vi, vj if vi < {0}], b[vi - {0}, vj if {0} <= vi]) }} }} }} }})",
                                upper, lower, upper + lower));
}

TEST(JoinParts, WalksTheSidesOfARowTogether) {
  EXPECT_TRUE(joins(sides(80, 64)));
  EXPECT_TRUE(joins(sides(50, 50))) << "parts of one length";
}

TEST(JoinParts, LeavesWhatStaysInTheFirstCache) {
  EXPECT_FALSE(joins(sides(80, 64), 1 << 15));
}

TEST(JoinParts, LeavesRowsThatDoNotStayInTheCoresOwnCaches) {
  EXPECT_FALSE(joins(sides(600, 500)));
  EXPECT_TRUE(joins(sides(600, 500), 1 << 12, 1 << 15)) << "rows of 8,800 bytes";
}

TEST(JoinParts, LeavesRowsBelowEachOther) {
  EXPECT_FALSE(joins(below(50, 50)));
  EXPECT_FALSE(joins(below(50, 40)));
}

TEST(JoinParts, JoinsAllPartsOfPaddingThatRepeatsTheEdge) {
  const Func func = parse_func(R"(func pad(x: f32[40, 90], out: f32[40, 96]) {
  for i in [0, 40) { for j in [0, 96) {
    block join(space vi in [0, 40) = i, space vj in [0, 96) = j) reads x[vi, ..] writes out[vi, vj] {
      out[vi, vj] = x[vi, min(max(vj - 3, 0), 89)] } } } })");
  EXPECT_TRUE(joins(func));
  const std::string text = print(auto_schedule(func, with_caches(1 << 12, 1 << 13)));
  EXPECT_EQ(text.find("in [0, 40) {"), text.rfind("for i in [0, 40) {") + 6) << text;
}

TEST(CutChoices, LeavesRowsThatTheirDigitsWalk) {
  const Func func = parse_func(R"(func deep(x: f32[40, 2, 2, 64], out: f32[40, 256]) {
  for i in [0, 40) { for j in [0, 256) {
    block join(space vi in [0, 40) = i, space vj in [0, 256) = j) reads x[vi, .., .., ..] writes out[vi, vj] {
      out[vi, vj] = x[vi, vj // 64 % 2, vj // 128, vj % 64] } } } })");
  const std::string decisions = decisions_on(func, wide(), "join");
  EXPECT_EQ(decisions.find("cut join"), std::string::npos) << decisions;
  EXPECT_NE(decisions.find("split j of join by 128"), std::string::npos) << decisions;
}

/// Rows of 40 by `inner` elements, whose places turn by `by`.
Func rolled(int inner, int by) {
  return parse_func(fmt::format(R"(func rolled(x: f32[20, 40, {0}], out: f32[20, 40, {0}]) {{
  for i in [0, 20) {{ for j in [0, 40) {{ for k in [0, {0}) {{
    block join(space vi in [0, 20) = i, space vj in [0, 40) = j, space vk in [0, {0}) = k)
        reads x[vi, .., vk] writes out[vi, vj, vk] {{
      out[vi, vj, vk] = x[vi, (vj + {1}) % 40, vk] }} }} }} }} }})",
                                inner, by));
}

TEST(CutChoices, CutsAroundRowsThatFillNoVector) {
  EXPECT_TRUE(joins(rolled(3, 17)));
  EXPECT_TRUE(joins(rolled(3, 1))) << "an edge of three elements";
  EXPECT_EQ(decisions_on(rolled(64, 17), wide(), "join").find("cut join"), std::string::npos) << "rows of vectors";
}

}  // namespace
}  // namespace lathe::testing
