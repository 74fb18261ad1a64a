#include "jit/cache/epoch.h"

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <limits>
#include <mutex>
#include <vector>

namespace lathe {
namespace {

constexpr std::uint64_t idle = std::numeric_limits<std::uint64_t>::max();

struct Slot {
  std::atomic<std::uint64_t> entered{idle};
  int depth = 0;
};

struct Retired {
  std::uint64_t epoch;
  std::function<void()> free;
};

/// Never destroyed: threads may outlive static destruction.
struct Registry {
  std::mutex mutex;
  std::vector<Slot*> slots;
  std::vector<Retired> retired;
  std::atomic<std::uint64_t> epoch{1};
};

Registry& registry() {
  static auto* instance = new Registry;
  return *instance;
}

struct ThreadSlot {
  Slot slot;
  ThreadSlot() {
    const std::lock_guard lock(registry().mutex);
    registry().slots.push_back(&slot);
  }
  ~ThreadSlot() {
    const std::lock_guard lock(registry().mutex);
    std::erase(registry().slots, &slot);
  }
};

thread_local ThreadSlot thread_slot;

}  // namespace

EpochGuard::EpochGuard() {
  Slot& slot = thread_slot.slot;
  if (slot.depth++ == 0)
    slot.entered.store(registry().epoch.load(std::memory_order_acquire), std::memory_order_seq_cst);
}

EpochGuard::~EpochGuard() {
  Slot& slot = thread_slot.slot;
  if (--slot.depth == 0) slot.entered.store(idle, std::memory_order_release);
}

void retire(std::function<void()> free) {
  {
    const std::lock_guard lock(registry().mutex);
    registry().retired.push_back({registry().epoch.fetch_add(1), std::move(free)});
  }
  reclaim();
}

void reclaim() {
  std::vector<Retired> ready;
  {
    const std::lock_guard lock(registry().mutex);
    std::uint64_t oldest = idle;
    for (const Slot* slot : registry().slots) oldest = std::min(oldest, slot->entered.load(std::memory_order_seq_cst));
    auto& retired = registry().retired;
    const auto split =
        std::partition(retired.begin(), retired.end(), [&](const Retired& r) { return r.epoch >= oldest; });
    std::move(split, retired.end(), std::back_inserter(ready));
    retired.erase(split, retired.end());
  }
  for (Retired& r : ready) r.free();
}

}  // namespace lathe
