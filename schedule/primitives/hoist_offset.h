#pragma once
#include <string>

#include "schedule/schedule.h"

namespace lathe {

/// Takes a constant that is added to a factor of a sum of products of integers out of its terms, behind the sum: the
/// zero point of what was quantized.
///
///                                                   for j: for k: block C_shift: C_shift[j] += i32(b[k, j])
///   for i: for j: for k:                            for i: for j: for k:
///     block C: C[i, j] += (i32(a[i, k]) - 3)   ->     block C: C[i, j] += i32(a[i, k]) * i32(b[k, j])
///                         * i32(b[k, j])
///   .. C[i, j] ..                                   .. C[i, j] - C_shift[j] * 3 ..
///
/// Integers wrap, so results are the same bit for bit.
///
/// Requires:
///   1. block is a sum from zero of products of two factors of integers; it runs over its whole domain, each iter by a
///   serial loop of its own, with no other block in those loops
///   2. one of the factors is an element of the buffer of that name, cast or not, plus or minus a constant, and the
///   other loads nothing of it
///   3. block writes an allocation at its space iters, each once; others read it by Loads alone, and none writes it
///   4. nothing in the nest that holds block writes what the other factor loads
///   5. where that loads an allocation, all of it is proved to be written before
void hoist_offset(Schedule& schedule, const BlockRef& block, const std::string& buffer);

/// The buffer of a factor with such a constant, of a block that may be one; empty where there is none.
std::string offset_factor(const Block& block);

}  // namespace lathe
