#pragma once
#include <string>

#include "schedule/schedule.h"

namespace lathe {

/// Notes something on a loop for a later pass; it changes no meaning. An annotation of that name is replaced.
///
/// Requires:
///   1. key is not empty
void annotate(Schedule& schedule, const LoopRef& loop, const std::string& key, std::int64_t value);

}  // namespace lathe
