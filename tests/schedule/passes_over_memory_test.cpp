/// What the automatic scheduler does about arrays that leave the caches between two passes over them.
#include <fmt/format.h>

#include "ir/text/parse.h"
#include "ir/visitor.h"
#include "schedule/auto/auto_schedule.h"
#include "tests/schedule/auto_support.h"
#include "tests/schedule/support.h"

namespace lathe::testing {
namespace {

/// A softmax to base 2, whose sums are exact, over the last axis or over the first one.
Func softmax(int rows, int columns, bool last) {
  std::string text = R"(func softmax(x: f32[@M, @N], out: f32[@M, @N]) stage begin {
  block root() reads x[..] writes out[..] {
    alloc m: f32[@K]
    alloc e: f32[@M, @N]
    alloc t: f32[@K]
    for i in [0, @M) { for j in [0, @N) {
      block greatest(@I in [0, @M) = i, @J in [0, @N) = j) reads m[@V], x[vi, vj] writes m[@V] {
        reducer (lhs: f32) (rhs: f32) {select(lhs < rhs, rhs, lhs)} identity {-inf(f32)}
        init { m[@V] = -inf(f32) }
        let old: f32 = m[@V]
        let new: f32 = x[vi, vj]
        m[@V] = select(old < new, new, old) } } }
    for i in [0, @M) { for j in [0, @N) {
      block power(space vi in [0, @M) = i, space vj in [0, @N) = j) reads m[@V], x[vi, vj] writes e[vi, vj] {
        e[vi, vj] = exp2(at_most(x[vi, vj] - m[@V], 0.0f32)) } } }
    for i in [0, @M) { for j in [0, @N) {
      block total(@I in [0, @M) = i, @J in [0, @N) = j) reads t[@V], e[vi, vj] writes t[@V] {
        reducer (lhs: f32) (rhs: f32) {lhs + rhs} identity {0.0f32}
        init { t[@V] = 0.0f32 }
        let old: f32 = t[@V]
        let new: f32 = e[vi, vj]
        t[@V] = old + new } } }
    for i in [0, @M) { for j in [0, @N) {
      block share(space vi in [0, @M) = i, space vj in [0, @N) = j) reads e[vi, vj], t[@V] writes out[vi, vj] {
        out[vi, vj] = e[vi, vj] / t[@V] } } } } })";
  const auto put = [&](const std::string& mark, const std::string& value) {
    for (size_t at = text.find(mark); at != std::string::npos; at = text.find(mark))
      text.replace(at, mark.size(), value);
  };
  put("@M", fmt::format("{}", rows));
  put("@N", fmt::format("{}", columns));
  put("@K", fmt::format("{}", last ? rows : columns));
  put("@I", last ? "space vi" : "reduce vi");
  put("@J", last ? "reduce vj" : "space vj");
  put("@V", last ? "vi" : "vj");
  return parse_func(text);
}

/// A core has the first cache for itself, and its share of the last one.
Device with_caches(std::int64_t own, std::int64_t share) {
  Device device = wide();
  device.caches = {{own, 8, 64, false}, {share * device.cores, 16, 64, true}};
  return device;
}

constexpr std::int64_t large = 1 << 20;

/// Annotations by that name, each with its number.
std::vector<std::int64_t> annotated(const Func& func, const Device& device, const char* name) {
  std::vector<std::int64_t> found;
  for_each_stmt(auto_schedule(func, device)->body, [&](const Stmt& s) {
    const For* loop = s.as<For>();
    if (loop && loop->annotations.contains(name)) found.push_back(std::get<std::int64_t>(loop->annotations.at(name)));
  });
  return found;
}

TEST(PrefetchRows, ACostlyPassAsksForTheNextRow) {
  const Func func = softmax(6, 1100, true);
  const Device device = with_caches(16 << 10, large);
  EXPECT_TRUE(says(decisions_on(func, device, "power"), "have power ask for x 1100 elements ahead"));
  EXPECT_EQ(annotated(func, device, "prefetch_offset"), std::vector<std::int64_t>{1100});
  EXPECT_EQ(annotated(func, device, "prefetch_cache"), std::vector<std::int64_t>{2});
}

TEST(PrefetchRows, OnlyForLongRowsOfWhatDoesNotStayNear) {
  const auto asks = [](const Func& func, const Device& device) {
    return !annotated(func, device, "prefetch_offset").empty();
  };
  const Func func = softmax(6, 1100, true);
  EXPECT_FALSE(asks(func, with_caches(6 * 1100 * 4, large))) << "all of it fits a core's own cache";
  EXPECT_FALSE(asks(func, with_caches(2 * 1100 * 4 - 1, large))) << "two rows do not";
  EXPECT_FALSE(asks(func, wide())) << "nothing is known of its caches";
  EXPECT_FALSE(asks(softmax(12, 1024, true), with_caches(16 << 10, large))) << "a row is no longer than a page";
  EXPECT_TRUE(asks(softmax(12, 1025, true), with_caches(16 << 10, large)));
}

