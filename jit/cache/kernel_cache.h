#pragma once
#include <atomic>
#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "jit/cache/signature.h"
#include "jit/kernel.h"

namespace lathe {

/// Exact counts since the process started. A call is a hit when its kernel was there, a miss when it compiled one or
/// waited for another thread's compile.
struct CacheInfo {
  std::int64_t hits = 0, misses = 0, compiles = 0, evictions = 0;
  std::int64_t kernels = 0;  ///< alive in the cache now
};

/// The process's kernels by signature. One compile per signature however many threads ask: the others wait for it, and
/// get its error if it fails; a failure leaves nothing behind.
class KernelCache {
 public:
  static KernelCache& instance();

  /// `waited` is set when this call compiled, or waited for a compile.
  std::shared_ptr<Kernel> find_or_compile(const Signature& signature,
                                          const std::function<std::shared_ptr<Kernel>()>& compile, bool* waited);

  CacheInfo info() const;
  /// Every kernel alive, the oldest first.
  std::vector<std::shared_ptr<Kernel>> kernels() const;
  /// Kernels kept at most; beyond it the one that was looked up longest ago goes. Default: LATHE_CACHE_KERNELS, or
  /// 16384. An InputError below 1.
  void set_capacity(std::int64_t kernels);
  /// Evicts everything. Calls that are running finish on the code that they have.
  void clear();

  /// Rises with every eviction: whoever keeps kernels by other means drops those that are `evicted` then.
  std::uint64_t generation() const { return generation_.load(std::memory_order_acquire); }

 private:
  struct Flight;
  struct Entry {
    Signature signature;
    std::uint64_t hash;
    std::shared_ptr<Kernel> kernel;
  };
  using Entries = std::list<Entry>;  // least recently looked up first

  KernelCache();
  Entries::iterator find(std::uint64_t hash, const Signature& signature);
  void evict_beyond(std::int64_t kernels);

  mutable std::mutex mutex_;
  Entries entries_;
  std::unordered_multimap<std::uint64_t, Entries::iterator> index_;
  std::unordered_multimap<std::uint64_t, std::shared_ptr<Flight>> flights_;
  std::int64_t capacity_;
  std::int64_t compiles_ = 0, evictions_ = 0;
  std::atomic<std::uint64_t> generation_{0};
};

/// Counts one call on this thread's own counter: no line is shared between threads.
void count_hit();
void count_miss();

}  // namespace lathe
