#include "jit/runtime/threads.h"

#include <fmt/format.h>
#include <sched.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>
#include <fstream>
#include <optional>
#include <string>

#include "ir/error.h"
#include "jit/runtime/openmp.h"
#include "jit/runtime/placement.h"
#include "jit/runtime/team.h"

namespace lathe {
namespace {

/// cgroup v2's cpu.max, or v1's quota and period: CPUs, rounded up; 0 where there is no limit.
int cgroup_cpus() {
  std::string quota;
  double period = 0;
  if (std::ifstream v2("/sys/fs/cgroup/cpu.max"); v2 >> quota >> period) {
    if (quota == "max" || period <= 0) return 0;
    return static_cast<int>(std::ceil(std::stod(quota) / period));
  }
  double limit = 0;
  std::ifstream v1_quota("/sys/fs/cgroup/cpu/cpu.cfs_quota_us"), v1_period("/sys/fs/cgroup/cpu/cpu.cfs_period_us");
  if (v1_quota >> limit && v1_period >> period && limit > 0 && period > 0) {
    return static_cast<int>(std::ceil(limit / period));
  }
  return 0;
}

std::atomic<int> configured_threads{0};
std::atomic<LatheParallelFor> configured_parallel_for{&default_parallel_for};
std::atomic<void*> configured_host{nullptr};
std::atomic<bool> sharing{true};

/// True on a thread that is inside a parallel body: a loop within runs inline, on that worker.
thread_local bool inside_parallel = false;
thread_local std::int32_t current_worker = 0;

/// Pieces that are taken from both ends.
class alignas(64) Stretch {
 public:
  /// The next of `count` pieces from its beginning or from its end; nothing when all are taken.
  std::optional<std::int64_t> take(std::int64_t count, bool forwards) {
    const std::uint64_t before = taken_.fetch_add(forwards ? 1 : std::uint64_t{1} << 32, std::memory_order_relaxed);
    const auto front = static_cast<std::int64_t>(before & 0xffffffff), back = static_cast<std::int64_t>(before >> 32);
    if (front + back >= count) return std::nullopt;
    return forwards ? front : count - 1 - back;
  }

 private:
  /// How many have been taken from the beginning, and from the end: one word, each worker asks once too often.
  std::atomic<std::uint64_t> taken_{0};
};

/// The iterations of a loop in pieces that at most so many workers take. `run(workers, work, data)` calls work(data, 0)
/// on this thread and work(data, k) on others.
template <class Run>
std::int32_t parallel_loop(int most_workers, LatheContext* context, std::int64_t n, std::int64_t grain,
                           LatheParallelBody body, void* closure, const Run& run) {
  if (n <= 0) return LATHE_OK;
  grain = std::max<std::int64_t>(grain, 1);
  const std::int64_t most_pieces = (n + grain - 1) / grain;
  const int workers = static_cast<int>(std::min<std::int64_t>(most_workers, most_pieces));
  // A context of one thread has one workspace, whichever worker of a loop around has made it.
  const bool nested = inside_parallel && context->thread_count > 1;
  if (workers <= 1 || inside_parallel) return body(closure, 0, n, nested ? current_worker : 0);

  // Four pieces a worker balance uneven cores; fewer where the grain says so, and as many for each, so that nobody is
  // left one that others wait for. Each worker walks a stretch of its own from one end to the other, so that what one
  // piece leaves in its caches serves the next, then helps with the others', from their ends: mostly with the same
  // pieces in each call, whose lines are then where they were.
  const std::int64_t wanted = std::min<std::int64_t>(most_pieces, std::int64_t{4} * workers),
                     pieces = wanted - wanted % workers;
  constexpr int most_stretches = 64;
  const int stretches = std::min(workers, most_stretches);
  std::array<Stretch, most_stretches> taken;
  std::atomic<std::int32_t> status{LATHE_OK};
  const auto walk = [&](int stretch, int worker) {
    const std::int64_t first = stretch * pieces / stretches, end = (stretch + 1) * pieces / stretches;
    const bool forwards = stretch == worker % stretches;
    while (const std::optional<std::int64_t> place = taken[stretch].take(end - first, forwards)) {
      const std::int64_t piece = first + *place;
      if (status.load(std::memory_order_relaxed) != LATHE_OK) return;
      const std::int32_t result = body(closure, piece * n / pieces, (piece + 1) * n / pieces, worker);
      std::int32_t none = LATHE_OK;
      if (result != LATHE_OK) status.compare_exchange_strong(none, result);
    }
  };
  auto work = [&](int worker) {
    if (worker >= workers) return;
    inside_parallel = true;
    current_worker = worker;
    for (int k = 0; k < stretches; ++k) walk((worker + k) % stretches, worker);
    inside_parallel = false;
  };
  run(workers, [](void* data, int worker) { (*static_cast<decltype(work)*>(data))(worker); }, &work);
  return status.load();
}

}  // namespace

int usable_threads() {
  static const int count = [] {
    cpu_set_t set;
    int cpus = 1;
    if (sched_getaffinity(0, sizeof set, &set) == 0) cpus = CPU_COUNT(&set);
    const int limit = cgroup_cpus();
    return std::max(1, limit > 0 ? std::min(cpus, limit) : cpus);
  }();
  return count;
}

int thread_count() {
  const int count = configured_threads.load(std::memory_order_relaxed);
  return count > 0 ? count : usable_threads();
}

void set_thread_count(int count) {
  if (count < 0 || count > most_threads) {
    throw InputError(Mistake::value, fmt::format("set_thread_count: {} threads, expected 0 (what affinity and cgroup "
                                                 "allow) to {}",
                                                 count, most_threads));
  }
  configured_threads.store(count, std::memory_order_relaxed);
}

void set_parallel_for(LatheParallelFor parallel_for, void* host) {
  configured_host.store(parallel_for ? host : nullptr);
  configured_parallel_for.store(parallel_for ? parallel_for : &default_parallel_for);
}

LatheParallelFor current_parallel_for(void** host) {
  *host = configured_host.load(std::memory_order_relaxed);
  return configured_parallel_for.load(std::memory_order_relaxed);
}

void share_openmp(bool on) {
  sharing.store(on, std::memory_order_relaxed);
}

int shared_threads(int count) {
  const int there = sharing.load(std::memory_order_relaxed) ? openmp_threads() : 1;
  const bool asked = configured_threads.load(std::memory_order_relaxed) > 0;
  return there == count || (there < count && !asked) ? there : 1;
}

std::int32_t tbb_parallel_for(LatheContext* context, std::int64_t n, std::int64_t grain, LatheParallelBody body,
                              void* closure) {
  return parallel_loop(context->thread_count, context, n, grain, body, closure,
                       [](int workers, void (*work)(void*, int), void* data) {
                         const RoomForCaller room;
                         run_with_team(workers, work, data);
                       });
}

std::int32_t default_parallel_for(LatheContext* context, std::int64_t n, std::int64_t grain, LatheParallelBody body,
                                  void* closure) {
  const int shared = context->thread_count > 1 ? shared_threads(context->thread_count) : 1;
  if (shared <= 1) return tbb_parallel_for(context, n, grain, body, closure);
  return parallel_loop(shared, context, n, grain, body, closure, [](int, void (*work)(void*, int), void* data) {
    const RoomForCaller room;
    run_with_openmp(work, data);
  });
}

}  // namespace lathe
