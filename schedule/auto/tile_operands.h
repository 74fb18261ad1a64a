#pragma once
/// What a tile of a contraction reads, and how far apart that lies.
#include <optional>
#include <vector>

#include "schedule/auto/contraction.h"
#include "schedule/auto/register_tile.h"
#include "schedule/auto/rule.h"

namespace lathe {

/// The extent of an iter's domain, where it is a constant.
std::optional<std::int64_t> constant_extent(const Block& block, size_t iter);

/// The operand that the vectors walk while the rows of a tile stand still in it.
std::optional<Access> vector_operand(const Block& reduction, size_t rows, size_t vectors);

/// Where two operands lie along the vectors, and one of them is shared by rows: the space iter whose iterations share
/// the other one, so that a tile takes several of both. Of constant extent.
std::optional<size_t> paired_rows(const Block& reduction, const ReductionShape& shape, size_t vectors);

/// Orders the iters that are reduced by the distance that the largest operand goes with them, the nearest innermost,
/// where it is too large for the caches of a core: but innermost the one along which a tile's steps take clearly fewer
/// lines of all operands, as rows that lie far apart go on in theirs.
void walk_far_steps_outside(const RuleContext& context, const Block& reduction, ReductionShape& shape);

/// Where no operand of the vectors is shared by rows, a space iter whose iterations beside each other still keep more
/// sums on their way than one row has: that along which an operand that all lanes share stands still, or else the
/// nearest in memory.
std::optional<size_t> independent_rows(const Block& reduction, const ReductionShape& shape, size_t vectors);

/// Cycles that a vector along `vectors` of the reduction's terms takes besides two loads and a multiplication, relative
/// to an addition: further arithmetic, and what takes lanes apart that lie a few elements from each other. Conditions
/// that `rows` share are found once for all of a tile's.
double term_cycles(const Block& reduction, size_t vectors, std::optional<size_t> rows = std::nullopt);

/// Does the reduction add up products of two loads, which may be widened or be zero outside of a window? Widening and
/// masks are part of how operands are loaded.
bool adds_products(const Block& reduction);
/// The same of products that are taken under conditions which `rows` share, where adding under a mask is one
/// instruction with the product.
bool adds_under_masks(const Device& device, const Block& reduction, size_t rows);

/// Further space iters along which the operand stands still. A loop over one inside of the loop over panels finds the
/// panel in a near cache; outside, it would walk the whole operand again each time.
std::vector<size_t> sharing_iters(const ReductionShape& shape, const Access& operand);

/// Lines of the first cache that a step of a tile takes of the operand whose rows the iter walks, for so many rows: a
/// vector whose rows do not lie by whole vectors is in two.
std::int64_t lines_of_step(const Block& reduction, const ReductionShape& shape, size_t iter, std::int64_t rows,
                           std::int64_t lanes);

/// Space iters that slide the operand along a dimension that the reduction walks too, as residues of a transposed
/// convolution do: what their iterations read overlaps.
std::vector<size_t> sliding_iters(const Block& reduction, const ReductionShape& shape, const Access& operand);

/// Does a panel of the operand lie so far apart that pages and cache sets run short?
bool lies_scattered(const Block& reduction, const ReductionShape& shape, const Access& operand);
/// The same of a panel whose first and last step lie so many bytes apart.
bool is_scattered(std::int64_t bytes);

/// Do so many groups of panels give the cores even shares, or so many that an uneven one does not matter?
bool shares_evenly(const Device& device, std::int64_t groups);

/// Is a panel of the operand, of a tile's columns that vectors walk and so many tiles read, worth a compact copy?
bool worth_packing(const RuleContext& context, const Block& reduction, const ReductionShape& shape,
                   const Access& operand, const RegisterTile& tile, std::int64_t tiles);

/// How many packed panels of columns a strip of rows meets one after another, so that rows that do not stay in a core's
/// own caches come from beyond them the less often: as many as stay there beside, where they share out `panels` evenly.
std::int64_t panels_together(const Device& device, std::int64_t row_bytes, std::int64_t panel_bytes,
                             std::int64_t panels);

/// How many panels of an operand that lies scattered are packed together, as each step is a line or two of a page of
/// its own: copies of several lines take the way there once. The last of the groups may be shorter. One where many
/// `tiles` of rows read a panel.
std::int64_t panels_of_piece(const Device& device, std::int64_t step_bytes, std::int64_t panel_bytes,
                             std::int64_t panels, std::int64_t tiles);

/// Does the operand come from beyond a core's own caches, each step of the reduction from another page? Prefetchers
/// then follow no walk down a panel.
bool lies_by_pages(const RuleContext& context, const ReductionShape& shape, const Access& operand);

/// How many elements the operand goes on with the innermost of `around` that is walked at all; nothing where that goes
/// on by less than a prefetcher of neighbouring lines brings.
std::optional<std::int64_t> next_place(const Schedule& schedule, const Block& reduction,
                                       const std::vector<LoopRef>& around, const Access& operand);

}  // namespace lathe
