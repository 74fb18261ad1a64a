#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <set>
#include <thread>
#include <tuple>
#include <vector>

#include "ir/error.h"
#include "jit/cache/epoch.h"
#include "jit/runtime/context.h"
#include "jit/runtime/threads.h"

namespace lathe {
namespace {

LatheContext context_of(int threads) {
  LatheContext context{};
  context.abi_version = LATHE_ABI_VERSION;
  context.thread_count = threads;
  context.parallel_for = &tbb_parallel_for;
  return context;
}

TEST(ParallelFor, RunsEachIterationOnce) {
  for (const std::int64_t n : {0, 1, 7, 1000}) {
    for (const std::int64_t grain : {1, 3, 100000}) {
      struct Closure {
        std::vector<std::atomic<int>> runs;
        std::atomic<bool> bad_worker{false};
      } closure;
      closure.runs = std::vector<std::atomic<int>>(static_cast<size_t>(n));
      LatheContext context = context_of(2);
      const auto body = [](void* raw, std::int64_t begin, std::int64_t end, std::int32_t worker) -> std::int32_t {
        auto& c = *static_cast<Closure*>(raw);
        if (worker < 0 || worker >= 2) c.bad_worker = true;
        for (std::int64_t i = begin; i < end; ++i) ++c.runs[static_cast<size_t>(i)];
        return 0;
      };
      EXPECT_EQ(tbb_parallel_for(&context, n, grain, body, &closure), 0);
      for (const auto& runs : closure.runs) EXPECT_EQ(runs, 1);
      EXPECT_FALSE(closure.bad_worker);
    }
  }
}

TEST(ParallelFor, AWorkerIsNeverInTwoPlaces) {
  struct Closure {
    std::atomic<bool> busy[8]{};
    std::atomic<bool> shared{false};
  } closure;
  LatheContext context = context_of(8);
  const auto body = [](void* raw, std::int64_t, std::int64_t, std::int32_t worker) -> std::int32_t {
    auto& c = *static_cast<Closure*>(raw);
    if (c.busy[worker].exchange(true)) c.shared = true;
    std::this_thread::yield();
    c.busy[worker] = false;
    return 0;
  };
  for (int round = 0; round < 50; ++round) tbb_parallel_for(&context, 64, 1, body, &closure);
  EXPECT_FALSE(closure.shared);
}

TEST(ParallelFor, EachWorkerStartsAStretchOfItsOwn) {
  struct Closure {
    std::atomic<std::int64_t> first[2]{-1, -1};
  } closure;
  LatheContext context = context_of(2);
  const auto body = [](void* raw, std::int64_t begin, std::int64_t, std::int32_t worker) -> std::int32_t {
    auto& c = *static_cast<Closure*>(raw);
    std::int64_t none = -1;
    if (!c.first[worker].compare_exchange_strong(none, begin)) return 0;
    const auto give_up = std::chrono::steady_clock::now() + std::chrono::seconds(2);
    while (c.first[1 - worker] < 0 && std::chrono::steady_clock::now() < give_up) std::this_thread::yield();
    return 0;
  };
  EXPECT_EQ(tbb_parallel_for(&context, 64, 1, body, &closure), 0);
  if (closure.first[0] < 0 || closure.first[1] < 0) GTEST_SKIP() << "one thread ran the whole loop";
  EXPECT_EQ(closure.first[0], 0);
  EXPECT_EQ(closure.first[1], 32);
}

TEST(ParallelFor, WorkersHaveAsManyPiecesEach) {
  const auto body = [](void* raw, std::int64_t, std::int64_t, std::int32_t) -> std::int32_t {
    ++*static_cast<std::atomic<int>*>(raw);
    return 0;
  };
  for (const auto& [n, workers, pieces] :
       {std::tuple(300, 2, 2), {700, 2, 6}, {500, 3, 3}, {9000, 3, 12}, {100, 3, 1}}) {
    std::atomic<int> taken{0};
    LatheContext context = context_of(workers);
    EXPECT_EQ(tbb_parallel_for(&context, n, 100, body, &taken), 0);
    EXPECT_EQ(taken, pieces) << n << " of 100 by " << workers;
  }
}

TEST(ParallelFor, AWorkerThatHelpsBeginsAtTheEnd) {
  struct Closure {
    std::vector<std::int64_t> begins;
    std::atomic<size_t> count{0};
    std::atomic<bool> helped{false};
    std::chrono::steady_clock::time_point give_up = std::chrono::steady_clock::now() + std::chrono::seconds(2);
  } closure;
  LatheContext context = context_of(2);
  const auto body = [](void* raw, std::int64_t begin, std::int64_t, std::int32_t worker) -> std::int32_t {
    auto& c = *static_cast<Closure*>(raw);
    if (worker == 0) {
      c.begins.push_back(begin);
      ++c.count;
    } else {
      c.helped = true;
    }
    const auto waits = [&] { return worker == 0 ? !c.helped : c.count < 7; };
    while (waits() && std::chrono::steady_clock::now() < c.give_up) std::this_thread::yield();
    return 0;
  };
  EXPECT_EQ(tbb_parallel_for(&context, 64, 1, body, &closure), 0);
  if (closure.count != 7) GTEST_SKIP() << "one thread ran the whole loop, or waited in vain";
  EXPECT_EQ(closure.begins, (std::vector<std::int64_t>{0, 8, 16, 24, 56, 48, 40}));
}

TEST(ParallelFor, TheFirstErrorWins) {
  LatheContext context = context_of(2);
  const auto body = [](void*, std::int64_t begin, std::int64_t, std::int32_t) -> std::int32_t {
    return begin == 0 ? 7 : 0;
  };
  EXPECT_EQ(tbb_parallel_for(&context, 100, 1, body, nullptr), 7);
}

TEST(ParallelFor, ALoopWithinALoopRunsInline) {
  struct Closure {
    LatheContext context = context_of(4);
    std::atomic<int> inner{0};
    std::atomic<bool> moved{false};
  } closure;
  const auto outer = [](void* raw, std::int64_t, std::int64_t, std::int32_t) -> std::int32_t {
    auto& c = *static_cast<Closure*>(raw);
    struct Inner {
      Closure* closure;
      std::thread::id thread;
    } inner{&c, std::this_thread::get_id()};
    const auto body = [](void* r, std::int64_t begin, std::int64_t end, std::int32_t) -> std::int32_t {
      auto& i = *static_cast<Inner*>(r);
      if (std::this_thread::get_id() != i.thread) i.closure->moved = true;
      i.closure->inner += static_cast<int>(end - begin);
      return 0;
    };
    return tbb_parallel_for(&c.context, 10, 1, body, &inner);
  };
  LatheContext context = context_of(4);
  EXPECT_EQ(tbb_parallel_for(&context, 8, 1, outer, &closure), 0);
  EXPECT_FALSE(closure.moved);
  EXPECT_EQ(closure.inner % 10, 0);
  EXPECT_GT(closure.inner, 0);
}

TEST(ParallelFor, AContextOfOneThreadKnowsOneWorkerAlsoWithinALoop) {
  std::atomic<int> strange{0};
  const auto outer = [](void* raw, std::int64_t, std::int64_t, std::int32_t) -> std::int32_t {
    const auto body = [](void* r, std::int64_t, std::int64_t, std::int32_t worker) -> std::int32_t {
      if (worker != 0) ++*static_cast<std::atomic<int>*>(r);
      return 0;
    };
    // Waits, so that more than one worker comes by.
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    LatheContext alone = context_of(1);
    return tbb_parallel_for(&alone, 10, 1, body, raw);
  };
  LatheContext context = context_of(4);
  EXPECT_EQ(tbb_parallel_for(&context, 16, 1, outer, &strange), 0);
  EXPECT_EQ(strange, 0);
}

TEST(ParallelFor, DoesNotWaitForWorkersThatAreBusyElsewhere) {
  if (usable_threads() < 2) GTEST_SKIP() << "one CPU";
  struct Closure {
    std::thread::id caller = std::this_thread::get_id();
    std::atomic<bool> held{false}, release{false};
  } first;
  // Holds every worker there is in a loop of another thread.
  std::thread other([&] {
    LatheContext context = context_of(usable_threads());
    const auto body = [](void* raw, std::int64_t, std::int64_t, std::int32_t) -> std::int32_t {
      auto& c = *static_cast<Closure*>(raw);
      c.held = true;
      while (!c.release) std::this_thread::yield();
      return 0;
    };
    EXPECT_EQ(tbb_parallel_for(&context, 64, 1, body, &first), 0);
  });
  while (!first.held) std::this_thread::yield();
  std::atomic<std::int64_t> runs{0};
  const auto count = [](void* raw, std::int64_t begin, std::int64_t end, std::int32_t) -> std::int32_t {
    *static_cast<std::atomic<std::int64_t>*>(raw) += end - begin;
    return 0;
  };
  LatheContext context = context_of(usable_threads());
  for (int round = 0; round < 20; ++round) EXPECT_EQ(tbb_parallel_for(&context, 64, 1, count, &runs), 0);
  EXPECT_EQ(runs, 20 * 64);
  first.release = true;
  other.join();
}

TEST(ParallelFor, ManyThreadsMayCallAtOnce) {
  std::vector<std::thread> callers;
  std::atomic<std::int64_t> runs{0};
  std::atomic<bool> shared{false};
  callers.reserve(8);
  for (int k = 0; k < 8; ++k) {
    callers.emplace_back([&] {
      struct Closure {
        std::atomic<std::int64_t>& runs;
        std::atomic<bool>& shared;
        std::atomic<bool> busy[4]{};
      } closure{runs, shared};
      const auto body = [](void* raw, std::int64_t begin, std::int64_t end, std::int32_t worker) -> std::int32_t {
        auto& c = *static_cast<Closure*>(raw);
        if (c.busy[worker].exchange(true)) c.shared = true;
        c.runs += end - begin;
        c.busy[worker] = false;
        return 0;
      };
      LatheContext context = context_of(4);
      for (int round = 0; round < 500; ++round) EXPECT_EQ(tbb_parallel_for(&context, 16, 1, body, &closure), 0);
    });
  }
  for (std::thread& caller : callers) caller.join();
  EXPECT_EQ(runs, 8 * 500 * 16);
  EXPECT_FALSE(shared);
}

TEST(ParallelFor, AForkedProcessFinishesItsLoops) {
  std::atomic<std::int64_t> runs{0};
  const auto body = [](void* raw, std::int64_t begin, std::int64_t end, std::int32_t) -> std::int32_t {
    *static_cast<std::atomic<std::int64_t>*>(raw) += end - begin;
    return 0;
  };
  LatheContext context = context_of(2);
  for (int round = 0; round < 20; ++round) {
    EXPECT_EQ(tbb_parallel_for(&context, 16, 1, body, &runs), 0);
    const pid_t child = fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      runs = 0;
      for (int again = 0; again < 3; ++again) tbb_parallel_for(&context, 16, 1, body, &runs);
      _exit(runs == 48 ? 0 : 1);
    }
    int status = -1;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0);
  }
}

