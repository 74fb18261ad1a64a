#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "ir/text/parse.h"
#include "ir/text/print.h"
#include "schedule/auto/auto_schedule.h"
#include "tests/golden.h"
#include "tests/schedule/auto_support.h"
#include "tests/schedule/support.h"

namespace lathe::testing {
namespace {

/// out[i, j] = x[j, i] + y[i, j] over m x n, rows of x `pitch` elements long.
Func transpose(int m, int n, int pitch, const char* dtype, const std::string& out = "") {
  return parse_func(fmt::format(
      R"(func transpose(x: {3}[{1}, {2}], y: {3}[{0}, {1}], out: {3}[{0}, {1}]{4}) stage begin {{
  block root() reads x[..], y[..] writes out[..] {{
    for i in [0, {0}) {{ for j in [0, {1}) {{
      block turn(space vi in [0, {0}) = i, space vj in [0, {1}) = j) reads x[vj, vi], y[vi, vj] writes out[vi, vj] {{
        out[vi, vj] = x[vj, vi] + y[vi, vj] }} }} }} }} }})",
      m, n, pitch, dtype, out));
}

/// Thirty-two sets of four ways, and a second cache that nothing here fits.
Device small_caches(std::int64_t last = std::int64_t{1} << 30) {
  Device device = wide();
  device.caches = {{8192, 4, 64, false}, {1024, 8, 64, false}, {last, 16, 64, true}};
  return device;
}

/// out[i, c, j] = x[j, i, c] + y[i, c, j] over m x channels x n.
Func channels_last(int m, int channels, int n) {
  return parse_func(fmt::format(
      R"(func channels_last(x: f32[{2}, {0}, {1}], y: f32[{0}, {1}, {2}], out: f32[{0}, {1}, {2}]) stage begin {{
  block root() reads x[..], y[..] writes out[..] {{
    for i in [0, {0}) {{ for c in [0, {1}) {{ for j in [0, {2}) {{
      block turn(space vi in [0, {0}) = i, space vc in [0, {1}) = c, space vj in [0, {2}) = j)
          reads x[vj, vi, vc], y[vi, vc, vj] writes out[vi, vc, vj] {{
        out[vi, vc, vj] = x[vj, vi, vc] + y[vi, vc, vj] }} }} }} }} }} }})",
      m, channels, n));
}

TEST(TurnSquares, WalkShortAxesThatGoOnAsOne) {
  const auto joins = [](int m, int channels, int n) {
    const std::string decisions = decisions_on(channels_last(m, channels, n), wide(), "turn");
    EXPECT_NE(decisions.find("turn squares of turn"), std::string::npos) << decisions;
    return decisions.find("join the loops of turn that squares walk") != std::string::npos;
  };
  EXPECT_TRUE(joins(30, 4, 40));
  EXPECT_TRUE(joins(30, 3, 40));
  EXPECT_FALSE(joins(30, 8, 40)) << "squares of their own";
}

TEST(TurnSquares, CoresShareOutTheRowsOfWhatIsWritten) {
  const auto shares_rows = [](int m, int n, int cores) {
    const Func func = transpose(m, n, m, "f32");
    Device device = wide();
    device.cores = cores;
    const Func scheduled = auto_schedule(func, device);
    const std::string text = print(scheduled);
    SCOPED_TRACE(text);
    EXPECT_NE(text.find("unrolled for"), std::string::npos) << "squares";
    EXPECT_EQ(text.find("private"), std::string::npos);
    expect_same(func, scheduled);
    // Parts are `io`, and squares within one `iio`.
    const bool parts = text.find("iio") != std::string::npos;
    EXPECT_TRUE(!parts || text.find("parallel for io") != std::string::npos);
    return parts;
  };
  EXPECT_TRUE(shares_rows(256, 192, 2));
  EXPECT_TRUE(shares_rows(251, 200, 2)) << "the last square of either part moves back";
  EXPECT_TRUE(shares_rows(500, 130, 3));
  EXPECT_FALSE(shares_rows(600, 56, 2)) << "squares make up whole rows";
  EXPECT_FALSE(shares_rows(48, 700, 2)) << "parts of a few squares break off what is read";
  EXPECT_FALSE(shares_rows(356, 130, 12)) << "no square would be left for the last";
  EXPECT_FALSE(shares_rows(392, 136, 16)) << "thirteen parts for sixteen cores";
  EXPECT_FALSE(shares_rows(64, 72, 2)) << "one thread";
}

