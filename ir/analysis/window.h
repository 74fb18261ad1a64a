#pragma once
/// How far an index moves while a variable, or the lanes of a vector, take a few steps: what a gather can touch.
#include <cstdint>
#include <optional>

#include "ir/analysis/interval.h"

namespace lathe {

/// An i64 index that never falls as `variable` grows: the most that it gains in `steps` steps. Sums, products with
/// constants, quotients by them, min and max are followed, as in floor((200 v + 100) / 266), of floats that are rounded
/// to an index too, where `bounds` tells how large they become; nothing for other indices.
std::optional<std::int64_t> greatest_gain(const Expr& index, const VarRef& variable, std::int64_t steps,
                                          const Bounds& bounds = {});

/// The same for a vector, from its first lane to its last.
std::optional<std::int64_t> greatest_gain(const Expr& vector, const Bounds& bounds = {});

/// The first lane of a vector of Ramps, Broadcasts, arithmetic on them and roundings of it; null for another.
Expr first_lane(const Expr& vector);

}  // namespace lathe
