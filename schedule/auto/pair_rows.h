#pragma once
#include "schedule/auto/rule.h"

namespace lathe {

/// Walks two rows side by side where a row is reduced and then passed over again, as norms do: what ends a sum (lanes
/// that are folded, a quotient, a root) is waited for by one row while the other's goes on, and what all rows share
/// (weights) is loaded once for two.
///
///   for i:                                     for io:
///     for k: s[i] += x[i, k]                     for k: for i in 2 (unrolled): s[i] += x[i, k]
///     m[i] = s[i] / K                     ->     for i in 2 (unrolled): m[i] = s[i] / K
///     for k: y[i, k] = x[i, k] - m[i]            for k: for i in 2 (unrolled): y[i, k] = x[i, k] - m[i]
///
/// Not where
///   - a step costs so much that waiting for the end of a sum does not count,
///   - the sums of two rows have no room in registers,
///   - rows are long, or come from memory, or so few that cores would go without,
///   - or there is no whole number of pairs, or of vectors in a row.
void pair_rows(RuleContext& context);

/// Will it do so with the rows that a block reduces? Each then needs half of the chains that would hide an addition's
/// latency.
bool goes_in_pairs(const RuleContext& context, const BlockRef& ref);

}  // namespace lathe
