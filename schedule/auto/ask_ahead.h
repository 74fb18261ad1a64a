#pragma once
#include <vector>

#include "schedule/auto/block_model.h"
#include "schedule/auto/rule.h"

namespace lathe {

/// Has passes that write from and to beyond a core's own caches ask for the lines of their parameters some way ahead
/// (Device::stream_ahead_bytes), where hardware follows streams too late:
///
///   for io: vectorized for ii:                 for io: vectorized for ii:
///     out[io, ii] = exp(x[io, ii])      ->       out[io, ii] = exp(x[io, ii])
///                                              prefetch x[io + 32, ..], and out[io + 32, ..] in order to write
///
///   1. where the tensors of a pass, together, do not fit those caches
///   2. of what vectors walk through side by side for several times as far as they ask, in rows that lie behind each
///      other too: behind other short rows lies nothing of use
///   3. of what no earlier pass over the same row has brought near
///   4. in nests that write such a stream: reductions, which load more than they compute, gain nothing
///
/// The innermost loop around the vectors gets an annotation `prefetch_param_N` for the parameter at place N, the
/// elements ahead. Runs behind all that decides about loops.
void ask_ahead(RuleContext& context);

/// The same for what is walked in tiles: has the loop ask for what so many rows further on stands where vectors along
/// the iter `across` load and store, a row being a step of the iter `along`. Nothing where hardware follows, or of
/// parameters that fit a core's own caches.
void ask_for_rows(RuleContext& context, const LoopRef& loop, const std::vector<Access>& accesses, size_t across,
                  size_t along, std::int64_t rows);

}  // namespace lathe
