/// Random programs of the fuzzers' generator: what their schedules take to make, and whether the kernels are ever
/// slower than those of the same programs without a schedule.
///
///     bench_programs [COUNT [FIRST [STAGE]]]
///
/// With a stage (traced, scheduled, .., asm) the text of each program is printed too.
///
/// CPU time of one thread. The two kernels run by turns on the same arrays, in batches of 20 µs at least; the quickest
/// batch of each counts, so that other work on the machine does not. A program that comes out slower is timed anew with
/// more rounds before it is called so.
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <time.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <limits>
#include <memory>
#include <string>
#include <tuple>
#include <vector>

#include "ir/error.h"
#include "jit/compile.h"
#include "jit/runtime/context.h"
#include "tests/fuzz/generator.h"

namespace lathe::testing {
namespace {

/// Bytes around each array: masked lanes that reach into a page that faults would cost a quarter of a microsecond, and
/// no array of a real program lies there.
constexpr std::ptrdiff_t around = 4096;
constexpr double batch_seconds = 20e-6;
/// What a pair of kernels of the same loops differs by, for where their code and its constants happen to lie.
constexpr double noise = 1.1;
/// Below this, a call of a kernel is measured more than its loops are.
constexpr double least_nanoseconds = 100;

double thread_seconds() {
  timespec now;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

class Run {
 public:
  Run(const GeneratedProgram& program, const Kernel& scheduled, const Kernel& plain) : scalars_(program.scalars) {
    const std::vector<GuardedArray> arrays = make_arrays(program, Against::low);
    for (size_t k = 0; k < arrays.size(); ++k) {
      const Parameter& p = program.parameters[k];
      std::vector<std::byte>& memory = memories_.emplace_back(around + (arrays[k].end() - arrays[k].begin()) + around);
      std::copy(arrays[k].begin(), arrays[k].end(), memory.begin() + around);
      pointers_.push_back(memory.data() + around + (static_cast<std::byte*>(arrays[k].data()) - arrays[k].begin()) -
                          p.layout.offset * p.dtype.bytes());
    }
    kernels_[0] = &scheduled;
    kernels_[1] = &plain;
  }

  /// Stops the kernel with an index out of range, or so: nothing to time.
  bool fails() { return call(0, 1) != LATHE_OK; }

  /// Seconds of a call of each, the better of `rounds`.
  std::pair<double, double> time(int rounds) {
    double best[2] = {std::numeric_limits<double>::infinity(), std::numeric_limits<double>::infinity()};
    int calls[2];
    for (const int which : {0, 1}) {
      calls[which] = 1;
      while (true) {
        const double start = thread_seconds();
        call(which, calls[which]);
        const double seconds = thread_seconds() - start;
        if (seconds >= batch_seconds) break;
        calls[which] *= seconds > 0 ? std::clamp(static_cast<int>(1.2 * batch_seconds / seconds), 2, 100) : 100;
      }
    }
    for (int round = 0; round < rounds; ++round) {
      for (const int which : {round & 1, 1 - (round & 1)}) {
        const double start = thread_seconds();
        call(which, calls[which]);
        best[which] = std::min(best[which], (thread_seconds() - start) / calls[which]);
      }
    }
    return {best[0], best[1]};
  }

 private:
  std::int32_t call(int which, int times) {
    const Kernel& kernel = *kernels_[which];
    CallContext context(kernel.shared_bytes, kernel.worker_bytes, 1);
    std::int32_t status = LATHE_OK;
    for (int k = 0; k < times; ++k) status = kernel.entry(context.get(), pointers_.data(), scalars_.data());
    return status;
  }

  const std::vector<std::int64_t> scalars_;
  std::vector<std::vector<std::byte>> memories_;
  std::vector<void*> pointers_;
  const Kernel* kernels_[2];
};

struct Slower {
  std::uint64_t seed;
  size_t run;
  double seconds, ratio;
  std::string operators;
};

double quantile(const std::vector<double>& ordered, double q) {
  return ordered[static_cast<size_t>(q * static_cast<double>(ordered.size() - 1))];
}

}  // namespace

int time_programs(std::uint64_t count, std::uint64_t first, const char* stage) {
  std::vector<double> schedule_ms, ratios;
  std::vector<Slower> slower;
  size_t refused = 0;
  for (std::uint64_t seed = first; seed < first + count; ++seed) {
    const GeneratedProgram program = generate(seed);
    std::shared_ptr<Kernel> scheduled, plain;
    try {
      scheduled = compile(program.func, compile_device(), true);
      plain = compile(program.func, compile_device(), false);
    } catch (const Error& error) {
      ++refused;
      fmt::print("seed {}: {}\n", seed, error.what());
      continue;
    }
    schedule_ms.push_back(scheduled->times.schedule);
    if (stage) fmt::print("{}\n", stage_text(program.func, compile_device(), stage));
    for (size_t k = 0; k < program.runs.size(); ++k) {
      const GeneratedProgram one = with_run(program, k);
      Run run(one, *scheduled, *plain);
      if (run.fails()) continue;
      auto [with, without] = run.time(5);
      if (with > noise * without) std::tie(with, without) = run.time(101);
      ratios.push_back(without / with);
      if (with > noise * without && 1e9 * with > least_nanoseconds)
        slower.push_back({seed, k, with, without / with, fmt::format("{}", fmt::join(one.operators, ", "))});
    }
  }
  std::sort(schedule_ms.begin(), schedule_ms.end());
  double logarithms = 0;
  for (const double ratio : ratios) logarithms += std::log(ratio);
  std::sort(ratios.begin(), ratios.end());
  std::sort(slower.begin(), slower.end(), [](const Slower& a, const Slower& b) { return a.ratio < b.ratio; });
  fmt::print("{} random programs scheduled, {} refused: p50 {:.2f}, p99 {:.2f}, most {:.1f} ms\n", schedule_ms.size(),
             refused, quantile(schedule_ms, 0.5), quantile(schedule_ms, 0.99), schedule_ms.back());
  fmt::print("{} runs, how much faster than without a schedule: geometric mean {:.2f}, p1 {:.2f}, least {:.2f}\n",
             ratios.size(), std::exp(logarithms / static_cast<double>(ratios.size())), quantile(ratios, 0.01),
             ratios[0]);
  fmt::print("slower by more than a tenth, of over {:.0f} ns: {}\n", least_nanoseconds, slower.size());
  for (size_t k = 0; k < std::min<size_t>(slower.size(), 20); ++k) {
    const Slower& s = slower[k];
    fmt::print("  {:.2f}  seed {} run {}: {:.0f} ns  {}\n", s.ratio, s.seed, s.run, 1e9 * s.seconds, s.operators);
  }
  return 0;
}

}  // namespace lathe::testing

int main(int argc, char** argv) {
  return lathe::testing::time_programs(argc > 1 ? std::strtoull(argv[1], nullptr, 10) : 5000,
                                       argc > 2 ? std::strtoull(argv[2], nullptr, 10) : 0,
                                       argc > 3 ? argv[3] : nullptr);
}
