#pragma once
#include <cstdint>

#include "schedule/schedule.h"

namespace lathe {

/// Makes two blocks of one: of the first `point` iterations of a loop, and of the rest, each without what its part of
/// the domain decides. So each can be laid out for what it does.
///
///   for i in 0..350:                            for i in 0..200:
///     block C(i in 0..350):                       block C(i in 0..200): C[i] = x[i]
///       C[i] = select(i < 200,          ->      for i in 0..150:
///                     x[i], y[i - 200])           block C_1(i in 0..150): C[i + 200] = y[i]
///
/// Returns the block of the rest.
///
/// Requires:
///   1. block has only space iters and no init; loop drives one of them over its whole domain, is serial, and holds no
///      other block
///   2. loop drives an iter of block, whose domain is [0, n) with n constant
///   3. 0 < point < n
BlockRef split_domain(Schedule& schedule, const BlockRef& block, const LoopRef& loop, std::int64_t point);

}  // namespace lathe
