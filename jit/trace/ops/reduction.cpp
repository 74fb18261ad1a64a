#include "jit/trace/ops/reduction.h"

#include <fmt/format.h>

#include <array>
#include <limits>

#include "ir/reduction.h"
#include "jit/trace/describe.h"
#include "jit/trace/folding.h"
#include "jit/trace/ops/arithmetic.h"
#include "jit/trace/ops/view_shape.h"
#include "jit/trace/promotion.h"

namespace lathe::ops {
namespace {

/// `op` folded over the elements, each converted to the accumulator's type.
Tensor fold(std::string_view name, BinaryOp op, DType accumulator, const Tensor& x, const Folding& folding) {
  return compute(
      folding.result,
      [&](const Indices& i) {
        return reduce(simple_reducer(op, accumulator), folding.folded,
                      [&](const Indices& r) { return convert(accumulator, x.at(folding.join(i, r))); });
      },
      std::string(name));
}

std::string step(std::string_view name, const char* which) {
  return fmt::format("{}{}{}", name, name.find('.') == name.npos ? '.' : '_', which);
}

Tensor accumulate(std::string_view name, BinaryOp op, const Tensor& x, const Axes& axes, bool keepdims,
                  std::optional<DType> dtype) {
  // Bools are counted.
  const int accepted = op == BinaryOp::add ? accepts_any : accepts_number;
  const DType result = accumulated_type(name, result_type(name, std::array{x}, accepted), dtype);
  const Tensor folded = fold(name, op, arithmetic_type(result), x, Folding(name, x, axes, keepdims));
  return dtype ? astype(folded, result) : round_result(folded, result);
}

Expr as_float(const Expr& count, DType dtype) {
  return convert(dtype, count);
}

/// The mean in the arithmetic type, not yet rounded to x's.
Tensor wide_mean(std::string_view name, const Tensor& x, const Folding& folding) {
  const DType arithmetic = arithmetic_type(x.dtype());
  const Tensor total = fold(step(name, "sum"), BinaryOp::add, arithmetic, x, folding);
  const Expr count = as_float(folding.count(), arithmetic);
  return compute(total.shape(), [&](const Indices& i) { return div(total.at(i), count); }, std::string(name));
}

Tensor variance(std::string_view name, const Tensor& x, const Axes& axes, double correction, bool keepdims, bool root) {
  const DType dtype = result_type(name, std::array{x}, accepts_float);
  const DType arithmetic = arithmetic_type(dtype);
  const Folding folding(name, x, axes, keepdims);
  const Tensor center = wide_mean(step(name, "mean"), x, folding);
  const Tensor squares = compute(
      folding.result,
      [&](const Indices& i) {
        return reduce(simple_reducer(BinaryOp::add, arithmetic), folding.folded, [&](const Indices& r) {
          const Expr deviation = convert(arithmetic, x.at(folding.join(i, r))) - center.at(i);
          return deviation * deviation;
        });
      },
      step(name, "squares"));
  const Expr degrees =
      lathe::max(as_float(folding.count(), arithmetic) - constant(arithmetic, correction), constant(arithmetic, 0));
  return compute_rounded(
      squares.shape(), dtype,
      [&](const Indices& i) {
        const Expr value = div(squares.at(i), degrees);
        return root ? unary(UnaryOp::sqrt, value) : value;
      },
      std::string(name));
}

Tensor extreme(std::string_view name, BinaryOp op, const Tensor& x, const Axes& axes, bool keepdims) {
  const DType dtype = result_type(name, std::array{x}, accepts_any);
  const Folding folding(name, x, axes, keepdims);
  if (folding.is_empty()) fail_value(name, fmt::format("has no value over no elements: given {}", describe(x)));
  if (dtype.is_bool())
    return fold(name, op == BinaryOp::max ? BinaryOp::logical_or : BinaryOp::logical_and, boolean, x, folding);
  return round_result(fold(name, op, arithmetic_type(dtype), x, folding), dtype);
}

/// Folds pairs (value, index): the better value wins, NaN is better than any, and the lesser index breaks ties.
Reducer arg_reducer(BinaryOp better, DType dtype) {
  const bool greatest = better == BinaryOp::gt;
  Expr worst;
  if (dtype.is_float()) {
    const double infinity = std::numeric_limits<double>::infinity();
    worst = constant(dtype, greatest ? -infinity : infinity);
  } else {
    worst = constant(dtype, greatest ? integer_min(dtype) : integer_max(dtype));
  }
  const VarRef left = Var::make("left", dtype), left_index = Var::make("left_index");
  const VarRef right = Var::make("right", dtype), right_index = Var::make("right_index");
  Expr wins = binary(better, right, left);
  Expr ties = eq(Expr(left), Expr(right));
  if (dtype.is_float()) {
    const Expr left_nan = unary(UnaryOp::is_nan, left), right_nan = unary(UnaryOp::is_nan, right);
    // Not no better than a number: better, or NaN.
    wins = logical_and(logical_not(binary(greatest ? BinaryOp::le : BinaryOp::ge, right, left)), logical_not(left_nan));
    ties = logical_or(ties, logical_and(left_nan, right_nan));
  }
  const Expr chooses_right = logical_or(wins, logical_and(ties, lt(Expr(right_index), Expr(left_index))));
  return {.identities = {worst, index(std::numeric_limits<std::int64_t>::max())},
          .lhs = {left, left_index},
          .rhs = {right, right_index},
          .results = {select(chooses_right, right, left), select(chooses_right, right_index, left_index)}};
}

Tensor arg_extreme(std::string_view name, BinaryOp better, const Tensor& given, std::optional<std::int64_t> axis,
                   bool keepdims) {
  const DType dtype = result_type(name, std::array{given}, accepts_any);
  Tensor x = given;
  std::int64_t along = axis.value_or(0);
  if (!axis) x = reshape(given, {-1});
  const Folding folding(name, x, std::vector{along}, keepdims && axis);
  if (folding.is_empty()) fail_value(name, fmt::format("has no value over no elements: given {}", describe(given)));
  const DType arithmetic = dtype.is_bool() ? u8 : arithmetic_type(dtype);
  const auto first = [](const Indices&) { return index(0); };
  const auto best = [&](const Indices& i) {
    return reduce_tuple(arg_reducer(better, arithmetic), folding.folded, [&](const Indices& r) {
      return std::vector<Expr>{convert(arithmetic, x.at(folding.join(i, r))), r[0]};
    });
  };
  const bool only_one =
      std::all_of(folding.folded.begin(), folding.folded.end(), [](const Expr& extent) { return is_int(extent, 1); });
  const Tensor found = only_one ? compute(folding.result, first, std::string(name))
                                : compute_tuple(folding.result, best, std::string(name))[1];
  return !axis && keepdims ? reshape(found, std::vector<std::int64_t>(given.rank(), 1)) : found;
}

Tensor quantify(std::string_view name, BinaryOp op, const Tensor& x, const Axes& axes, bool keepdims) {
  return fold(name, op, boolean, x, Folding(name, x, axes, keepdims));
}

}  // namespace

DType accumulated_type(std::string_view name, DType given, std::optional<DType> dtype) {
  const bool counts = given.is_signed() || given.is_bool();
  const DType result = dtype.value_or(counts ? i64 : given.is_unsigned() ? u64 : given);
  if (!is_accepted(accepts_number, result)) {
    fail_type(name, fmt::format("dtype= takes {}; given {}", describe_accepted(accepts_number), to_string(result)));
  }
  return result;
}

Tensor sum(const Tensor& x, const Axes& axes, bool keepdims, std::optional<DType> dtype) {
  return accumulate("sum", BinaryOp::add, x, axes, keepdims, dtype);
}
Tensor prod(const Tensor& x, const Axes& axes, bool keepdims, std::optional<DType> dtype) {
  return accumulate("prod", BinaryOp::mul, x, axes, keepdims, dtype);
}

Tensor mean(const Tensor& x, const Axes& axes, bool keepdims) {
  const DType dtype = result_type("mean", std::array{x}, accepts_float);
  return round_result(wide_mean("mean", x, Folding("mean", x, axes, keepdims)), dtype);
}

Tensor var(const Tensor& x, const Axes& axes, double correction, bool keepdims) {
  return variance("var", x, axes, correction, keepdims, false);
}
Tensor std(const Tensor& x, const Axes& axes, double correction, bool keepdims) {
  return variance("std", x, axes, correction, keepdims, true);
}

Tensor max(const Tensor& x, const Axes& axes, bool keepdims) {
  return extreme("max", BinaryOp::max, x, axes, keepdims);
}
Tensor min(const Tensor& x, const Axes& axes, bool keepdims) {
  return extreme("min", BinaryOp::min, x, axes, keepdims);
}

Tensor argmax(const Tensor& x, std::optional<std::int64_t> axis, bool keepdims) {
  return arg_extreme("argmax", BinaryOp::gt, x, axis, keepdims);
}
Tensor argmin(const Tensor& x, std::optional<std::int64_t> axis, bool keepdims) {
  return arg_extreme("argmin", BinaryOp::lt, x, axis, keepdims);
}

Tensor any(const Tensor& x, const Axes& axes, bool keepdims) {
  return quantify("any", BinaryOp::logical_or, x, axes, keepdims);
}
Tensor all(const Tensor& x, const Axes& axes, bool keepdims) {
  return quantify("all", BinaryOp::logical_and, x, axes, keepdims);
}

}  // namespace lathe::ops
