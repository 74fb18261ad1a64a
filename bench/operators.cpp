// A few operators on one core. GEMM is given as a share of the fma peak that is measured right beside it.
#include <benchmark/benchmark.h>

#include "bench/support.h"
#include "jit/runtime/threads.h"
#include "jit/trace/ops/activation.h"
#include "jit/trace/ops/arithmetic.h"
#include "jit/trace/ops/linear_algebra.h"
#include "jit/trace/ops/normalization.h"
#include "jit/trace/ops/view_shape.h"

namespace {

using namespace lathe;
using bench::Floats;

void gemm(benchmark::State& state, bool transposed) {
  set_thread_count(1);
  const std::int64_t m = state.range(0), n = state.range(1), k = state.range(2);
  const Function f =
      jit([=](Tensor a, Tensor b) { return ops::matmul(a, transposed ? ops::matrix_transpose(b) : b); }, "matmul");
  const Floats a({m, k}), b(transposed ? std::vector<std::int64_t>{n, k} : std::vector<std::int64_t>{k, n}),
      out({m, n});
  f(out.view(), {a.view(), b.view()});
  const double peak_before = bench::fma_peak_gflops();
  for (auto _ : state) f(out.view(), {a.view(), b.view()});
  const double peak = (peak_before + bench::fma_peak_gflops()) / 2;
  const double flops = 2.0 * static_cast<double>(m * n * k) * static_cast<double>(state.iterations());
  state.counters["GFLOP/s"] = benchmark::Counter(flops * 1e-9, benchmark::Counter::kIsRate);
  state.counters["of_fma_peak"] = benchmark::Counter(flops * 1e-9 / peak, benchmark::Counter::kIsRate);
}
BENCHMARK_CAPTURE(gemm, plain, false)
    ->Args({512, 512, 512})
    ->Args({32, 1536, 384})
    ->Args({64, 64, 64})
    ->Args({127, 129, 131});
BENCHMARK_CAPTURE(gemm, b_transposed, true)->Args({512, 512, 512})->Args({32, 1536, 384});

template <class F>
void unary(benchmark::State& state, F f, double passes) {
  set_thread_count(1);
  const Function function = jit(f, "unary");
  const Floats x({state.range(0), state.range(1)}), out({state.range(0), state.range(1)});
  function(out.view(), {x.view()});
  for (auto _ : state) function(out.view(), {x.view()});
  state.counters["GB/s"] = benchmark::Counter(passes * 4 * static_cast<double>(state.range(0) * state.range(1)) * 1e-9 *
                                                  static_cast<double>(state.iterations()),
                                              benchmark::Counter::kIsRate);
}
void softmax(benchmark::State& state) {
  unary(state, [](Tensor x) { return ops::softmax(x); }, 2);
}
void layer_norm(benchmark::State& state) {
  unary(state, [](Tensor x) { return ops::layer_norm(x); }, 2);
}
void gelu(benchmark::State& state) {
  unary(state, [](Tensor x) { return ops::gelu(x); }, 2);
}
void transpose_add(benchmark::State& state) {
  unary(state, [](Tensor x) { return ops::matrix_transpose(x) + x; }, 2);
}
BENCHMARK(softmax)->Args({128, 1024});
BENCHMARK(layer_norm)->Args({512, 768});
BENCHMARK(gelu)->Args({1024, 1024});
BENCHMARK(transpose_add)->Args({1024, 1024});

}  // namespace
