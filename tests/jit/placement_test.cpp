#include <gtest/gtest.h>
#include <sched.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <thread>
#include <vector>

#include "jit/runtime/threads.h"

namespace lathe {
namespace {

bool contains(const cpu_set_t& set, int cpu) {
  return CPU_ISSET(cpu, &set);
}

std::vector<int> usable_cpus() {
  cpu_set_t set;
  std::vector<int> cpus;
  if (sched_getaffinity(0, sizeof set, &set) != 0) return cpus;
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu)
    if (contains(set, cpu)) cpus.push_back(cpu);
  return cpus;
}

void run_on(const std::vector<int>& cpus) {
  cpu_set_t set;
  CPU_ZERO(&set);
  for (const int cpu : cpus) CPU_SET(cpu, &set);
  ASSERT_EQ(sched_setaffinity(0, sizeof set, &set), 0);
}

/// A loop whose two iterations wait for each other, the second on a worker: whether they met, and what `look` did
/// there.
bool on_a_worker(const std::function<void()>& look) {
  struct Closure {
    const std::function<void()>& look;
    std::thread::id caller = std::this_thread::get_id();
    std::atomic<int> inside{0};
    std::atomic<bool> looked{false};
  } closure{look};
  LatheContext context{};
  context.thread_count = 2;
  const auto body = [](void* raw, std::int64_t, std::int64_t, std::int32_t) -> std::int32_t {
    auto& c = *static_cast<Closure*>(raw);
    ++c.inside;
    const auto give_up = std::chrono::steady_clock::now() + std::chrono::seconds(2);
    while (c.inside < 2 && std::chrono::steady_clock::now() < give_up) std::this_thread::yield();
    if (std::this_thread::get_id() != c.caller && !c.looked.exchange(true)) c.look();
    return 0;
  };
  EXPECT_EQ(tbb_parallel_for(&context, 2, 1, body, &closure), 0);
  return closure.looked;
}

/// Every test has a thread of its own, whose affinity it changes and nobody inherits.
class Placement : public testing::Test {
 protected:
  static void in_a_thread(const std::function<void(const std::vector<int>&)>& test) {
    const std::vector<int> cpus = usable_cpus();
    if (cpus.size() < 2 || usable_threads() < 2) GTEST_SKIP() << "one CPU";
    if (!on_a_worker([] {})) GTEST_SKIP() << "no worker came";
    std::thread([&] { test(cpus); }).join();
  }
};

TEST_F(Placement, WorkersKeepOffTheCallersCpu) {
  in_a_thread([](const std::vector<int>& cpus) {
    for (const int cpu : {cpus[0], cpus[1], cpus[0]}) {
      run_on({cpu});
      cpu_set_t seen;
      ASSERT_TRUE(on_a_worker([&] { sched_getaffinity(0, sizeof seen, &seen); }));
      EXPECT_EQ(CPU_COUNT(&seen), static_cast<int>(cpus.size()) - 1);
      EXPECT_FALSE(contains(seen, cpu));
    }
  });
}

TEST_F(Placement, AnAffinityThatSomebodyElseGaveStays) {
  in_a_thread([](const std::vector<int>& cpus) {
    const int here = cpus[0], there = cpus[1];
    run_on({here});
    ASSERT_TRUE(on_a_worker([&] { run_on({here}); }));
    run_on({there});
    cpu_set_t seen;
    ASSERT_TRUE(on_a_worker([&] { sched_getaffinity(0, sizeof seen, &seen); }));
    EXPECT_TRUE(contains(seen, here));
    EXPECT_EQ(CPU_COUNT(&seen), 1);
    run_on({here});
    ASSERT_TRUE(on_a_worker([&] {
      sched_getaffinity(0, sizeof seen, &seen);
      run_on(cpus);
    }));
    EXPECT_TRUE(contains(seen, here)) << "the only CPU that it may run on";
  });
}

TEST_F(Placement, AForkedProcessLeavesTheParentsWorkersAlone) {
  in_a_thread([](const std::vector<int>& cpus) {
    for (const int cpu : {cpus[1], cpus[0]}) {
      run_on({cpu});
      ASSERT_TRUE(on_a_worker([] {}));
    }
    const pid_t child = fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      cpu_set_t other;
      CPU_ZERO(&other);
      CPU_SET(cpus[1], &other);
      sched_setaffinity(0, sizeof other, &other);
      LatheContext context{};
      context.thread_count = 2;
      const auto body = [](void*, std::int64_t, std::int64_t, std::int32_t) -> std::int32_t { return 0; };
      _exit(tbb_parallel_for(&context, 2, 1, body, nullptr));
    }
    int status = -1;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0);
    cpu_set_t seen;
    ASSERT_TRUE(on_a_worker([&] { sched_getaffinity(0, sizeof seen, &seen); }));
    EXPECT_FALSE(contains(seen, cpus[0]));
  });
}

}  // namespace
}  // namespace lathe
