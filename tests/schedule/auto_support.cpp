#include "tests/schedule/auto_support.h"

#include <fmt/format.h>

#include <algorithm>

#include "ir/structural.h"
#include "ir/text/device.h"
#include "ir/text/parse.h"
#include "ir/text/print.h"
#include "schedule/auto/auto_schedule.h"
#include "schedule/record.h"
#include "tests/schedule/support.h"

namespace lathe::testing {
namespace {

/// Does the record make the same of the Func?
void expect_replays(const Func& func, const Func& scheduled, const std::vector<std::string>& record) {
  Schedule again(func);
  replay(again, record);
  EXPECT_TRUE(equal(again.func(), scheduled)) << print(again.func());
}

}  // namespace

Device wide() {
  Device device;
  device.name = "wide";
  device.vector_bits = 512;
  device.vector_registers = 32;
  device.mask_registers = 8;
  device.fused_multiply_add = true;
  device.cores = 4;
  return device;
}

Device narrow() {
  Device device;
  device.name = "narrow";
  device.vector_bits = 128;
  device.vector_registers = 16;
  return device;
}

Func padded_convolution(int channels, int filters, int side, int taps, int apart) {
  const int pad = taps / 2 * apart;
  const std::string inside =
      fmt::format("{0} <= vi + vr * {1} && vi + vr * {1} < {2} && {0} <= vj + vs * {1} && vj + vs * {1} < {2}", pad,
                  apart, side + pad);
  return parse_func(fmt::format(
      R"(func convolution(x: f32[{0}, {2}, {2}], w: f32[{1}, {0}, {3}, {3}], out: f32[{1}, {2}, {2}]) stage begin {{
  for f in [0, {1}) {{ for i in [0, {2}) {{ for j in [0, {2}) {{ for c in [0, {0}) {{ for r in [0, {3}) {{ for s in [0, {3}) {{
    block sum(space vf in [0, {1}) = f, space vi in [0, {2}) = i, space vj in [0, {2}) = j, reduce vc in [0, {0}) = c,
              reduce vr in [0, {3}) = r, reduce vs in [0, {3}) = s)
        reads out[vf, vi, vj], w[vf, vc, vr, vs], x[vc, vi + vr * {5} - {4}, vj + vs * {5} - {4}]
        writes out[vf, vi, vj] {{
      reducer (lhs: f32) (rhs: f32) {{lhs + rhs}} identity {{0.0f32}}
      init {{ out[vf, vi, vj] = 0.0f32 }}
      let old: f32 = out[vf, vi, vj]
      let term: f32 = select({6}, x[vc, vi + vr * {5} - {4}, vj + vs * {5} - {4} if {6}], 0.0f32) * w[vf, vc, vr, vs]
      out[vf, vi, vj] = old + term }} }} }} }} }} }} }} }})",
      channels, filters, side, taps, pad, apart, inside));
}

Device with_caches(std::int64_t own) {
  Device device = fused(wide(), 1);
  device.caches = {{std::int64_t{32} << 10, 8, 64, false}, {own, 8, 64, false}, {std::int64_t{64} << 20, 16, 64, true}};
  return device;
}

Device dotting() {
  return parse_device(R"(device dotting {
  vector_bits 256
  vector_registers 16
  cache {bytes 32768 ways 8 line_bytes 64}
  intrinsic func dot4(a: u8[4], b: i8[4], c: i32[]) {
    for t in [0, 4) { c[] = c[] + cast<i32>(a[t]) * cast<i32>(b[t]) }
  }
})");
}

