#include "bindings/python/arguments.h"

#include <fmt/format.h>
#include <nanobind/stl/string.h>

#include <algorithm>
#include <cmath>

#include "bindings/python/convert.h"
#include "bindings/python/recursion.h"
#include "ir/error.h"

namespace nb = nanobind;

namespace lathe::python {
namespace {

/// Named tuples are tuples with fields; other subclasses (torch.Size) are values as a whole.
bool is_named_tuple(PyObject* object) {
  return PyTuple_Check(object) && !PyTuple_CheckExact(object) && PyObject_HasAttrString(object, "_fields");
}

bool is_container(PyObject* object) {
  return PyList_Check(object) || PyTuple_CheckExact(object) || PyDict_Check(object) || is_named_tuple(object);
}

nb::object steal_or_throw(PyObject* made) {
  if (!made) throw nb::python_error();
  return nb::steal(made);
}

class Sorter {
 public:
  Sorter(const std::string& name, Call* call) : name_(name), call_(call) {}

  void sort(PyObject* argument, const ArgumentPlace& place) {
    if (!is_plainly_static(argument)) {
      if (is_container(argument)) return sort_container(argument, place);
      check_static(argument, place);
    }
    call_->fixed.push(argument);
    call_->roles.push(Role::fixed);
  }

 private:
  void check_static(PyObject* argument, const ArgumentPlace& place) {
    if (as_instance<Tensor>(nb::handle(argument))) {
      throw InputError(Mistake::type, fmt::format("{}: {} is a traced tensor, which has no value outside of the "
                                                  "function that is being traced",
                                                  name_, place.text()));
    }
    if (PyObject_Hash(argument) == -1) {
      PyErr_Clear();
      throw InputError(Mistake::type,
                       fmt::format("{}: {} is a {}: an argument is an array (NumPy, torch, DLPack), a float, a "
                                   "hashable static value, or a list, tuple or dict of these",
                                   name_, place.text(), Py_TYPE(argument)->tp_name));
    }
  }

  void sort_container(PyObject* argument, const ArgumentPlace& place) {
    const Recursion recursion(" in an argument");
    if (PyDict_Check(argument)) return sort_dict(argument, place);
    if (is_named_tuple(argument)) {
      if (!PyObject_HasAttrString(argument, "_make")) {
        throw InputError(Mistake::type,
                         fmt::format("{}: {} is a {}, a tuple with _fields that has no _make to make another of it",
                                     name_, place.text(), Py_TYPE(argument)->tp_name));
      }
      call_->roles.push(Role::named_tuple);
      call_->fixed.push(reinterpret_cast<PyObject*>(Py_TYPE(argument)));
    } else {
      call_->roles.push(PyList_Check(argument) ? Role::list : Role::tuple);
    }
    const nb::object items = steal_or_throw(PySequence_Tuple(argument));
    call_->kept.push_back(items);
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(items.ptr()); ++i)
      sort_argument(name_, PyTuple_GET_ITEM(items.ptr(), i), {i, &place, nullptr}, call_);
    call_->roles.push(Role::end);
  }

  /// The keys are static, in their order.
  void sort_dict(PyObject* argument, const ArgumentPlace& place) {
    const nb::object copy = steal_or_throw(PyDict_Copy(argument));
    const nb::object keys = steal_or_throw(PySequence_Tuple(copy.ptr()));
    call_->kept.push_back(copy);
    call_->kept.push_back(keys);
    call_->roles.push(Role::dict);
    call_->fixed.push(keys.ptr());
    PyObject *key, *value;
    for (Py_ssize_t at = 0; PyDict_Next(copy.ptr(), &at, &key, &value);)
      sort_argument(name_, value, {-1, &place, key}, call_);
    call_->roles.push(Role::end);
  }

  const std::string& name_;
  Call* call_;
};

/// Puts arguments together again, in the order in which they were sorted.
class Builder {
 public:
  Builder(const Variant& variant, const std::vector<Tensor>& arrays, const std::vector<Tensor>& scalars)
      : variant_(variant), array_(arrays.begin()), scalar_(scalars.begin()) {}

  bool at_end() const { return role_ == variant_.roles.size(); }

