#include "ir/expr.h"

#include <fmt/format.h>

#include <cmath>
#include <limits>

#include "ir/buffer.h"
#include "ir/error.h"
#include "ir/intrinsics.h"

namespace lathe {
namespace {

enum class Operand { any, number, integer, floating, boolean };

bool accepts(Operand operand, DType dtype) {
  switch (operand) {
    case Operand::any:
      return true;
    case Operand::number:
      return !dtype.is_bool();
    case Operand::integer:
      return dtype.is_integer();
    case Operand::floating:
      return dtype.is_float();
    case Operand::boolean:
      return dtype.is_bool();
  }
  return false;
}

#define LATHE_NAME(name, ...) #name,
constexpr std::string_view expr_names[] = {LATHE_EXPR_NODES(LATHE_NAME)};
constexpr std::string_view unary_names[] = {LATHE_UNARY_OPS(LATHE_NAME)};
constexpr std::string_view binary_names[] = {LATHE_BINARY_OPS(LATHE_NAME)};
#undef LATHE_NAME
#define LATHE_OPERAND(name, operand) Operand::operand,
constexpr Operand unary_operands[] = {LATHE_UNARY_OPS(LATHE_OPERAND)};
constexpr Operand binary_operands[] = {LATHE_BINARY_OPS(LATHE_OPERAND)};
#undef LATHE_OPERAND

/// A macro, so that the message is only made when it is needed: every node passes here.
#define LATHE_EXPECT(condition, message)                        \
  do {                                                          \
    if (!(condition)) throw InputError(Mistake::type, message); \
  } while (false)

std::int64_t to_int64(double value) {
  if (std::isnan(value)) return 0;
  if (value >= 0x1p63) return std::numeric_limits<std::int64_t>::max();
  if (value < -0x1p63) return std::numeric_limits<std::int64_t>::min();
  return static_cast<std::int64_t>(value);
}

/// Checks indices against a buffer and a mask against the lanes; returns the lanes of the access.
int check_access(const char* what, const Buffer& buffer, const std::vector<Expr>& indices, const Expr& mask) {
  LATHE_EXPECT(static_cast<bool>(buffer), fmt::format("{}: no buffer", what));
  LATHE_EXPECT(indices.size() == buffer->rank() || indices.size() == 1,
               fmt::format("{} of {}: {} indices for rank {}", what, buffer->name, indices.size(), buffer->rank()));
  int lanes = 1;
  for (const Expr& i : indices) {
    LATHE_EXPECT(i && i->dtype.element() == i64, fmt::format("{} of {}: an index is not i64", what, buffer->name));
    LATHE_EXPECT(lanes == 1 || i->dtype.lanes == 1 || i->dtype.lanes == lanes,
                 fmt::format("{} of {}: indices of {} and {} lanes", what, buffer->name, lanes, i->dtype.lanes));
    lanes = std::max<int>(lanes, i->dtype.lanes);
  }
  if (mask) {
    LATHE_EXPECT(mask->dtype.is_bool() && (mask->dtype.lanes == lanes || lanes == 1),
                 fmt::format("{} of {}: mask is {}, expected bool with {} lanes", what, buffer->name,
                             to_string(mask->dtype), lanes));
    lanes = mask->dtype.lanes;
  }
  return lanes;
}

Expr fold_or_make(BinaryOp op, Expr a, Expr b) {
  const std::int64_t* x = as_int(a);
  const std::int64_t* y = as_int(b);
  if (!(a->dtype == i64 && b->dtype == i64)) return Binary::make(op, std::move(a), std::move(b));
  const auto wrap = [](std::uint64_t value) { return index(static_cast<std::int64_t>(value)); };
  const auto floor_quotient = [](std::int64_t n, std::int64_t d) {
    if (d == 0) return std::int64_t{0};
    if (d == -1) return static_cast<std::int64_t>(-static_cast<std::uint64_t>(n));
    return n / d - ((n % d != 0 && (n < 0) != (d < 0)) ? 1 : 0);
  };
  if (x && y) {
    const auto ux = static_cast<std::uint64_t>(*x), uy = static_cast<std::uint64_t>(*y);
    switch (op) {
      case BinaryOp::add:
        return wrap(ux + uy);
      case BinaryOp::sub:
        return wrap(ux - uy);
      case BinaryOp::mul:
        return wrap(ux * uy);
      case BinaryOp::floor_div:
        return index(floor_quotient(*x, *y));
      case BinaryOp::floor_mod:
        return *y == 0 ? index(0) : wrap(ux - static_cast<std::uint64_t>(floor_quotient(*x, *y)) * uy);
      case BinaryOp::min:
        return index(std::min(*x, *y));
      case BinaryOp::max:
        return index(std::max(*x, *y));
      default:
        break;
    }
  }
  if (y) {
    if (*y == 0 && (op == BinaryOp::add || op == BinaryOp::sub)) return a;
    if (*y == 1 && (op == BinaryOp::mul || op == BinaryOp::floor_div)) return a;
    if (*y == 0 && op == BinaryOp::mul) return b;
    if (*y == 1 && op == BinaryOp::floor_mod) return index(0);
  }
  if (x) {
    if (*x == 0 && op == BinaryOp::add) return b;
    if (*x == 1 && op == BinaryOp::mul) return b;
    if (*x == 0 && op == BinaryOp::mul) return a;
  }
  return Binary::make(op, std::move(a), std::move(b));
}

}  // namespace

std::string_view to_string(ExprKind kind) {
  return expr_names[static_cast<int>(kind)];
}
std::string_view to_string(UnaryOp op) {
  return unary_names[static_cast<int>(op)];
}
std::string_view to_string(BinaryOp op) {
  return binary_names[static_cast<int>(op)];
}

bool is_comparison(BinaryOp op) {
  return op >= BinaryOp::eq && op <= BinaryOp::ge;
}

Expr IntImm::make(DType dtype, std::int64_t value) {
  LATHE_EXPECT(!dtype.is_float(), fmt::format("an integer constant cannot be {}", to_string(dtype)));
  constexpr std::int64_t small = 64;
  if (dtype == i64 && value >= -1 && value <= small) {
    // Every pass makes the same few over and over.
    static const std::vector<Expr> known = [] {
      std::vector<Expr> made;
      for (std::int64_t i = -1; i <= small; ++i) made.push_back(Expr(new IntImm(i64, i)));
      return made;
    }();
    return known[static_cast<size_t>(value + 1)];
  }
  return Expr(new IntImm(dtype, wrap_integer(dtype, value)));
}

Expr FloatImm::make(DType dtype, double value) {
  LATHE_EXPECT(dtype.is_float(), fmt::format("a float constant cannot be {}", to_string(dtype)));
  return Expr(new FloatImm(dtype, round_to(dtype, value)));
}

VarRef Var::make(std::string name, DType dtype) {
  return VarRef(new Var(dtype, std::move(name)));
}

Expr Unary::make(UnaryOp op, Expr a) {
  LATHE_EXPECT(accepts(unary_operands[static_cast<int>(op)], a->dtype),
               fmt::format("{} does not take {}", to_string(op), to_string(a->dtype)));
  const bool tests =
      op == UnaryOp::is_nan || op == UnaryOp::is_inf || op == UnaryOp::is_finite || op == UnaryOp::signbit;
  const DType dtype = tests ? boolean.with_lanes(a->dtype.lanes) : a->dtype;
  return Expr(new Unary(dtype, op, std::move(a)));
}

Expr Binary::make(BinaryOp op, Expr a, Expr b) {
  LATHE_EXPECT(a->dtype == b->dtype, fmt::format("{} of {} and {}: the operands must have one type", to_string(op),
                                                 to_string(a->dtype), to_string(b->dtype)));
  LATHE_EXPECT(accepts(binary_operands[static_cast<int>(op)], a->dtype),
               fmt::format("{} does not take {}", to_string(op), to_string(a->dtype)));
  const DType dtype = is_comparison(op) ? boolean.with_lanes(a->dtype.lanes) : a->dtype;
  return Expr(new Binary(dtype, op, std::move(a), std::move(b)));
}

Expr Select::make(Expr condition, Expr when_true, Expr when_false) {
  LATHE_EXPECT(when_true->dtype == when_false->dtype,
               fmt::format("select between {} and {}: the arms must have one type", to_string(when_true->dtype),
                           to_string(when_false->dtype)));
  LATHE_EXPECT(condition->dtype == boolean.with_lanes(when_true->dtype.lanes),
               fmt::format("select: the condition is {}, expected bool with {} lanes", to_string(condition->dtype),
                           when_true->dtype.lanes));
  return Expr(new Select(std::move(condition), std::move(when_true), std::move(when_false)));
}

Expr Cast::make(DType dtype, Expr value) {
  const DType result = dtype.with_lanes(value->dtype.lanes);
  return Expr(new Cast(result, std::move(value)));
}

Expr Load::make(Buffer buffer, std::vector<Expr> indices, Expr mask) {
  const int lanes = check_access("load", buffer, indices, mask);
  const DType dtype = buffer->dtype.with_lanes(lanes);
  return Expr(new Load(dtype, std::move(buffer), std::move(indices), std::move(mask)));
}

Expr Ramp::make(Expr base, Expr stride, int lanes) {
  LATHE_EXPECT(base->dtype == stride->dtype && base->dtype.is_integer() && base->dtype.is_scalar() && lanes > 1,
               fmt::format("ramp({}, {}, {}): base and stride must be scalars of one integer type, and lanes above 1",
                           to_string(base->dtype), to_string(stride->dtype), lanes));
  return Expr(new Ramp(std::move(base), std::move(stride), lanes));
}

Expr Broadcast::make(Expr value, int lanes) {
  LATHE_EXPECT(value->dtype.is_scalar() && lanes >= 1,
               fmt::format("broadcast of {} to {} lanes", to_string(value->dtype), lanes));
  if (lanes == 1) return value;
  return Expr(new Broadcast(std::move(value), lanes));
}

Expr Shuffle::make(std::vector<Expr> vectors, std::vector<int> lanes) {
  LATHE_EXPECT(!vectors.empty() && !lanes.empty(), "shuffle: it needs a vector and a lane");
  int total = 0;
  for (const Expr& v : vectors) {
    LATHE_EXPECT(v->dtype.element() == vectors[0]->dtype.element(),
                 fmt::format("shuffle of {} and {}: the operands must have one element type",
                             to_string(vectors[0]->dtype), to_string(v->dtype)));
    total += v->dtype.lanes;
  }
  for (const int lane : lanes)
    LATHE_EXPECT(lane >= 0 && lane < total, fmt::format("shuffle: lane {} of {}", lane, total));
  const DType dtype = vectors[0]->dtype.with_lanes(static_cast<int>(lanes.size()));
  return Expr(new Shuffle(dtype, std::move(vectors), std::move(lanes)));
}

Expr Call::make(DType dtype, CallKind call_kind, std::string callee, std::vector<Expr> args) {
  if (call_kind == CallKind::intrinsic) {
    const Intrinsic* intrinsic = find_intrinsic(callee);
    if (!intrinsic) {
      std::vector<std::string> known;
      for (const Intrinsic& i : intrinsics()) known.emplace_back(i.name);
      throw InputError(Mistake::value, unknown_name("intrinsic", callee, known));
    }
    LATHE_EXPECT(static_cast<int>(args.size()) == intrinsic->arity,
                 fmt::format("{} takes {} arguments, given {}", callee, intrinsic->arity, args.size()));
    if (intrinsic->reduces) {
      LATHE_EXPECT(
          dtype == args[0]->dtype.element() && (args[0]->dtype.lanes & (args[0]->dtype.lanes - 1)) == 0,
          fmt::format("{} of {} gives its element; lanes must be a power of two", callee, to_string(args[0]->dtype)));
    } else if (callee == "dot") {
      const DType a = args[1]->dtype, b = args[2]->dtype;
      LATHE_EXPECT(args[0]->dtype == dtype && a.lanes == b.lanes && a.lanes % dtype.lanes == 0,
                   fmt::format("dot of {}, {} and {}: a lane of the sum has as many lanes of each factor",
                               to_string(args[0]->dtype), to_string(a), to_string(b)));
    } else if (callee == "dot_bytes") {
      const auto is_word = [&](const Expr& e) {
        return e->dtype.is_integer() && e->dtype.bits == 32 && e->dtype.lanes == dtype.lanes;
      };
      LATHE_EXPECT(dtype.element() == i32 && args[0]->dtype == dtype && is_word(args[1]) && is_word(args[2]),
                   fmt::format("dot_bytes of {}, {} and {}: the sum is i32, and the factors are 32-bit integers",
                               to_string(args[0]->dtype), to_string(args[1]->dtype), to_string(args[2]->dtype)));
    } else if (callee == "join_bytes") {
      LATHE_EXPECT(dtype.is_integer() && dtype.bits == 32, fmt::format("join_bytes gives no {}", to_string(dtype)));
      for (const Expr& arg : args) {
        LATHE_EXPECT(arg->dtype.is_integer() && arg->dtype.bits == 8 && arg->dtype.lanes == dtype.lanes,
                     fmt::format("join_bytes of {}: it takes 8-bit integers", to_string(arg->dtype)));
      }
    } else if (callee == "dot_halves") {
      const DType words = u32.with_lanes(dtype.lanes);
      LATHE_EXPECT(
          dtype.element() == f32 && args[0]->dtype == dtype && args[1]->dtype == words && args[2]->dtype == words,
          fmt::format("dot_halves of {}, {} and {}: the sum is f32, and the factors are u32", to_string(args[0]->dtype),
                      to_string(args[1]->dtype), to_string(args[2]->dtype)));
    } else if (callee == "join_halves") {
      const DType halves = bf16.with_lanes(dtype.lanes);
      LATHE_EXPECT(dtype.element() == u32 && args[0]->dtype == halves && args[1]->dtype == halves,
                   fmt::format("join_halves of {} and {}: it takes bf16, and gives u32", to_string(args[0]->dtype),
                               to_string(args[1]->dtype)));
    } else if (callee == "permute") {
      const DType v = args[0]->dtype, n = args[1]->dtype;
      LATHE_EXPECT(
          (v.lanes & (v.lanes - 1)) == 0 && n.is_integer() && n.bits == v.bits && !v.is_bool() &&
              dtype == v.with_lanes(n.lanes),
          fmt::format("permute of {} by {}: lanes of the first must be a power of two, and the second integers "
                      "as wide",
                      to_string(v), to_string(n)));
    } else if (callee == "reciprocal" || callee == "exponent" || callee == "mantissa") {
      LATHE_EXPECT(dtype.is_float() && args[0]->dtype == dtype,
                   fmt::format("{} of {}: it takes floats", callee, to_string(args[0]->dtype)));
    } else if (callee == "reinterpret") {
      LATHE_EXPECT(
          dtype.bits == args[0]->dtype.bits && dtype.lanes == args[0]->dtype.lanes,
          fmt::format("reinterpret of {} as {}: the widths differ", to_string(args[0]->dtype), to_string(dtype)));
    } else {
      for (const Expr& arg : args) {
        LATHE_EXPECT(arg->dtype == dtype, fmt::format("{}: an argument is {}, expected {}", callee,
                                                      to_string(arg->dtype), to_string(dtype)));
      }
    }
  }
  return Expr(new Call(dtype, call_kind, std::move(callee), std::move(args)));
}

Expr AddressOf::make(Buffer buffer, std::vector<Expr> indices) {
  LATHE_EXPECT(check_access("address", buffer, indices, nullptr) == 1, "address_of takes scalar indices");
  return Expr(new AddressOf(std::move(buffer), std::move(indices)));
}

Expr constant(DType dtype, double value) {
  if (dtype.is_float()) return FloatImm::make(dtype, value);
  if (dtype.is_bool()) return IntImm::make(dtype, value != 0);
  return IntImm::make(dtype, dtype.element() == u64 && value >= 0x1p63
                                 ? static_cast<std::int64_t>(static_cast<std::uint64_t>(value))
                                 : to_int64(value));
}

Expr constant(DType dtype, std::int64_t value) {
  if (dtype.is_float()) return FloatImm::make(dtype, static_cast<double>(value));
  return IntImm::make(dtype, value);
}

Expr index(std::int64_t value) {
  return IntImm::make(i64, value);
}

const std::int64_t* as_int(const Expr& e) {
  if (const IntImm* imm = e.as<IntImm>()) return &imm->value;
  if (const Broadcast* broadcast = e.as<Broadcast>()) return as_int(broadcast->value);
  return nullptr;
}

bool is_int(const Expr& e, std::int64_t value) {
  const std::int64_t* imm = as_int(e);
  return imm && *imm == value;
}

Expr operator+(Expr a, Expr b) {
  return fold_or_make(BinaryOp::add, std::move(a), std::move(b));
}
Expr operator-(Expr a, Expr b) {
  return fold_or_make(BinaryOp::sub, std::move(a), std::move(b));
}
Expr operator*(Expr a, Expr b) {
  return fold_or_make(BinaryOp::mul, std::move(a), std::move(b));
}
Expr operator+(Expr a, std::int64_t b) {
  const DType dtype = a->dtype;
  return std::move(a) + constant(dtype, b);
}
Expr operator-(Expr a, std::int64_t b) {
  const DType dtype = a->dtype;
  return std::move(a) - constant(dtype, b);
}
Expr operator*(Expr a, std::int64_t b) {
  const DType dtype = a->dtype;
  return std::move(a) * constant(dtype, b);
}
Expr operator-(Expr a) {
  return Unary::make(UnaryOp::neg, std::move(a));
}
Expr div(Expr a, Expr b) {
  return Binary::make(BinaryOp::div, std::move(a), std::move(b));
}
Expr floor_div(Expr a, Expr b) {
  return fold_or_make(BinaryOp::floor_div, std::move(a), std::move(b));
}
Expr floor_mod(Expr a, Expr b) {
  return fold_or_make(BinaryOp::floor_mod, std::move(a), std::move(b));
}
Expr floor_div(Expr a, std::int64_t b) {
  const DType dtype = a->dtype;
  return floor_div(std::move(a), constant(dtype, b));
}
Expr floor_mod(Expr a, std::int64_t b) {
  const DType dtype = a->dtype;
  return floor_mod(std::move(a), constant(dtype, b));
}
Expr min(Expr a, Expr b) {
  return fold_or_make(BinaryOp::min, std::move(a), std::move(b));
}
Expr max(Expr a, Expr b) {
  return fold_or_make(BinaryOp::max, std::move(a), std::move(b));
}
Expr eq(Expr a, Expr b) {
  return Binary::make(BinaryOp::eq, std::move(a), std::move(b));
}
Expr ne(Expr a, Expr b) {
  return Binary::make(BinaryOp::ne, std::move(a), std::move(b));
}
Expr lt(Expr a, Expr b) {
  return Binary::make(BinaryOp::lt, std::move(a), std::move(b));
}
Expr le(Expr a, Expr b) {
  return Binary::make(BinaryOp::le, std::move(a), std::move(b));
}
Expr gt(Expr a, Expr b) {
  return Binary::make(BinaryOp::gt, std::move(a), std::move(b));
}
Expr ge(Expr a, Expr b) {
  return Binary::make(BinaryOp::ge, std::move(a), std::move(b));
}

Expr logical_and(Expr a, Expr b) {
  if (!a) return b;
  if (!b) return a;
  return Binary::make(BinaryOp::logical_and, std::move(a), std::move(b));
}

Expr logical_or(Expr a, Expr b) {
  return Binary::make(BinaryOp::logical_or, std::move(a), std::move(b));
}
Expr logical_not(Expr a) {
  return Unary::make(UnaryOp::logical_not, std::move(a));
}
Expr select(Expr condition, Expr when_true, Expr when_false) {
  return Select::make(std::move(condition), std::move(when_true), std::move(when_false));
}
Expr cast(DType dtype, Expr value) {
  if (value->dtype.element() == dtype.element()) return value;
  return Cast::make(dtype, std::move(value));
}
Expr unary(UnaryOp op, Expr a) {
  return Unary::make(op, std::move(a));
}
Expr binary(BinaryOp op, Expr a, Expr b) {
  return Binary::make(op, std::move(a), std::move(b));
}

}  // namespace lathe
