#include <fmt/format.h>

#include "ir/text/parse.h"
#include "ir/visitor.h"
#include "schedule/auto/auto_schedule.h"
#include "schedule/auto/stream_outputs.h"
#include "tests/schedule/auto_support.h"
#include "tests/schedule/support.h"

namespace lathe::testing {
namespace {

/// out = x + 1 over 64 rows of `columns`; `out` is declared as `layout` says.
Func increment(int columns, const std::string& layout) {
  return parse_func(fmt::format(R"(func increment(x: f32[64, {0}], out: f32[64, {0}]{1}) stage begin {{
  block root() reads x[..] writes out[..] {{
    for i in [0, 64) {{ for j in [0, {0}) {{
      block add(space vi in [0, 64) = i, space vj in [0, {0}) = j) reads x[vi, vj] writes out[vi, vj] {{
        out[vi, vj] = x[vi, vj] + 1.0f32 }} }} }} }} }})",
                                columns, layout));
}

/// The last cache has room for what is written and as much again.
Device with_last_cache(Device device, std::int64_t written) {
  device.caches = {{1024, 8, 64, false}, {2 * written, 16, 64, true}};
  return device;
}

/// How many loops of the schedule stream what is stored below them.
int streaming_loops(const Func& func, const Device& device) {
  int found = 0;
  for_each_stmt(auto_schedule(func, device)->body, [&](const Stmt& s) {
    const For* loop = s.as<For>();
    found += loop && loop->annotations.contains("streaming_stores");
  });
  return found;
}

constexpr std::int64_t written = std::int64_t{64} * 256 * 4;

TEST(StreamOutputs, FromHalfTheSizeOfTheLastCacheOn) {
  const Func func = increment(256, " align 64");
  EXPECT_EQ(streaming_loops(func, with_last_cache(wide(), written)), 1);
  EXPECT_EQ(streaming_loops(func, with_last_cache(wide(), written + 1)), 0);
  EXPECT_EQ(least_streamed_bytes(with_last_cache(wide(), written)), written);
  EXPECT_EQ(streaming_loops(func, wide()), 0) << "nothing is known of its caches";
}

TEST(StreamOutputs, OnlyWhatIsCompactAndBeginsWithALine) {
  const Device device = with_last_cache(wide(), written);
  EXPECT_EQ(streaming_loops(increment(256, " align 128"), device), 1);
  EXPECT_EQ(streaming_loops(increment(256, ""), device), 0);
  EXPECT_EQ(streaming_loops(increment(256, " align 32"), device), 0);
  EXPECT_EQ(streaming_loops(increment(256, " strides [512, 1] align 64"), device), 0);
}

TEST(StreamOutputs, NarrowVectorsThatFollowOnFillALine) {
  EXPECT_EQ(streaming_loops(increment(256, " align 64"), with_last_cache(narrow(), written)), 1);
}

/// Two arrays joined along the rows, of which `first` are of the first one, or along the columns.
Func joined(bool rows, int extent, int first) {
  const std::string at = rows ? "vi" : "vj", m = rows ? fmt::format("{}", extent) : "64",
                    n = rows ? "256" : fmt::format("{}", extent);
  return parse_func(
      fmt::format(R"(func joined(x: f32[{0}, {1}], y: f32[{0}, {1}], out: f32[{0}, {1}] align 64) stage begin {{
  block root() reads x[..], y[..] writes out[..] {{
    for i in [0, {0}) {{ for j in [0, {1}) {{
      block join(space vi in [0, {0}) = i, space vj in [0, {1}) = j) reads x[vi, vj], y[vi, vj] writes out[vi, vj] {{
        out[vi, vj] = select({2} < {3}, x[vi, vj if {2} < {3}], y[vi, vj if {2} >= {3}]) }} }} }} }} }})",
                  m, n, at, first));
}

TEST(StreamOutputs, PartsThatBeginWithALineOrAreLong) {
  const Device device = with_last_cache(wide(), written);
  EXPECT_EQ(streaming_loops(joined(true, 64, 24), device), 2);
  expect_scheduled_well(joined(true, 64, 24));
  EXPECT_EQ(streaming_loops(joined(false, 256, 128), device), 2);
  EXPECT_EQ(streaming_loops(joined(false, 256, 120), device), 1) << "halves of rows meet in a line";
  EXPECT_EQ(streaming_loops(joined(false, 264, 128), device), 1) << "every other row begins within a line";
  EXPECT_EQ(streaming_loops(joined(false, 2560, 1244), with_last_cache(wide(), 10 * written)), 2) << "of 78 lines";
}

TEST(StreamOutputs, NotWhatIsReadAgainOrWrittenTwice) {
  const auto twice = [](const std::string& second) {
    return parse_func(R"(func twice(x: f32[64, 256], out: f32[64, 256] align 64, y: f32[64, 256]) stage begin {
  block root() reads x[..], out[..] writes out[..], y[..] {
    for i in [0, 64) { for j in [0, 256) {
      block first(space vi in [0, 64) = i, space vj in [0, 256) = j) reads x[vi, vj] writes out[vi, vj] {
        out[vi, vj] = exp(x[vi, vj]) } } }
    for i1 in [0, 64) { for j1 in [0, 256) {
)" + second + "} } } }");
  };
  const std::string iters = "space vi1 in [0, 64) = i1, space vj1 in [0, 256) = j1";
  const Device device = with_last_cache(wide(), written);
  EXPECT_EQ(streaming_loops(twice("block second(" + iters + ") reads out[vi1, 255 - vj1] writes y[vi1, vj1] {" +
                                  "y[vi1, vj1] = out[vi1, 255 - vj1] * 2.0f32 }"),
                            device),
            0);
  EXPECT_EQ(streaming_loops(twice("block second(" + iters + ") reads x[vi1, vj1] writes out[vi1, vj1] {" +
                                  "out[vi1, vj1] = x[vi1, vj1] * 2.0f32 }"),
                            device),
            0);
  EXPECT_EQ(streaming_loops(twice("block second(" + iters + ") reads x[vi1, vj1] writes y[vi1, vj1] {" +
                                  "y[vi1, vj1] = x[vi1, vj1] * 2.0f32 }"),
                            device),
            1)
      << "y is large as well, but begins anywhere";
}

TEST(StreamOutputs, TheResultStays) {
  const Func func = increment(40, " align 64");
  const Device device = with_last_cache(wide(), std::int64_t{64} * 40 * 4);
  const Func scheduled = auto_schedule(func, device);
  ASSERT_EQ(streaming_loops(func, device), 1);
  expect_same(func, scheduled);
}

}  // namespace
}  // namespace lathe::testing
