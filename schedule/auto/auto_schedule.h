#pragma once
#include <string>
#include <vector>

#include "ir/device.h"
#include "ir/func.h"

namespace lathe {

/// Why a schedule looks as it does: one line a decision, in the order taken.
struct ScheduleLog {
  std::vector<std::string> decisions;
  std::vector<size_t> places;       ///< of each decision: the lines of the record that stood when it was taken
  std::vector<std::string> record;  ///< the primitives applied, as Schedule::record has them
};

/// Schedules a traced Func by analysis alone: no search, no operator named. The rules, in order, are the files beside
/// this one. The result computes the same thing; reductions may be reassociated, always in an order that depends on
/// shapes only.
Func auto_schedule(const Func& func, const Device& device, ScheduleLog* log = nullptr);

/// The rules by name, in order, for pipelines: each is a pass of its own there.
const std::vector<std::string>& scheduling_rules();
/// Marks a Func for the rules of a pipeline (attr `schedule: "auto"`). Without the mark they leave it as it is: what a
/// person has scheduled is not scheduled again.
Func ask_for_schedule(const Func& func);
/// Runs one rule on a Func that asks for it; all of them one after another make auto_schedule. What the rules before
/// have placed is remembered in the attr `scheduled_blocks`; the last rule takes both attrs away.
Func apply_scheduling_rule(const Func& func, const Device& device, const std::string& rule);

}  // namespace lathe
