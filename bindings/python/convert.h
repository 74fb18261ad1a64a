#pragma once
#include <nanobind/nanobind.h>

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "jit/trace/ops/reduction.h"
#include "jit/trace/tensor.h"

namespace lathe::python {

/// The object behind a Python handle when it is a T; null otherwise, for None too.
template <class T>
T* as_instance(nanobind::handle object) {
  T* instance = nullptr;
  if (object.is_none() || !nanobind::try_cast(object, instance, false)) return nullptr;
  return instance;
}

/// An operand as a Tensor: a Tensor, a Python or NumPy number (weak), or a captured array. TypeError for anything else,
/// naming the operator.
Tensor to_tensor(nanobind::handle object, const char* op);
/// An operand of an element-wise operator: as to_tensor, or an expression of a compute's body.
Tensor to_operand(nanobind::handle object, const char* op);
/// A Tensor; as an Expr when that is what it stands for.
nanobind::object from_operand(const Tensor& tensor);
std::optional<Tensor> to_optional_tensor(nanobind::handle object, const char* op);
std::optional<Tensor> to_optional_operand(nanobind::handle object, const char* op);
/// An Expr, or a number beside an expression of `like`'s type.
Expr to_expr(nanobind::handle object, DType like);
/// "float32", "f32", lathe.float32, a NumPy or torch dtype.
DType to_dtype(nanobind::handle object);
std::optional<DType> to_optional_dtype(nanobind::handle object);
/// None, an int, or a sequence of ints.
ops::Axes to_axes(nanobind::handle object);
/// An int or a sequence of ints.
std::vector<std::int64_t> to_ints(nanobind::handle object);
/// One int: what has an `__index__`.
std::int64_t to_int(nanobind::handle object);
std::optional<std::int64_t> to_optional_int(nanobind::handle object);
/// None, or the one axis that an operator goes along.
std::optional<std::int64_t> to_axis(nanobind::handle object, std::string_view op);
Shape to_shape(nanobind::handle object);

/// A constant extent as an int, a symbolic one as an Expr.
nanobind::object from_extent(const Expr& extent);
nanobind::tuple from_shape(const Shape& shape);

/// The name of an object's type with its article: "an int", "a list".
std::string a_type(nanobind::handle object);

/// The Array API's name: "float32".
const char* standard_name(DType dtype);

}  // namespace lathe::python
