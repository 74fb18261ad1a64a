#pragma once
#include "schedule/auto/rule.h"

namespace lathe {

/// Moves each producer under the deepest loop that all its readers share and under which nothing is computed twice: the
/// stages of a normalization then run row by row, and what lies between them is a row that stays near.
///
///   for i: m[i] = max ..                 for i:
///   for i: for j: e[i, j] = ..             m[i] = max ..
///   for i: s[i] = sum e[i, ..]      ->     for j: e[i, j] = ..
///   for i: for j: out[i, j] = ..           s[i] = sum e[i, ..]
///                                          for j: out[i, j] = ..
///
///   1. never a block that is opaque or calls what is extern, or under the loops of one (is_sealed)
///   2. only while what one iteration holds of all that is fused under its loop fits the device's nearest memory
///   3. not where what it checks would cost a reader its vectors, nor, while its rows stay near, where it would stand
///      within what a reader folds along its innermost loop
///   4. a block's annotation `fuse` decides before that: 0 keeps it apart, 1 fuses it whatever it holds
void fuse_rows(RuleContext& context);

/// How many elements the block would compute under the loop of `loops` at `depth` in all, as a multiple of those that
/// it has.
double repetition(const Schedule& schedule, const Block& block, const std::vector<LoopRef>& loops, size_t depth);
/// What is made under a loop around a tile is made so often at most: the last panel may reach beyond the operand's end.
inline constexpr double most_repetition = 1.1;
/// The loops around a reader's tiles and steps of which each iteration reads a part of its own of what the block makes,
/// outermost first: all parts are at most `most` times the whole, and there is one for each core.
std::vector<LoopRef> loops_of_parts(const RuleContext& context, const BlockRef& block, const BlockRef& reader,
                                    double most);

/// Would the block, which joins many operands, compute a part of the axis that it joins, or of its rows, in each
/// iteration? It copies them part by part (cut_choices).
bool parts_operands(const Schedule& schedule, const BlockRef& block, const LoopRef& loop);

/// Does the block copy what lies across what it writes, and would it do so under the loop in stretches shorter than
/// squares along one of the two? There are none to turn around then.
bool costs_squares(const RuleContext& context, const BlockRef& block, const LoopRef& loop);

/// Would an iteration of the loop check fewer indices than a vector has lanes, or than a few, where all stay near? All
/// of them together fill vectors, and are there when rows are picked by them (measured on Zen 4, sums of 3 picked rows
/// of 64 floats: 0.41 of the time, of 5 of 32 0.5, of 20 of 2 to 26 0.6 to 0.95, of 300 1).
bool checks_few(const RuleContext& context, const Block& block, const LoopRef& loop);

/// What one iteration of the loop reads of what the block computes.
Region region_read(const Schedule& schedule, const Block& block, const LoopRef& loop);

/// The bytes that one iteration of the loop needs of what the block computes.
double live_bytes(const Schedule& schedule, const Block& block, const LoopRef& loop);

}  // namespace lathe
