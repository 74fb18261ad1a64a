/// Random programs of the fuzzers' generator: what their schedules take to make, and whether the kernels are ever
/// slower than those of the same programs without a schedule.
///
///     bench_programs [COUNT [FIRST [STAGE]]]
///
/// With a stage (traced, scheduled, .., asm) the text of each program is printed too.
///
/// CPU time of one thread. The two kernels run by turns on the same arrays, in batches of 20 µs at least, and a round
/// of both gives a ratio. A program is slower when the 95% interval of the median of these ratios lies wholly beyond
/// what kernels of the same loops differ by, and the median difference beyond what the clock resolves. A suspect is
/// compiled anew and timed anew several times, with other addresses of code and arrays, and slower only when it is each
/// time.
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
/// What a pair of kernels of the same loops differs by, for where their code and its constants happen to lie: a share,
/// and so many seconds of a call.
constexpr double noise = 1.05, noise_seconds = 10e-9;
/// Rounds of a first look, and of each time that a suspect is looked at again.
constexpr int rounds_first = 7, rounds_again = 101, times_again = 3;

double thread_seconds() {
  timespec now;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

/// The same with floats of ordinary size: a subnormal number costs a core a hundred cycles, one a vector or one an
/// element.
GeneratedProgram ordinary(GeneratedProgram program) {
  for (Parameter& parameter : program.parameters) {
    if (parameter.fill.kind == Fill::Kind::special) parameter.fill.kind = Fill::Kind::any;
  }
  return program;
}

/// Medians over rounds: seconds of a call with and without a schedule, their ratio, and the lower end of its interval.
struct Timing {
  double with, without, ratio, least_ratio;

  bool is_slower() const { return least_ratio > noise && with - without > noise_seconds; }
};

class Run {
 public:
  Run(const GeneratedProgram& program, const Kernel& scheduled, const Kernel& plain) : scalars_(program.scalars) {
    const std::vector<GuardedArray> arrays = make_arrays(ordinary(program), Against::low);
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

  /// Interleaved batches of both kernels, after one of each that warms the caches.
  Timing time(int rounds) {
    const int calls[2] = {batch_of(0), batch_of(1)};
    std::vector<double> with, without, ratios;
    for (int round = 0; round < rounds; ++round) {
      double seconds[2];
      for (const int which : {round & 1, 1 - (round & 1)}) {
        const double start = thread_seconds();
        call(which, calls[which]);
        seconds[which] = (thread_seconds() - start) / calls[which];
      }
      with.push_back(seconds[0]);
      without.push_back(seconds[1]);
      ratios.push_back(seconds[0] / seconds[1]);
    }
    for (std::vector<double>* values : {&with, &without, &ratios}) std::sort(values->begin(), values->end());
    // The order statistics that hold the median in 95 of 100 samples (normal approximation of the binomial).
    const double below = std::max(0.0, rounds / 2.0 - 0.98 * std::sqrt(rounds));
    return {with[rounds / 2], without[rounds / 2], ratios[rounds / 2], ratios[static_cast<size_t>(below)]};
  }

 private:
  /// So many calls as take long enough to be timed: the most of several counts, since an interrupted one takes longer.
  int batch_of(int which) {
    int most = 1;
    for (int count = 0; count < 3; ++count) {
      int calls = 1;
      while (true) {
        const double start = thread_seconds();
        call(which, calls);
        const double seconds = thread_seconds() - start;
        if (seconds >= batch_seconds) break;
        calls *= seconds > 0 ? std::clamp(static_cast<int>(1.2 * batch_seconds / seconds), 2, 100) : 100;
      }
      most = std::max(most, calls);
    }
    return most;
  }

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
  double with, without;  ///< seconds of a call
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
      Timing timing = run.time(rounds_first);
      // A first look only decides who is looked at again: its interval is wide, so the median does.
      const bool suspect = timing.ratio > noise;
      bool is_slower = suspect;
      for (int again = 0; is_slower && again < times_again; ++again) {
        timing =
            Run(one, *compile(program.func, compile_device(), true), *compile(program.func, compile_device(), false))
                .time(rounds_again);
        is_slower = timing.is_slower();
      }
      ratios.push_back(1 / timing.ratio);
      if (is_slower)
        slower.push_back({seed, k, timing.with, timing.without, fmt::format("{}", fmt::join(one.operators, ", "))});
    }
  }
  std::sort(schedule_ms.begin(), schedule_ms.end());
  double logarithms = 0;
  for (const double ratio : ratios) logarithms += std::log(ratio);
  std::sort(ratios.begin(), ratios.end());
  std::sort(slower.begin(), slower.end(),
            [](const Slower& a, const Slower& b) { return a.with - a.without > b.with - b.without; });
  fmt::print("{} random programs scheduled, {} refused: p50 {:.2f}, p99 {:.2f}, most {:.1f} ms\n", schedule_ms.size(),
             refused, quantile(schedule_ms, 0.5), quantile(schedule_ms, 0.99), schedule_ms.back());
  fmt::print("{} runs, how much faster than without a schedule: geometric mean {:.2f}, p1 {:.2f}, least {:.2f}\n",
             ratios.size(), std::exp(logarithms / static_cast<double>(ratios.size())), quantile(ratios, 0.01),
             ratios[0]);
  fmt::print("slower by more than {:.0f} % and {:.0f} ns, each of {} times: {}\n", 100 * (noise - 1),
             1e9 * noise_seconds, times_again, slower.size());
  for (const Slower& s : slower) {
    fmt::print("  {:.2f}  seed {} run {}: {:.0f} ns, {:.0f} without  {}\n", s.without / s.with, s.seed, s.run,
               1e9 * s.with, 1e9 * s.without, s.operators);
  }
  return 0;
}

}  // namespace lathe::testing

int main(int argc, char** argv) {
  return lathe::testing::time_programs(argc > 1 ? std::strtoull(argv[1], nullptr, 10) : 5000,
                                       argc > 2 ? std::strtoull(argv[2], nullptr, 10) : 0,
                                       argc > 3 ? argv[3] : nullptr);
}
