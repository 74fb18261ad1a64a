#pragma once
#include "schedule/auto/rule.h"

namespace lathe {

/// Copies operands that a reduction reads under masks, as triangles are, where each element is read so often that
/// asking at every read costs more: zero where the mask is off, and laid out as the operand is.
///
///   C[i, j] += A[i, k if i <= k] * B[k, j]      ->      A_masked[i, k] = A[i, k if i <= k]
///                                                       C[i, j] += A_masked[i, k] * B[k, j]
void mask_operands(RuleContext& context, const BlockRef& reduction);

}  // namespace lathe
