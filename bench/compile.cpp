// Call to callable, one core, by phase: each iteration compiles a signature that the process has not seen.
#include <benchmark/benchmark.h>

#include <fmt/format.h>

#include <algorithm>
#include <chrono>

#include "bench/support.h"
#include "jit/cache/epoch.h"
#include "jit/runtime/threads.h"
#include "jit/trace/ops/activation.h"
#include "jit/trace/ops/arithmetic.h"
#include "jit/trace/ops/linear_algebra.h"
#include "jit/trace/ops/normalization.h"

namespace {

using namespace lathe;

/// Compiles `f` for shapes that `shapes(i)` gives, a new one each iteration, and reports the median of each phase and
/// of the whole in ms: p50, beside p10, and the first, which meets cold caches and in a fresh process cold code.
template <class F, class S>
void compile_new(benchmark::State& state, F f, S shapes) {
  set_thread_count(1);
  const Function function = jit(f, "compiled");
  using Clock = std::chrono::steady_clock;
  std::vector<CompileTimes> times;
  std::vector<double> wholes;
  std::int64_t i = 0;
  for (auto _ : state) {
    std::vector<TensorView> inputs;
    std::vector<std::vector<std::int64_t>> dims = shapes(i++);
    inputs.reserve(dims.size());
    for (const auto& shape : dims) {
      // Nothing runs: a pointer that is aligned will do.
      inputs.push_back(
          {reinterpret_cast<void*>(64), f32, static_cast<std::int32_t>(shape.size()), shape.data(), nullptr});
    }
    const EpochGuard guard;
    const auto start = Clock::now();
    times.push_back(function.specialize({}, inputs).kernel->times);
    wholes.push_back(std::chrono::duration<double, std::milli>(Clock::now() - start).count());
  }
  state.counters["first"] = wholes.front();
  std::sort(wholes.begin(), wholes.end());
  state.counters["p10"] = wholes[wholes.size() / 10];
  state.counters["p50"] = wholes[wholes.size() / 2];
  const auto median = [&](double CompileTimes::* phase) {
    std::vector<double> values;
    values.reserve(times.size());
    for (const CompileTimes& t : times) values.push_back(t.*phase);
    std::nth_element(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2), values.end());
    return values[values.size() / 2];
  };
  state.counters["trace"] = median(&CompileTimes::trace);
  state.counters["schedule"] = median(&CompileTimes::schedule);
  state.counters["lower"] = median(&CompileTimes::lower);
  state.counters["emit"] = median(&CompileTimes::emit);
  state.counters["codegen"] = median(&CompileTimes::codegen);
  state.counters["link"] = median(&CompileTimes::link);
}

using Dims = std::vector<std::vector<std::int64_t>>;

void add(benchmark::State& state) {
  compile_new(
      state, [](Tensor a, Tensor b) { return a + b; }, [](std::int64_t i) { return Dims{{1000 + i}, {1000 + i}}; });
}
void gelu_chain(benchmark::State& state) {
  compile_new(
      state, [](Tensor a, Tensor b) { return ops::gelu(a * b + literal(f32, 1.0)); },
      [](std::int64_t i) { return Dims{{64, 100 + i}, {64, 100 + i}}; });
}
void softmax(benchmark::State& state) {
  compile_new(state, [](Tensor x) { return ops::softmax(x); }, [](std::int64_t i) { return Dims{{128, 1000 + i}}; });
}
void softmax_columns(benchmark::State& state) {
  compile_new(
      state, [](Tensor x) { return ops::softmax(x, 0); }, [](std::int64_t i) { return Dims{{1000, 1000 + i}}; });
}
void matmul(benchmark::State& state) {
  compile_new(
      state, [](Tensor a, Tensor b) { return ops::matmul(a, b); },
      [](std::int64_t i) { return Dims{{128, 256 + i}, {256 + i, 512}}; });
}
BENCHMARK(add)->Unit(benchmark::kMillisecond)->Iterations(100);
BENCHMARK(gelu_chain)->Unit(benchmark::kMillisecond)->Iterations(100);
BENCHMARK(softmax)->Unit(benchmark::kMillisecond)->Iterations(100);
BENCHMARK(softmax_columns)->Unit(benchmark::kMillisecond)->Iterations(100);
BENCHMARK(matmul)->Unit(benchmark::kMillisecond)->Iterations(100);

}  // namespace
