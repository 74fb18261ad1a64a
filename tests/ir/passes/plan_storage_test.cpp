// plan_storage for a device that a text describes: spaces of their own, what fits them, and what it says of itself.
#include "ir/passes/plan_storage.h"

#include <gtest/gtest.h>

#include "ir/error.h"
#include "ir/text/device.h"
#include "ir/text/parse.h"
#include "ir/text/print.h"
#include "ir/visitor.h"

namespace lathe {
namespace {

Device two_cores() {
  return parse_device(R"(
device two_cores {
  axis core 2
  space vmem { unit_bits 32 max_simd_bits 1024 capacity_bits 32768 head_address 65536 + core * 4096 reach {core} per core }
  space shared { max_simd_bits 256 capacity_bits 16384 head_address 0 reach {host, core} }
})");
}

/// A chain of `count` buffers of `elements` f32 in `space`, each the reverse of the one before.
std::string chain(const std::string& space, int count, int elements,
                  const std::string& loop = "bound(\"core\") for b in [0, 2)") {
  std::string text = "func f(a: f32[2, N], c: f32[2, N]) stage before_flatten { " + loop + " { block () { ";
  const auto name = [](int k) { return "t" + std::to_string(k); };
  for (int k = 0; k < count; ++k) text += "alloc " + name(k) + ": f32[N] @" + space + " ";
  text += "for i in [0, N) { t0[i] = a[b, i] } ";
  for (int k = 1; k < count; ++k) text += "for i in [0, N) { " + name(k) + "[i] = " + name(k - 1) + "[N - 1 - i] } ";
  text += "for i in [0, N) { c[b, i] = " + name(count - 1) + "[i] } } } }";
  for (size_t at; (at = text.find('N')) != std::string::npos;) text.replace(at, 1, std::to_string(elements));
  return text;
}

template <class F>
std::string refusal(F f) {
  try {
    f();
  } catch (const Refusal& e) {
    return e.what();
  }
  return "no Refusal";
}

std::int64_t attribute(const Func& func, const std::string& name) {
  return std::get<std::int64_t>(func->attrs.at(name));
}

TEST(PlanStorage, LaysADescribedSpaceOutAndSaysHowMuchItUses) {
  StorageReport report;
  const Func planned = plan_storage(parse_func(chain("vmem", 5, 100)), two_cores(), &report);
  // 400 bytes each, two alive at a time; the second begins at a multiple of 1024 bits.
  EXPECT_EQ(attribute(planned, "space_vmem_bytes"), 912);
  EXPECT_EQ(attribute(planned, "shared_bytes"), 0);
  ASSERT_EQ(report.size(), 1u);
  EXPECT_EQ(report[0].space, "vmem");
  EXPECT_EQ(report[0].bytes, 912);
  EXPECT_EQ(report[0].live_bound, 800);
  EXPECT_EQ(report[0].at_peak.size(), 2u);
  EXPECT_TRUE(allocations(planned).empty());
  std::vector<std::string> places;
  for_each_stmt(planned->body, [&](const Stmt& s) {
    const Store* store = s.as<Store>();
    if (!store || store->buffer->space != "vmem") return;
    EXPECT_EQ(store->buffer->alignment, 128);
    EXPECT_EQ(*as_int(store->buffer->offset) * 4 % 128, 0);
  });
}

TEST(PlanStorage, EachSpaceHasAPlanOfItsOwn) {
  const Func func = parse_func(R"(
func f(a: f32[2, 8], c: f32[2, 8]) stage before_flatten {
  block () {
    alloc s: f32[2, 8] @shared
    alloc g: f32[2, 8]
    for i in [0, 2) { for j in [0, 8) { s[i, j] = a[1 - i, j]  g[1 - i, j] = a[i, j] } }
    bound("core") for b in [0, 2) {
      block () {
        alloc v: f32[8] @vmem
        for i in [0, 8) { v[i] = s[b, 7 - i] }
        for i in [0, 8) { c[b, i] = v[7 - i] + g[b, i] }
      }
    }
  }
})");
  StorageReport report;
  const Func planned = plan_storage(func, two_cores(), &report);
  EXPECT_EQ(attribute(planned, "space_shared_bytes"), 64);
  EXPECT_EQ(attribute(planned, "space_vmem_bytes"), 32);
  EXPECT_EQ(attribute(planned, "shared_bytes"), 64);
  EXPECT_EQ(report.size(), 3u);
}

TEST(PlanStorage, ReportsWhatRunsInPlace) {
  StorageReport report;
  plan_storage(
      parse_func("func f(a: f32[8], c: f32[8]) stage before_flatten { block () { alloc t: f32[8] alloc u: f32[8] "
                 "for i in [0, 8) { t[i] = a[7 - i] } for i in [0, 8) { u[i] = t[i] + 1.0f32 } "
                 "for i in [0, 8) { c[i] = u[7 - i] } } }"),
      two_cores(), &report);
  ASSERT_EQ(report.size(), 1u);
  EXPECT_EQ(report[0].in_place, std::vector<std::string>{"u over t"});
  EXPECT_EQ(report[0].bytes, 64);
}

TEST(PlanStorage, ReadsIndicesOfWhichSomePartIsAVector) {
  const Func func = parse_func(R"(func f(x: f32[7, 5], out: f32[7, 5]) stage before_flatten {
  block root() {
    alloc a: f32[7, 5]
    alloc b: f32[7, 5]
    for i in [0, 7) { for j in [0, 5) { a[i, j] = x[i, j] } }
    for o in [0, 2) {
      b[ramp(o * 16, 1, 16) // 5i64x16, ramp(o, 1, 16) % 5i64x16] =
          sqrt(a[ramp(o * 16, 1, 16) // 5i64x16, ramp(o, 1, 16) % 5i64x16])
    }
    for i1 in [0, 7) { for j1 in [0, 5) { out[i1, j1] = b[i1, j1] } }
  } })");
  // Side by side: what such vectors touch is not told apart.
  EXPECT_EQ(attribute(plan_storage(func, two_cores()), "shared_bytes"), 2 * 192);
}

TEST(PlanStorage, AnOverflowNamesTheSpaceItsSizeAndWhatIsAlive) {
  EXPECT_EQ(
      refusal([] { plan_storage(parse_func(chain("vmem", 3, 600)), two_cores()); }),
      "plan_storage refused: condition 4, what a space is planned to hold fits it: space vmem has 4096 bytes, 4800 "
      "are needed; alive at the peak: t0 (2400 bytes), t1 (2400 bytes)");
  // 510 elements are 2040 bytes: two of them fit, and so do two of 512.
  EXPECT_EQ(attribute(plan_storage(parse_func(chain("vmem", 3, 512)), two_cores()), "space_vmem_bytes"), 4096);
  // Fewer bytes than there are, but alignment takes the rest.
  EXPECT_EQ(
      refusal([] {
        plan_storage(parse_func(chain("vmem", 3, 511)), [] {
          Device device = two_cores();
          device.spaces[0].capacity_bits = 8 * 4090;
          device.spaces[0].unit_bits = 8;
          return device;
        }());
      }),
      "plan_storage refused: condition 4, what a space is planned to hold fits it: space vmem has 4090 bytes, 4092 "
      "are needed as laid out for 4088 that are alive at once; alive at the peak: t0 (2044 bytes), t1 (2044 bytes)");
}

TEST(PlanStorage, RefusesASpaceThatTheDeviceDoesNotHave) {
  EXPECT_EQ(
      refusal([] { plan_storage(parse_func(chain("vmen", 2, 8)), two_cores()); }),
      "plan_storage refused: condition 2, each allocation lies in a space of the device: buffer t0: unknown space "
      "'vmen'; did you mean 'vmem'? known: vmem, shared, global, worker, register, constant");
}

TEST(PlanStorage, RefusesAMemoryThatIterationsWouldShare) {
  const std::string condition =
      "plan_storage refused: condition 3, an allocation has a memory of its own in each iteration that has the "
      "allocation: buffer t0 is allocated ";
  EXPECT_EQ(refusal([] { plan_storage(parse_func(chain("vmem", 2, 8, "for b in [0, 2)")), two_cores()); }),
            condition + "in no loop along an axis, and space vmem exists per core");
  EXPECT_EQ(refusal([] { plan_storage(parse_func(chain("shared", 2, 8)), two_cores()); }),
            condition + "in a loop along core, and space shared exists once");
  EXPECT_EQ(refusal([] { plan_storage(parse_func(chain("shared", 2, 8, "parallel for b in [0, 2)")), two_cores()); }),
            condition + "in a parallel loop, and space shared exists once");
}

}  // namespace
}  // namespace lathe
