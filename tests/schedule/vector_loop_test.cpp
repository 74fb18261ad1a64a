#include <fmt/format.h>

#include <algorithm>

#include "ir/text/parse.h"
#include "ir/visitor.h"
#include "schedule/auto/auto_schedule.h"
#include "tests/schedule/auto_support.h"
#include "tests/schedule/support.h"

namespace lathe::testing {
namespace {

/// out = x + `value` over 4096 elements.
Func elementwise(const std::string& value) {
  return parse_func(fmt::format(R"(func kernel(x: f32[4096], y: f32[4096], out: f32[4096]) stage begin {{
  block root() reads x[..], y[..] writes out[..] {{
    for i in [0, 4096) {{
      block add(space vi in [0, 4096) = i) reads x[vi], y[vi] writes out[vi] {{
        out[vi] = x[vi] + {} }} }} }} }})",
                                value));
}

/// A vector register is a cache line that loads once a cycle; a core's own caches hold `own` bytes.
Device whole_lines(std::int64_t own) {
  Device device = wide();
  device.loads_per_cycle = 1;
  device.caches = {{own, 8, 64, false}, {std::int64_t{1} << 25, 16, 64, true}};
  return device;
}

std::int64_t lanes_of(const Func& func, const Device& device) {
  std::int64_t lanes = 0;
  for_each_stmt(auto_schedule(func, device)->body, [&](const Stmt& s) {
    const For* loop = s.as<For>();
    if (loop && loop->for_kind == ForKind::vectorized) lanes = std::max(lanes, *as_int(loop->extent));
  });
  return lanes;
}

constexpr std::int64_t arrays = std::int64_t{3} * 4096 * 4, small = arrays / 4, large = arrays;

TEST(VectorLoop, StreamsFromBeyondTheOwnCachesInHalvesOfLines) {
  EXPECT_EQ(lanes_of(elementwise("y[vi]"), whole_lines(small)), 8);
  EXPECT_EQ(lanes_of(elementwise("y[vi]"), whole_lines(large)), 16) << "the arrays stay near";
  EXPECT_EQ(lanes_of(elementwise("1.0f32"), whole_lines(small)), 16) << "one array is read alone";
  EXPECT_EQ(lanes_of(elementwise("exp(y[vi])"), whole_lines(small)), 16) << "computing takes longer than loading";
  EXPECT_EQ(lanes_of(elementwise("y[4095 - vi]"), whole_lines(small)), 16) << "one of them is no stream";
}

TEST(VectorLoop, WholeRegistersWhereTheyLoadAtFullRate) {
  Device device = whole_lines(small);
  device.loads_per_cycle = 2;
  EXPECT_EQ(lanes_of(elementwise("y[vi]"), device), 16);
  device = narrow();
  device.loads_per_cycle = 1;
  device.caches = whole_lines(small).caches;
  EXPECT_EQ(lanes_of(elementwise("y[vi]"), device), 4) << "a line is several registers already";
}

TEST(VectorLoop, HalvesComputeTheSame) {
  expect_same(elementwise("y[vi]"), auto_schedule(elementwise("y[vi]"), whole_lines(small)));
}

}  // namespace
}  // namespace lathe::testing
