#pragma once
#include <cstdint>
#include <utility>

#include "schedule/schedule.h"

namespace lathe {

/// Splits a loop in two, the inner of `factor` iterations.
///
///   for i in 0..30: block B(i)    ->    for io in 0..4:
///                                         for ii in 0..8:
///                                           block B(io*8 + ii) where io*8 + ii < 30
///
/// Where the extent is no proven multiple of the factor, every block below gets the predicate that keeps it in range,
/// beside what its predicate says already.
///
/// Requires:
///   1. factor is at least 1
///   2. loop is serial
///   3. the extent is a multiple of factor, or every statement below loop is in a block, which can carry a predicate,
///   and
///      no loop below ends by what is loaded at places that hang on loop
///   4. the extent is a multiple of factor, or past it no block with an init below has a point in its domain
std::pair<LoopRef, LoopRef> split(Schedule& schedule, const LoopRef& loop, std::int64_t factor);

}  // namespace lathe
