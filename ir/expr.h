#pragma once
/// Expressions. Semantics, which every pass, the interpreter and every backend keep:
///
/// - An expression has a dtype with lanes. Both operands of a Binary have the same one; nothing converts by itself.
/// - Evaluation has no side effect, and no order: both arms of a Select are evaluated, and so is every operand.
/// - Indices and extents are i64. Index arithmetic cannot overflow (buffers are smaller than 2^47 bytes) and a backend
/// may
///   say so to its compiler. Every other integer operation wraps to its width.
/// - floor_div and floor_mod round toward minus infinity, as Python does. On integers x floor_div 0 = x floor_mod 0 = 0
/// and
///   MIN floor_div -1 = MIN. `div` is for floats only. On floats floor_mod(x, y) has y's sign.
/// - A shift by its width or more gives 0 (shl; shr of an unsigned) or the sign (shr of a signed). The count is read as
///   unsigned.
/// - Cast: float to integer truncates; out of range it gives some value, never a trap and never poison. Integer to
/// narrower
///   integer wraps. Anything to bool is `!= 0`. Narrowing floats round to nearest even. bool to number gives 0 or 1.
/// - Floats follow IEEE 754, default rounding. min and max return NaN when either operand is NaN, and order -0 below
/// +0.
///   Comparisons with NaN are false but for `ne`. f16 and bf16 are storage types: a tracer computes them in f32.
/// - bool is an 8-bit type whose values are 0 and 1. logical_and, logical_or, logical_not take bools and do not
/// shortcut.
/// - A Load or Store under a false mask lane touches no memory; such a Load gives zero.
/// - Floats that feed an index, a predicate, a comparison or a cast to integer are never contracted or reassociated.
#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

#include "ir/buffer.h"
#include "ir/expr_node.h"

