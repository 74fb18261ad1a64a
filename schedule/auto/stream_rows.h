#pragma once
#include "schedule/auto/contraction.h"
#include "schedule/auto/rule.h"

namespace lathe {

/// Contractions that read each element of their largest operand once, such as the product of a row and a matrix, are
/// bound by memory, which is fastest along whole rows: a walk down columns breaks off each stream after a few lines.
/// Partial results of many columns are kept in near memory while rows stream by, several at a time:
///
///   for columns in blocks:
///     for k in steps of a few: for vectors in the block:
///       acc = 0;   for k of the step, rows: acc[row] += a[row, k] * b[k, vectors];   sums[rows, vectors] += acc
///     out = epilogue(sums)
///
/// Some rows more than a tile has, in several tiles for each of the vectors, where the device multiplies so fast that
/// packed panels of the operand would not pay; or, where it reads rows fastest in long pieces, up to a hundred rows, in
/// blocks whose sums stay in the first cache.
/// Returns whether it applies: see the log for why not.
bool stream_rows(RuleContext& context, const BlockRef& reduction, const ReductionShape& shape);

}  // namespace lathe
