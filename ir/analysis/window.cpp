#include "ir/analysis/window.h"

#include <algorithm>
#include <functional>

#include "ir/analysis/fold.h"
#include "ir/visitor.h"

namespace lathe {
namespace {

using Leaf = std::function<std::optional<std::int64_t>(const Expr&)>;

/// `leaf` knows what is no arithmetic; nothing where it asks for the operands.
std::optional<std::int64_t> gain(const Expr& e, const Leaf& leaf) {
  if (const auto known = leaf(e)) return known;
  const Binary* node = e.as<Binary>();
  if (!node || !(e->dtype.element() == i64)) return std::nullopt;
  const auto a = gain(node->a, leaf), b = gain(node->b, leaf);
  if (!a || !b) return std::nullopt;
  const Expr scalar = scalar_of(node->b);
  const std::int64_t* factor = scalar ? as_int(scalar) : nullptr;
  std::int64_t result = 0;
  switch (node->op) {
    case BinaryOp::add:
      return __builtin_add_overflow(*a, *b, &result) ? std::nullopt : std::optional(result);
    case BinaryOp::sub:
      return *b == 0 ? a : std::nullopt;
    case BinaryOp::mul:
      if (!factor || *factor < 0 || __builtin_mul_overflow(*a, *factor, &result)) return std::nullopt;
      return result;
    case BinaryOp::floor_div:
      if (!factor || *factor < 1) return std::nullopt;
      return *a / *factor + (*a % *factor == 0 ? 0 : 1);
    case BinaryOp::min:
    case BinaryOp::max:
      return std::max(*a, *b);
    default:
      return std::nullopt;
  }
}

}  // namespace

std::optional<std::int64_t> greatest_gain(const Expr& index, const VarRef& variable, std::int64_t steps) {
  return gain(index, [&](const Expr& e) -> std::optional<std::int64_t> {
    if (e == Expr(variable)) return steps;
    if (!uses_var(e, variable.get())) return 0;
    return std::nullopt;
  });
}

std::optional<std::int64_t> greatest_gain(const Expr& vector) {
  return gain(vector, [&](const Expr& e) -> std::optional<std::int64_t> {
    if (scalar_of(e)) return 0;
    const Ramp* ramp = e.as<Ramp>();
    const std::int64_t* stride = ramp ? as_int(ramp->stride) : nullptr;
    std::int64_t result = 0;
    if (!stride || *stride < 0 || __builtin_mul_overflow(*stride, std::int64_t{e->dtype.lanes} - 1, &result))
      return std::nullopt;
    return result;
  });
}

Expr first_lane(const Expr& vector) {
  if (const Expr same = scalar_of(vector)) return same;
  if (const Ramp* ramp = vector.as<Ramp>()) return ramp->base;
  const Binary* node = vector.as<Binary>();
  if (!node) return nullptr;
  const Expr a = first_lane(node->a), b = first_lane(node->b);
  return a && b ? Binary::make(node->op, a, b) : nullptr;
}

}  // namespace lathe
