#pragma once
#include <nanobind/nanobind.h>

#include <algorithm>
#include <string>
#include <vector>

#include "bindings/python/borrow.h"
#include "bindings/python/call_lists.h"
#include "bindings/python/variant.h"

namespace lathe::python {

/// One call's arguments, sorted by what they become.
struct Call {
  ArrayList arrays;
  SmallList<TensorView, 8> inputs;
  SmallList<ScalarValue, 8> scalars;
  SmallList<Role, 16> roles;
  SmallList<PyObject*, 8> fixed;
  ArrayKind kind;
  /// What containers held when the call came, whatever another thread does to them while it runs.
  std::vector<nanobind::object> kept;
};

/// Can the object be nothing but a static value, so that no further question needs to be asked?
inline bool is_plainly_static(PyObject* object) {
  return PyLong_Check(object) || PyUnicode_Check(object) || object == Py_None;
}

/// Appends what is neither an array nor a float.
void sort_other(const std::string& name, PyObject* argument, const ArgumentPlace& place, Call* call);
[[noreturn]] void refuse_kinds(const std::string& name, const ArrayKind& one, const ArrayKind& other);

/// Appends an argument of any kind; within each call, so that arrays and floats are quick.
inline void sort_argument(const std::string& name, PyObject* argument, const ArgumentPlace& place, Call* call) {
  if (PyFloat_CheckExact(argument)) {
    call->scalars.push(ScalarValue::of(PyFloat_AS_DOUBLE(argument)));
    call->roles.push(Role::scalar);
    return;
  }
  Borrowed& array = call->arrays.next();
  if (!is_plainly_static(argument) && array.borrow(argument, false, {"argument", &place})) {
    if (call->kind.library == ArrayKind::none) {
      call->kind = array.kind;
    } else if (!call->kind.same_as(array.kind)) {
      refuse_kinds(name, call->kind, array.kind);
    }
    call->inputs.push(array.view);
    call->roles.push(Role::array);
    return;
  }
  call->arrays.drop_last();
  sort_other(name, argument, place, call);
}

/// Appends arguments `first` .. `first + count` of a call of the function named.
inline void sort_arguments(const std::string& name, PyObject* const* arguments, Py_ssize_t first, Py_ssize_t count,
                           Call* call) {
  for (Py_ssize_t i = 0; i < count; ++i) sort_argument(name, arguments[i], {first + i, nullptr, nullptr}, call);
}

/// Is a traced tensor among the arguments, or in a list, tuple or dict among them?
bool holds_tensor(PyObject* const* arguments, Py_ssize_t count);

/// Equal static values of different types (1, 1.0, True) are different, in tuples, lists, dicts, sets and dataclasses
/// too.
bool same_value(PyObject* a, PyObject* b);
/// Do a call's arguments have the roles and the static values that a variant was read with?
inline bool same_arguments(const Variant& variant, Call& call) {
  const auto roles = call.roles.span();
  if (!std::equal(roles.begin(), roles.end(), variant.roles.begin(), variant.roles.end())) return false;
  for (size_t i = 0; i < variant.fixed.size(); ++i) {
    PyObject *a = variant.fixed[i].ptr(), *b = call.fixed[i];
    if (a != b && !same_value(a, b)) return false;
  }
  return true;
}

/// What a traced function is called with: the variant's arguments, symbols in the place of arrays and floats.
std::vector<nanobind::object> traced_arguments(const Variant& variant, const std::vector<Tensor>& arrays,
                                               const std::vector<Tensor>& scalars);

}  // namespace lathe::python
