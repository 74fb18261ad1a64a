#pragma once
#include <cstdint>
#include <vector>

#include "schedule/auto/rule.h"

namespace lathe {

/// Has the loops over the steps of a tile ask for the lines that its sums are stored to behind them by `reader`, in
/// order to write, some in each iteration of the outermost one: all at once leave no room for what the steps load.
///
///   for k in 64: sum[..] += a[.., k] * b[k, ..]        for ko in 8:  prefetch a row of out
///   out[..] = sum[..]                             ->     for ki in 8: sum[..] += a[.., k] * b[k, ..]
///                                                      out[..] = sum[..]
///
///   1. where multiply-adds take whole lines, two a cycle: of a parameter that does not fit a core's own caches beside
///      what the tile reads, nor is written past them
///   2. slower ones are done with fewer tiles in the time that a store waits: of results that fill a quarter of the
///      last cache, temporaries too
///   3. of sums of no more than 512 steps (measured on Cascade Lake, 1024x1024 by so many: 32 to 128 steps 0.8 of the
///      time, 256 and 512 0.95, 1024 1.0), or of 128 where the result alone would fit (448x448 by 64 0.8, 512x512 by
///      128 0.96, by 256 1.0)
///
/// `steps`, outermost first, are the loops over the steps of a tile of so many rows: a single one is split. The
/// outermost that goes on gets the annotation `prefetch_stores`.
void ask_for_results(RuleContext& context, const BlockRef& reduction, const BlockRef& reader, std::int64_t rows,
                     std::vector<LoopRef>& steps);

}  // namespace lathe
