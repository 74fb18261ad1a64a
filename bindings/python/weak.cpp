#include "bindings/python/weak.h"

#include <fmt/format.h>

#include "bindings/python/convert.h"
#include "bindings/python/trace_scope.h"
#include "ir/error.h"
#include "jit/trace/ops/arithmetic.h"
#include "jit/trace/promotion.h"

namespace nb = nanobind;

namespace lathe::python {
namespace {

/// In f64 or i64, as Python has it; nothing for what has a type of its own.
std::optional<Expr> exact_form(nb::handle object) {
  if (const Expr* expr = as_instance<Expr>(object)) {
    const TraceScope* scope = TraceScope::active();
    return scope ? scope->weak_form(*expr) : std::nullopt;
  }
  if (PyBool_Check(object.ptr())) return std::nullopt;
  const Tensor* tensor = as_instance<Tensor>(object);
  if (!tensor && !PyLong_Check(object.ptr()) && !PyFloat_Check(object.ptr())) return std::nullopt;
  const Tensor number = to_tensor(object, "where");
  if (!number.is_weak() || number.rank() != 0 || number.dtype().is_bool()) return std::nullopt;
  return number.at({});
}

/// Each number by itself, so that constants are rounded once.
Expr as_type(DType dtype, const Expr& exact) {
  if (const Select* choice = exact.as<Select>())
    return select(choice->condition, as_type(dtype, choice->when_true), as_type(dtype, choice->when_false));
  const std::int64_t* value = as_int(exact);
  if (value && dtype.is_integer() && (dtype == u64 ? *value < 0 : wrap_integer(dtype, *value) != *value))
    throw InputError(Mistake::value, fmt::format("the int {} does not fit {}", *value, to_string(dtype)));
  return convert(dtype, exact);
}

/// The expression in `dtype`, if it is weak and gives way to that.
Expr given_way(const Expr& expr, DType dtype) {
  if (expr->dtype == dtype || !TraceScope::active()) return expr;
  const std::optional<Expr> exact = TraceScope::active()->weak_form(expr);
  const bool gives_way = exact && (dtype.is_float() || (dtype.is_integer() && (*exact)->dtype.is_integer()));
  return gives_way ? as_type(dtype, *exact) : expr;
}

}  // namespace

std::pair<Expr, Expr> beside(const Expr& expr, nb::handle other) {
  const Expr right = given_way(to_expr(other, expr->dtype), expr->dtype), left = given_way(expr, right->dtype);
  const std::optional<DType> common = left->dtype == right->dtype ? std::nullopt : promote(left->dtype, right->dtype);
  return common ? std::pair(convert(*common, left), convert(*common, right)) : std::pair(left, right);
}

nb::object choose(nb::handle condition, nb::handle a, nb::handle b) {
  const auto where = [&](const Tensor& x, const Tensor& y) { return ops::where(to_operand(condition, "where"), x, y); };
  const Expr* chosen = as_instance<Expr>(condition);
  if (!chosen) return from_operand(where(to_operand(a, "where"), to_operand(b, "where")));
  const auto exact_a = exact_form(a), exact_b = exact_form(b);
  const Expr *left = as_instance<Expr>(a), *right = as_instance<Expr>(b);
  if (!exact_a != !exact_b && left && right)
    return from_operand(
        where(expression(given_way(*left, (*right)->dtype)), expression(given_way(*right, (*left)->dtype))));
  const Tensor result = where(to_operand(a, "where"), to_operand(b, "where"));
  if (!exact_a || !exact_b || !result.is_expression() || !TraceScope::active()) return from_operand(result);
  const DType exact = result.dtype().is_float() ? f64 : i64;
  const Expr value = result.at({});
  TraceScope::active()->keep_weak(value, select(*chosen, convert(exact, *exact_a), convert(exact, *exact_b)));
  return nb::cast(value);
}

}  // namespace lathe::python