/// out[k, i, c] = x[i, c, k].
TEST(TurnSquares, WalkShortAxesThatAreWrittenAsOne) {
  const auto joins = [](int channels) {
    const Func func = parse_func(fmt::format(R"(func last(x: f32[30, {0}, 40], out: f32[40, 30, {0}]) stage begin {{
  block root() reads x[..] writes out[..] {{
    for k in [0, 40) {{ for i in [0, 30) {{ for c in [0, {0}) {{
      block turn(space vk in [0, 40) = k, space vi in [0, 30) = i, space vc in [0, {0}) = c)
          reads x[vi, vc, vk] writes out[vk, vi, vc] {{
        out[vk, vi, vc] = x[vi, vc, vk] }} }} }} }} }} }})",
                                             channels));
    const std::string decisions = decisions_on(func, wide(), "turn");
    EXPECT_NE(decisions.find("turn squares of turn"), std::string::npos) << decisions;
    return decisions.find("join the loops of turn that squares walk") != std::string::npos;
  };
  EXPECT_TRUE(joins(2));
  EXPECT_TRUE(joins(3));
  EXPECT_FALSE(joins(16)) << "squares of their own";
}

/// out[k, j, c] = x[c, j, k]: no two elements lie side by side in both.
TEST(ScalarCopies, TakeRowsOfAFewElementsAndSomeOfThoseAtOnce) {
  const auto decisions = [](int channels, int rows) {
    const Func func = parse_func(fmt::format(R"(func back(x: f32[{0}, {1}, 20], out: f32[20, {1}, {0}]) stage begin {{
  block root() reads x[..] writes out[..] {{
    for k in [0, 20) {{ for j in [0, {1}) {{ for c in [0, {0}) {{
      block turn(space vk in [0, 20) = k, space vj in [0, {1}) = j, space vc in [0, {0}) = c)
          reads x[vc, vj, vk] writes out[vk, vj, vc] {{
        out[vk, vj, vc] = x[vc, vj, vk] }} }} }} }} }} }})",
                                             channels, rows));
    return decisions_on(func, wide(), "turn");
  };
  const std::string few = decisions(3, 30), short_rows = decisions(3, 10), one = decisions(1, 10);
  EXPECT_TRUE(says(few, "pick 3 of turn at once") && says(few, "pick 4 of turn at once")) << few;
  EXPECT_TRUE(says(short_rows, "pick 3 of turn at once")) << short_rows;
  EXPECT_FALSE(says(short_rows, "pick 4 of turn at once")) << "ten rows of three";
  EXPECT_EQ(one.find("at once"), std::string::npos) << one;
}

TEST(TurnSquares, LeaveLoopsApartThatNoSquaresWalk) {
  const std::string copy = R"(func copy(x: u32[33, 6], out: u32[33, 6] strides [@S]) stage begin {
  block root() reads x[..] writes out[..] {
    for i in [0, 33) { for j in [0, 6) {
      block turn(space vi in [0, 33) = i, space vj in [0, 6) = j) reads x[vi, vj] writes out[vi, vj] {
        out[vi, vj] = x[vi, vj@M] } } } } })";
  const auto joins = [&](const std::string& strides, const std::string& mask) {
    const Func func = parse_func(replaced_all(replaced_all(copy, "@S", strides), "@M", mask));
    ScheduleLog log;
    auto_schedule(func, wide(), &log);
    return std::find(log.decisions.begin(), log.decisions.end(), "join the loops of turn that squares walk") !=
           log.decisions.end();
  };
  EXPECT_FALSE(joins("12, 2", "")) << "nothing is written side by side";
  EXPECT_FALSE(joins("12, 2", " if vi < vj + 1")) << "two axes tell what is read";
  EXPECT_FALSE(joins("6, 1", "")) << "nothing is turned";
}

TEST(TurnTiles, CoresShareOutTheRowsOfWhatIsWritten) {
  const auto parts = [](int m, int cores) {
    const Func func = transpose(m, 512, 512, "f32");
    Device device = small_caches();
    device.cores = cores;
    const Func scheduled = auto_schedule(func, device);
    const std::string text = print(scheduled);
    SCOPED_TRACE(text);
    expect_same(func, scheduled);
    EXPECT_NE(text.find("parallel for"), std::string::npos) << text;
    EXPECT_EQ(text.find("private"), std::string::npos) << text;
    return text.find(fmt::format("* {} + ", m / cores)) != std::string::npos;
  };
  EXPECT_TRUE(parts(512, 4));
  EXPECT_TRUE(parts(448, 2));
  EXPECT_FALSE(parts(400, 2)) << "tiles do not divide a part";
  EXPECT_FALSE(parts(511, 4)) << "a row would be left";
}

