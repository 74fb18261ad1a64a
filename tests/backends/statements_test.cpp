#include <numeric>

#include "tests/backends/harness.h"

namespace lathe {
namespace {

using namespace testing;

std::vector<float> floats(int count) {
  std::vector<float> result(count);
  for (int i = 0; i < count; ++i) result[i] = 0.37f * static_cast<float>(i % 29) - 3.1f;
  return result;
}

TEST(Statements, AnElementwiseVectorLoopWithAMaskedTail) {
  const Func func = parse_func(R"(
func add(x: f32[n], y: f32[n], out: f32[n], n: i64) stage end facts {n in [0, ]} {
  for i in [0, n // 16) {
    out[ramp(i * 16, 1, 16)] = x[ramp(i * 16, 1, 16)] * y[ramp(i * 16, 1, 16)] + broadcast(1.0f32, 16)
  }
}
)");
  expect_same(func, {bytes_of(floats(64)), bytes_of(floats(64)), bytes_of(floats(64))}, {64});
}

}  // namespace
}  // namespace lathe
