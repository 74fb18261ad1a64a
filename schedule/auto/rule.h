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

  void note(std::string decision) const {
    if (log) log->decisions.push_back(std::move(decision));
  }
};

/// Applies `f` whole or not at all: when a primitive refuses, the schedule is as before, and the log says why.
bool attempt(RuleContext& context, const std::string& decision, const std::function<void()>& f);

/// The loops around a block that hold no other statement, outermost first.
std::vector<LoopRef> own_loops(const Schedule& schedule, const BlockRef& block);
/// The loop that alone is bound to an iter of the block; nothing when the binding is more than the loop's variable.
std::optional<LoopRef> loop_of_iter(const Schedule& schedule, const BlockRef& block, size_t iter);

}  // namespace lathe
