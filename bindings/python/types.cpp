#include <fmt/format.h>
#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>

#include "bindings/python/bind.h"
#include "bindings/python/borrow.h"
#include "bindings/python/convert.h"
#include "bindings/python/fold.h"
#include "bindings/python/weak.h"
#include "ir/error.h"
#include "ir/text/print.h"
#include "jit/trace/describe.h"
#include "jit/trace/ops/arithmetic.h"
#include "jit/trace/ops/bitwise.h"
#include "jit/trace/ops/comparison.h"
#include "jit/trace/ops/indexing.h"
#include "jit/trace/ops/linear_algebra.h"
#include "jit/trace/ops/view_shape.h"

namespace nb = nanobind;

namespace lathe::python {
namespace {

[[noreturn]] void refuse_value(const Tensor& tensor, const char* what) {
  throw InputError(Mistake::type,
                   fmt::format("{} of a traced tensor {}: its value does not exist while the function is traced. Use "
                               "lathe.where for a choice by value, or pass the number as a Python argument",
                               what, describe(tensor)));
}

/// Binds a binary operator and its reflection.
void bind_operator(nb::class_<Tensor>& type, const char* name, const char* reflected,
                   Tensor (*op)(const Tensor&, const Tensor&)) {
  // None is taken, to be refused by name: Python would compare what an operator does not take by identity.
  type.def(
      name, [op, name](const Tensor& a, nb::handle b) { return from_operand(op(a, to_operand(b, name))); },
      nb::arg("other").none(), nb::is_operator());
  if (reflected) {
    type.def(
        reflected, [op, name](const Tensor& a, nb::handle b) { return from_operand(op(to_operand(b, name), a)); },
        nb::is_operator());
  }
}

/// The tensor, as indices: a mask is refused.
Tensor indices_of(const Tensor& places) {
  if (places.dtype().is_bool()) {
    throw InputError(Mistake::type,
                     fmt::format("a mask {} picks as many elements as its values say, which shapes cannot "
                                 "hang on: choose with lathe.where, or reduce what it keeps",
                                 describe(places)));
  }
  return places;
}

/// As many places of a list are slices of their own; more are looked up.
constexpr size_t most_listed = 64;

/// A list of integers as a subscript; nothing for anything else.
std::optional<std::vector<std::int64_t>> listed_places(nb::handle item) {
  if (!PyList_Check(item.ptr())) return std::nullopt;
  std::vector<std::int64_t> places;
  for (const nb::handle place : nb::borrow<nb::list>(item)) {
    if (PyBool_Check(place.ptr()) || !PyIndex_Check(place.ptr())) {
      throw InputError(Mistake::type, fmt::format("a list among the subscripts holds ints, not {}: choose with "
                                                  "lathe.where, or give an array of integers",
                                                  Py_TYPE(place.ptr())->tp_name));
    }
    places.push_back(to_int(place));
  }
  return places;
}

ops::Subscript to_subscript(nb::handle item) {
  if (item.is_none()) return ops::NewAxis{};
  if (item.ptr() == Py_Ellipsis) return ops::Ellipsis{};
  if (PySlice_Check(item.ptr())) {
    const auto part = [&](const char* name) -> std::optional<std::int64_t> {
      const nb::object value = item.attr(name);
      if (value.is_none()) return std::nullopt;
      return to_int(value);
    };
    return ops::Slice{part("start"), part("stop"), part("step").value_or(1)};
  }
  if (as_instance<Tensor>(item) || is_array_type(Py_TYPE(item.ptr())))
    return indices_of(to_tensor(item, "a subscript"));
  if (const auto places = listed_places(item)) {
    const nb::module_ numpy = nb::module_::import_("numpy");
    return indices_of(to_tensor(numpy.attr("array")(item, numpy.attr("int64")), "a subscript"));
  }
  if (!PyIndex_Check(item.ptr())) {
    throw InputError(Mistake::type,
                     fmt::format("a subscript is an int, a slice, None, ..., a list or a tensor of integers, not {}",
                                 Py_TYPE(item.ptr())->tp_name));
  }
  return to_int(item);
}

/// x[.., [2, 1, 0], ..] where there are no other lists or tensors among the subscripts; else lists are tensors.
std::optional<Tensor> listed(const Tensor& tensor, const std::vector<nb::handle>& items) {
  std::optional<size_t> at;
  for (size_t i = 0; i < items.size(); ++i) {
    if (as_instance<Tensor>(items[i]) || is_array_type(Py_TYPE(items[i].ptr()))) return std::nullopt;
    if (!PyList_Check(items[i].ptr())) continue;
    if (at) return std::nullopt;
    at = i;
  }
  // An integer that is no neighbour is one of the places, as in NumPy.
  for (size_t i = 0; at && i < items.size(); ++i) {
    if (!PyIndex_Check(items[i].ptr())) continue;
    for (size_t between = std::min(i, *at) + 1; between < std::max(i, *at); ++between)
      if (!PyIndex_Check(items[between].ptr())) return std::nullopt;
  }
  const auto places = at ? listed_places(items[*at]) : std::nullopt;
  if (!places || places->size() > most_listed) return std::nullopt;
  std::vector<ops::Subscript> subscripts;
  for (size_t i = 0; i < items.size(); ++i)
    subscripts.push_back(i == *at ? ops::Subscript(ops::Slice{}) : to_subscript(items[i]));
  return ops::getitem(tensor, std::move(subscripts), *at, *places);
}

/// x[i, j] with expressions is an element, for compute; with ints, slices and tensors of integers a view.
nb::object subscript(const Tensor& tensor, nb::handle key) {
  if (as_instance<Tensor>(key) || is_array_type(Py_TYPE(key.ptr())))
    return nb::cast(ops::take(tensor, indices_of(to_tensor(key, "a subscript")), 0));
  std::vector<nb::handle> items;
  if (nb::isinstance<nb::tuple>(key)) {
    for (const nb::handle item : nb::borrow<nb::tuple>(key)) items.push_back(item);
  } else {
    items.push_back(key);
  }
  bool element = false;
  for (const nb::handle item : items) element |= as_instance<Expr>(item) || as_instance<Fold>(item);
  if (element) {
    if (items.size() != tensor.rank()) {
      throw InputError(Mistake::value, fmt::format("an element of {} takes {} indices, {} given", describe(tensor),
                                                   tensor.rank(), items.size()));
    }
    Indices indices;
    indices.reserve(items.size());
    for (const nb::handle item : items) indices.push_back(to_expr(item, i64));
    return nb::cast(tensor.element(indices));
  }
  if (const std::optional<Tensor> picked = listed(tensor, items)) return nb::cast(*picked);
  std::vector<ops::Subscript> subscripts;
  subscripts.reserve(items.size());
  for (const nb::handle item : items) subscripts.push_back(to_subscript(item));
  return nb::cast(ops::getitem(tensor, subscripts));
}

void bind_dtype(nb::module_& module) {
  nb::class_<DType>(module, "DType", "An element type; lathe.float32 and the others of the Array API, and bfloat16.")
      .def("__repr__", [](DType dtype) { return fmt::format("lathe.{}", standard_name(dtype)); })
      .def("__str__", [](DType dtype) { return std::string(standard_name(dtype)); })
      .def("__hash__", [](DType d) { return static_cast<std::int64_t>(d.code) << 8 | d.bits; })
      .def("__eq__",
           [](DType a, nb::handle b) {
             const DType* other = as_instance<DType>(b);
             return other && a == *other;
           })
      .def_prop_ro("name", [](DType dtype) { return standard_name(dtype); })
      .def_prop_ro("itemsize", [](DType dtype) { return dtype.bytes(); });
  for (const DType dtype : all_dtypes) module.attr(standard_name(dtype)) = nb::cast(dtype);
}

template <class F>
void bind_expr_operator(nb::class_<Expr>& type, const char* name, const char* reflected, F f) {
  const auto apply = [f](const Expr& a, nb::handle b) {
    const auto [left, right] = beside(a, b);
    return f(left, right);
  };
  const auto apply_reflected = [f](const Expr& a, nb::handle b) {
    const auto [right, left] = beside(a, b);
    return f(left, right);
  };
  type.def(name, apply, nb::is_operator());
  if (reflected) type.def(reflected, apply_reflected, nb::is_operator());
}

void bind_expr(nb::module_& module) {
  nb::class_<Expr> type(module, "Expr", "A scalar expression: what compute bodies are made of.");
  type.def("__repr__", [](const Expr& e) { return print(e); });
  type.def_prop_ro("dtype", [](const Expr& e) { return e->dtype; });
  type.def("astype", [](const Expr& e, nb::handle dtype) { return cast(to_dtype(dtype), e); }, nb::arg("dtype"));
  type.def("__bool__", [](const Expr&) -> bool {
    throw InputError(Mistake::type,
                     "bool of an expression: its value does not exist while the function is traced. Use lathe.select");
  });
  type.def("__array__", [](const Expr&, const nb::args&, const nb::kwargs&) -> nb::object {
    throw InputError(
        Mistake::type,
        "the data of an expression: its value does not exist while the function is traced. To take elements "
        "of an array at it, make the array a tensor first: lathe.asarray(array)[i]");
  });
  type.attr("__array_ufunc__") = nb::none();
  type.def("__neg__", [](const Expr& e) { return -e; });
  type.def("__abs__", [](const Expr& e) { return from_operand(ops::abs(expression(e))); });
  const auto by_op = [](BinaryOp op) { return [op](const Expr& a, const Expr& b) { return binary(op, a, b); }; };
  bind_expr_operator(type, "__add__", "__radd__", [](const Expr& a, const Expr& b) { return a + b; });
  bind_expr_operator(type, "__sub__", "__rsub__", [](const Expr& a, const Expr& b) { return a - b; });
  bind_expr_operator(type, "__mul__", "__rmul__", [](const Expr& a, const Expr& b) { return a * b; });
  bind_expr_operator(type, "__truediv__", "__rtruediv__", by_op(BinaryOp::div));
  bind_expr_operator(type, "__floordiv__", "__rfloordiv__",
                     [](const Expr& a, const Expr& b) { return floor_div(a, b); });
  bind_expr_operator(type, "__mod__", "__rmod__", [](const Expr& a, const Expr& b) { return floor_mod(a, b); });
  bind_expr_operator(type, "__pow__", "__rpow__", by_op(BinaryOp::pow));
  const auto logic = [](BinaryOp on_bool, BinaryOp on_bits) {
    return [=](const Expr& a, const Expr& b) { return binary(a->dtype.is_bool() ? on_bool : on_bits, a, b); };
  };
  bind_expr_operator(type, "__and__", "__rand__", logic(BinaryOp::logical_and, BinaryOp::bit_and));
  bind_expr_operator(type, "__or__", "__ror__", logic(BinaryOp::logical_or, BinaryOp::bit_or));
  bind_expr_operator(type, "__xor__", "__rxor__", by_op(BinaryOp::bit_xor));
  bind_expr_operator(type, "__lshift__", "__rlshift__", by_op(BinaryOp::shl));
  bind_expr_operator(type, "__rshift__", "__rrshift__", by_op(BinaryOp::shr));
  bind_expr_operator(type, "__lt__", nullptr, by_op(BinaryOp::lt));
  bind_expr_operator(type, "__le__", nullptr, by_op(BinaryOp::le));
  bind_expr_operator(type, "__gt__", nullptr, by_op(BinaryOp::gt));
  bind_expr_operator(type, "__ge__", nullptr, by_op(BinaryOp::ge));
  bind_expr_operator(type, "__eq__", nullptr, by_op(BinaryOp::eq));
  bind_expr_operator(type, "__ne__", nullptr, by_op(BinaryOp::ne));
  type.def("__hash__", [](const Expr& e) { return reinterpret_cast<std::intptr_t>(e.get()) >> 4; });
  type.def("__invert__",
           [](const Expr& e) { return unary(e->dtype.is_bool() ? UnaryOp::logical_not : UnaryOp::bit_not, e); });
}

}  // namespace

void bind_types(nb::module_& module) {
  bind_dtype(module);
  bind_expr(module);

  nb::class_<Tensor> type(module, "Tensor",
                          "A symbolic tensor: a value of the operator being traced. It holds no data.");
  type.def("__repr__", [](const Tensor& t) { return fmt::format("lathe.Tensor({})", describe(t)); });
  type.def_prop_ro("shape", [](const Tensor& t) { return from_shape(t.shape()); });
  type.def_prop_ro("dtype", &Tensor::dtype);
  type.def_prop_ro("ndim", &Tensor::rank);
  type.def_prop_ro("size", [](const Tensor& t) {
    Expr count = index(1);
    for (const Expr& extent : t.shape()) count = count * extent;
    return from_extent(count);
  });
  type.def_prop_ro("T", [](const Tensor& t) {
    std::vector<std::int64_t> axes;
    for (size_t d = t.rank(); d-- > 0;) axes.push_back(static_cast<std::int64_t>(d));
    return ops::permute_dims(t, axes);
  });
  type.def_prop_ro("mT", &ops::matrix_transpose);
  type.def("__len__", [](const Tensor& t) {
    if (t.rank() == 0) throw InputError(Mistake::type, "len of a 0-d tensor");
    return t.static_shape()[0];
  });
  type.def("__getitem__", &subscript, nb::arg("key").none());
  type.def(
      "astype", [](const Tensor& t, nb::handle dtype) { return ops::astype(t, to_dtype(dtype)); }, nb::arg("dtype"));
  type.def("reshape", [](const Tensor& t, const nb::args& shape) {
    if (shape.size() == 1) return ops::reshape(t, to_ints(shape[0]));
    return ops::reshape(t, to_ints(shape));
  });

  bind_operator(type, "__add__", "__radd__", &ops::add);
  bind_operator(type, "__sub__", "__rsub__", &ops::subtract);
  bind_operator(type, "__mul__", "__rmul__", &ops::multiply);
  bind_operator(type, "__truediv__", "__rtruediv__", &ops::divide);
  bind_operator(type, "__floordiv__", "__rfloordiv__", &ops::floor_divide);
  bind_operator(type, "__mod__", "__rmod__", &ops::remainder);
  bind_operator(type, "__pow__", "__rpow__", &ops::pow);
  bind_operator(type, "__matmul__", "__rmatmul__", &ops::matmul);
  bind_operator(type, "__and__", "__rand__", &ops::bitwise_and);
  bind_operator(type, "__or__", "__ror__", &ops::bitwise_or);
  bind_operator(type, "__xor__", "__rxor__", &ops::bitwise_xor);
  bind_operator(type, "__lshift__", "__rlshift__", &ops::bitwise_left_shift);
  bind_operator(type, "__rshift__", "__rrshift__", &ops::bitwise_right_shift);
  bind_operator(type, "__lt__", nullptr, &ops::less);
  bind_operator(type, "__le__", nullptr, &ops::less_equal);
  bind_operator(type, "__gt__", nullptr, &ops::greater);
  bind_operator(type, "__ge__", nullptr, &ops::greater_equal);
  bind_operator(type, "__eq__", nullptr, &ops::equal);
  bind_operator(type, "__ne__", nullptr, &ops::not_equal);
  type.def("__hash__", [](const Tensor& t) { return reinterpret_cast<std::intptr_t>(t.node()) >> 4; });
  type.def("__neg__", &ops::negative);
  type.def("__pos__", &ops::positive);
  type.def("__abs__", [](const Tensor& t) { return ops::abs(t); });
  type.def("__invert__", &ops::bitwise_invert);

  type.def("__bool__", [](const Tensor& t) -> bool { refuse_value(t, "bool"); });
  type.def("__int__", [](const Tensor& t) -> long { refuse_value(t, "int"); });
  type.def("__index__", [](const Tensor& t) -> long { refuse_value(t, "int"); });
  type.def("__float__", [](const Tensor& t) -> double { refuse_value(t, "float"); });
  type.def("__array__",
           [](const Tensor& t, const nb::args&, const nb::kwargs&) -> nb::object { refuse_value(t, "the data"); });
  type.attr("__array_ufunc__") = nb::none();
}

}  // namespace lathe::python
