#include "bench/support.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <ctime>
#include <random>

#include "ir/text/parse.h"
#include "jit/compile.h"
#include "jit/runtime/context.h"

namespace lathe::bench {

void Floats::Free::operator()(float* p) const {
  std::free(p);
}

Floats::Floats(std::vector<std::int64_t> shape, unsigned seed) : shape_(std::move(shape)) {
  std::int64_t count = 1;
  for (const std::int64_t extent : shape_) count *= extent;
  data_.reset(static_cast<float*>(std::aligned_alloc(64, static_cast<size_t>((count * 4 + 63) / 64 * 64))));
  std::mt19937 generator(seed);
  std::uniform_real_distribution<float> values(-1, 1);
  for (std::int64_t i = 0; i < count; ++i) data_.get()[i] = values(generator);
}

TensorView Floats::view() const {
  return {data_.get(), f32, static_cast<std::int32_t>(shape_.size()), shape_.data(), nullptr};
}

double thread_seconds() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

double fma_peak_gflops(double milliseconds) {
  const Device& device = compile_device();
  const int lanes = device.lanes(32);
  const int chains = 3 * device.vector_registers / 4;
  const int elements = chains * lanes;
  constexpr std::int64_t steps = 20000;
  const std::string text = fmt::format(
      R"(func fma_peak(x: f32[{0}], out: f32[{0}]) stage begin {{
  block root() {{
    alloc acc: f32[{0}] @register
    block chains() reads x[..], acc[..] writes acc[..], out[..] {{
      unrolled for c in [0, {1}) {{ vectorized for l in [0, {2}) {{ acc[c * {2} + l] = x[c * {2} + l] }} }}
      let factor: f32 = x[0]
      for k in [0, {3}) {{
        unrolled for c in [0, {1}) {{
          vectorized for l in [0, {2}) {{ acc[c * {2} + l] = fma(acc[c * {2} + l], factor, factor) }}
        }}
      }}
      unrolled for c in [0, {1}) {{ vectorized for l in [0, {2}) {{ out[c * {2} + l] = acc[c * {2} + l] }} }}
    }}
  }}
}}
)",
      elements, chains, lanes, steps);
  static const std::shared_ptr<Kernel> kernel = compile(parse_func(text), device, false);
  const Floats x({elements}), out({elements});
  void* buffers[] = {x.data(), out.data()};
  CallContext context(kernel->shared_bytes, kernel->worker_bytes, 1);
  const double start = thread_seconds();
  double best = 0;
  do {
    const double before = thread_seconds();
    kernel->entry(context.get(), buffers, nullptr);
    best = std::max(best, 2.0 * steps * elements / (thread_seconds() - before) * 1e-9);
  } while (thread_seconds() - start < 1e-3 * milliseconds);
  return best;
}

}  // namespace lathe::bench