Func matmul(int m, int n, int k, bool transposed) {
  return parse_func(fmt::format(
      R"(func matmul(a: f32[{0}, {2}], b: f32[{3}], c: f32[{1}], out: f32[{0}, {1}]) stage begin {{
  block root() reads a[..], b[..], c[..] writes out[..] {{
    alloc product: f32[{0}, {1}]
    for i in [0, {0}) {{
      for j in [0, {1}) {{
        for k in [0, {2}) {{
          block product(space vi in [0, {0}) = i, space vj in [0, {1}) = j, reduce vk in [0, {2}) = k)
              reads product[vi, vj], a[vi, vk], b[{4}]
              writes product[vi, vj]
          {{
            reducer (lhs: f32) (rhs: f32) {{lhs + rhs}} identity {{0.0f32}}
            init {{
              product[vi, vj] = 0.0f32
            }}
            let l: f32 = product[vi, vj]
            let r: f32 = a[vi, vk] * b[{4}]
            product[vi, vj] = l + r
          }}
        }}
      }}
    }}
    for i1 in [0, {0}) {{
      for j1 in [0, {1}) {{
        block bias(space vi1 in [0, {0}) = i1, space vj1 in [0, {1}) = j1)
            reads product[vi1, vj1], c[vj1]
            writes out[vi1, vj1]
        {{
          out[vi1, vj1] = max(product[vi1, vj1] + c[vj1], 0.0f32)
        }}
      }}
    }}
  }}
}}
)",
      m, n, k, transposed ? fmt::format("{}, {}", n, k) : fmt::format("{}, {}", k, n),
      transposed ? "vj, vk" : "vk, vj"));
}

std::string replaced_all(std::string text, const std::string& from, const std::string& to) {
  for (size_t at = text.find(from); at != std::string::npos; at = text.find(from, at + to.size()))
    text.replace(at, from.size(), to);
  return text;
}

namespace {

/// out[i, j] = sum over k of `x_at` * y[k, j]; what x and out are declared as, and what follows the buffers.
Func product_of(int m, int n, int k, const std::string& x, const std::string& x_at, const std::string& out,
                const std::string& params = "") {
  return parse_func(fmt::format(
      R"(func product({3}, y: f32[{2}, {1}], {5}{6}) stage begin {{
  for i in [0, {0}) {{ for j in [0, {1}) {{ for k in [0, {2}) {{
    block product(space vi in [0, {0}) = i, space vj in [0, {1}) = j, reduce vk in [0, {2}) = k)
        reads out[vi, vj], {4}, y[vk, vj] writes out[vi, vj] {{
      reducer (lhs: f32) (rhs: f32) {{lhs + rhs}} identity {{0.0f32}}
      init {{ out[vi, vj] = 0.0f32 }}
      let l: f32 = out[vi, vj]
      let r: f32 = {4} * y[vk, vj]
      out[vi, vj] = l + r }} }} }} }} }})",
      m, n, k, x, x_at, out, params));
}

}  // namespace

Func product_of_columns(int m, int n, int k) {
  return product_of(m, n, k, fmt::format("x: f32[{}, {}]", k, m), "x[vk, vi]", fmt::format("out: f32[{}, {}]", m, n));
}

Func product_lying(int m, int n, int k, const std::string& x_strides, const std::string& out_strides,
                   const std::string& params) {
  return product_of(m, n, k, fmt::format("x: f32[{}, {}] {}", m, k, x_strides), "x[vi, vk]",
                    fmt::format("out: f32[{}, {}] {}", m, n, out_strides), params);
}

Device fused(Device device, int per_cycle) {
  device.fused_multiply_add = true;
  device.fma_per_cycle = per_cycle;
  return device;
}

void expect_scheduled_well(const Func& func) {
  for (const Device& device : {wide(), narrow()}) {
    ScheduleLog log;
    const Func scheduled = auto_schedule(func, device, &log);
    expect_same(func, scheduled);
    expect_replays(func, scheduled, log.record);
  }
}

std::string decisions_on(const Func& func, const Device& device, const std::string& block) {
  ScheduleLog log;
  const Func scheduled = auto_schedule(func, device, &log);
  expect_same(func, scheduled);
  expect_replays(func, scheduled, log.record);
  std::string lines;
  for (const std::string& decision : log.decisions) {
    if (decision.find(" " + block) != std::string::npos) lines += decision + "\n";
  }
  return lines;
}

bool decides(const Func& func, const Device& device, const std::string& decision) {
  ScheduleLog log;
  auto_schedule(func, device, &log);
  return std::any_of(log.decisions.begin(), log.decisions.end(),
                     [&](const std::string& taken) { return taken.starts_with(decision); });
}

bool says(const std::string& decisions, const std::string& what) {
  return ("\n" + decisions).find("\n" + what) != std::string::npos;
}

}  // namespace lathe::testing
