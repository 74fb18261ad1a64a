#pragma once
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ir/expr.h"

namespace lathe {

/// A function known to every backend and to the interpreter. All act lane by lane but the reductions.
///
///   fma(a, b, c)          a*b + c with one rounding; floats
///   dot(c, a, b)          c plus the products of a and b, of so many lanes a lane of c (a group): lane i of c gets
///                         those of group i, widened to c's type, one after another. Integers wrap. An instruction may
///                         add the products of floats in another order, round once or more often, and take denormal
///                         operands and results for zero, so only precision `default` asks for it
///   dot_bytes(c, a, b)    c plus the products of the four bytes of a and of b, which are 32-bit integers: bytes are
///                         signed or not as these are. c is i32, and wraps
///   join_bytes(w, x, y, z)
///                         the 32-bit integer of these bytes, the first lowest
///   dot_halves(c, a, b)   dot of the two halves of a and of b, which are bf16 and lie in u32. c is f32
///   join_halves(x, y)     the u32 of these bf16, the first lowest
///   scaleb(a, n)          a * 2^n with one rounding, n rounded down; floats. n is of a's type, from -252 to 254 or in
///                         f64 from -2044 to 2046, and |a| lies between 2^-20 and 2^20 or is zero, infinite or not a
///                         number; otherwise the result is some value
///   at_most(a, c)         a, of which is known that it is no more than the constant c, or not a number: what follows
///                         may rely on that. Floats
///   reciprocal(a)         1/a to within a part in 2^14, where |a| lies between 2^-100 and 2^100; otherwise some value.
///                         Floats
///   exponent(a)           the whole number n of which |a| lies in [2^n, 2^(n+1)), as a float: minus infinity of zero,
///                         infinity of infinity. Floats
///   mantissa(a)           a / 2^n in [0.75, 1.5); of zero 1 with its sign, of infinity 1, of what is negative not a
///                         number. Floats
///   permute(v, n)         lane i is lane n[i] of v, modulo the lanes of v, which are a power of two. n is of integers
///                         as wide as v's elements, and of any lane count
///   reinterpret(a)        the same bits as another type of the same width
///   population_count(a)   set bits of an integer
///   reduce_add(v) reduce_mul(v) reduce_min(v) reduce_max(v) reduce_and(v) reduce_or(v)
///                         a vector folded to a scalar by halves: lane i with lane i + n/2, then again, until one is
///                         left. The lane count is a power of two. The order is part of the meaning: the bits are the
///                         same everywhere.
struct Intrinsic {
  std::string_view name;
  int arity;
  bool reduces;  ///< the result has one lane
};

std::span<const Intrinsic> intrinsics();
/// Null when there is none of that name.
const Intrinsic* find_intrinsic(std::string_view name);

Expr fma(Expr a, Expr b, Expr c);
Expr scaleb(Expr a, Expr n);
Expr at_most(Expr a, double limit);
/// The `a` of at_most(a, c), whose value it is; any other expression as it is.
const Expr& without_limit(const Expr& e);
Expr reciprocal(Expr a);
Expr exponent(Expr a);
Expr mantissa(Expr a);
Expr permute(Expr v, Expr n);
Expr dot(Expr c, Expr a, Expr b);
/// What a dot is, in other operations.
Expr dot_as_sum(const Call& dot);
Expr dot_bytes(Expr c, Expr a, Expr b);
/// What dot_bytes and join_bytes are, in other operations.
Expr dot_bytes_as_sum(const Call& dot);
Expr join_bytes(DType dtype, std::vector<Expr> bytes);
Expr join_bytes_as_sum(const Call& join);
Expr dot_halves(Expr c, Expr a, Expr b);
/// What dot_halves and join_halves are, in other operations.
Expr dot_halves_as_sum(const Call& dot);
Expr join_halves(Expr x, Expr y);
Expr join_halves_as_sum(const Call& join);
/// The call, where it is one of that intrinsic; else null.
const Call* as_intrinsic(const Expr& e, std::string_view name);
Expr reinterpret(DType dtype, Expr a);
/// The reduce_* call for `op` (add, mul, min, max, logical_and, logical_or, bit_and, bit_or).
Expr reduce_lanes(BinaryOp op, Expr vector);

}  // namespace lathe
