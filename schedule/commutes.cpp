#include "schedule/commutes.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <unordered_map>
#include <vector>

#include "ir/reduction.h"
#include "ir/structural.h"

namespace lathe {
namespace {

/// Representatives are small whole numbers and NaN, which double holds whatever the type; a bool is 0 or 1.
using Values = std::unordered_map<const Var*, double>;

/// Values of different components, or computed ones, may stand in relations that the representatives do not.
bool compares_component(const Binary* node, const Reducer& reducer) {
  for (size_t k = 0; k < reducer.lhs.size(); ++k) {
    const auto is_one = [&](const Expr& e) { return e == Expr(reducer.lhs[k]) || e == Expr(reducer.rhs[k]); };
    if (is_one(node->a) && is_one(node->b)) return true;
  }
  return false;
}

std::optional<double> evaluate(const Expr& e, const Values& values, const Reducer& reducer) {
  switch (e->kind) {
    case ExprKind::Var: {
      const auto found = values.find(e.as<Var>());
      return found == values.end() ? std::nullopt : std::optional(found->second);
    }
    case ExprKind::Unary: {
      const std::optional<double> a = evaluate(e.as<Unary>()->a, values, reducer);
      if (!a) return std::nullopt;
      if (e.as<Unary>()->op == UnaryOp::is_nan) return std::isnan(*a);
      if (e.as<Unary>()->op == UnaryOp::logical_not) return *a == 0;
      return std::nullopt;
    }
    case ExprKind::Select: {
      const Select* node = e.as<Select>();
      const std::optional<double> condition = evaluate(node->condition, values, reducer);
      if (!condition) return std::nullopt;
      return evaluate(*condition != 0 ? node->when_true : node->when_false, values, reducer);
    }
    case ExprKind::Binary: {
      const Binary* node = e.as<Binary>();
      if (is_comparison(node->op) && !compares_component(node, reducer)) return std::nullopt;
      const std::optional<double> a = evaluate(node->a, values, reducer), b = evaluate(node->b, values, reducer);
      if (!a || !b) return std::nullopt;
      switch (node->op) {
        case BinaryOp::lt:
          return *a < *b;
        case BinaryOp::le:
          return *a <= *b;
        case BinaryOp::gt:
          return *a > *b;
        case BinaryOp::ge:
          return *a >= *b;
        case BinaryOp::eq:
          return *a == *b;
        case BinaryOp::ne:
          return *a != *b;
        case BinaryOp::logical_and:
          return *a != 0 && *b != 0;
        case BinaryOp::logical_or:
          return *a != 0 || *b != 0;
        default:
          return std::nullopt;
      }
    }
    default:
      return std::nullopt;
  }
}

bool may_swap(BinaryOp op) {
  switch (op) {
    case BinaryOp::add:
    case BinaryOp::mul:
    case BinaryOp::min:
    case BinaryOp::max:
    case BinaryOp::eq:
    case BinaryOp::ne:
    case BinaryOp::logical_and:
    case BinaryOp::logical_or:
    case BinaryOp::bit_and:
    case BinaryOp::bit_or:
    case BinaryOp::bit_xor:
    case BinaryOp::hypot:
      return true;
    default:
      return false;
  }
}

/// Compares expressions of which one has the reducer's operands exchanged.
class Mirror {
 public:
  explicit Mirror(const Reducer& reducer) : reducer_(reducer) {}

