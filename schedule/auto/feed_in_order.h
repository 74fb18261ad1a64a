#pragma once
/// What is computed for blocks that go on one by one, as sums of elements by index do: blocks of their iterations
/// ahead, in vectors.
///
///   for i: p[i] = hash(x[i])                      for io: for ii in 0..512: p[io * 512 + ii] = hash(..)
///   for i in order: out[p[i]] += 1       ->               for ii in 0..512 in order: out[p[io * 512 + ii]] += 1
#include <vector>

#include "schedule/auto/rule.h"

namespace lathe {

/// Does the block store along the iter, which goes on one by one, at places that no step leads to?
bool scatters_along(const Block& block, size_t iter);
/// Does the block store at places that data says, one after another, as a sum of elements by index does? What it reads
/// beside is made a block of its iterations at a time, where that takes long: a vector each.
bool stores_where_data_says(const Block& block);
/// Does the block make whole numbers of doubles, lane by lane where vectors have no instruction for it (below AVX-512)?
bool converts_lane_by_lane(const Device& device, const Block& block);

/// Would the block, element-wise and no small computation, stand in the loop of a reader that goes on one by one?
bool waits_in_order(const RuleContext& context, const BlockRef& block, const std::vector<BlockRef>& readers,
                    const LoopRef& loop);

/// Of what is computed in vectors for a loop that goes on one by one: a few pages, which stay in the first cache.
inline constexpr std::int64_t iterations_of_block = 512;

/// Computes the block for so many iterations of the loop before these run; false where there are few.
bool fuse_block_by_block(RuleContext& context, const BlockRef& block, const LoopRef& loop,
                         std::int64_t iterations = iterations_of_block);

}  // namespace lathe
