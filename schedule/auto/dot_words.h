#pragma once
#include "schedule/auto/rule.h"

namespace lathe {

/// Reads the factors of a sum of products of bytes through copies whose 32-bit elements hold four neighbours along the
/// reduction, where the device multiplies and adds four bytes at a time and each element is read often:
///
///   out[f, i, j] += i32(w[f, c, r, s]) * i32(x[c, i + r, j + s])
///     ->  x_bytes[c, i, j] = join_bytes(x[4*c, i, j], x[4*c + 1, i, j], ..);  w_bytes[f, c, r, s] = ..
///         out[f, i, j] += dot_bytes(0, w_bytes[f, c, r, s], x_bytes[c, i + r, j + s])
///
/// So too those of bf16, in words of two. What is left is a contraction of words by the same index maps, as one of
/// floats. Padding goes into a copy before, bytes of the wrong signedness are shifted, and the result corrected.
/// Products whose operands plan_dot lays out stay. Says whether it did.
bool stage_words(RuleContext& context, const BlockRef& reduction);

}  // namespace lathe