TEST(Threads, AtLeastOneIsUsableAndTheCountCanBeSet) {
  EXPECT_GE(usable_threads(), 1);
  set_thread_count(5);
  EXPECT_EQ(thread_count(), 5);
  set_thread_count(0);
  EXPECT_THROW(set_thread_count(-1), InputError);
  EXPECT_THROW(set_thread_count(most_threads + 1), InputError);
  EXPECT_EQ(thread_count(), usable_threads());
}

TEST(CallContext, WorkspacesAreAlignedApartAndKept) {
  void* first;
  {
    CallContext outer(100, 70, 3);
    CallContext inner(100, 70, 3);  // a call from within a kernel's own parallel body
    first = outer.get()->shared_workspace;
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(first) % 64, 0u);
    EXPECT_EQ(outer.get()->worker_stride, 128);
    EXPECT_NE(first, inner.get()->shared_workspace);
  }
  CallContext again(100, 70, 3);
  EXPECT_EQ(again.get()->shared_workspace, first);
  EXPECT_EQ(CallContext(0, 0, 1).get()->shared_workspace, nullptr);
}

TEST(Epoch, FreesOnlyWhatNoGuardCanSee) {
  bool freed = false;
  {
    const EpochGuard guard;
    retire([&] { freed = true; });
    reclaim();
    EXPECT_FALSE(freed);
  }
  reclaim();
  EXPECT_TRUE(freed);
}

TEST(Epoch, AnotherThreadsGuardHoldsToo) {
  std::atomic<bool> entered{false}, leave{false}, freed{false};
  std::thread other([&] {
    const EpochGuard guard;
    entered = true;
    while (!leave) std::this_thread::yield();
  });
  while (!entered) std::this_thread::yield();
  retire([&] { freed = true; });
  reclaim();
  EXPECT_FALSE(freed);
  leave = true;
  other.join();
  reclaim();
  EXPECT_TRUE(freed);
}

}  // namespace
}  // namespace lathe
