#include "bindings/python/convert.h"

#include <fmt/format.h>
#include <nanobind/stl/string.h>

#include "bindings/python/borrow.h"
#include "bindings/python/fold.h"
#include "bindings/python/trace_scope.h"
#include "ir/error.h"
#include "jit/trace/describe.h"
#include "jit/trace/promotion.h"

namespace nb = nanobind;

namespace lathe::python {
namespace {

struct NamedDType {
  DType dtype;
  const char* name;
};
constexpr NamedDType names[] = {{boolean, "bool"}, {i8, "int8"},     {i16, "int16"},     {i32, "int32"},
                                {i64, "int64"},    {u8, "uint8"},    {u16, "uint16"},    {u32, "uint32"},
                                {u64, "uint64"},   {f16, "float16"}, {bf16, "bfloat16"}, {f32, "float32"},
                                {f64, "float64"}};

std::string object_type(nb::handle object) {
  return Py_TYPE(object.ptr())->tp_name;
}

/// A Python number as a weak literal, or nothing.
std::optional<Tensor> number_literal(nb::handle object) {
  if (PyBool_Check(object.ptr())) return literal(boolean, std::int64_t{object.ptr() == Py_True});
  if (PyLong_Check(object.ptr())) {
    int overflow = 0;
    const long long value = PyLong_AsLongLongAndOverflow(object.ptr(), &overflow);
    if (overflow != 0)
      throw InputError(
          Mistake::value,
          fmt::format("the integer {} does not fit int64, which holds Python's integers here: give it as a "
                      "float, or as an array of its dtype",
                      nb::str(object).c_str()));
    return literal(i64, static_cast<std::int64_t>(value));
  }
  if (PyFloat_Check(object.ptr())) return literal(f64, PyFloat_AS_DOUBLE(object.ptr()));
  return std::nullopt;
}

}  // namespace

std::string a_type(nb::handle object) {
  const std::string name = object_type(object);
  return (name.find_first_of("aeiouAEIOU") == 0 ? "an " : "a ") + name;
}

const char* standard_name(DType dtype) {
  for (const NamedDType& named : names) {
    if (named.dtype == dtype) return named.name;
  }
  return "invalid";
}

Tensor to_tensor(nb::handle object, const char* op) {
  Tensor* tensor = as_instance<Tensor>(object);
  if (tensor) return *tensor;
  // NumPy's float64 is a Python float too, and as weak.
  if (const auto number = number_literal(object)) return *number;
  if (is_array_type(Py_TYPE(object.ptr()))) {
    if (TraceScope* scope = TraceScope::active()) return scope->capture(object.ptr());
    throw InputError(Mistake::type, fmt::format("{} was given a {} outside of a traced function: call it within one "
                                                "(@lathe.jit)",
                                                op, object_type(object)));
  }
  // NumPy scalars are strong: they keep their dtype.
  if (PyObject_HasAttrString(object.ptr(), "dtype") && PyObject_HasAttrString(object.ptr(), "item")) {
    const DType dtype = to_dtype(object.attr("dtype"));
    const nb::object value = object.attr("item")();
    if (dtype.is_float()) return literal(dtype, nb::cast<double>(value), false);
    // Bits, so that u64 keeps its upper half.
    return literal(dtype, static_cast<std::int64_t>(PyLong_AsUnsignedLongLongMask(value.ptr())), false);
  }
  const bool sequence = PyList_Check(object.ptr()) || PyTuple_Check(object.ptr());
  throw InputError(Mistake::type, fmt::format("{} takes tensors and numbers, not {}{}", op, object_type(object),
                                              sequence ? ": make an array of it (numpy.asarray)" : ""));
}

Tensor to_operand(nb::handle object, const char* op) {
  if (const Expr* expr = as_instance<Expr>(object)) return expression(*expr);
  if (const Fold* fold = as_instance<Fold>(object)) return expression(fold->value());
  return to_tensor(object, op);
}

nb::object from_operand(const Tensor& tensor) {
  return tensor.is_expression() ? nb::cast(tensor.at({})) : nb::cast(tensor);
}

std::optional<Tensor> to_optional_tensor(nb::handle object, const char* op) {
  if (object.is_none()) return std::nullopt;
  return to_tensor(object, op);
}

std::optional<Tensor> to_optional_operand(nb::handle object, const char* op) {
  if (object.is_none()) return std::nullopt;
  return to_operand(object, op);
}

Expr to_expr(nb::handle object, DType like) {
  Expr* expr = as_instance<Expr>(object);
  if (expr) return *expr;
  if (const Fold* fold = as_instance<Fold>(object)) return fold->value();
  const bool number = PyBool_Check(object.ptr()) || PyLong_Check(object.ptr()) || PyFloat_Check(object.ptr());
  if (!number && (as_instance<Tensor>(object) || PyObject_HasAttrString(object.ptr(), "dtype"))) {
    const Tensor tensor = to_tensor(object, "an expression");
    if (tensor.rank() == 0) return tensor.is_weak() ? convert(like, tensor.at({})) : tensor.at({});
    throw InputError(Mistake::type, fmt::format("expected an expression or a number, not the tensor {}: give an "
                                                "element of it",
                                                describe(tensor)));
  }
  if (PyBool_Check(object.ptr()))
    return constant(like.is_bool() ? like : boolean, std::int64_t{object.ptr() == Py_True});
  if (PyLong_Check(object.ptr())) return constant(like, static_cast<std::int64_t>(nb::cast<long long>(object)));
  if (PyFloat_Check(object.ptr())) {
    if (!like.is_float()) {
      throw InputError(Mistake::type,
                       fmt::format("the float {} beside an expression of {}: integers and floats do not "
                                   "mix; make the expression a float with lathe.astype(.., lathe.float32)",
                                   nb::str(object).c_str(), standard_name(like)));
    }
    return constant(like, PyFloat_AS_DOUBLE(object.ptr()));
  }
  throw InputError(Mistake::type, fmt::format("expected an expression or a number, not {}", object_type(object)));
}

DType to_dtype(nb::handle object) {
  DType* dtype = as_instance<DType>(object);
  if (dtype) return *dtype;
  std::string given;
  if (nb::isinstance<nb::str>(object)) {
    given = nb::cast<std::string>(object);
  } else if (PyType_Check(object.ptr())) {
    given = nb::cast<std::string>(object.attr("__name__"));
    if (given == "float") given = "float64";
    if (given == "int") given = "int64";
  } else {
    given = nb::cast<std::string>(nb::str(object));
  }
  if (given.rfind("torch.", 0) == 0) given = given.substr(6);
  for (const NamedDType& named : names) {
    if (given == named.name || given == to_string(named.dtype)) return named.dtype;
  }
  std::vector<std::string> known;
  for (const NamedDType& named : names) known.emplace_back(named.name);
  throw InputError(Mistake::type, unknown_name("dtype", given, known));
}

std::optional<DType> to_optional_dtype(nb::handle object) {
  if (object.is_none()) return std::nullopt;
  return to_dtype(object);
}

std::int64_t to_int(nb::handle object) {
  if (!PyIndex_Check(object.ptr()))
    throw InputError(Mistake::type, fmt::format("expected an int, not {}", object_type(object)));
  const nb::object value = nb::steal(PyNumber_Index(object.ptr()));
  if (!value.is_valid()) throw nb::python_error();
  return nb::cast<long long>(value);
}

std::optional<std::int64_t> to_optional_int(nb::handle object) {
  if (object.is_none()) return std::nullopt;
  return to_int(object);
}

std::vector<std::int64_t> to_ints(nb::handle object) {
  if (PyIndex_Check(object.ptr())) return {to_int(object)};
  if (!PySequence_Check(object.ptr())) {
    throw InputError(Mistake::type, fmt::format("expected an int or a sequence of ints, not {}", object_type(object)));
  }
  std::vector<std::int64_t> values;
  for (const nb::handle item : nb::borrow<nb::sequence>(object)) values.push_back(to_int(item));
  return values;
}

std::optional<std::int64_t> to_axis(nb::handle object, std::string_view op) {
  if (object.is_none() || PyIndex_Check(object.ptr())) return to_optional_int(object);
  throw InputError(Mistake::type, fmt::format("{}: expected one axis, an int, not {}", op, object_type(object)));
}

ops::Axes to_axes(nb::handle object) {
  if (object.is_none()) return std::nullopt;
  return to_ints(object);
}

Shape to_shape(nb::handle object) {
  Shape shape;
  const auto extent = [&](nb::handle item) {
    Expr* expr = as_instance<Expr>(item);
    if (expr) {
      shape.push_back(*expr);
    } else {
      const std::int64_t value = to_int(item);
      if (value < 0) throw InputError(Mistake::value, fmt::format("a shape has the extent {}", value));
      shape.push_back(index(value));
    }
  };
  if (PyIndex_Check(object.ptr()) || as_instance<Expr>(object)) {
    extent(object);
  } else if (PySequence_Check(object.ptr())) {
    for (const nb::handle item : nb::borrow<nb::sequence>(object)) extent(item);
  } else {
    throw InputError(Mistake::type,
                     fmt::format("a shape is an int or a sequence of ints, not {}", object_type(object)));
  }
  return shape;
}

nb::object from_extent(const Expr& extent) {
  if (const std::int64_t* value = as_int(extent)) return nb::int_(static_cast<long long>(*value));
  return nb::cast(extent);
}

nb::tuple from_shape(const Shape& shape) {
  nb::list list;
  for (const Expr& extent : shape) list.append(from_extent(extent));
  return nb::tuple(list);
}

}  // namespace lathe::python
