#include <set>

#include "ir/error.h"
#include "jit/trace/ops/ops.h"
#include "jit/trace/ops/registry.h"
#include "jit/trace/promotion.h"
#include "tests/fuzz/builder.h"

namespace lathe::testing {
namespace {

using Names = std::set<std::string, std::less<>>;

/// Library functions: evaluations may differ by some ULP.
const Names inexact = {"exp",  "exp2",      "expm1", "log",      "log2",  "log10",   "log1p", "rsqrt",
                       "sin",  "cos",       "tan",   "asin",     "acos",  "atan",    "sinh",  "cosh",
                       "tanh", "asinh",     "acosh", "atanh",    "erf",   "sigmoid", "atan2", "logaddexp",
                       "gelu", "gelu_tanh", "silu",  "softplus", "hypot", "pow"};
/// They jump, so their float operands must be reproducible.
const Names jumping = {"sign",        "isnan",        "isinf",     "isfinite",      "signbit",     "logical_not",
                       "floor",       "ceil",         "trunc",     "round",         "equal",       "not_equal",
                       "less",        "less_equal",   "greater",   "greater_equal", "logical_and", "logical_or",
                       "logical_xor", "floor_divide", "remainder", "nextafter",     "copysign",    "relu",
                       "atan2",       "pow"};
/// A second operand of zero, or a first one far out, makes their results large.
const Names divides = {"divide", "floor_divide", "remainder"};

/// The operand cast to a dtype that `f` takes, its own where that is one.
template <class F>
std::optional<Tensor> try_dtypes(Builder& b, const Value& x, F f, Value* operand) {
  std::vector<DType> candidates = {x.tensor.dtype(), b.float_dtype(), b.random.chance(50) ? i32 : u8, boolean};
  for (const DType dtype : candidates) {
    Value value = x;
    if (dtype != x.tensor.dtype()) value = b.input(dtype, x.tensor.shape());
    try {
      const Tensor result = f(value.tensor);
      *operand = value;
      return result;
    } catch (const InputError& error) {
      if (error.mistake != Mistake::type) throw;
      if (dtype != x.tensor.dtype()) {
        // The input that nobody wants goes again.
        b.pool.pop_back();
        b.inputs.pop_back();
        b.parameters.pop_back();
      }
    }
  }
  return std::nullopt;
}

Step unary_step(const ops::Operator& op, ops::UnaryOperator f) {
  const std::string name(op.name);
  return {name, "elementwise", [name, f](Builder& b) {
            Value x = b.operand();
            if (name == "matrix_transpose") {
              if (x.tensor.rank() < 2) return false;
              b.add(name, f(x.tensor), x.reproducible, x.moved_only);
              return true;
            }
            if (jumping.count(name)) x = b.reproducible(x);
            Value operand;
            const std::optional<Tensor> result = try_dtypes(b, x, f, &operand);
            if (!result) return false;
            b.add(name, *result, operand.reproducible && !inexact.count(name));
            return true;
          }};
}

Step binary_step(const ops::Operator& op, ops::BinaryOperator f) {
  const std::string name(op.name);
  return {name, "elementwise", [name, f](Builder& b) {
            Value x = b.operand();
            if (jumping.count(name)) x = b.reproducible(x);
            Value operand, other;
            const Fill fill{divides.count(name) && b.random.chance(70) ? Fill::Kind::positive : Fill::Kind::any};
            const auto with_partner = [&](const Tensor& a) {
              const size_t inputs = b.inputs.size(), pool = b.pool.size();
              other = b.partner({a, true, true}, fill);
              if (jumping.count(name) && !other.reproducible) other = b.input(a.dtype(), a.shape(), fill);
              try {
                return b.random.chance(80) ? f(a, other.tensor) : f(other.tensor, a);
              } catch (const InputError&) {
                b.inputs.resize(inputs);
                b.parameters.resize(inputs);
                b.pool.resize(pool);
                throw;
              }
            };
            const std::optional<Tensor> result = try_dtypes(b, x, with_partner, &operand);
            if (!result) return false;
            b.add(name, *result, operand.reproducible && other.reproducible && !inexact.count(name));
            return true;
          }};
}

bool clip(Builder& b) {
  const Value x = b.operand_where([](const Value& v) { return !v.tensor.dtype().is_bool(); },
                                  [&] { return b.input(b.random.chance(50) ? f32 : i16, b.shape()); });
  const std::int64_t low = x.tensor.dtype().is_unsigned() ? 1 : -2;
  b.add("clip",
        ops::clip(x.tensor, b.random.chance(80) ? std::optional<Tensor>(Tensor(low)) : std::nullopt, Tensor(low + 3)),
        x.reproducible);
  return true;
}

bool where(Builder& b) {
  const Value condition = b.operand_where([](const Value& v) { return v.tensor.dtype().is_bool(); },
                                          [&] { return b.input(boolean, b.shape()); });
  const Value x = b.partner(condition, b.dtype()), y = b.partner(condition, x.tensor.dtype());
  b.add("where", ops::where(condition.tensor, x.tensor, y.tensor),
        condition.reproducible && x.reproducible && y.reproducible);
  return true;
}

bool astype(Builder& b) {
  Value x = b.operand();
  const DType from = x.tensor.dtype(), to = b.dtype();
  if (from.is_float() && to.is_integer()) {
    // In range and finite: elsewhere a cast gives just some value.
    x = b.reproducible(x);
    const Tensor finite = ops::where(ops::isfinite(x.tensor), x.tensor, ops::zeros_like(x.tensor));
    x.tensor = ops::clip(finite, Tensor(to.is_unsigned() ? 0 : -100), Tensor(100));
  }
  if (from.is_float() && to.is_bool()) x = b.reproducible(x);
  b.add("astype", ops::astype(x.tensor, to), x.reproducible);
  return true;
}

bool bitwise_shift(Builder& b, const std::string& name, ops::BinaryOperator f) {
  const Value x =
      b.operand_where([](const Value& v) { return v.tensor.dtype().is_integer(); },
                      [&] { return b.input(b.random.pick(std::vector<DType>{i8, i32, u16, u64}), b.shape()); });
  const std::int64_t low = x.tensor.dtype().is_unsigned() ? 0 : -2;
  const Value count = b.input(x.tensor.dtype(), x.tensor.shape(), {Fill::Kind::index, low, 66});
  b.add(name, f(x.tensor, count.tensor), true);
  return true;
}

bool integer_power(Builder& b) {
  const Value x =
      b.operand_where([](const Value& v) { return v.tensor.dtype().is_integer(); },
                      [&] { return b.input(b.random.pick(std::vector<DType>{i8, i32, u16, i64}), b.shape()); });
  const Value exponent = b.input(x.tensor.dtype(), x.tensor.shape(), {Fill::Kind::index, 0, 9});
  b.add("pow", ops::pow(x.tensor, exponent.tensor), x.reproducible);
  return true;
}

}  // namespace

std::vector<Step> elementwise_steps() {
  std::vector<Step> steps;
  for (const ops::Operator& op : ops::operators()) {
    const std::string name(op.name);
    if (op.family == "linear_algebra") continue;
    if (const auto* one = std::get_if<ops::UnaryOperator>(&op.call)) {
      steps.push_back(unary_step(op, *one));
      if (name == "matrix_transpose") steps.back().family = "view";
    } else if (const auto* two = std::get_if<ops::BinaryOperator>(&op.call)) {
      if (name.ends_with("_shift")) {
        const ops::BinaryOperator f = *two;
        steps.push_back({name, "elementwise", [name, f](Builder& b) { return bitwise_shift(b, name, f); }});
      } else {
        steps.push_back(binary_step(op, *two));
      }
      if (name == "pow") {
        const auto floats = steps.back().apply;
        steps.back().apply = [floats](Builder& b) { return b.random.chance(30) ? integer_power(b) : floats(b); };
      }
    }
  }
  steps.push_back({"clip", "elementwise", clip});
  steps.push_back({"where", "elementwise", where});
  steps.push_back({"astype", "elementwise", astype});
  return steps;
}

}  // namespace lathe::testing
