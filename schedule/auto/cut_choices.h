#pragma once
#include <optional>

#include "ir/func.h"
#include "schedule/auto/rule.h"

namespace lathe {

/// Cuts an element-wise block that chooses by its place along an axis, as joining, stacking and rolling tensors do,
/// into a block for each choice. What is left are whole copies, whose loops can be one.
///
///   for i in 0..350: for j:                      for i in 0..200: for j: y[i, j] = a[i, j]
///     y[i, j] = select(i < 200,            ->    for i in 0..150: for j: y[i + 200, j] = b[i, j]
///                      a[i, j], b[i - 200, j])
///
/// Rows that repeat others, as x[i, j % 100] does, are cut where they begin again. So are the ends of a row where what
/// it reads jumps, as x[i, (j + 1) % 100] does, turns back or stands still, as x[i, min(max(j - 3, 0), 99)] does.
///
///   1. blocks that write outputs, or join many operands; of outputs that go past the caches no short parts that begin
///      within lines
///   2. where every block that comes of it has vectors enough, but for such ends, and there are few: of more operands
///      that are joined each part takes several
///   3. where the choice weighs something beside what is computed, or each choice computes something else
void cut_choices(RuleContext& context);
/// The same for one block, as where digits of an axis that it chooses by have become iters.
void cut_block(RuleContext& context, const BlockRef& ref);

/// Does what a row reads jump, or turn back, near its ends alone, as where a copy is padded with elements that repeat
/// others?
bool turns_at_edges(const RuleContext& context, const Block& block);
/// Does an iteration of the loop read a part of such a row? Made for each, parts would have edges of their own.
bool cuts_edges_off(const RuleContext& context, const Block& maker, const LoopRef& loop);

/// Of the block's instances, the share for which the mask holds, where that leaves blocks that the rule may make: of
/// what is joined, what each operand is. Nothing where it may not, or the mask leaves nothing out that is known.
std::optional<double> part_share(const RuleContext& context, const Block& block, const Expr& mask);

}  // namespace lathe