namespace lathe {

/// X(name, operand): operand is one of any (every number), number, integer, floating, boolean.
/// The result has the operand's type, but is_nan, is_inf, is_finite and signbit, which give bool.
// clang-format off
#define LATHE_UNARY_OPS(X)                                                                                            \
  X(neg, number) X(bit_not, integer) X(logical_not, boolean) X(abs, number)                                           \
  X(sqrt, floating) X(rsqrt, floating) X(floor, floating) X(ceil, floating) X(trunc, floating) X(round, floating)     \
  X(exp, floating) X(exp2, floating) X(expm1, floating)                                                               \
  X(log, floating) X(log2, floating) X(log10, floating) X(log1p, floating)                                            \
  X(sin, floating) X(cos, floating) X(tan, floating) X(asin, floating) X(acos, floating) X(atan, floating)            \
  X(sinh, floating) X(cosh, floating) X(tanh, floating) X(asinh, floating) X(acosh, floating) X(atanh, floating)      \
  X(erf, floating) X(sigmoid, floating)                                                                               \
  X(is_nan, floating) X(is_inf, floating) X(is_finite, floating) X(signbit, floating)
// clang-format on

/// X(name, operand). Comparisons and logic give bool; the others the operands' type. `round` is half to even.
// clang-format off
#define LATHE_BINARY_OPS(X)                                                                                           \
  X(add, number) X(sub, number) X(mul, number) X(div, floating) X(floor_div, number) X(floor_mod, number)             \
  X(min, any) X(max, any)                                                                                             \
  X(bit_and, integer) X(bit_or, integer) X(bit_xor, integer) X(shl, integer) X(shr, integer)                          \
  X(eq, any) X(ne, any) X(lt, any) X(le, any) X(gt, any) X(ge, any)                                                   \
  X(logical_and, boolean) X(logical_or, boolean)                                                                      \
  X(pow, number) X(atan2, floating) X(hypot, floating) X(copysign, floating) X(nextafter, floating)
// clang-format on

#define LATHE_ENUM_ENTRY(name, ...) name,
enum class UnaryOp : std::uint8_t { LATHE_UNARY_OPS(LATHE_ENUM_ENTRY) };
enum class BinaryOp : std::uint8_t { LATHE_BINARY_OPS(LATHE_ENUM_ENTRY) };
#undef LATHE_ENUM_ENTRY

std::string_view to_string(UnaryOp op);
std::string_view to_string(BinaryOp op);

/// True of eq, ne, lt, le, gt, ge.
bool is_comparison(BinaryOp op);

/// An integer or bool constant; `value` is already wrapped to the dtype. A vector type makes every lane the same.
struct IntImm : ExprNode {
  static constexpr ExprKind node_kind = ExprKind::IntImm;
  IntImm(DType dtype, std::int64_t value) : ExprNode(node_kind, dtype), value(value) {}
  const std::int64_t value;
  static Expr make(DType dtype, std::int64_t value);
};

/// A float constant, already rounded to the dtype.
struct FloatImm : ExprNode {
  static constexpr ExprKind node_kind = ExprKind::FloatImm;
  FloatImm(DType dtype, double value) : ExprNode(node_kind, dtype), value(value) {}
  const double value;
  static Expr make(DType dtype, double value);
};

/// A named value: loop variable, block iter, Let-bound value, scalar parameter. Identity is the node's address, so two
/// variables of one name are different; the printer tells them apart.
struct Var : ExprNode {
  static constexpr ExprKind node_kind = ExprKind::Var;
  Var(DType dtype, std::string name) : ExprNode(node_kind, dtype), name(std::move(name)) {}
  const std::string name;
  static Ref<Var> make(std::string name, DType dtype = i64);
};
using VarRef = Ref<Var>;

struct Unary : ExprNode {
  static constexpr ExprKind node_kind = ExprKind::Unary;
  Unary(DType dtype, UnaryOp op, Expr a) : ExprNode(node_kind, dtype), op(op), a(std::move(a)) {}
  const UnaryOp op;
  const Expr a;
  static Expr make(UnaryOp op, Expr a);
};

struct Binary : ExprNode {
  static constexpr ExprKind node_kind = ExprKind::Binary;
  Binary(DType dtype, BinaryOp op, Expr a, Expr b)
      : ExprNode(node_kind, dtype), op(op), a(std::move(a)), b(std::move(b)) {}
  const BinaryOp op;
  const Expr a, b;
  static Expr make(BinaryOp op, Expr a, Expr b);
};

/// Both arms are evaluated; use If for a lazy choice. The condition has as many lanes as the arms.
struct Select : ExprNode {
  static constexpr ExprKind node_kind = ExprKind::Select;
  Select(Expr condition, Expr when_true, Expr when_false)
      : ExprNode(node_kind, when_true->dtype),
        condition(std::move(condition)),
        when_true(std::move(when_true)),
        when_false(std::move(when_false)) {}
  const Expr condition, when_true, when_false;
  static Expr make(Expr condition, Expr when_true, Expr when_false);
};

struct Cast : ExprNode {
  static constexpr ExprKind node_kind = ExprKind::Cast;
  Cast(DType dtype, Expr value) : ExprNode(node_kind, dtype), value(std::move(value)) {}
  const Expr value;
  /// `dtype`'s lanes are ignored: a cast keeps the value's.
  static Expr make(DType dtype, Expr value);
};

/// One element, or a vector of them when an index is a vector. Scalar indices apply to every lane. With one index per
/// dimension, or one flat element offset from the buffer's base after flatten.
struct Load : ExprNode {
  static constexpr ExprKind node_kind = ExprKind::Load;
  Load(DType dtype, Buffer buffer, std::vector<Expr> indices, Expr mask)
      : ExprNode(node_kind, dtype), buffer(std::move(buffer)), indices(std::move(indices)), mask(std::move(mask)) {}
  const Buffer buffer;
  const std::vector<Expr> indices;
  const Expr mask;  ///< null, or a bool with the load's lanes
  static Expr make(Buffer buffer, std::vector<Expr> indices, Expr mask = nullptr);
};

/// base, base + stride, ..., `lanes` of them. base and stride are scalar integers.
struct Ramp : ExprNode {
  static constexpr ExprKind node_kind = ExprKind::Ramp;
  Ramp(Expr base, Expr stride, int lanes)
      : ExprNode(node_kind, base->dtype.with_lanes(lanes)), base(std::move(base)), stride(std::move(stride)) {}
  const Expr base, stride;
  static Expr make(Expr base, Expr stride, int lanes);
};

/// A scalar in every lane.
struct Broadcast : ExprNode {
  static constexpr ExprKind node_kind = ExprKind::Broadcast;
  Broadcast(Expr value, int lanes) : ExprNode(node_kind, value->dtype.with_lanes(lanes)), value(std::move(value)) {}
  const Expr value;
  /// A broadcast to one lane is the value itself.
  static Expr make(Expr value, int lanes);
};

/// Lane i of the result is lane `lanes[i]` of the operands laid end to end. All operands have one element type.
struct Shuffle : ExprNode {
  static constexpr ExprKind node_kind = ExprKind::Shuffle;
  Shuffle(DType dtype, std::vector<Expr> vectors, std::vector<int> lanes)
      : ExprNode(node_kind, dtype), vectors(std::move(vectors)), lanes(std::move(lanes)) {}
  const std::vector<Expr> vectors;
  const std::vector<int> lanes;
  static Expr make(std::vector<Expr> vectors, std::vector<int> lanes);
};

/// How a Call finds its callee.
enum class CallKind : std::uint8_t {
  intrinsic,     ///< known to Lathe (ir/intrinsics.h): every backend and the interpreter give it the same meaning
  extern_scalar  ///< a pure function by symbol name, bound by address when linked; the interpreter refuses it
};

struct Call : ExprNode {
  static constexpr ExprKind node_kind = ExprKind::Call;
  Call(DType dtype, CallKind call_kind, std::string callee, std::vector<Expr> args)
      : ExprNode(node_kind, dtype), call_kind(call_kind), callee(std::move(callee)), args(std::move(args)) {}
  const CallKind call_kind;
  const std::string callee;
  const std::vector<Expr> args;
  /// An intrinsic's arguments and result are checked against its declaration.
  static Expr make(DType dtype, CallKind call_kind, std::string callee, std::vector<Expr> args);
};

/// The address of one element, as u64: what an extern callee or a device intrinsic takes.
struct AddressOf : ExprNode {
  static constexpr ExprKind node_kind = ExprKind::AddressOf;
  AddressOf(Buffer buffer, std::vector<Expr> indices)
      : ExprNode(node_kind, u64), buffer(std::move(buffer)), indices(std::move(indices)) {}
  const Buffer buffer;
  const std::vector<Expr> indices;
  static Expr make(Buffer buffer, std::vector<Expr> indices);
};

/// A constant of any dtype: `value` is converted as Cast would. Vector types make every lane the same.
Expr constant(DType dtype, double value);
Expr constant(DType dtype, std::int64_t value);
inline Expr constant(DType dtype, int value) {
  return constant(dtype, static_cast<std::int64_t>(value));
}
/// An i64 constant: an index or an extent.
Expr index(std::int64_t value);

/// The value of a scalar or broadcast integer constant; null otherwise.
const std::int64_t* as_int(const Expr& e);
bool is_int(const Expr& e, std::int64_t value);

/// Builders. Where both operands are constants, or one is a neutral or absorbing i64 constant (x+0, x*1, x*0, x//1),
/// the result is folded; nothing else is simplified here.
Expr operator+(Expr a, Expr b);
Expr operator-(Expr a, Expr b);
Expr operator*(Expr a, Expr b);
Expr operator+(Expr a, std::int64_t b);
Expr operator-(Expr a, std::int64_t b);
Expr operator*(Expr a, std::int64_t b);
Expr operator-(Expr a);
Expr div(Expr a, Expr b);
Expr floor_div(Expr a, Expr b);
Expr floor_mod(Expr a, Expr b);
Expr floor_div(Expr a, std::int64_t b);
Expr floor_mod(Expr a, std::int64_t b);
Expr min(Expr a, Expr b);
Expr max(Expr a, Expr b);
Expr eq(Expr a, Expr b);
Expr ne(Expr a, Expr b);
Expr lt(Expr a, Expr b);
Expr le(Expr a, Expr b);
Expr gt(Expr a, Expr b);
Expr ge(Expr a, Expr b);
Expr logical_and(Expr a, Expr b);  ///< a null operand counts as true
Expr logical_or(Expr a, Expr b);
Expr logical_not(Expr a);
Expr select(Expr condition, Expr when_true, Expr when_false);
Expr cast(DType dtype, Expr value);  ///< the value itself when it has that type already
Expr unary(UnaryOp op, Expr a);
Expr binary(BinaryOp op, Expr a, Expr b);

}  // namespace lathe
