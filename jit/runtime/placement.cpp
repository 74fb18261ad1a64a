#include "jit/runtime/placement.h"

#include <pthread.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <mutex>
#include <vector>

namespace lathe {
namespace {

/// Each worker that moves costs two system calls. Where there are more, some CPU is idle and free to the scheduler.
constexpr size_t most_moved = 16;

struct Worker {
  pid_t thread;
  cpu_set_t allowed;  // whoever started it, or somebody else since, lets it run there
  cpu_set_t given;    // what we have made of that
};

/// Never destroyed: threads that end after main take themselves out of it.
struct Workers {
  std::mutex mutex;
  std::vector<Worker> known;

  Workers() {
    // A forked process has none of the threads, whose numbers may be anybody's.
    pthread_atfork([] { get().mutex.lock(); }, [] { get().mutex.unlock(); },
                   [] {
                     get().known.clear();
                     get().mutex.unlock();
                   });
  }
  static Workers& get() {
    static auto* workers = new Workers;
    return *workers;
  }
};

std::atomic<int> running_loops{0};
std::atomic<int> vacated{-1};  // the CPU that all known workers keep off

class Membership {
 public:
  Membership() : thread_(gettid()) {
    Worker worker{thread_, {}, {}};
    if (sched_getaffinity(thread_, sizeof worker.allowed, &worker.allowed) != 0) return;
    worker.given = worker.allowed;
    Workers& workers = Workers::get();
    std::lock_guard lock(workers.mutex);
    workers.known.push_back(worker);
    vacated.store(-1, std::memory_order_relaxed);
  }
  ~Membership() {
    Workers& workers = Workers::get();
    std::lock_guard lock(workers.mutex);
    std::erase_if(workers.known, [&](const Worker& worker) { return worker.thread == thread_; });
  }
  Membership(const Membership&) = delete;
  Membership& operator=(const Membership&) = delete;

 private:
  pid_t thread_;
};

void keep_off(Worker& worker, int cpu) {
  cpu_set_t now;
  if (sched_getaffinity(worker.thread, sizeof now, &now) != 0) return;
  if (!CPU_EQUAL(&now, &worker.given)) worker.allowed = now;
  cpu_set_t others = worker.allowed;
  CPU_CLR(cpu, &others);
  if (CPU_COUNT(&others) == 0) others = worker.allowed;
  if (CPU_EQUAL(&now, &others) || sched_setaffinity(worker.thread, sizeof others, &others) == 0) worker.given = others;
}

}  // namespace

void join_workers() {
  static thread_local Membership membership;
}

RoomForCaller::RoomForCaller() {
  if (running_loops.fetch_add(1, std::memory_order_relaxed) != 0) return;
  const int cpu = sched_getcpu();
  if (cpu < 0 || cpu >= CPU_SETSIZE || cpu == vacated.load(std::memory_order_relaxed)) return;
  Workers& workers = Workers::get();
  std::unique_lock lock(workers.mutex, std::try_to_lock);
  if (!lock || workers.known.size() > most_moved) return;
  const pid_t self = gettid();
  for (Worker& worker : workers.known)
    if (worker.thread != self) keep_off(worker, cpu);
  vacated.store(cpu, std::memory_order_relaxed);
}

RoomForCaller::~RoomForCaller() {
  running_loops.fetch_sub(1, std::memory_order_relaxed);
}

}  // namespace lathe