TEST(PrefetchRows, IntoTheFirstCacheWhereHardwareBringsRowsNoNearerThanTheSecond) {
  const auto caches_asked = [](const Func& func, std::int64_t first, std::int64_t last) {
    Device device = wide();
    device.caches = {{first, 8, 64, false}, {32 << 10, 8, 64, false}, {last, 16, 64, true}};
    return annotated(func, device, "prefetch_cache");
  };
  EXPECT_EQ(caches_asked(softmax(60, 900, true), 16 << 10, large), std::vector<std::int64_t>{1});
  EXPECT_TRUE(caches_asked(softmax(60, 900, true), 12 << 10, large).empty()) << "four rows do not fit the first cache";
  EXPECT_TRUE(caches_asked(softmax(60, 900, true), 16 << 10, 512 << 10).empty()) << "the array leaves the last one";
  EXPECT_TRUE(caches_asked(softmax(60, 1024, true), 16 << 10, large).empty()) << "rows meet in the same sets";
  EXPECT_TRUE(caches_asked(softmax(400, 300, true), 16 << 10, large).empty()) << "of few lines";
}

TEST(PrefetchRows, ReductionsOfRowsThatStreamByAskForTheNextOnes) {
  // A reduction takes up eight rows at a time; the pass behind both reads row after row, with their results anew.
  constexpr std::int64_t half = 120 << 10;  // of what all cores read
  const std::vector<std::int64_t> rows = {8 * 1100, 8 * 1100, 1100};
  EXPECT_EQ(annotated(softmax(64, 1100, false), with_caches(160 << 10, half), "prefetch_offset"), rows);
  EXPECT_TRUE(annotated(softmax(64, 1100, false), with_caches(64 * 1100 * 4, half), "prefetch_offset").empty())
      << "all of it fits a core's own cache";
  EXPECT_TRUE(annotated(softmax(64, 1024, false), with_caches(15 << 10, half), "prefetch_offset").empty())
      << "a row takes more than a quarter of that cache";
  EXPECT_TRUE(annotated(softmax(640, 120, false), with_caches(64 << 10, half), "prefetch_offset").empty())
      << "rows of less than a page, and steps that hardware follows";
  EXPECT_TRUE(annotated(softmax(64, 1100, false), with_caches(160 << 10, 141 << 10), "prefetch_offset").empty())
      << "the last cache holds twice as much";
}

TEST(StreamRows, TakesFewerVectorsAtATimeOfWhatOverlapsWithout) {
  const Func func = softmax(64, 1100, false);
  const Device device = with_caches(160 << 10, large);
  EXPECT_TRUE(says(decisions_on(func, device, "greatest"), "stream greatest: 1 rows x 2 vectors"));
  EXPECT_TRUE(says(decisions_on(func, device, "total"), "stream total: 1 rows x 1 vectors")) << "of exponentials";
}

TEST(StreamRows, SharesColumnsOutAlikeWhereTilesAreNotAsWide) {
  const Func func = softmax(513, 777, false);
  Device device = with_caches(160 << 10, large);
  device.cores = 2;
  const auto says_of = [&](const char* block, const char* what) {
    EXPECT_TRUE(decides(func, device, fmt::format("stream {}: {} vectors of 16 lanes in blocks of 416", block, what)));
  };
  says_of("greatest", "1 rows x 2");
  says_of("total", "1 rows x 1");
  EXPECT_FALSE(decides(func, device, "not parallel over ")) << "a core would read maxima of the other";
}

TEST(InlineElementwise, ComputesAgainWhatWouldPassOverMemory) {
  const Func first = softmax(40, 64, false), last = softmax(40, 64, true);
  constexpr std::int64_t bytes = std::int64_t{40} * 64 * 4;
  EXPECT_TRUE(says(decisions_on(first, with_caches(1024, bytes - 1), "power"), "inline power"));
  EXPECT_TRUE(says(decisions_on(first, with_caches(bytes - 1, large), "power"), "inline power"))
      << "passing over the last cache takes longer than an exponential";
  EXPECT_TRUE(says(decisions_on(first, with_caches(bytes, large), "power"), "keep power: inlined it would cost"));
  EXPECT_TRUE(says(decisions_on(last, with_caches(1024, bytes - 1), "power"), "keep power: inlined it would cost"))
      << "one row at a time stays near";
  EXPECT_TRUE(says(decisions_on(last, with_caches(128, 255), "power"), "inline power")) << "not even a row does";
}

TEST(PassesOverMemory, ShareLinesBetweenRowsWhereNoVectorsAreWorthIt) {
  // Rows of three elements, each in a plane of its own.
  const Func func = parse_func(R"(func turned(x: f32[3, 40, 36], y: f32[36, 40, 3], out: f32[36, 40, 3]) stage begin {
  for i in [0, 36) { for j in [0, 40) { for k in [0, 3) {
    block turned(space vi in [0, 36) = i, space vj in [0, 40) = j, space vk in [0, 3) = k)
        reads x[vk, vj, vi], y[vi, vj, vk] writes out[vi, vj, vk] {
      out[vi, vj, vk] = x[vk, vj, vi] + y[vi, vj, vk] } } } } })");
  Device device = wide();
  device.caches = {{1 << 10, 8, 64, false}, {4 << 10, 8, 64, false}};
  const std::string decisions = decisions_on(func, device, "turned");
  EXPECT_NE(decisions.find("share lines of x between 16 rows of turned\n"), std::string::npos) << decisions;
  expect_same_results(func, auto_schedule(func, device));
  device.caches[1].bytes = 1 << 20;
  EXPECT_EQ(decisions_on(func, device, "turned").find("share lines"), std::string::npos) << "all of it stays near";
}

}  // namespace
}  // namespace lathe::testing
