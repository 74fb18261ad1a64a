#include <fmt/format.h>
#include <gtest/gtest.h>

#include <random>

#include "ir/text/parse.h"
#include "ir/text/print.h"
#include "jit/compile.h"
#include "jit/runtime/context.h"
#include "schedule/auto/auto_schedule.h"

namespace lathe {
namespace {

/// out[b] = x[b] y for each of a batch.
Func products(int batch, int m, int n, int k) {
  return parse_func(fmt::format(
      R"(func products(x: f32[{0}, {1}, {3}], y: f32[{3}, {2}], out: f32[{0}, {1}, {2}]) stage begin {{
  for b in [0, {0}) {{ for i in [0, {1}) {{ for j in [0, {2}) {{ for r in [0, {3}) {{
    block product(space vb in [0, {0}) = b, space vi in [0, {1}) = i, space vj in [0, {2}) = j, reduce vr in [0, {3}) = r)
        reads out[vb, vi, vj], x[vb, vi, vr], y[vr, vj] writes out[vb, vi, vj] {{
      reducer (lhs: f32) (rhs: f32) {{lhs + rhs}} identity {{0.0f32}}
      init {{ out[vb, vi, vj] = 0.0f32 }}
      let l: f32 = out[vb, vi, vj]
      let t: f32 = x[vb, vi, vr] * y[vr, vj]
      out[vb, vi, vj] = l + t
    }} }} }} }} }} }})",
      batch, m, n, k));
}

/// What the kernel for a machine of so many cores computes on so many threads.
std::vector<float> run(const Func& func, int cores, int threads, const std::vector<float>& x,
                       const std::vector<float>& y, size_t size) {
  Device device = compile_device();
  device.cores = cores;
  const std::shared_ptr<Kernel> kernel = compile(func, device, true);
  std::vector<float> out(size, -1);
  void* arrays[] = {const_cast<float*>(x.data()), const_cast<float*>(y.data()), out.data()};
  CallContext context(kernel->shared_bytes, kernel->worker_bytes, threads);
  EXPECT_EQ(kernel->entry(context.get(), arrays, nullptr), LATHE_OK);
  return out;
}

/// Rows below packed panels become parts that cores share, also where no panel, tile or part is whole: bit for bit what
/// one core computes.
TEST(ManyCores, ComputeWhatOneDoes) {
  std::mt19937 random(1);
  std::uniform_real_distribution<float> between(-1, 1);
  const int shapes[][4] = {{1, 512, 512, 300}, {1, 254, 200, 600}, {1, 1000, 130, 331}, {3, 96, 640, 513}};
  for (const auto& [batch, m, n, k] : shapes) {
    SCOPED_TRACE(fmt::format("{} of {} x {} x {}", batch, m, n, k));
    const Func func = products(batch, m, n, k);
    const size_t size = static_cast<size_t>(batch) * static_cast<size_t>(m) * static_cast<size_t>(n);
    std::vector<float> x(size / static_cast<size_t>(n) * static_cast<size_t>(k)),
        y(static_cast<size_t>(k) * static_cast<size_t>(n));
    for (std::vector<float>* values : {&x, &y})
      for (float& value : *values) value = between(random);
    const std::vector<float> one = run(func, 1, 1, x, y, size);
    for (const int cores : {3, 16, 64})
      for (const int threads : {1, 4}) EXPECT_EQ(run(func, cores, threads, x, y, size), one) << cores << " cores";
  }
}

}  // namespace
}  // namespace lathe