TEST(TurnTiles, RowsThatMeetInFewSetsGoThroughABufferOfTheirOwn) {
  ScheduleLog log;
  const Func func = transpose(64, 96, 512, "f32");
  const Func scheduled = auto_schedule(func, small_caches(), &log);
  expect_golden(print(scheduled), "auto_turned_tiles.tir");
  ASSERT_FALSE(log.decisions.empty());
  EXPECT_EQ(log.decisions.front(), "turn tiles of 32x32 of turn over i and j");
  expect_same(func, scheduled);
}

TEST(TurnTiles, RowsThatLieApartStayInSquares) {
  for (const auto& [pitch, tiles] : {std::pair(512, true), {528, false}, {500, false}, {1024, true}, {96, false}}) {
    const std::string decisions = decisions_on(transpose(64, 96, pitch, "f32"), small_caches(), "turn");
    EXPECT_EQ(decisions.find("turn tiles") != std::string::npos, tiles) << pitch << "\n" << decisions;
  }
  Device roomy = small_caches();
  roomy.caches[1].bytes = 1 << 20;
  EXPECT_EQ(decisions_on(transpose(64, 96, 512, "f32"), roomy, "turn").find("turn tiles"), std::string::npos);
}

TEST(TurnTiles, SquaresOfFarRowsAskForTheLinesBehindThem) {
  const auto asks = [](int pitch, std::int64_t own) {
    Device device = small_caches();
    device.caches[0].bytes = own;
    const std::string text = print(auto_schedule(transpose(64, 96, pitch, "f32"), device));
    return text.find("prefetch_cache: 2, prefetch_offset: 64") != std::string::npos;
  };
  EXPECT_TRUE(asks(500, 8192));
  EXPECT_FALSE(asks(500, 96 * 500 * 4 / 4)) << "x is four times a core's own caches, no more";
  EXPECT_FALSE(asks(240, 8192)) << "rows lie less than a KiB apart";
}

TEST(TurnTiles, WholeRowsGoPastTheCaches) {
  const auto tiled = [](int m, int n, std::int64_t last) {
    const Func func = transpose(m, n, m, "f32", " align 64");
    return decisions_on(func, small_caches(last), "turn").find("turn tiles") != std::string::npos;
  };
  EXPECT_TRUE(tiled(48, 64, 2 * 48 * 64 * 4));
  EXPECT_FALSE(tiled(48, 64, 2 * 48 * 64 * 4 + 1024));
  EXPECT_FALSE(tiled(48, 60, 2 * 48 * 60 * 4)) << "its rows begin within lines";
}

TEST(TurnTiles, TilesThatAreNotWholeAreRight) {
  for (const char* dtype : {"f32", "f64", "i16", "u8"}) {
    for (const auto& [m, n] : {std::pair(33, 70), {100, 65}, {64, 17}, {16, 130}, {71, 67}}) {
      SCOPED_TRACE(fmt::format("{} {}x{}", dtype, m, n));
      const Func func = transpose(m, n, 1024, dtype);
      expect_same(func, auto_schedule(func, small_caches()));
    }
  }
}

/// out[i, j] = `value` of x[j, i] and y, over 40 x 72.
Func across(const std::string& value) {
  return parse_func(fmt::format(
      R"(func across(x: f32[72, 40], y: f32[72, 40], z: f32[40, 72], out: f32[40, 72]) stage begin {{
  block root() reads x[..], y[..], z[..] writes out[..] {{
    for i in [0, 40) {{ for j in [0, 72) {{
      block turn(space vi in [0, 40) = i, space vj in [0, 72) = j) reads x[vj, vi], y[vj, vi], z[vi, vj] writes out[vi, vj] {{
        out[vi, vj] = {} }} }} }} }} }})",
      value));
}

TEST(TurnTiles, LongBodiesWalkTilesOfWhatWasTurned) {
  for (const char* value : {"exp(x[vj, vi]) + z[vi, vj]", "exp(x[vj, vi]) * exp(y[vj, vi])", "exp(x[vj, vi])"}) {
    const Func func = across(value);
    const std::string decisions = decisions_on(func, small_caches(), "turn");
    EXPECT_NE(decisions.find("turn tiles"), std::string::npos) << value << "\n" << decisions;
    expect_same(func, auto_schedule(func, small_caches()));
  }
}

TEST(TurnTiles, ResultsThatLieAcrossAllThatIsReadAreTurnedToo) {
  const Func func = across("x[vj, vi] + y[vj, vi]");
  const std::string decisions = decisions_on(func, wide(), "turn");
  EXPECT_NE(decisions.find("turn squares"), std::string::npos) << decisions;
  expect_same(func, auto_schedule(func, wide()));
}

}  // namespace
}  // namespace lathe::testing
