#include "jit/cache/kernel_cache.h"

#include <fmt/format.h>

#include <algorithm>
#include <condition_variable>
#include <cstdlib>
#include <exception>

#include "ir/error.h"

namespace lathe {
namespace {

/// Written by its own thread only, read by whoever asks.
struct ThreadCounts {
  std::atomic<std::int64_t> hits{0}, misses{0};
};

/// Never destroyed: threads may outlive static destruction.
struct CountRegistry {
  std::mutex mutex;
  std::vector<const ThreadCounts*> threads;
  std::int64_t hits = 0, misses = 0;  // of threads that ended
};

CountRegistry& counts() {
  static auto* instance = new CountRegistry;
  return *instance;
}

struct RegisteredCounts : ThreadCounts {
  RegisteredCounts() {
    const std::lock_guard lock(counts().mutex);
    counts().threads.push_back(this);
  }
  ~RegisteredCounts() {
    const std::lock_guard lock(counts().mutex);
    counts().hits += hits.load();
    counts().misses += misses.load();
    std::erase(counts().threads, this);
  }
};

thread_local RegisteredCounts thread_counts;

void add_one(std::atomic<std::int64_t>& counter) {
  counter.store(counter.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
}

}  // namespace

void count_hit() {
  add_one(thread_counts.hits);
}
void count_miss() {
  add_one(thread_counts.misses);
}

/// A compile under way.
struct KernelCache::Flight {
  Signature signature;
  std::condition_variable landed;
  bool done = false;
  std::shared_ptr<Kernel> kernel;
  std::exception_ptr error;
};

KernelCache& KernelCache::instance() {
  static auto* cache = new KernelCache;
  return *cache;
}

KernelCache::KernelCache() : capacity_(16384) {
  if (const char* text = std::getenv("LATHE_CACHE_KERNELS")) {
    const std::int64_t given = std::atoll(text);
    if (given > 0) capacity_ = given;
  }
}

KernelCache::Entries::iterator KernelCache::find(std::uint64_t hash, const Signature& signature) {
  const auto [first, last] = index_.equal_range(hash);
  for (auto i = first; i != last; ++i) {
    if (i->second->signature == signature) return i->second;
  }
  return entries_.end();
}

std::shared_ptr<Kernel> KernelCache::find_or_compile(const Signature& signature,
                                                     const std::function<std::shared_ptr<Kernel>()>& compile,
                                                     bool* waited) {
  const std::uint64_t hash = signature.hash();
  std::shared_ptr<Flight> flight;
  {
    std::unique_lock lock(mutex_);
    if (const auto entry = find(hash, signature); entry != entries_.end()) {
      entries_.splice(entries_.end(), entries_, entry);
      *waited = false;
      return entry->kernel;
    }
    *waited = true;
    const auto [first, last] = flights_.equal_range(hash);
    const auto found = std::find_if(first, last, [&](const auto& f) { return f.second->signature == signature; });
    if (found != last) {
      flight = found->second;
      flight->landed.wait(lock, [&] { return flight->done; });
      if (flight->error) std::rethrow_exception(flight->error);
      return flight->kernel;
    }
    flight = std::make_shared<Flight>();
    flight->signature = signature;
    flights_.emplace(hash, flight);
  }

  try {
    flight->kernel = compile();
  } catch (...) {
    flight->error = std::current_exception();
  }
  const std::lock_guard lock(mutex_);
  const auto [first, last] = flights_.equal_range(hash);
  flights_.erase(std::find_if(first, last, [&](const auto& f) { return f.second == flight; }));
  if (flight->kernel) {
    ++compiles_;
    entries_.push_back({signature, hash, flight->kernel});
    index_.emplace(hash, std::prev(entries_.end()));
    evict_beyond(capacity_);
  }
  flight->done = true;
  flight->landed.notify_all();
  if (flight->error) std::rethrow_exception(flight->error);
  return flight->kernel;
}

void KernelCache::evict_beyond(std::int64_t kernels) {
  while (static_cast<std::int64_t>(entries_.size()) > kernels) {
    const auto oldest = entries_.begin();
    const auto [first, last] = index_.equal_range(oldest->hash);
    index_.erase(std::find_if(first, last, [&](const auto& i) { return i.second == oldest; }));
    oldest->kernel->evicted.store(true, std::memory_order_release);
    entries_.erase(oldest);
    ++evictions_;
    generation_.fetch_add(1, std::memory_order_acq_rel);
  }
}

CacheInfo KernelCache::info() const {
  CacheInfo info;
  {
    const std::lock_guard lock(mutex_);
    info.compiles = compiles_;
    info.evictions = evictions_;
    info.kernels = static_cast<std::int64_t>(entries_.size());
  }
  const std::lock_guard lock(counts().mutex);
  info.hits = counts().hits;
  info.misses = counts().misses;
  for (const ThreadCounts* thread : counts().threads) {
    info.hits += thread->hits.load(std::memory_order_relaxed);
    info.misses += thread->misses.load(std::memory_order_relaxed);
  }
  return info;
}

std::vector<std::shared_ptr<Kernel>> KernelCache::kernels() const {
  const std::lock_guard lock(mutex_);
  std::vector<std::shared_ptr<Kernel>> result;
  for (const Entry& entry : entries_) result.push_back(entry.kernel);
  return result;
}

void KernelCache::set_capacity(std::int64_t kernels) {
  if (kernels < 1) {
    throw InputError(Mistake::value, fmt::format("set_cache_capacity: {} kernels, expected at least 1", kernels));
  }
  const std::lock_guard lock(mutex_);
  capacity_ = kernels;
  evict_beyond(capacity_);
}

void KernelCache::clear() {
  const std::lock_guard lock(mutex_);
  evict_beyond(0);
}

}  // namespace lathe
