#include "jit/trace/ops/normalization.h"

#include <fmt/format.h>

#include <array>

#include "ir/intrinsics.h"
#include "ir/reduction.h"
#include "jit/trace/broadcast.h"
#include "jit/trace/describe.h"
#include "jit/trace/folding.h"
#include "jit/trace/promotion.h"

namespace lathe::ops {
namespace {

/// A pass over x in its arithmetic type.
class Passes {
 public:
  Passes(std::string name, const Tensor& x, const Axes& axes, bool keepdims = true)
      : dtype_(result_type(name, std::array{x}, accepts_float)),
        type(arithmetic_type(dtype_)),
        folding(name, x, axes, keepdims),
        name_(std::move(name)),
        x_(x) {}

  /// The step `step`: `op` over f(element, i), where i is the index of the folded result.
  template <class F>
  Tensor fold(const char* step, BinaryOp op, const F& f) const {
    return compute(
        folding.result,
        [&](const Indices& i) {
          return reduce(simple_reducer(op, type), folding.folded,
                        [&](const Indices& r) { return f(convert(type, x_.at(folding.join(i, r))), i); });
        },
        name_ + step);
  }
  /// The greatest number; a NaN reaches the result through the sum of the exponentials.
  Tensor peak() const {
    return compute(
        folding.result,
        [&](const Indices& i) {
          return reduce(extreme_of_numbers(BinaryOp::max, type), folding.folded,
                        [&](const Indices& r) { return convert(type, x_.at(folding.join(i, r))); });
        },
        name_ + ".max");
  }
  Tensor fold(const char* step, BinaryOp op) const {
    return fold(step, op, [](const Expr& element, const Indices&) { return element; });
  }

  /// f(element, i) over x's own shape, rounded to x's dtype at the end.
  template <class F>
  Tensor map(const F& f) const {
    return compute_rounded(x_.shape(), dtype_, [&](const Indices& i) { return f(convert(type, x_.at(i)), i); }, name_);
  }

  /// f over the folded shape, in the arithmetic type.
  template <class F>
  Tensor finish(const char* step, const F& f) const {
    return compute(folding.result, [&](const Indices& i) { return f(i); }, name_ + step);
  }

  Expr count() const { return convert(type, folding.count()); }

 private:
  DType dtype_;

 public:
  const DType type;
  const Folding folding;

 private:
  std::string name_;
  const Tensor& x_;
};

Expr exp(const Expr& e) {
  return unary(UnaryOp::exp, e);
}
Expr log(const Expr& e) {
  return unary(UnaryOp::log, e);
}

/// An optional weight or bias: floating, and broadcast to x without growing it.
void check_affine(std::string_view name, std::string_view what, const Tensor& x,
                  const std::optional<Tensor>& parameter) {
  if (!parameter) return;
  const std::array operands{x, *parameter};
  result_type(name, operands, accepts_float);
  if (!same_shape(broadcast_shapes(name, operands), x.shape())) {
    fail_value(name, fmt::format("the {} broadcasts to x: given {}", what, describe(operands)));
  }
}

}  // namespace

Tensor logsumexp(const Tensor& x, const Axes& axes, bool keepdims) {
  const Passes passes("logsumexp", x, axes, keepdims);
  const Tensor peak = passes.peak();
  // An infinite peak is no shift: inf - inf is NaN.
  const auto shift = [&](const Indices& i) {
    const Expr value = peak.at(i);
    return select(unary(UnaryOp::is_finite, value), value, constant(passes.type, 0));
  };
  const Tensor total =
      passes.fold(".sum", BinaryOp::add, [&](const Expr& e, const Indices& i) { return exp(e - shift(i)); });
  return compute_rounded(
      passes.folding.result, x.dtype(), [&](const Indices& i) { return log(total.at(i)) + shift(i); }, "logsumexp");
}

Tensor softmax(const Tensor& x, const std::vector<std::int64_t>& axes) {
  const Passes passes("softmax", x, axes);
  const Tensor peak = passes.peak();
  const Tensor powers = compute(
      x.shape(),
      [&](const Indices& i) { return exp(at_most(convert(passes.type, x.at(i)) - at_broadcast(peak, i), 0)); },
      "softmax.exp");
  const Passes over_powers("softmax", powers, axes);
  const Tensor total = over_powers.fold(".sum", BinaryOp::add);
  // One division a row instead of one an element, which would take as long as the exponential, for half an ULP.
  const Tensor scale =
      over_powers.finish(".scale", [&](const Indices& i) { return div(constant(passes.type, 1), total.at(i)); });
  return compute_rounded(
      x.shape(), x.dtype(), [&](const Indices& i) { return powers.at(i) * at_broadcast(scale, i); }, "softmax");
}

Tensor log_softmax(const Tensor& x, const std::vector<std::int64_t>& axes) {
  const Passes passes("log_softmax", x, axes);
  const Tensor peak = passes.peak();
  const Tensor total = passes.fold(".sum", BinaryOp::add,
                                   [&](const Expr& e, const Indices& i) { return exp(at_most(e - peak.at(i), 0)); });
  const Tensor log_total = passes.finish(".log", [&](const Indices& i) { return log(total.at(i)); });
  return passes.map(
      [&](const Expr& e, const Indices& i) { return e - at_broadcast(peak, i) - at_broadcast(log_total, i); });
}

Tensor layer_norm(const Tensor& x, const std::optional<Tensor>& weight, const std::optional<Tensor>& bias,
                  const std::vector<std::int64_t>& axes, double epsilon) {
  const Passes passes("layer_norm", x, axes);
  check_affine("layer_norm", "weight", x, weight);
  check_affine("layer_norm", "bias", x, bias);
  const Tensor total = passes.fold(".sum", BinaryOp::add);
  const Tensor center = passes.finish(".mean", [&](const Indices& i) { return div(total.at(i), passes.count()); });
  const Tensor squares = passes.fold(".squares", BinaryOp::add, [&](const Expr& e, const Indices& i) {
    const Expr deviation = e - center.at(i);
    return deviation * deviation;
  });
  const Tensor scale = passes.finish(".scale", [&](const Indices& i) {
    const Expr variance = div(squares.at(i), passes.count());
    return div(constant(passes.type, 1), unary(UnaryOp::sqrt, variance + constant(passes.type, epsilon)));
  });
  return passes.map([&](const Expr& e, const Indices& i) {
    Expr value = (e - at_broadcast(center, i)) * at_broadcast(scale, i);
    if (weight) value = value * convert(passes.type, at_broadcast(*weight, i));
    if (bias) value = value + convert(passes.type, at_broadcast(*bias, i));
    return value;
  });
}

Tensor rms_norm(const Tensor& x, const std::optional<Tensor>& weight, const std::vector<std::int64_t>& axes,
                double epsilon) {
  const Passes passes("rms_norm", x, axes);
  check_affine("rms_norm", "weight", x, weight);
  const Tensor squares = passes.fold(".squares", BinaryOp::add, [](const Expr& e, const Indices&) { return e * e; });
  const Tensor scale = passes.finish(".scale", [&](const Indices& i) {
    const Expr mean = div(squares.at(i), passes.count());
    return div(constant(passes.type, 1), unary(UnaryOp::sqrt, mean + constant(passes.type, epsilon)));
  });
  return passes.map([&](const Expr& e, const Indices& i) {
    const Expr value = e * at_broadcast(scale, i);
    return weight ? value * convert(passes.type, at_broadcast(*weight, i)) : value;
  });
}

}  // namespace lathe::ops
