// What bench/native.py loads: bound kernels, timed loops, and the rates of this machine that the roofline is made of.
#include <sched.h>
#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "backends/cpu/features.h"
#include "bench/support.h"
#include "ir/error.h"
#include "ir/func.h"
#include "ir/text/parse.h"
#include "jit/compile.h"
#include "jit/runtime/context.h"
#include "jit/runtime/threads.h"

namespace {

using namespace lathe;

/// A kernel with its arguments and its workspace: a run is one indirect call.
struct Bound {
  std::shared_ptr<Kernel> kernel;
  std::vector<void*> buffers;
  std::vector<std::int64_t> scalars;
  CallContext context;

  Bound(std::shared_ptr<Kernel> k, std::vector<void*> b, std::vector<std::int64_t> s, int threads)
      : kernel(std::move(k)),
        buffers(std::move(b)),
        scalars(std::move(s)),
        context(kernel->shared_bytes, kernel->worker_bytes, threads) {}
};

double now(clockid_t clock) {
  timespec time{};
  clock_gettime(clock, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

/// The strides that a traced Func takes as scalars are named by their tensor and dimension: x0_stride1.
std::int64_t stride_of(const std::string& name, const std::int64_t* strides, std::int64_t rank) {
  const size_t at = name.find("_stride");
  const std::int64_t tensor = std::atoll(name.c_str() + 1), dimension = std::atoll(name.c_str() + at + 7);
  return strides[tensor * rank + dimension];
}

}  // namespace

extern "C" {

#define BENCH_API __attribute__((visibility("default")))

/// Compiles a traced Func's text as a call from Lathe would, for these buffers in parameter order. `strides` holds
/// `rank` numbers an input, in elements. Null where it fails, with the reason in `message`.
BENCH_API void* bench_bind(const char* text, void* const* buffers, std::int64_t count, const std::int64_t* strides,
                           std::int64_t rank, int threads, char* message, size_t message_size) try {
  set_thread_count(threads);
  const Func func = parse_func(text);
  std::vector<std::int64_t> scalars;
  for (const VarRef& parameter : scalar_params(func)) scalars.push_back(stride_of(parameter->name, strides, rank));
  return new Bound(compile(func, compile_device()), {buffers, buffers + count}, scalars, threads);
} catch (const std::exception& error) {
  std::strncpy(message, error.what(), message_size - 1);
  return nullptr;
}

BENCH_API void bench_run(void* bound) {
  auto& b = *static_cast<Bound*>(bound);
  b.kernel->entry(b.context.get(), b.buffers.data(), b.scalars.data());
}

BENCH_API void bench_release(void* bound) {
  delete static_cast<Bound*>(bound);
}

/// Seconds of `calls` calls of `run`: CPU seconds of this process where `cpu`, else of the clock on the wall.
BENCH_API double bench_time(void (*run)(void*), void* state, std::int64_t calls, bool cpu) {
  const clockid_t clock = cpu ? CLOCK_PROCESS_CPUTIME_ID : CLOCK_MONOTONIC;
  const double start = now(clock);
  for (std::int64_t i = 0; i < calls; ++i) run(state);
  return now(clock) - start;
}

/// GFLOP/s of fma instructions on registers, one core, over about so many milliseconds and at least 0.1.
BENCH_API double bench_fma_gflops(double milliseconds) {
  return bench::fma_peak_gflops(milliseconds);
}

/// Bytes a second that a core loads from a buffer of half its own caches, the least of these CPUs while all of them do:
/// a busy neighbour on the same core slows that down while it leaves arithmetic on registers alone, and so does a host
/// that runs two CPUs on one core. The first walk over the buffer brings its lines near, and is not timed.
BENCH_API double bench_cache_rate(const std::int32_t* cpus, std::int32_t count) {
  using Lane = std::uint64_t __attribute__((vector_size(64)));
  static const std::vector<Lane> memory = [] {
    std::int64_t own = 1 << 18;
    for (const CacheLevel& cache : host_caches())
      if (!cache.shared) own = cache.bytes;
    return std::vector<Lane>(static_cast<size_t>(own) / 2 / sizeof(Lane) / 4 * 4);
  }();
  const int walks = count > 1 ? 16 : 1;  // of threads that begin within some hundred nanoseconds of each other
  std::atomic<std::int32_t> waiting{count};
  std::vector<double> rates(static_cast<size_t>(count));
  const auto measure = [&](std::int32_t k) {
    const auto walk = [] {
      Lane sums[4] = {};
      for (size_t i = 0; i < memory.size(); i += 4)
        for (size_t k = 0; k < 4; ++k) sums[k] += memory[i + k];
      __asm__ volatile("" ::"m"(sums) : "memory");
    };
    waiting.fetch_sub(1);
    while (waiting.load() > 0) {
    }
    walk();
    const double start = bench::thread_seconds();
    for (int i = 0; i < walks; ++i) walk();
    rates[static_cast<size_t>(k)] =
        walks * static_cast<double>(memory.size() * sizeof(Lane)) / (bench::thread_seconds() - start);
  };
  if (count == 1) {
    measure(0);
    return rates[0];
  }
  std::vector<std::thread> threads;
  for (std::int32_t k = 0; k < count; ++k) {
    threads.emplace_back([&, k] {
      cpu_set_t own;
      CPU_ZERO(&own);
      CPU_SET(cpus[k], &own);
      sched_setaffinity(0, sizeof own, &own);
      measure(k);
    });
  }
  for (std::thread& thread : threads) thread.join();
  return *std::min_element(rates.begin(), rates.end());
}

/// Bytes read and written a second by the quickest copy of one core whose source and target together are `bytes`: the
/// better of memcpy, which writes around the caches where the copy is large, and of a loop over vectors.
BENCH_API double bench_copy_rate(std::int64_t bytes) {
  const size_t half = static_cast<size_t>(std::max<std::int64_t>(bytes / 2, 4096)) / 64 * 64;
  const auto make = [&] {
    void* const memory = std::aligned_alloc(1 << 21, (half + (1 << 21) - 1) >> 21 << 21);
    madvise(memory, half, MADV_HUGEPAGE);
    std::memset(memory, 1, half);
    return std::unique_ptr<void, decltype(&std::free)>(memory, &std::free);
  };
  const auto from = make(), to = make();
  const auto loop = [&] {
    using Lane = std::uint64_t __attribute__((vector_size(64)));
    const auto* source = static_cast<const Lane*>(from.get());
    auto* target = static_cast<Lane*>(to.get());
    for (size_t i = 0; i < half / 64; ++i) target[i] = source[i];
    __asm__ volatile("" ::: "memory");
  };
  const auto library = [&] {
    std::memcpy(to.get(), from.get(), half);
    __asm__ volatile("" ::: "memory");
  };
  const auto rate = [&](const auto& copy) {
    const auto repeats = static_cast<std::int64_t>(std::max<size_t>(1, (1 << 20) / half));
    double best = 1e30;
    for (int round = 0; round < 8; ++round) {
      const double start = bench::thread_seconds();
      for (std::int64_t i = 0; i < repeats; ++i) copy();
      best = std::min(best, (bench::thread_seconds() - start) / static_cast<double>(repeats));
    }
    return 2.0 * static_cast<double>(half) / best;
  };
  return std::max(rate(loop), rate(library));
}

}  // extern "C"
