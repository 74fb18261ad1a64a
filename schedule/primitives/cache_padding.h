#pragma once
#include <string>

#include "schedule/schedule.h"

namespace lathe {

/// Lets a block read a buffer that it pads through a padded copy, so that the choice between element and padding is
/// made once an element of the copy and not at every read.
///
///   for i: for k:                                  for j in 0..12: block A_pad(j):
///     block C(i; k):                          ->     A_padded[j] = select(0 < j && j < 11, A[j - 1], 0)
///       C[i] += select(0 < i + k && i + k < 11,    for i: for k:
///                      A[i + k - 1], 0) * B[k]       block C(i; k): C[i] += A_padded[i + k] * B[k]
///
/// So are elements that repeat others where a sum of iters leaves the buffer: the nearest (`A[max(i + k - 1, 0)]`),
/// those of the other end (`A[(i + k - 1) % 10]`), those before it (`A[abs(i + k - 1)]`), or what else is chosen by the
/// sum alone; and elements of several buffers, as of tensors that are joined: the copy holds them all.
///
/// The copy holds what the block's iters reach (every second element of `A[2 * i + 2 * k - 1]`), and zero where that
/// lies outside the buffer, as instances that a predicate leaves out do. Its rows are set apart by places in a step of
/// `apart`, so that vectors can walk them: by 2, what was read at [2 * i + k] lies at [k % 2, i + k // 2], and at [2 *
/// i] at [i]. Returns the copying block.
///
/// Requires:
///   1. block reads a buffer of that name once, by a Load in a Select between elements and constants, or by one whose
///      indices are not all sums, or, where its rows are set apart, by any
///   2. each index of the Load is a sum of multiples of iters, of runs (iter // constant) of an iter that it uses in no
///      other way, and a constant, of a range that is known; or is made of one such sum and of what no iter changes;
///      no two use the same iter, as the copy would hold combinations that block never reads; and those of other Loads
///      in the Select are sums of these but for a constant
///   3. the Select's condition compares these sums, each by itself, with what no iter changes
///   4. nothing in the nest that holds block writes the buffers
BlockRef cache_padding(Schedule& schedule, const BlockRef& block, const std::string& buffer,
                       const std::string& memory_space, std::int64_t apart = 1);

}  // namespace lathe
