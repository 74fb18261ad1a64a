#pragma once
#include <cstdint>
#include <optional>
#include <utility>

#include "schedule/schedule.h"

namespace lathe {

/// Runs the first `point` iterations of a loop, and the rest, in loops of their own, so that predicates go where they
/// hold anyway.
///
///   for io in 0..4: for ii in 0..8:               for io in 0..3: for ii in 0..8:
///     block B(io*8 + ii)                  ->        block B(io*8 + ii)
///         where io*8 + ii < 30                    for io in 3..4: for ii in 0..8:
///                                                   block B_1(io*8 + ii) where io*8 + ii < 30
///
/// Without a point, it is the first iteration in which a predicate below is not proved to hold. Returns both loops.
///
/// Requires:
///   1. loop is serial
///   2. 0 < point < extent is proved; without a point, some predicate says where
///   3. loop drives no reduce iter of a block that has an init, which would run in both parts
std::pair<LoopRef, LoopRef> partition(Schedule& schedule, const LoopRef& loop,
                                      std::optional<std::int64_t> point = std::nullopt);

}  // namespace lathe
