#pragma once
#include "ir/expr.h"

namespace lathe {

/// A sum, product, choice or combination of bits of integers, which a cast makes narrower, in the narrower type: low
/// bits of results hang on low bits of operands alone. Null where an operand is no constant and no wider than it, or an
/// operator takes high bits down.
///
///   cast<u8>(select(a, 1i64, 0i64) + cast<i64>(x))   ->   select(a, 1u8, 0u8) + x        (x: u8)
///
/// A vector has more lanes of the narrower one.
Expr narrow_cast(const Expr& value, DType type);

}  // namespace lathe
