#pragma once
/// The loops of a reduction, put where vectors go.
#include <optional>
#include <vector>

#include "schedule/auto/block_model.h"
#include "schedule/auto/rule.h"
#include "schedule/schedule.h"

namespace lathe {

/// Chains of partial results that hide the latency of an addition at two a cycle, with no more registers than a small
/// body wants; of a minimum or maximum of floats, which is three instructions for the sake of NaN and of zeros' signs,
/// or one that waits for its load, two do nearly in short rows, where every further one is compiled for little.
inline constexpr std::int64_t chains = 4, ordered_chains = 2;

/// Vectors in a row from which on a second chain of what is compared gains more than folding it costs.
inline constexpr std::int64_t long_row = 128;

/// Makes the loop the innermost, and those over results the outermost: partial results in registers are of one each.
void make_innermost(Schedule& schedule, const BlockRef& ref, const OwnLoop& found);

/// The loop as so many vectors, one after another without a loop.
void vectorize_copies(Schedule& schedule, LoopRef loop, std::int64_t vectors, std::int64_t lanes);

/// Does the access stand still, or walk by so few elements a step that its vectors are picked out of whole ones?
bool walks_near(const Access& access, size_t iter);

/// The longest reduce iter of two steps and more along which every access walks near.
std::optional<size_t> near_axis(const Block& block, const std::vector<Fact>& facts);

}  // namespace lathe
