// The scheduler's own time, on the CPU that kernels are compiled for: how it grows with the number of blocks, and what
// thirty primitives cost. Nothing is compiled.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <ctime>

#include "backends/cpu/cpu.h"
#include "jit/trace/ops/ops.h"
#include "schedule/auto/auto_schedule.h"

namespace {

using namespace lathe;

double thread_milliseconds() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return 1e3 * static_cast<double>(now.tv_sec) + 1e-6 * static_cast<double>(now.tv_nsec);
}

/// Runs `f` once an iteration, and reports the median and the tenth percentile of this thread's own time in ms.
template <class F>
void time(benchmark::State& state, const F& f) {
  std::vector<double> samples;
  for (auto _ : state) {
    const double start = thread_milliseconds();
    benchmark::DoNotOptimize(f());
    samples.push_back(thread_milliseconds() - start);
    state.SetIterationTime(1e-3 * samples.back());
  }
  std::sort(samples.begin(), samples.end());
  state.counters["p10"] = samples[samples.size() / 10];
  state.counters["p50"] = samples[samples.size() / 2];
}

/// So many element-wise operators one after another, each read twice.
Func chain(std::int64_t blocks) {
  const Tensor x = input("x", f32, {index(64), index(256)});
  Tensor y = x;
  for (std::int64_t i = 0; i < blocks; ++i) y = i % 2 ? y + x : y * literal(f32, 0.5);
  return make_func("chain", {x}, {y});
}

void elementwise_chain(benchmark::State& state) {
  const Func func = chain(state.range(0));
  time(state, [&] { return auto_schedule(func, host_device()); });
}
BENCHMARK(elementwise_chain)->Arg(50)->Arg(100)->Arg(200)->Iterations(20)->UseManualTime();

}  // namespace
