#pragma once
/// What the rules of the scheduler share.
#include <functional>
#include <optional>
#include <string>
#include <unordered_set>
#include <vector>

#include "ir/device.h"
#include "schedule/auto/auto_schedule.h"
#include "schedule/schedule.h"

namespace lathe {

/// Names, with a way back to what they were.
class NameSet {
 public:
  bool contains(const std::string& name) const { return names_.contains(name); }
  void insert(const std::string& name) {
    if (names_.insert(name).second) order_.push_back(name);
  }
  size_t size() const { return order_.size(); }
  /// One a line.
  std::string text() const {
    std::string lines;
    for (const std::string& name : order_) lines += name + "\n";
    return lines;
  }
  void shrink(size_t size) {
    for (; order_.size() > size; order_.pop_back()) names_.erase(order_.back());
  }

 private:
  std::unordered_set<std::string> names_;
  std::vector<std::string> order_;
};

struct RuleContext {
  Schedule& schedule;
  const Device& device;
  ScheduleLog* log;
  NameSet scheduled;  ///< blocks that a rule has placed: later rules leave their loops alone

  void note(std::string decision) const { note(std::move(decision), schedule.record().size()); }
  /// The same of a decision that was taken when the record had so many lines.
  void note(std::string decision, size_t place) const {
    if (!log) return;
    log->decisions.push_back(std::move(decision));
    log->places.push_back(place);
  }
};

/// Applies `f` whole or not at all: when a primitive refuses, the schedule is as before, and the log says why.
bool attempt(RuleContext& context, const std::string& decision, const std::function<void()>& f);

/// rfactor, whose partial results then lie side by side for each iteration of `loop`: it counts them by the last index,
/// where vectors want their lanes.
BlockRef partial_results(Schedule& schedule, const BlockRef& reduction, const LoopRef& loop);

/// What a person asked of a block by its annotation `fuse`: 0 keeps it apart, with loops and a buffer of its own; 1 has
/// it inlined or fused wherever that can be done, whatever a rule makes of the cost.
enum class FusionWish { none, apart, together };
FusionWish fusion_wish(const Block& block);

/// Does the block do what analysis does not see into: opaque iters, extern calls, addresses that it takes? Such a block
/// is neither inlined nor fused, nor is anything into it.
bool is_sealed(const Block& block);

/// May a loop around the block be given to other nests too: has no rule placed it, and does a person leave it to them?
/// The steps of a scan hand on what they have found.
bool may_join(const RuleContext& context, const Block& block);

/// The bytes of the nearest memory that data can stay in while it is worked on. The caches are one: what fits a core's
/// share of the last of them does not come from beyond while the core works on it. Of a device without caches it is the
/// smallest space with a capacity, registers not counted; nothing when none is bounded.
std::optional<std::int64_t> nearest_memory_bytes(const Device& device);

/// The bytes of the largest cache that a core has for itself; 0 when there is none.
std::int64_t own_cache_bytes(const Device& device);
/// The same cache; null when there is none.
const CacheLevel* own_cache(const Device& device);
/// Is so much so many times what a core's own caches hold that little of it stays in those behind them?
bool exceeds_caches(const Device& device, double bytes);
/// Does an array of so many bytes come from memory each time that it is walked: does the last cache not hold it twice,
/// beside what replaces it on the way?
bool comes_from_memory(const Device& device, double bytes);
/// How many lines of rows that are `stride` bytes apart the cache can hold.
std::int64_t lines_held(const CacheLevel& cache, std::int64_t stride);

/// The longest share of so many equal tasks that one of the device's cores has, as a multiple of an even one.
double longest_share(const Device& device, std::int64_t tasks);

/// The loops around a block that hold no other statement, outermost first.
std::vector<LoopRef> own_loops(const Schedule& schedule, const BlockRef& block);
/// The loop that alone is bound to an iter of the block; nothing when the binding is more than the loop's variable.
std::optional<LoopRef> loop_of_iter(const Schedule& schedule, const BlockRef& block, size_t iter);

/// A loop that a rule may lay out anew, among the loops that hold the block alone.
struct OwnLoop {
  LoopRef loop;
  std::vector<LoopRef> own;
};
/// That of an iter; nothing when other blocks share it.
std::optional<OwnLoop> own_loop_of(const Schedule& schedule, const BlockRef& block, size_t iter);

/// The outermost of the loops around a block alone that the binding of an iter uses, by itself or with others; nothing
/// when none does.
std::optional<LoopRef> driving_loop(const Schedule& schedule, const BlockRef& block, size_t iter);

/// The greatest divisor of `extent` from `least` to `most`; nothing when there is none.
std::optional<std::int64_t> greatest_divisor(std::int64_t extent, std::int64_t least, std::int64_t most);

}  // namespace lathe
