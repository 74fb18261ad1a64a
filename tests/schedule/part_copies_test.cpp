// Copies of operands that do not fit a core's own caches: made part by part, under the loop whose tiles read them.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <string>

#include "ir/text/parse.h"
#include "ir/text/print.h"
#include "schedule/auto/auto_schedule.h"
#include "tests/schedule/auto_support.h"

namespace lathe::testing {
namespace {

/// out[c, i, j] = sum over k of w[i, k] * x[j, c, k], of which x is turned around for vectors along j; where
/// `steps_first` of w[i, k] * x[k, j, c], whose lines each hold parts of several c.
Func products(int batch, int rows, int columns, int steps, bool steps_first = false) {
  const std::string shape =
      fmt::format(fmt::runtime(steps_first ? "{2}, {1}, {0}" : "{1}, {0}, {2}"), batch, columns, steps);
  const std::string place = steps_first ? "vk, vj, vc" : "vj, vc, vk";
  return parse_func(fmt::format(
      R"(func products(w: f32[{1}, {3}], x: f32[{4}], out: f32[{0}, {1}, {2}]) stage begin {{
  for c in [0, {0}) {{ for i in [0, {1}) {{ for j in [0, {2}) {{ for k in [0, {3}) {{
    block sum(space vc in [0, {0}) = c, space vi in [0, {1}) = i, space vj in [0, {2}) = j, reduce vk in [0, {3}) = k)
        reads out[vc, vi, vj], w[vi, vk], x[{5}] writes out[vc, vi, vj] {{
      reducer (lhs: f32) (rhs: f32) {{lhs + rhs}} identity {{0.0f32}}
      init {{ out[vc, vi, vj] = 0.0f32 }}
      let old: f32 = out[vc, vi, vj]
      let term: f32 = w[vi, vk] * x[{5}]
      out[vc, vi, vj] = old + term }} }} }} }} }} }})",
      batch, rows, columns, steps, shape, place));
}

/// Of two cores, each with caches of its own of so many bytes.
Device with_own_caches(std::int64_t bytes) {
  Device device = wide();
  device.cores = 2;
  device.caches = {{bytes / 4, 8, 64, false}, {bytes, 16, 64, false}, {64 * bytes, 16, 64, true}};
  return device;
}

bool copies_by_parts(const Func& func, std::int64_t own_bytes) {
  const std::string decisions = decisions_on(func, with_own_caches(own_bytes), "sum");
  return decisions.find("\ncopy x for sum by ") != std::string::npos || decisions.starts_with("copy x for sum by ");
}

constexpr std::int64_t kib = 1024;

TEST(PartCopies, TurnsAroundWhatEachIterationReads) {
  const Func func = products(41, 31, 48, 16);  // 120 KiB of x, 3 KiB a product
  EXPECT_TRUE(copies_by_parts(func, 64 * kib)) << decisions_on(func, with_own_caches(64 * kib), "x");
  expect_scheduled_well(func);
  const std::string text = print(auto_schedule(func, with_own_caches(64 * kib)));
  EXPECT_EQ(text.find("parallel for"), text.rfind("parallel for")) << "one nest\n" << text;
}

TEST(PartCopies, OnlyOfWhatDoesNotStayNear) {
  const Func func = products(41, 31, 48, 16);
  EXPECT_FALSE(copies_by_parts(func, 256 * kib)) << "all of it does";
  EXPECT_FALSE(copies_by_parts(func, 5 * kib)) << "no part does";
}

TEST(PartCopies, NotOfPiecesOfALine) {
  const Func func = products(41, 31, 48, 16, true);
  EXPECT_FALSE(copies_by_parts(func, 64 * kib));
  expect_scheduled_well(func);
}

}  // namespace
}  // namespace lathe::testing
