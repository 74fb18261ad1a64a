#pragma once
#include <string>

#include "schedule/schedule.h"

namespace lathe {

/// Reads a factor of a sum of products through a copy of the other signedness, moved by half its range, and takes what
/// that adds away from the results: for instructions that multiply signed by unsigned bytes.
///
///                                              for k: for j: block b_shifted: b_shifted[k, j] = u8(b[k, j]) ^ 128
///   for i: for j: for k:                       for i: for k: block C_shift: C_shift[i] += i32(a[i, k])
///     block C: C[i, j] += i32(a[i, k])         for i: for j: for k:
///                       * i32(b[k, j])   ->      block C: C[i, j] += i32(a[i, k]) * i32(b_shifted[k, j])
///   .. C[i, j] ..                              .. C[i, j] - C_shift[i] * 128 ..
///
/// Integers wrap, so results are the same bit for bit. Returns the copying block.
///
/// Requires:
///   1. block is a sum from zero of products of two Loads of 8-bit integers, cast to its type, of 32 or 64 bits, or
///   padded with a constant (select(condition, x, 0)); it runs over its whole domain, each iter by a serial loop of its
///   own, with no other block in those loops
///   2. one of the Loads is of a buffer of that name, and the other is not padded
///   3. block writes an allocation at its space iters, each once; others read it by Loads alone, and none writes it
///   4. nothing in the nest that holds block writes what it loads
///   5. where the buffer is an allocation, all of it is proved to be written before
BlockRef shift_operand(Schedule& schedule, const BlockRef& block, const std::string& buffer);

}  // namespace lathe