  bool same(const Expr& a, const Expr& b) {
    // Both orders of every sum are tried: reducers are short, and what is long is not proved.
    if (++compared_ > 1000 || a->kind != b->kind || a->dtype != b->dtype) return false;
    if (a.as<Var>()) return b == exchanged(a);
    if (const Unary* node = a.as<Unary>()) {
      if (node->op != b.as<Unary>()->op) return false;
      const bool drops_sign = node->op == UnaryOp::abs && !a->dtype.is_unsigned();
      return drops_sign ? same_but_for_sign(node->a, b.as<Unary>()->a) : same(node->a, b.as<Unary>()->a);
    }
    if (const Cast* node = a.as<Cast>()) return same(node->value, b.as<Cast>()->value);
    if (const Select* node = a.as<Select>()) {
      const Select* other = b.as<Select>();
      return same(node->condition, other->condition) &&
             (is_equality(node->condition) || same(node->when_true, other->when_true)) &&
             same(node->when_false, other->when_false);
    }
    if (const Binary* node = a.as<Binary>()) {
      const Binary* other = b.as<Binary>();
      if (node->op != other->op) return false;
      if (node->op == BinaryOp::mul && equal(node->a, node->b) && equal(other->a, other->b))
        return same_but_for_sign(node->a, other->a);
      return (same(node->a, other->a) && same(node->b, other->b)) ||
             (may_swap(node->op) && same(node->a, other->b) && same(node->b, other->a));
    }
    return (a.as<IntImm>() || a.as<FloatImm>()) && equal(a, b);
  }

 private:
  /// Differences may be of the exchanged operands.
  bool same_but_for_sign(const Expr& a, const Expr& b) {
    const Binary *node = a.as<Binary>(), *other = b.as<Binary>();
    const bool differences = node && other && node->op == BinaryOp::sub && other->op == BinaryOp::sub;
    return same(a, b) || (differences && same(node->a, other->b) && same(node->b, other->a));
  }

  /// Is it that the only component is the same in both operands? They need not be told apart then.
  bool is_equality(const Expr& condition) const {
    const Binary* node = condition.as<Binary>();
    return reducer_.lhs.size() == 1 && node && node->op == BinaryOp::eq && node->a.as<Var>() && node->b.as<Var>() &&
           node->b == exchanged(node->a) && node->a != node->b;
  }

  Expr exchanged(const Expr& variable) const {
    for (size_t k = 0; k < reducer_.lhs.size(); ++k) {
      if (variable == Expr(reducer_.lhs[k])) return reducer_.rhs[k];
      if (variable == Expr(reducer_.rhs[k])) return reducer_.lhs[k];
    }
    return variable;
  }

  const Reducer& reducer_;
  int compared_ = 0;
};

bool is_symmetric(const Reducer& reducer) {
  return std::all_of(reducer.results.begin(), reducer.results.end(),
                     [&](const Expr& result) { return Mirror(reducer).same(result, result); });
}

bool same(double a, double b) {
  return a == b || (std::isnan(a) && std::isnan(b));
}

}  // namespace

bool folds_in_any_order(const Reducer& reducer) {
  return simple_op(reducer) || commutes(reducer);
}

bool commutes(const Reducer& reducer) {
  if (is_symmetric(reducer)) return true;
  const size_t count = reducer.lhs.size();
  // Two operands take two values of an order and NaN; a third value would be in no new relation to either.
  std::vector<std::vector<double>> domains;
  size_t tuples = 1;
  for (const VarRef& variable : reducer.lhs) {
    if (variable->dtype.is_float()) {
      domains.push_back({0, 1, std::numeric_limits<double>::quiet_NaN()});
    } else {
      domains.push_back({0, 1});
    }
    tuples *= domains.back().size();
  }
  if (count > 3) return false;
  const auto tuple = [&](size_t number) {
    std::vector<double> components;
    for (const std::vector<double>& domain : domains) {
      components.push_back(domain[number % domain.size()]);
      number /= domain.size();
    }
    return components;
  };
  for (size_t i = 0; i < tuples; ++i) {
    for (size_t j = 0; j < i; ++j) {
      Values forward, backward;
      const std::vector<double> a = tuple(i), b = tuple(j);
      for (size_t k = 0; k < count; ++k) {
        forward[reducer.lhs[k].get()] = backward[reducer.rhs[k].get()] = a[k];
        forward[reducer.rhs[k].get()] = backward[reducer.lhs[k].get()] = b[k];
      }
      for (const Expr& result : reducer.results) {
        const std::optional<double> one = evaluate(result, forward, reducer),
                                    other = evaluate(result, backward, reducer);
        if (!one || !other || !same(*one, *other)) return false;
      }
    }
  }
  return true;
}

}  // namespace lathe
