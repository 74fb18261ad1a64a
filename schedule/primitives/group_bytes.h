#pragma once
#include <optional>

#include "schedule/byte_factor.h"
#include "schedule/schedule.h"

namespace lathe {

/// Has a sum of products of bytes take four steps of an iter at once: factors are read through copies, of which each
/// 32-bit element holds four neighbours along it.
///
///                                                for i: for k: block a_bytes: a_bytes[i, k] =
///                                                    join_bytes(a[i, 4*k], a[i, 4*k + 1], ..)
///                                                for k: for j: block b_bytes: b_bytes[k, j] =
///   for i: for j: for k in 0..12:                    join_bytes(b[4*k, j], b[4*k + 1, j], ..)
///     block C: C[i, j] += i32(a[i, k])    ->     for i: for j: for k in 0..3:
///                       * i32(b[k, j])             block C: C[i, j] += dot_bytes(0, a_bytes[i, k], b_bytes[k, j])
///
/// What is missing of the last four is zero. Integers wrap, so results are the same bit for bit. Of bf16 two steps are
/// taken, by join_halves and dot_halves, and results differ by how these round. The copies are named after what they
/// copy, in the order of the factors.
///
/// Requires:
///   1. block is a sum from zero of products of two Loads of 8-bit integers, cast to its type, i32, or padded with a
///   constant (select(condition, x, 0)), or of bf16, cast to f32, or padded with zero; it runs over its whole domain,
///   each iter by a serial loop of its own, with no other block in those loops
///   2. loop drives a reduce iter of constant extent from 0; each Load uses it in one index, of a dimension of constant
///   extent: the iter plus what is a multiple of a word's steps, or the iter alone where the extent is no such
///   multiple; no choice of padding uses it
///   3. nothing in the nest that holds block writes what it loads
///   4. where what it loads is an allocation, all of it is proved to be written before
std::vector<BlockRef> group_bytes(Schedule& schedule, const BlockRef& block, const LoopRef& loop);

/// The place of that Load which group_bytes can group along the iter, by condition 2.
struct GroupedIndex {
  size_t dimension = 0;
  Expr base;  ///< of the index of words, to which the iter is added
};
std::optional<GroupedIndex> grouped_index(const ByteFactor& factor, const Iter& iter);

}  // namespace lathe
