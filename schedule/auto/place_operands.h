#pragma once
/// Where the operands of a register tile are made and copied, once its loops stand.
#include <optional>
#include <string>
#include <vector>

#include "schedule/auto/rule.h"
#include "schedule/layout_map.h"

namespace lathe {

/// A dimension of a buffer of that rank, the last or `cut`, is cut into panels of `width`, which are counted in
/// dimension `panels`.
LayoutMap panel_layout(size_t rank, std::int64_t width, size_t panels, std::optional<size_t> cut = std::nullopt);

/// Has what makes an operand of the reduction, such as its padding, make it where it is read, under the deepest of the
/// loops `around` the tile under which no element is made twice, or under blocks of one of them, which is two then
/// (slide_copy); and fills borders apart. Leaves the block `kept`.
void place_makers(RuleContext& context, const BlockRef& reduction, std::vector<LoopRef>& around, const BlockRef& kept);

/// Can several panels of a copy of the operand lie one behind the other? A window's reach beyond their ends.
bool copies_by_panels(const Block& reduction, const Buffer& operand, size_t vectors);

/// Copies the panel of an operand that the iter `vectors` walks where the loop over panels has just moved on, in
/// vectors; false where it cannot be copied. Where the loop is over several panels, these lie one behind the other,
/// each of `width` columns.
bool pack_panel(RuleContext& context, const BlockRef& reduction, const Buffer& operand, size_t vectors,
                std::int64_t lanes, const LoopRef& panels, std::int64_t width = 0);

/// The copy of an operand that was turned around for this reduction alone, where it can lie by panels of `width`
/// columns: the iter `vectors` alone walks its last dimension, and no vector that is stored straddles two panels.
std::optional<BlockRef> copy_for_panels(const RuleContext& context, const BlockRef& reduction, const Buffer& operand,
                                        size_t vectors, std::int64_t width);

/// Lays such an operand out by panels, each in one piece.
bool lay_by_panels(RuleContext& context, const BlockRef& reduction, const Buffer& operand, size_t vectors,
                   std::int64_t width);

/// The same of one that is made for this reduction, under a loop over panels, by a block that no rule has placed:
/// in vectors of so many lanes.
void make_by_panels(RuleContext& context, const BlockRef& reduction, const Buffer& operand, size_t vectors,
                    std::int64_t lanes, std::int64_t width);

/// Lays a copy that no rule has placed yet, of an operand of this reduction alone, out by panels of `width` columns,
/// each in one piece, where the iter `columns` alone walks its last dimension in whole panels: the steps of longer rows
/// lie so far apart that they push each other out of the first cache (measured on Cascade Lake: attention over 8 x 1024
/// x 64 in 22.5 ms instead of 26.3).
void lay_copy_by_panels(RuleContext& context, const BlockRef& reduction, const BlockRef& copy, size_t columns,
                        std::int64_t width);

/// Makes vectors of the loop, unrolled where there are several.
void vectorize_columns(Schedule& schedule, const LoopRef& loop, std::int64_t lanes);

}  // namespace lathe
