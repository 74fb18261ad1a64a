#include "jit/trace/ops/registry.h"

#include "jit/trace/ops/ops.h"

namespace lathe::ops {
namespace {

constexpr Operator one(std::string_view family, std::string_view name, UnaryOperator f) {
  return {name, family, f};
}
constexpr Operator two(std::string_view family, std::string_view name, BinaryOperator f) {
  return {name, family, f};
}
constexpr Operator own(std::string_view family, std::string_view name) {
  return {name, family, {}};
}

constexpr Operator all_operators[] = {
    two("arithmetic", "add", add),
    two("arithmetic", "subtract", subtract),
    two("arithmetic", "multiply", multiply),
    two("arithmetic", "divide", divide),
    two("arithmetic", "floor_divide", floor_divide),
    two("arithmetic", "remainder", remainder),
    two("arithmetic", "pow", pow),
    two("arithmetic", "maximum", maximum),
    two("arithmetic", "minimum", minimum),
    two("arithmetic", "hypot", hypot),
    two("arithmetic", "copysign", copysign),
    two("arithmetic", "nextafter", nextafter),
    one("arithmetic", "abs", abs),
    one("arithmetic", "negative", negative),
    one("arithmetic", "positive", positive),
    one("arithmetic", "reciprocal", reciprocal),
    one("arithmetic", "sign", sign),
    one("arithmetic", "square", square),
    own("arithmetic", "clip"),
    own("arithmetic", "where"),
    own("arithmetic", "astype"),
    two("comparison", "equal", equal),
    two("comparison", "not_equal", not_equal),
    two("comparison", "less", less),
    two("comparison", "less_equal", less_equal),
    two("comparison", "greater", greater),
    two("comparison", "greater_equal", greater_equal),
    two("comparison", "logical_and", logical_and),
    two("comparison", "logical_or", logical_or),
    two("comparison", "logical_xor", logical_xor),
    one("comparison", "logical_not", logical_not),
    one("comparison", "isnan", isnan),
    one("comparison", "isinf", isinf),
    one("comparison", "isfinite", isfinite),
    one("comparison", "signbit", signbit),
    two("bitwise", "bitwise_and", bitwise_and),
    two("bitwise", "bitwise_or", bitwise_or),
    two("bitwise", "bitwise_xor", bitwise_xor),
    one("bitwise", "bitwise_invert", bitwise_invert),
    one("bitwise", "bitwise_count", bitwise_count),
    two("bitwise", "bitwise_left_shift", bitwise_left_shift),
    two("bitwise", "bitwise_right_shift", bitwise_right_shift),
    one("transcendental", "exp", exp),
    one("transcendental", "exp2", exp2),
    one("transcendental", "expm1", expm1),
    one("transcendental", "log", log),
    one("transcendental", "log2", log2),
    one("transcendental", "log10", log10),
    one("transcendental", "log1p", log1p),
    one("transcendental", "sqrt", sqrt),
    one("transcendental", "rsqrt", rsqrt),
    one("transcendental", "sin", sin),
    one("transcendental", "cos", cos),
    one("transcendental", "tan", tan),
    one("transcendental", "asin", asin),
    one("transcendental", "acos", acos),
    one("transcendental", "atan", atan),
    one("transcendental", "sinh", sinh),
    one("transcendental", "cosh", cosh),
    one("transcendental", "tanh", tanh),
    one("transcendental", "asinh", asinh),
    one("transcendental", "acosh", acosh),
    one("transcendental", "atanh", atanh),
    one("transcendental", "erf", erf),
    one("transcendental", "sigmoid", sigmoid),
    two("transcendental", "atan2", atan2),
    two("transcendental", "logaddexp", logaddexp),
    one("transcendental", "floor", floor),
    one("transcendental", "ceil", ceil),
    one("transcendental", "trunc", trunc),
    one("transcendental", "round", round),
    one("activation", "relu", relu),
    one("activation", "gelu", gelu),
    one("activation", "gelu_tanh", gelu_tanh),
    one("activation", "silu", silu),
    one("activation", "softplus", softplus),
    own("reduction", "sum"),
    own("reduction", "prod"),
    own("reduction", "mean"),
    own("reduction", "var"),
    own("reduction", "std"),
    own("reduction", "max"),
    own("reduction", "min"),
    own("reduction", "argmax"),
    own("reduction", "argmin"),
    own("reduction", "any"),
    own("reduction", "all"),
    own("scan", "cumulative_sum"),
    own("scan", "cumulative_prod"),
    own("normalization", "logsumexp"),
    own("normalization", "softmax"),
    own("normalization", "log_softmax"),
    own("normalization", "layer_norm"),
    own("normalization", "rms_norm"),
    two("linear_algebra", "matmul", matmul),
    own("linear_algebra", "vecdot"),
    two("linear_algebra", "outer", outer),
    own("linear_algebra", "einsum"),
    own("view_shape", "reshape"),
    own("view_shape", "permute_dims"),
    one("view_shape", "matrix_transpose", matrix_transpose),
    own("view_shape", "moveaxis"),
    own("view_shape", "expand_dims"),
    own("view_shape", "squeeze"),
    own("view_shape", "broadcast_to"),
    own("view_shape", "flip"),
    own("indexing", "getitem"),
    own("indexing", "take"),
    own("indexing", "take_along_axis"),
    own("indexing", "index_add"),
    own("indexing", "one_hot"),
    own("joining", "concat"),
    own("joining", "stack"),
    own("joining", "split"),
    own("joining", "unstack"),
    own("joining", "pad"),
    own("joining", "roll"),
    own("joining", "tril"),
    own("joining", "triu"),
    own("creation", "full"),
    own("creation", "zeros"),
    own("creation", "ones"),
    own("creation", "full_like"),
    own("creation", "zeros_like"),
    own("creation", "ones_like"),
    own("creation", "eye"),
    own("creation", "arange"),
    own("creation", "linspace"),
};

}  // namespace

std::span<const Operator> operators() {
  return all_operators;
}

const Operator* find_operator(std::string_view name) {
  for (const Operator& each : all_operators) {
    if (each.name == name) return &each;
  }
  return nullptr;
}

}  // namespace lathe::ops
