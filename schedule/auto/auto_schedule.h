#pragma once
#include <string>
#include <vector>

#include "ir/device.h"
#include "ir/func.h"

namespace lathe {

/// Why a schedule looks as it does: one line a decision, in the order taken.
struct ScheduleLog {
  std::vector<std::string> decisions;
  std::vector<std::string> record;  ///< the primitives applied, as Schedule::record has them
};

/// Schedules a traced Func by analysis alone: no search, no operator named. The rules, in order, are the files beside
/// this one. The result computes the same thing; reductions may be reassociated, always in an order that depends on
/// shapes only.
Func auto_schedule(const Func& func, const Device& device, ScheduleLog* log = nullptr);

}  // namespace lathe
