#pragma once

#include <optional>

#include "schedule/auto/contraction.h"
#include "schedule/auto/rule.h"

namespace lathe {

/// Rows of a tile that lie beside each other in the operand that all lanes share, where those of the shape are a line
/// or more apart in it, and a tile of theirs is about as fast: then lines that one step reads serve all rows, and those
/// between the shape's rows are not read again and again. The same of rows that lie apart as well but go on, with the
/// steps of the reduction, in one piece of memory, where those of the shape take short ones from everywhere.
std::optional<size_t> nearer_rows(const RuleContext& context, const Block& reduction, const ReductionShape& shape,
                                  size_t vectors);

}  // namespace lathe
