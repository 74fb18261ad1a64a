#include "jit/runtime/openmp.h"

#include <dlfcn.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <thread>
#include <vector>

#include "jit/runtime/threads.h"

namespace lathe {
namespace {

constexpr const char* library = "libgomp.so.1";

/// A loop on the threads of GCC's OpenMP runtime, three of them however many CPUs there are.
class OpenMp : public testing::Test {
 protected:
  void SetUp() override {
#ifdef __SANITIZE_THREAD__
    GTEST_SKIP() << "the runtime is built without the sanitizer";
#endif
    void* handle = dlopen(library, RTLD_NOW);
    if (!handle) GTEST_SKIP() << "no " << library;
    ASSERT_TRUE(find_openmp(library));
    set_openmp_threads_ = reinterpret_cast<void (*)(int)>(dlsym(handle, "omp_set_num_threads"));
    ASSERT_TRUE(set_openmp_threads_);
    set_openmp_threads_(3);
    context_.thread_count = 3;
  }
  void TearDown() override {
    share_openmp(true);
    set_thread_count(0);
    if (set_openmp_threads_) set_openmp_threads_(1);
  }

  /// Which threads ran a loop of so many iterations, each of which waits until a second one has come, or a while.
  int threads_of(std::int64_t n) {
    struct Closure {
      std::atomic<int> workers{0};
      std::atomic<int> runs{0};
      std::atomic<std::int32_t> most{0};
    } closure;
    const auto body = [](void* raw, std::int64_t begin, std::int64_t end, std::int32_t worker) -> std::int32_t {
      auto& c = *static_cast<Closure*>(raw);
      c.workers.fetch_or(1 << worker);
      c.runs += static_cast<int>(end - begin);
      for (int round = 0; round < 100'000 && (c.workers & (c.workers - 1)) == 0; ++round) std::this_thread::yield();
      return 0;
    };
    EXPECT_EQ(default_parallel_for(&context_, n, 1, body, &closure), 0);
    EXPECT_EQ(closure.runs, n);
    return __builtin_popcount(static_cast<unsigned>(closure.workers.load()));
  }

  LatheContext context_{};
  void (*set_openmp_threads_)(int) = nullptr;
};

/// Does this thread's runtime count it as one of several? So it is known on whose threads a loop runs.
int number_in_openmp() {
  static const auto number = reinterpret_cast<int (*)()>(dlsym(dlopen(library, RTLD_NOW), "omp_get_num_threads"));
  return number();
}

int openmp_threads_within(LatheContext& context) {
  std::atomic<int> seen{0};
  const auto body = [](void* raw, std::int64_t, std::int64_t, std::int32_t worker) -> std::int32_t {
    if (worker == 0) *static_cast<std::atomic<int>*>(raw) = number_in_openmp();
    return 0;
  };
  // The caller may find all taken by others; it does not in so many loops.
  for (int round = 0; round < 1000 && seen == 0; ++round) default_parallel_for(&context, 64, 1, body, &seen);
  return seen;
}

TEST_F(OpenMp, ALoopRunsOnTheThreadsThatWereFound) {
  EXPECT_EQ(shared_threads(3), 3);
  EXPECT_EQ(openmp_threads(), 3);
  EXPECT_EQ(openmp_threads_within(context_), 3);
  for (const std::int64_t n : {1, 2, 3, 7, 1000}) threads_of(n);
  EXPECT_GE(threads_of(1000), 2);
}

TEST_F(OpenMp, ALoopOfFewPiecesLeavesTheOthersIdleButAlive) {
  for (int round = 0; round < 50; ++round) EXPECT_LE(threads_of(2), 2);
  EXPECT_EQ(openmp_threads_within(context_), 3);
}

TEST_F(OpenMp, OneThreadIsNoneToShare) {
  set_openmp_threads_(1);
  EXPECT_EQ(shared_threads(3), 1);
  EXPECT_EQ(openmp_threads_within(context_), 1);
  threads_of(100);
}

TEST_F(OpenMp, WhoAsksForAnotherNumberOfThreadsGetsOurOwn) {
  for (const int count : {2, 4}) {
    set_thread_count(count);
    context_.thread_count = count;
    EXPECT_EQ(shared_threads(count), 1);
    EXPECT_EQ(openmp_threads_within(context_), 1);
  }
  set_thread_count(3);
  context_.thread_count = 3;
  EXPECT_EQ(openmp_threads_within(context_), 3);
}

TEST_F(OpenMp, TheDefaultMakesDoWithFewerThreadsButStartsNoMore) {
  context_.thread_count = 4;
  EXPECT_EQ(shared_threads(4), 3);
  EXPECT_EQ(openmp_threads_within(context_), 3);
  threads_of(1000);
  context_.thread_count = 2;
  EXPECT_EQ(shared_threads(2), 1) << "a quota leaves less than the runtime believes";
  EXPECT_EQ(openmp_threads_within(context_), 1);
}

TEST_F(OpenMp, SharingIsTurnedOffAndOn) {
  share_openmp(false);
  EXPECT_EQ(shared_threads(3), 1);
  EXPECT_EQ(openmp_threads_within(context_), 1);
  share_openmp(true);
  EXPECT_EQ(openmp_threads_within(context_), 3);
}

TEST_F(OpenMp, TheFirstErrorEndsTheLoop) {
  const auto body = [](void*, std::int64_t begin, std::int64_t, std::int32_t) -> std::int32_t {
    return begin > 50 ? 7 : 0;
  };
  EXPECT_EQ(default_parallel_for(&context_, 100, 1, body, nullptr), 7);
}

TEST_F(OpenMp, ALoopWithinALoopRunsOnItsWorker) {
  struct Closure {
    LatheContext& context;
    std::atomic<int> runs{0};
    std::atomic<bool> strange{false};
  } closure{context_};
  const auto outer = [](void* raw, std::int64_t begin, std::int64_t end, std::int32_t worker) -> std::int32_t {
    struct Inner {
      Closure& outer;
      std::int32_t worker;
    } inner{*static_cast<Closure*>(raw), worker};
    const auto body = [](void* data, std::int64_t from, std::int64_t to, std::int32_t here) -> std::int32_t {
      auto& mine = *static_cast<Inner*>(data);
      if (here != mine.worker) mine.outer.strange = true;
      mine.outer.runs += static_cast<int>(to - from);
      return 0;
    };
    for (std::int64_t i = begin; i < end; ++i) {
      if (default_parallel_for(&inner.outer.context, 10, 1, body, &inner) != 0) return 1;
    }
    return 0;
  };
  EXPECT_EQ(default_parallel_for(&context_, 8, 1, outer, &closure), 0);
  EXPECT_EQ(closure.runs, 80);
  EXPECT_FALSE(closure.strange);
}

TEST_F(OpenMp, SeveralCallersHaveThreadsOfTheirOwn) {
  std::atomic<int> runs{0}, shared{0};
  const auto body = [](void* raw, std::int64_t begin, std::int64_t end, std::int32_t) -> std::int32_t {
    *static_cast<std::atomic<int>*>(raw) += static_cast<int>(end - begin);
    return 0;
  };
  std::vector<std::thread> callers;
  for (int k = 0; k < 3; ++k) {
    callers.emplace_back([&] {
      set_openmp_threads_(3);
      LatheContext mine = context_;
      shared += openmp_threads_within(mine);
      for (int round = 0; round < 200; ++round) default_parallel_for(&mine, 16, 1, body, &runs);
    });
  }
  for (std::thread& caller : callers) caller.join();
  EXPECT_EQ(runs, 3 * 200 * 16);
  EXPECT_EQ(shared, 3 * 3);
}

TEST_F(OpenMp, AForkedProcessDoesWithoutThem) {
  EXPECT_EQ(openmp_threads_within(context_), 3);
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    alarm(20);  // the runtime would wait for threads that are not there for ever
    _exit(shared_threads(3) != 1 || openmp_threads_within(context_) != 1);
  }
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(openmp_threads_within(context_), 3);
}

TEST_F(OpenMp, ALibraryThatIsNotLoadedHasNone) {
  EXPECT_FALSE(find_openmp("libno_such_library.so"));
  EXPECT_EQ(shared_threads(3), 3);
}

}  // namespace
}  // namespace lathe
