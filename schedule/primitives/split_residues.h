#pragma once
#include "schedule/schedule.h"

namespace lathe {

/// Splits a sum whose terms are zero but for one residue of an index, as those of a transposed convolution are, into a
/// dense sum for each residue of its results: what is multiplied by zero is left out.
///
///   for h: for r: block C:                          for ho: for h: for ro: block C_dense:
///     C[h] += select((h + r) % 2 == 0,                C_dense[h, ho] += x[ho + ro + h] * w[ro*2 + h]
///                    x[(h + r)//2], 0) * w[r]  ->   for ho: for h: block C:
///                                                     C[ho*2 + h] = C_dense[h, ho] + C_skipped[h]
///
/// Each of several dimensions may have such a condition; all are split. Where results of some residues have no terms,
/// as where the modulus is more than there are terms, there is a dense sum for each residue of the terms, and the
/// others are zero. Zero times an element is zero only where that is finite: nests before sum zero times what the left
/// out terms hold (C_skipped above), which is added to the results, so that NaN and infinities come out as before. Sums
/// of integers, and terms that are zero as a whole, have none of it. Returns the dense sum.
///
/// Requires:
///   1. block is a sum from zero, runs over its whole domain, each iter by a serial loop of its own with no other block
///   in those loops, writes at its space iters, and reads its output nowhere else
///   2. its term has one factor select(A && .., x, 0), where A says (a*h + b*r + c) % m == t, as a bound too, of one
///   space iter and one reduce iter or none, constants otherwise, m and one of a and b without a common divisor, m at
///   most 64
///   3. these iters start at 0, have constant extents, and are in one such condition each; each residue of the reduce
///   iter has a term, or a and m have no common divisor
///   4. what is multiplied by the factor does not use the space iters
BlockRef split_residues(Schedule& schedule, const BlockRef& block);

}  // namespace lathe
