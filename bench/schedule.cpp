// The scheduler's own time, on the CPU that kernels are compiled for: how it grows with the number of blocks, and what
// thirty primitives cost. Nothing is compiled.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <ctime>

#include "backends/cpu/cpu.h"
#include "ir/text/parse.h"
#include "jit/trace/ops/ops.h"
#include "schedule/auto/auto_schedule.h"
#include "schedule/primitives/cache_padding.h"
#include "schedule/primitives/cache_read.h"
#include "schedule/primitives/cache_write.h"
#include "schedule/primitives/compute_at.h"
#include "schedule/primitives/decompose_reduction.h"
#include "schedule/primitives/parallel.h"
#include "schedule/primitives/reorder.h"
#include "schedule/primitives/split.h"
#include "schedule/primitives/transform_layout.h"
#include "schedule/primitives/unroll.h"
#include "schedule/primitives/vectorize.h"

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

/// Reductions along rows and what lies between them: compute_at and rfactor, over and over.
Func softmaxes(std::int64_t blocks) {
  const Tensor x = input("x", f32, {index(64), index(256)});
  Tensor y = x;
  for (std::int64_t i = 0; i < blocks / 4; ++i) y = ops::softmax(y);
  return make_func("softmaxes", {x}, {y});
}

/// One of each kind that the phase `schedule` of a compilation is watched for.
Func product(std::int64_t rows) {
  const Tensor a = input("a", f32, {index(rows), index(256)}), b = input("b", f32, {index(256), index(512)});
  return make_func("product", {a, b}, {ops::matmul(a, b)});
}

template <Func (*program)(std::int64_t)>
void schedule(benchmark::State& state) {
  const Func func = program(state.range(0));
  const Device device = host_device();
  time(state, [&] { return auto_schedule(func, device); });
}
BENCHMARK(schedule<chain>)->Name("chain")->Arg(50)->Arg(100)->Arg(200)->Iterations(20)->UseManualTime();
BENCHMARK(schedule<softmaxes>)->Name("softmaxes")->Arg(4)->Arg(50)->Arg(100)->Arg(200)->Iterations(20)->UseManualTime();
BENCHMARK(schedule<product>)->Name("matmul")->Arg(128)->Iterations(100)->UseManualTime();

Func convolution() {
  return parse_func(R"(func convolution(x: f32[64, 56, 56], w: f32[64, 64, 3, 3], y: f32[64, 56, 56]) stage begin {
  block root() reads x[..], w[..] writes y[..] {
    for f in [0, 64) { for i in [0, 56) { for j in [0, 56) { for c in [0, 64) { for r in [0, 3) { for s in [0, 3) {
      block conv(space vf in [0, 64) = f, space vi in [0, 56) = i, space vj in [0, 56) = j,
                 reduce vc in [0, 64) = c, reduce vr in [0, 3) = r, reduce vs in [0, 3) = s)
          reads y[vf, vi, vj], x[vc, vi + vr - 1, vj + vs - 1], w[vf, vc, vr, vs] writes y[vf, vi, vj] {
        reducer (lhs: f32) (rhs: f32) {lhs + rhs} identity {0.0f32}
        init { y[vf, vi, vj] = 0.0f32 }
        let inside: bool = 1 <= vi + vr && vi + vr < 57 && 1 <= vj + vs && vj + vs < 57
        let old: f32 = y[vf, vi, vj]
        let new: f32 = select(inside, x[vc, vi + vr - 1, vj + vs - 1 if inside], 0.0f32) * w[vf, vc, vr, vs]
        y[vf, vi, vj] = old + new } } } } } } } } })");
}

/// The tutorial's convolution (docs/schedules.md) for sixteen lanes, in thirty primitives.
Schedule convolve(const Func& func) {
  Schedule s(func);
  const BlockRef conv{"conv"};
  const auto in_vectors = [&](const LoopRef& loop) {
    const auto [some, lanes] = split(s, loop, 16);
    unroll(s, some);
    vectorize(s, lanes);
  };
  const BlockRef padded = cache_padding(s, conv, "x", "global");
  const BlockRef weights = cache_read(s, conv, "w", "global");
  transform_layout(s, weights, "w_global", parse_layout_map("f, c, r, s -> c, r, s, f"));
  const BlockRef result = cache_write(s, conv, "global");
  transform_layout(s, conv, "y_global", parse_layout_map("f, i, j -> i, j, f"));
  const BlockRef tile = cache_write(s, conv, "register");
  const std::vector<LoopRef> stored = s.loops(result);
  const auto [fo, fi] = split(s, stored[0], 32);
  const auto [jo, ji] = split(s, stored[2], 14);
  reorder(s, {stored[1], jo, fo, fi, ji});
  unroll(s, ji);
  compute_at(s, tile, fo);
  compute_at(s, conv, fo);
  const std::vector<LoopRef> loops = s.loops(conv);  // i, jo, fo, then filters, columns, channels and the window
  reorder(s, {loops[5], loops[6], loops[7], loops[4], loops[3]});
  const BlockRef init = decompose_reduction(s, conv, loops[5]);
  for (const BlockRef& block : {conv, init, tile}) {
    const std::vector<LoopRef> around = s.loops(block);
    unroll(s, around[around.size() - 2]);
    in_vectors(around.back());
  }
  vectorize(s, split(s, s.loops(padded).back(), 16).second);
  parallel(s, s.loops(padded).front());
  parallel(s, s.loops(weights).front());
  return s;
}

void thirty_primitives(benchmark::State& state) {
  const Func func = convolution();
  if (const size_t count = convolve(func).record().size(); count != 30)
    return state.SkipWithError(("the schedule has " + std::to_string(count) + " primitives").c_str());
  time(state, [&] { return convolve(func).func(); });
}
BENCHMARK(thirty_primitives)->Iterations(100)->UseManualTime();

}  // namespace
