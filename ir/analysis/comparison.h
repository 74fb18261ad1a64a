#pragma once
#include <vector>

#include "ir/analysis/affine.h"

namespace lathe {

/// The comparison of b's operands by `op` as affine forms that are >= 0; 0, 1 or 2 of them.
void append_inequalities(BinaryOp op, const Binary& b, std::vector<Affine>& out);

/// The comparison that holds of integers where `op` does not.
BinaryOp negated(BinaryOp op);

}  // namespace lathe
