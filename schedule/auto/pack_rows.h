#pragma once
#include <cstdint>

#include "schedule/auto/contraction.h"
#include "schedule/auto/rule.h"

namespace lathe {

/// Lays the operand that the rows of a tile walk out by tiles, `copy[i // rows, k, i % rows]`, where its rows are
/// neighbours in memory and its steps lie far apart: a line of it would serve one tile and be gone before the next.
/// `tiles` is how often each element is read: that many tiles lie along the columns. Says whether it did.
bool pack_rows(RuleContext& context, const BlockRef& reduction, const ReductionShape& shape, std::int64_t rows,
               std::int64_t tiles);
/// Would it?
bool packs_rows(const RuleContext& context, const Block& block, const ReductionShape& shape, std::int64_t rows,
                std::int64_t tiles);

}  // namespace lathe