  nb::object next() {
    switch (const Role role = variant_.roles[role_++]) {
      case Role::array:
        return nb::cast(*array_++);
      case Role::scalar:
        return nb::cast(*scalar_++);
      case Role::fixed:
        return variant_.fixed[fixed_++];
      case Role::dict: {
        nb::dict dict;
        for (const nb::handle key : nb::borrow<nb::tuple>(variant_.fixed[fixed_++])) dict[key] = next();
        ++role_;
        return dict;
      }
      default: {
        const nb::object type = role == Role::named_tuple ? variant_.fixed[fixed_++] : nb::object();
        nb::list items;
        while (variant_.roles[role_] != Role::end) items.append(next());
        ++role_;
        if (role == Role::named_tuple) return type.attr("_make")(items);
        if (role == Role::tuple) return nb::tuple(items);
        return items;
      }
    }
  }

 private:
  const Variant& variant_;
  std::vector<Tensor>::const_iterator array_, scalar_;
  size_t role_ = 0, fixed_ = 0;
};

/// Are two equal values equal by more than Python's rules, by which 1, 1.0 and True are, and 0.0 and -0.0?
bool alike(PyObject* a, PyObject* b) {
  if (a == b) return true;
  if (Py_TYPE(a) != Py_TYPE(b)) return false;
  if (is_plainly_static(a)) return true;
  if (PyFloat_Check(a)) return std::signbit(PyFloat_AS_DOUBLE(a)) == std::signbit(PyFloat_AS_DOUBLE(b));
  if (PyTuple_Check(a)) {
    if (PyTuple_GET_SIZE(a) != PyTuple_GET_SIZE(b)) return false;
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(a); ++i) {
      if (!alike(PyTuple_GET_ITEM(a, i), PyTuple_GET_ITEM(b, i))) return false;
    }
    return true;
  }
  if (PyAnySet_Check(a)) {
    nb::dict found;
    for (const nb::handle element : nb::handle(b)) found[element] = element;
    for (const nb::handle element : nb::handle(a)) {
      if (!found.contains(element) || !alike(element.ptr(), nb::object(found[element]).ptr())) return false;
    }
    return true;
  }
  if (!nb::hasattr(nb::handle(a).type(), "__dataclass_fields__")) return true;
  for (const nb::handle field : nb::borrow<nb::dict>(nb::handle(a).attr("__dataclass_fields__")).values()) {
    const nb::object name = field.attr("name");
    const nb::object x = nb::getattr(nb::handle(a), name, nb::none()), y = nb::getattr(nb::handle(b), name, nb::none());
    if (nb::cast<bool>(field.attr("compare")) && !alike(x.ptr(), y.ptr())) return false;
  }
  return true;
}

}  // namespace

bool same_fixed(PyObject* a, PyObject* b) {
  if (a == b) return true;
  if (Py_TYPE(a) != Py_TYPE(b)) return false;
  const int equal = PyObject_RichCompareBool(a, b, Py_EQ);
  if (equal < 0) throw nb::python_error();
  return equal == 1 && alike(a, b);
}

void sort_other(const std::string& name, PyObject* argument, const ArgumentPlace& place, Call* call) {
  Sorter(name, call).sort(argument, place);
}

void refuse_kinds(const std::string& name, const ArrayKind& one, const ArrayKind& other) {
  throw InputError(Mistake::type, fmt::format("{}: arguments are both {} and {}: results are of the arguments' kind, "
                                              "so give it one",
                                              name, one.name(), other.name()));
}

bool holds_tensor(PyObject* const* arguments, Py_ssize_t count) {
  return std::any_of(arguments, arguments + count, [](PyObject* argument) {
    if (!is_container(argument)) return as_instance<Tensor>(nb::handle(argument)) != nullptr;
    const Recursion recursion(" in an argument");
    const nb::object items =
        steal_or_throw(PyDict_Check(argument) ? PyDict_Values(argument) : PySequence_Tuple(argument));
    return holds_tensor(PySequence_Fast_ITEMS(items.ptr()), PySequence_Fast_GET_SIZE(items.ptr()));
  });
}

std::vector<nb::object> traced_arguments(const Variant& variant, const std::vector<Tensor>& arrays,
                                         const std::vector<Tensor>& scalars) {
  Builder builder(variant, arrays, scalars);
  std::vector<nb::object> arguments;
  while (!builder.at_end()) arguments.push_back(builder.next());
  return arguments;
}

}  // namespace lathe::python
