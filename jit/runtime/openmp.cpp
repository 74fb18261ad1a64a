#include "jit/runtime/openmp.h"

#include <dlfcn.h>
#include <pthread.h>

#include <atomic>
#include <memory>

#include "jit/runtime/placement.h"

namespace lathe {
namespace {

/// GCC's interface, which LLVM's and Intel's runtimes have as well.
struct Runtime {
  void (*parallel)(void (*work)(void*), void* data, unsigned threads, unsigned flags);
  int (*thread_number)();
  int (*most_threads)();
};

/// Never freed: loops may run on it at exit.
std::atomic<const Runtime*> found{nullptr};
/// Of any fork, as the library may have started its threads before it was found.
std::atomic<bool> forked{false};
[[maybe_unused]] const int noticing_forks =
    pthread_atfork(nullptr, nullptr, [] { forked.store(true, std::memory_order_relaxed); });

}  // namespace

bool find_openmp(const char* library, const char* count) {
  void* handle = dlopen(library, RTLD_LAZY | RTLD_NOLOAD);
  if (!handle) return false;
  if (found.load(std::memory_order_acquire)) return true;
  // As the library's own calls are bound: a runtime that is preloaded, or global, is ahead of what it is linked with.
  const auto symbol = [&](const char* name) {
    void* address = dlsym(RTLD_DEFAULT, name);
    return address ? address : dlsym(handle, name);
  };
  auto runtime = std::make_unique<const Runtime>(Runtime{
      reinterpret_cast<decltype(Runtime::parallel)>(symbol("GOMP_parallel")),
      reinterpret_cast<decltype(Runtime::thread_number)>(symbol("omp_get_thread_num")),
      reinterpret_cast<decltype(Runtime::most_threads)>(count ? dlsym(handle, count) : symbol("omp_get_max_threads"))});
  if (!runtime->parallel || !runtime->thread_number || !runtime->most_threads) return false;
  const Runtime* none = nullptr;
  if (found.compare_exchange_strong(none, runtime.get())) static_cast<void>(runtime.release());
  return true;
}

int openmp_threads() {
  const Runtime* runtime = found.load(std::memory_order_acquire);
  return runtime && !forked.load(std::memory_order_relaxed) ? runtime->most_threads() : 1;
}

void run_with_openmp(void (*work)(void*, int), void* data) {
  struct Loop {
    const Runtime* runtime;
    void (*work)(void*, int);
    void* data;
  } loop{found.load(std::memory_order_acquire), work, data};
  const auto run = [](void* raw) {
    const Loop& mine = *static_cast<Loop*>(raw);
    const int number = mine.runtime->thread_number();
    if (number != 0) join_workers();
    mine.work(mine.data, number);
  };
  // As many threads as the runtime is set to (0), even if fewer have work: it ends those that a loop leaves out, and
  // the next loop would start them anew.
  loop.runtime->parallel(run, &loop, 0, 0);
}

}  // namespace lathe
