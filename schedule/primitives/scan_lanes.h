#pragma once
#include <cstdint>
#include <optional>

#include "schedule/schedule.h"

namespace lathe {

/// The blocks that scan_lanes puts beside a scan.
struct ScanLanes {
  BlockRef start;  ///< begins every row with the identity
  BlockRef terms;  ///< computes a step's terms: its last loop may be vectorized
  /// Goes on behind the last whole step, element by element; nothing where none is left.
  std::optional<BlockRef> rest;
};

/// Runs a scan in steps of `lanes` elements. What a step's terms come to up to each is a matter of log2(lanes)
/// combinations with vectors shifted by 1, 2, 4 ..; only the combination with all earlier steps waits for the one
/// before.
///
///   for i: for j in 0..70:                                 for i:
///     block S(i, ordered j):                                 block S_start(i): S_carry[i, 0..16] = 0
///       y[i, j] = y[i, j - 1 if j >= 1] + x[i, j]    ->      for jo in 0..4:
///                                                              for ji in 0..16:
///                                                                block S_terms(i, jo, ji):
///                                                                  S_term[i, jo, ji] = x[i, jo*16 + ji]
///                                                              block S(i, ordered jo):
///                                                                let s1 = S_term[i, jo, 0..16]
///                                                                let s2 = (-0, s1[0..15]) + s1
///                                                                let s4 = (-0, -0, s2[0..14]) + s2 ..
///                                                                y[i, jo*16 .. jo*16 + 16] = S_carry[i, 0..16] + s16
///                                                                S_carry[i, 0..16] += s16[15]
///                                                            for j in 64..70: block S_rest(i, ordered j) as before
///
/// Floats are grouped in another way, as rfactor does with those of a reduction; but a step whose products leave the
/// range of normal numbers takes its factors one after another, since 0 * inf is no product of theirs. Returns the new
/// blocks.
///
/// Requires:
///   1. lanes is a power of two, of at least 2
///   2. block is a scan (schedule/scan.h) without a predicate
///   3. its ordered iter is bound to a serial loop of its own that directly holds the block and nothing else, and both
///      run from 0, for at least lanes elements where their number is known
ScanLanes scan_lanes(Schedule& schedule, const BlockRef& block, std::int64_t lanes);

}  // namespace lathe
