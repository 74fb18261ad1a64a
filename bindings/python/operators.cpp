#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "bindings/python/bind.h"
#include "bindings/python/convert.h"
#include "bindings/python/weak.h"
#include "ir/error.h"
#include "ir/intrinsics.h"
#include "jit/trace/ops/activation.h"
#include "jit/trace/ops/arithmetic.h"
#include "jit/trace/ops/creation.h"
#include "jit/trace/ops/indexing.h"
#include "jit/trace/ops/joining.h"
#include "jit/trace/ops/linear_algebra.h"
#include "jit/trace/ops/normalization.h"
#include "jit/trace/ops/reduction.h"
#include "jit/trace/ops/registry.h"
#include "jit/trace/ops/scan.h"
#include "jit/trace/ops/view_shape.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace lathe::python {
namespace {

/// The scalar operation of an element-wise operator's name, so that lathe.exp also takes an expression in a compute.
std::optional<UnaryOp> scalar_op(std::string_view name) {
#define LATHE_MATCH(op, ...) \
  if (name == #op) return UnaryOp::op;
  LATHE_UNARY_OPS(LATHE_MATCH)
#undef LATHE_MATCH
  constexpr std::pair<std::string_view, UnaryOp> others[] = {{"isnan", UnaryOp::is_nan},
                                                             {"isinf", UnaryOp::is_inf},
                                                             {"isfinite", UnaryOp::is_finite},
                                                             {"negative", UnaryOp::neg}};
  for (const auto& [other, op] : others) {
    if (name == other) return op;
  }
  return std::nullopt;
}

std::optional<BinaryOp> scalar_binary_op(std::string_view name) {
  constexpr std::pair<std::string_view, BinaryOp> known[] = {
      {"maximum", BinaryOp::max}, {"minimum", BinaryOp::min},  {"pow", BinaryOp::pow},
      {"atan2", BinaryOp::atan2}, {"hypot", BinaryOp::hypot},  {"copysign", BinaryOp::copysign},
      {"equal", BinaryOp::eq},    {"not_equal", BinaryOp::ne}, {"nextafter", BinaryOp::nextafter}};
  for (const auto& [other, op] : known) {
    if (name == other) return op;
  }
  return std::nullopt;
}

void bind_from_registry(nb::module_& module) {
  for (const ops::Operator& op : ops::operators()) {
    const char* name = op.name.data();  // literals: null-terminated
    if (const auto* call = std::get_if<ops::UnaryOperator>(&op.call)) {
      module.def(
          name,
          [f = *call, name, scalar = scalar_op(op.name)](nb::handle x) -> nb::object {
            const Expr* expr = scalar ? as_instance<Expr>(x) : nullptr;
            if (expr) return nb::cast(unary(*scalar, *expr));
            return from_operand(f(to_operand(x, name)));
          },
          "x"_a);
    } else if (const auto* call2 = std::get_if<ops::BinaryOperator>(&op.call)) {
      module.def(
          name,
          [f = *call2, name, scalar = scalar_binary_op(op.name)](nb::handle a, nb::handle b) -> nb::object {
            const Expr* left = scalar ? as_instance<Expr>(a) : nullptr;
            if (left) {
              const auto [x, y] = beside(*left, b);
              return nb::cast(binary(*scalar, x, y));
            }
            const Expr* right = scalar ? as_instance<Expr>(b) : nullptr;
            if (right) {
              const auto [y, x] = beside(*right, a);
              return nb::cast(binary(*scalar, x, y));
            }
            return from_operand(f(to_operand(a, name), to_operand(b, name)));
          },
          "x1"_a, "x2"_a);
    }
  }
}

void bind_elementwise(nb::module_& module) {
  module.def(
      "clip",
      [](nb::handle x, nb::handle low, nb::handle high) {
        return from_operand(
            ops::clip(to_operand(x, "clip"), to_optional_operand(low, "clip"), to_optional_operand(high, "clip")));
      },
      "x"_a, "min"_a.none() = nb::none(), "max"_a.none() = nb::none());
  module.def("where", &choose, "condition"_a, "x1"_a, "x2"_a);
  module.def(
      "astype",
      [](nb::handle x, nb::handle dtype) {
        return from_operand(ops::astype(to_operand(x, "astype"), to_dtype(dtype)));
      },
      "x"_a, "dtype"_a);
  module.def(
      "gelu",
      [](nb::handle x, const std::string& approximate) {
        if (approximate == "tanh") return from_operand(ops::gelu_tanh(to_operand(x, "gelu")));
        const std::vector<std::string> known{"none", "tanh"};
        if (approximate != "none")
          throw InputError(Mistake::value, unknown_name("gelu approximation", approximate, known));
        return from_operand(ops::gelu(to_operand(x, "gelu")));
      },
      "x"_a, "approximate"_a = "none");
}

template <class F>
void bind_reduction(nb::module_& module, const char* name, F f) {
  module.def(
      name,
      [f, name](nb::handle x, nb::handle axis, bool keepdims) {
        return f(to_tensor(x, name), to_axes(axis), keepdims);
      },
      "x"_a, "axis"_a.none() = nb::none(), "keepdims"_a = false);
}

template <class F>
void bind_accumulation(nb::module_& module, const char* name, F f) {
  module.def(
      name,
      [f, name](nb::handle x, nb::handle axis, bool keepdims, nb::handle dtype) {
        return f(to_tensor(x, name), to_axes(axis), keepdims, to_optional_dtype(dtype));
      },
      "x"_a, "axis"_a.none() = nb::none(), "keepdims"_a = false, "dtype"_a.none() = nb::none());
}

template <class F>
void bind_spread(nb::module_& module, const char* name, F f) {
  module.def(
      name,
      [f, name](nb::handle x, nb::handle axis, double correction, bool keepdims) {
        return f(to_tensor(x, name), to_axes(axis), correction, keepdims);
      },
      "x"_a, "axis"_a.none() = nb::none(), "correction"_a = 0.0, "keepdims"_a = false);
}

template <class F>
void bind_position(nb::module_& module, const char* name, F f) {
  module.def(
      name,
      [f, name](nb::handle x, nb::handle axis, bool keepdims) {
        const std::optional<std::int64_t> at = to_axis(axis, name);
        return f(to_tensor(x, name), at, keepdims);
      },
      "x"_a, "axis"_a.none() = nb::none(), "keepdims"_a = false);
}

template <class F>
void bind_scan(nb::module_& module, const char* name, F f) {
  module.def(
      name,
      [f, name](nb::handle x, nb::handle axis, nb::handle dtype, bool include_initial) {
        const std::optional<std::int64_t> along = to_axis(axis, name);
        return f(to_tensor(x, name), along, to_optional_dtype(dtype), include_initial);
      },
      "x"_a, "axis"_a.none() = nb::none(), "dtype"_a.none() = nb::none(), "include_initial"_a = false);
}

void bind_reductions(nb::module_& module) {
  bind_accumulation(module, "sum", &ops::sum);
  bind_accumulation(module, "prod", &ops::prod);
  bind_scan(module, "cumulative_sum", &ops::cumulative_sum);
  bind_scan(module, "cumulative_prod", &ops::cumulative_prod);
  bind_reduction(module, "mean", &ops::mean);
  bind_reduction(module, "max", &ops::max);
  bind_reduction(module, "min", &ops::min);
  bind_reduction(module, "any", &ops::any);
  bind_reduction(module, "all", &ops::all);
  bind_reduction(module, "logsumexp", &ops::logsumexp);
  bind_spread(module, "var", &ops::var);
  bind_spread(module, "std", &ops::std);
  bind_position(module, "argmax", &ops::argmax);
  bind_position(module, "argmin", &ops::argmin);
  module.def(
      "softmax", [](nb::handle x, nb::handle axis) { return ops::softmax(to_tensor(x, "softmax"), to_ints(axis)); },
      "x"_a, "axis"_a = -1);
  module.def(
      "log_softmax",
      [](nb::handle x, nb::handle axis) { return ops::log_softmax(to_tensor(x, "log_softmax"), to_ints(axis)); }, "x"_a,
      "axis"_a = -1);
  module.def(
      "layer_norm",
      [](nb::handle x, nb::handle weight, nb::handle bias, nb::handle axis, double epsilon) {
        return ops::layer_norm(to_tensor(x, "layer_norm"), to_optional_tensor(weight, "layer_norm"),
                               to_optional_tensor(bias, "layer_norm"), to_ints(axis), epsilon);
      },
      "x"_a, "weight"_a.none() = nb::none(), "bias"_a.none() = nb::none(), "axis"_a = -1, "eps"_a = 1e-5);
  module.def(
      "rms_norm",
      [](nb::handle x, nb::handle weight, nb::handle axis, double epsilon) {
        return ops::rms_norm(to_tensor(x, "rms_norm"), to_optional_tensor(weight, "rms_norm"), to_ints(axis), epsilon);
      },
      "x"_a, "weight"_a.none() = nb::none(), "axis"_a = -1, "eps"_a = 1e-6);
}

/// einsum takes any number of operands, so that it reads its arguments itself.
void check_einsum_call(const nb::args& arguments, const nb::kwargs& keywords) {
  constexpr const char* example = "einsum('ij,jk->ik', x, y)";
  if (keywords.size() > 0) {
    std::vector<std::string> names;
    for (const auto& [name, value] : keywords) names.push_back(nb::cast<std::string>(name));
    throw InputError(Mistake::type,
                     fmt::format("einsum: takes its operands by position, as in {}; given the keyword{} {}", example,
                                 names.size() > 1 ? "s" : "", fmt::join(names, ", ")));
  }
  if (arguments.size() > 0 && nb::isinstance<nb::str>(arguments[0])) return;
  const std::string given = arguments.size() > 0 ? Py_TYPE(arguments[0].ptr())->tp_name : "nothing";
  throw InputError(Mistake::type,
                   fmt::format("einsum: takes the equation first, a str, as in {}; given {}", example, given));
}

void bind_linear_algebra(nb::module_& module) {
  module.def(
      "vecdot",
      [](nb::handle a, nb::handle b, std::int64_t axis) {
        return ops::vecdot(to_tensor(a, "vecdot"), to_tensor(b, "vecdot"), axis);
      },
      "x1"_a, "x2"_a, "axis"_a = -1);
  module.def(
      "einsum",
      [](const nb::args& arguments, const nb::kwargs& keywords) {
        check_einsum_call(arguments, keywords);
        std::vector<Tensor> tensors;
        for (size_t k = 1; k < arguments.size(); ++k) tensors.push_back(to_tensor(arguments[k], "einsum"));
        return ops::einsum(nb::cast<std::string>(arguments[0]), tensors);
      },
      nb::sig("def einsum(equation: str, /, *operands: object) -> Tensor"));
}

void bind_views(nb::module_& module) {
  module.def(
      "reshape", [](nb::handle x, nb::handle shape) { return ops::reshape(to_tensor(x, "reshape"), to_ints(shape)); },
      "x"_a, "shape"_a);
  module.def(
      "permute_dims",
      [](nb::handle x, nb::handle axes) { return ops::permute_dims(to_tensor(x, "permute_dims"), to_ints(axes)); },
      "x"_a, "axes"_a);
  module.def(
      "moveaxis",
      [](nb::handle x, std::int64_t source, std::int64_t destination) {
        return ops::moveaxis(to_tensor(x, "moveaxis"), source, destination);
      },
      "x"_a, "source"_a, "destination"_a);
  module.def(
      "expand_dims",
      [](nb::handle x, nb::handle axis) { return ops::expand_dims(to_tensor(x, "expand_dims"), to_ints(axis)); }, "x"_a,
      "axis"_a = 0);
  module.def(
      "squeeze", [](nb::handle x, nb::handle axis) { return ops::squeeze(to_tensor(x, "squeeze"), to_ints(axis)); },
      "x"_a, "axis"_a);
  module.def(
      "broadcast_to",
      [](nb::handle x, nb::handle shape) { return ops::broadcast_to(to_tensor(x, "broadcast_to"), to_shape(shape)); },
      "x"_a, "shape"_a);
  module.def(
      "flip", [](nb::handle x, nb::handle axis) { return ops::flip(to_tensor(x, "flip"), to_axes(axis)); }, "x"_a,
      "axis"_a.none() = nb::none());
  module.def(
      "roll",
      [](nb::handle x, nb::handle shift, nb::handle axis) {
        return ops::roll(to_tensor(x, "roll"), to_ints(shift), to_axes(axis));
      },
      "x"_a, "shift"_a, "axis"_a.none() = nb::none());
  module.def("tril", [](nb::handle x, std::int64_t k) { return ops::tril(to_tensor(x, "tril"), k); }, "x"_a, "k"_a = 0);
  module.def("triu", [](nb::handle x, std::int64_t k) { return ops::triu(to_tensor(x, "triu"), k); }, "x"_a, "k"_a = 0);
  module.def(
      "pad",
      [](nb::handle x, nb::handle widths, nb::handle value) {
        std::vector<std::pair<std::int64_t, std::int64_t>> pairs;
        if (PyIndex_Check(widths.ptr())) {
          pairs.emplace_back(to_int(widths), to_int(widths));
        } else {
          for (const nb::handle pair : nb::borrow<nb::sequence>(widths)) {
            const std::vector<std::int64_t> both = to_ints(pair);
            if (both.size() != 2) throw InputError(Mistake::value, "pad: a width is (before, after) for each axis");
            pairs.emplace_back(both[0], both[1]);
          }
        }
        return ops::pad(to_tensor(x, "pad"), pairs, to_tensor(value, "pad"));
      },
      "x"_a, "pad_width"_a, "value"_a = 0);
}

std::vector<Tensor> to_tensors(nb::handle sequence, const char* op) {
  std::vector<Tensor> tensors;
  for (const nb::handle item : nb::borrow<nb::sequence>(sequence)) tensors.push_back(to_tensor(item, op));
  return tensors;
}

void bind_joining(nb::module_& module) {
  module.def(
      "concat",
      [](nb::handle tensors, nb::handle axis) {
        const std::optional<std::int64_t> at = to_axis(axis, "concat");
        return ops::concat(to_tensors(tensors, "concat"), at);
      },
      "arrays"_a, "axis"_a.none() = 0);
  module.def(
      "stack", [](nb::handle tensors, std::int64_t axis) { return ops::stack(to_tensors(tensors, "stack"), axis); },
      "arrays"_a, "axis"_a = 0);
  module.def(
      "split",
      [](nb::handle x, nb::handle parts, std::int64_t axis) {
        const Tensor tensor = to_tensor(x, "split");
        if (PyIndex_Check(parts.ptr())) return ops::split(tensor, to_int(parts), axis);
        return ops::split(tensor, to_ints(parts), axis);
      },
      "x"_a, "parts"_a, "axis"_a = 0, "`parts`: a count of equal parts, or the extent of each.");
  module.def(
      "unstack", [](nb::handle x, std::int64_t axis) { return ops::unstack(to_tensor(x, "unstack"), axis); }, "x"_a,
      "axis"_a = 0);
}

void bind_indexing(nb::module_& module) {
  module.def(
      "take",
      [](nb::handle x, nb::handle indices, std::int64_t axis) {
        return ops::take(to_tensor(x, "take"), to_tensor(indices, "take"), axis);
      },
      "x"_a, "indices"_a, "axis"_a = 0);
  module.def(
      "take_along_axis",
      [](nb::handle x, nb::handle indices, std::int64_t axis) {
        return ops::take_along_axis(to_tensor(x, "take_along_axis"), to_tensor(indices, "take_along_axis"), axis);
      },
      "x"_a, "indices"_a, "axis"_a = -1);
  module.def(
      "index_add",
      [](nb::handle x, nb::handle indices, nb::handle source, std::int64_t axis) {
        return ops::index_add(to_tensor(x, "index_add"), to_tensor(indices, "index_add"),
                              to_tensor(source, "index_add"), axis);
      },
      "x"_a, "indices"_a, "source"_a, "axis"_a = 0,
      "x with what `source` holds along `axis` added at an index each; equal indices add up.");
  module.def(
      "one_hot",
      [](nb::handle indices, std::int64_t classes, nb::handle dtype) {
        return ops::one_hot(to_tensor(indices, "one_hot"), classes, to_optional_dtype(dtype).value_or(f32));
      },
      "indices"_a, "num_classes"_a, "dtype"_a.none() = nb::none());
}

void bind_creation(nb::module_& module) {
  module.def(
      "full",
      [](nb::handle shape, nb::handle value, nb::handle dtype) {
        return ops::full(to_shape(shape), to_tensor(value, "full"), to_optional_dtype(dtype));
      },
      "shape"_a, "fill_value"_a, "dtype"_a.none() = nb::none());
  module.def(
      "zeros",
      [](nb::handle shape, nb::handle dtype) {
        return ops::zeros(to_shape(shape), to_optional_dtype(dtype).value_or(f32));
      },
      "shape"_a, "dtype"_a.none() = nb::none());
  module.def(
      "ones",
      [](nb::handle shape, nb::handle dtype) {
        return ops::ones(to_shape(shape), to_optional_dtype(dtype).value_or(f32));
      },
      "shape"_a, "dtype"_a.none() = nb::none());
  module.def(
      "asarray",
      [](nb::handle x, nb::handle dtype) {
        const Tensor tensor = to_tensor(x, "asarray");
        const std::optional<DType> wanted = to_optional_dtype(dtype);
        return wanted ? ops::astype(tensor, *wanted) : tensor;
      },
      "x"_a, "dtype"_a.none() = nb::none(),
      "The tensor that a traced function sees of `x`, an array that it captures or makes itself, or a number; of "
      "`dtype`, where that is given.");
  module.def(
      "full_like",
      [](nb::handle x, nb::handle value, nb::handle dtype) {
        return ops::full_like(to_tensor(x, "full_like"), to_tensor(value, "full_like"), to_optional_dtype(dtype));
      },
      "x"_a, "fill_value"_a, "dtype"_a.none() = nb::none());
  module.def(
      "zeros_like",
      [](nb::handle x, nb::handle dtype) {
        return ops::zeros_like(to_tensor(x, "zeros_like"), to_optional_dtype(dtype));
      },
      "x"_a, "dtype"_a.none() = nb::none());
  module.def(
      "ones_like",
      [](nb::handle x, nb::handle dtype) {
        return ops::ones_like(to_tensor(x, "ones_like"), to_optional_dtype(dtype));
      },
      "x"_a, "dtype"_a.none() = nb::none());
  module.def(
      "eye",
      [](std::int64_t rows, nb::handle columns, std::int64_t k, nb::handle dtype) {
        const std::optional<std::int64_t> n = to_optional_int(columns);
        return ops::eye(rows, n, k, to_optional_dtype(dtype).value_or(f32));
      },
      "n_rows"_a, "n_cols"_a.none() = nb::none(), "k"_a = 0, "dtype"_a.none() = nb::none());
  module.def(
      "arange",
      [](nb::handle start, nb::handle stop, nb::handle step, nb::handle dtype) {
        const bool real = PyFloat_Check(start.ptr()) || PyFloat_Check(stop.ptr()) || PyFloat_Check(step.ptr());
        const bool one = stop.is_none();
        if (real) {
          const double first = one ? 0 : nb::cast<double>(start), last = nb::cast<double>(one ? start : stop);
          return ops::arange(first, last, nb::cast<double>(step), to_optional_dtype(dtype).value_or(f32));
        }
        const std::int64_t first = one ? 0 : to_int(start), last = to_int(one ? start : stop);
        return ops::arange(first, last, to_int(step), to_optional_dtype(dtype).value_or(i64));
      },
      "start"_a, "stop"_a.none() = nb::none(), "step"_a = 1, "dtype"_a.none() = nb::none());
  module.def(
      "linspace",
      [](double start, double stop, std::int64_t num, nb::handle dtype, bool endpoint) {
        return ops::linspace(start, stop, num, to_optional_dtype(dtype).value_or(f32), endpoint);
      },
      "start"_a, "stop"_a, "num"_a, "dtype"_a.none() = nb::none(), "endpoint"_a = true);
}

}  // namespace

void bind_operators(nb::module_& module) {
  bind_from_registry(module);
  bind_elementwise(module);
  bind_reductions(module);
  bind_linear_algebra(module);
  bind_views(module);
  bind_joining(module);
  bind_indexing(module);
  bind_creation(module);
  nb::list names;
  for (const ops::Operator& op : ops::operators()) names.append(std::string(op.name));
  module.attr("operator_names") = names;
}

}  // namespace lathe::python
