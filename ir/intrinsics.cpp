#include "ir/intrinsics.h"

#include <array>

#include "ir/error.h"

namespace lathe {
namespace {

constexpr std::array<Intrinsic, 20> all{{{"fma", 3, false},         {"dot", 3, false},
                                         {"dot_bytes", 3, false},   {"join_bytes", 4, false},
                                         {"dot_halves", 3, false},  {"join_halves", 2, false},
                                         {"scaleb", 2, false},      {"at_most", 2, false},
                                         {"reciprocal", 1, false},  {"exponent", 1, false},
                                         {"mantissa", 1, false},    {"permute", 2, false},
                                         {"reinterpret", 1, false}, {"population_count", 1, false},
                                         {"reduce_add", 1, true},   {"reduce_mul", 1, true},
                                         {"reduce_min", 1, true},   {"reduce_max", 1, true},
                                         {"reduce_and", 1, true},   {"reduce_or", 1, true}}};

const char* reduction_name(BinaryOp op) {
  switch (op) {
    case BinaryOp::add:
      return "reduce_add";
    case BinaryOp::mul:
      return "reduce_mul";
    case BinaryOp::min:
      return "reduce_min";
    case BinaryOp::max:
      return "reduce_max";
    case BinaryOp::logical_and:
    case BinaryOp::bit_and:
      return "reduce_and";
    case BinaryOp::logical_or:
    case BinaryOp::bit_or:
      return "reduce_or";
    default:
      throw InputError(Mistake::value, "no lane reduction for " + std::string(to_string(op)));
  }
}

}  // namespace

std::span<const Intrinsic> intrinsics() {
  return all;
}

const Intrinsic* find_intrinsic(std::string_view name) {
  for (const Intrinsic& intrinsic : all) {
    if (intrinsic.name == name) return &intrinsic;
  }
  return nullptr;
}

Expr fma(Expr a, Expr b, Expr c) {
  const DType dtype = a->dtype;
  return Call::make(dtype, CallKind::intrinsic, "fma", {std::move(a), std::move(b), std::move(c)});
}

Expr scaleb(Expr a, Expr n) {
  const DType dtype = a->dtype;
  return Call::make(dtype, CallKind::intrinsic, "scaleb", {std::move(a), std::move(n)});
}

Expr at_most(Expr a, double limit) {
  const DType dtype = a->dtype;
  return Call::make(dtype, CallKind::intrinsic, "at_most", {std::move(a), constant(dtype, limit)});
}

Expr reciprocal(Expr a) {
  const DType dtype = a->dtype;
  return Call::make(dtype, CallKind::intrinsic, "reciprocal", {std::move(a)});
}

Expr exponent(Expr a) {
  const DType dtype = a->dtype;
  return Call::make(dtype, CallKind::intrinsic, "exponent", {std::move(a)});
}

Expr mantissa(Expr a) {
  const DType dtype = a->dtype;
  return Call::make(dtype, CallKind::intrinsic, "mantissa", {std::move(a)});
}

Expr permute(Expr v, Expr n) {
  const DType dtype = v->dtype.with_lanes(n->dtype.lanes);
  return Call::make(dtype, CallKind::intrinsic, "permute", {std::move(v), std::move(n)});
}

const Expr& without_limit(const Expr& e) {
  const Call* call = e.as<Call>();
  return call && call->call_kind == CallKind::intrinsic && call->callee == "at_most" ? call->args[0] : e;
}

Expr reinterpret(DType dtype, Expr a) {
  const DType result = dtype.with_lanes(a->dtype.lanes);
  return Call::make(result, CallKind::intrinsic, "reinterpret", {std::move(a)});
}

Expr dot(Expr c, Expr a, Expr b) {
  const DType dtype = c->dtype;
  return Call::make(dtype, CallKind::intrinsic, "dot", {std::move(c), std::move(a), std::move(b)});
}

Expr dot_as_sum(const Call& dot) {
  Expr sum = dot.args[0];
  const int lanes = sum->dtype.lanes, terms = dot.args[1]->dtype.lanes / lanes;
  for (int t = 0; t < terms; ++t) {
    std::vector<int> chosen(static_cast<size_t>(lanes));
    for (int lane = 0; lane < lanes; ++lane) chosen[static_cast<size_t>(lane)] = lane * terms + t;
    const auto factor = [&](const Expr& e) { return cast(sum->dtype.element(), Shuffle::make({e}, chosen)); };
    sum = sum + factor(dot.args[1]) * factor(dot.args[2]);
  }
  return sum;
}

Expr dot_bytes(Expr c, Expr a, Expr b) {
  const DType dtype = c->dtype;
  return Call::make(dtype, CallKind::intrinsic, "dot_bytes", {std::move(c), std::move(a), std::move(b)});
}

Expr dot_bytes_as_sum(const Call& dot) {
  Expr sum = dot.args[0];
  for (int t = 0; t < 4; ++t) {
    const auto factor = [&](const Expr& word) {
      const Expr low = t == 0 ? word : binary(BinaryOp::shr, word, constant(word->dtype, 8 * t));
      return cast(sum->dtype.element(), cast(word->dtype.is_signed() ? i8 : u8, low));
    };
    sum = sum + factor(dot.args[1]) * factor(dot.args[2]);
  }
  return sum;
}

Expr join_bytes(DType dtype, std::vector<Expr> bytes) {
  const DType result = dtype.with_lanes(bytes[0]->dtype.lanes);
  return Call::make(result, CallKind::intrinsic, "join_bytes", std::move(bytes));
}

Expr join_bytes_as_sum(const Call& join) {
  const DType word = join.dtype.element();
  Expr sum;
  for (int t = 0; t < 4; ++t) {
    Expr part = cast(word, cast(u8, join.args[static_cast<size_t>(t)]));
    if (t > 0) part = binary(BinaryOp::shl, part, constant(part->dtype, 8 * t));
    sum = sum ? binary(BinaryOp::bit_or, sum, part) : part;
  }
  return sum;
}

Expr dot_halves(Expr c, Expr a, Expr b) {
  const DType dtype = c->dtype;
  return Call::make(dtype, CallKind::intrinsic, "dot_halves", {std::move(c), std::move(a), std::move(b)});
}

Expr dot_halves_as_sum(const Call& dot) {
  // A bf16 is the upper half of an f32.
  const auto low = [](const Expr& word) {
    return reinterpret(f32, binary(BinaryOp::shl, word, constant(word->dtype, 16)));
  };
  const auto high = [](const Expr& word) {
    return reinterpret(f32, binary(BinaryOp::bit_and, word, constant(word->dtype, std::int64_t{0xffff0000})));
  };
  const Expr &a = dot.args[1], &b = dot.args[2];
  return dot.args[0] + low(a) * low(b) + high(a) * high(b);
}

Expr join_halves(Expr x, Expr y) {
  const DType result = u32.with_lanes(x->dtype.lanes);
  return Call::make(result, CallKind::intrinsic, "join_halves", {std::move(x), std::move(y)});
}

Expr join_halves_as_sum(const Call& join) {
  const auto half = [](const Expr& e) { return cast(u32, reinterpret(u16, e)); };
  const Expr high = half(join.args[1]);
  return binary(BinaryOp::bit_or, half(join.args[0]), binary(BinaryOp::shl, high, constant(high->dtype, 16)));
}

const Call* as_intrinsic(const Expr& e, std::string_view name) {
  const Call* call = e.as<Call>();
  return call && call->call_kind == CallKind::intrinsic && call->callee == name ? call : nullptr;
}

Expr reduce_lanes(BinaryOp op, Expr vector) {
  if (vector->dtype.is_scalar()) return vector;
  const DType dtype = vector->dtype.element();
  return Call::make(dtype, CallKind::intrinsic, reduction_name(op), {std::move(vector)});
}

}  // namespace lathe
