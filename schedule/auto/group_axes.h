#pragma once
#include "schedule/auto/rule.h"

namespace lathe {

/// Makes one product of matrices, batched, of a contraction whose operands and result have several axes a side in any
/// order, where that is estimated to be faster than what vectors can walk as it lies:
///
///   c[i, n, j] += a[k, i, l, j] * b[l, n, k]  ->  a'[i*J + j, k*L + l] = a[k, i, l, j];  b'[k*L + l, n] = b[l, n, k]
///                                                 c'[n, i*J + j] += a'[i*J + j, k*L + l] * b'[k*L + l, n]
///                                                 c[i, n, j] = c'[n, i*J + j]
///
/// An operand or a result that lies so already stays where it is. Work grows with the product of the axes and copies
/// with two thirds of them, so that copies matter for small products alone (Springer and Bientinesi, "Design of a
/// High-Performance GEMM-like Tensor-Tensor Multiplication", 2018).
/// Says whether it did.
bool group_axes(RuleContext& context, const BlockRef& reduction);

}  // namespace lathe
