#pragma once
/// What the rules of the scheduler share.
#include <functional>
#include <optional>
#include <set>
#include <string>

#include "ir/device.h"
#include "schedule/auto/auto_schedule.h"
#include "schedule/schedule.h"

namespace lathe {

struct RuleContext {
  Schedule& schedule;
  const Device& device;
  ScheduleLog* log;
  std::set<std::string> scheduled;  ///< blocks that a rule has placed: later rules leave their loops alone

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
