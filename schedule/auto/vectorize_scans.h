#pragma once
#include "schedule/auto/rule.h"

namespace lathe {

/// Vectorizes blocks in which each element continues from one before it.
///
///   1. where elements that need each other lie one behind the other in memory, in steps of a vector (scan_lanes)
///   2. where they lie across, along the other axis, in blocks of columns whose row stays in the nearest cache until
///      the next one continues from it
///   3. where they lie along rows, combined in a way of their own, across rows that are turned around (turn_scan)
void vectorize_scans(RuleContext& context);

}  // namespace lathe
