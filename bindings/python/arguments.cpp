#include "bindings/python/arguments.h"

#include <fmt/format.h>
#include <nanobind/stl/string.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <utility>

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

bool equal(PyObject* a, PyObject* b) {
  const int answer = PyObject_RichCompareBool(a, b, Py_EQ);
  if (answer < 0) throw nb::python_error();
  return answer == 1;
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
                       fmt::format("{}: {} is {}: an argument is an array (NumPy, torch, DLPack), a float, a "
                                   "hashable static value, or a list, tuple or dict of these",
                                   name_, place.text(), a_type(argument)));
    }
  }

  void sort_container(PyObject* argument, const ArgumentPlace& place) {
    const Recursion recursion(" in an argument");
    if (PyDict_Check(argument)) return sort_dict(argument, place);
    if (is_named_tuple(argument)) {
      if (!PyCallable_Check(nb::getattr(nb::handle(argument).type(), "_make", nb::none()).ptr())) {
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

/// Are two equal values equal by more than Python's rules, by which 1, 1.0 and True are, and 0.0 and -0.0? Goes through
/// them by a list, each pair once: values may hold themselves, share their parts, and nest deeper than the stack.
class Likeness {
 public:
  bool alike(PyObject* a, PyObject* b) {
    const Answer answer = at_a_glance(a, b);
    if (answer != Answer::within) return answer == Answer::yes;
    if (!parts_alike(a, b)) return false;
    for (size_t i = 0; i < pairs_.size(); ++i) {
      if (!parts_alike(pairs_[i].first.ptr(), pairs_[i].second.ptr())) return false;
    }
    return true;
  }

 private:
  enum class Answer : std::uint8_t { yes, no, within };

  static Answer at_a_glance(PyObject* a, PyObject* b) {
    if (a == b) return Answer::yes;
    if (Py_TYPE(a) != Py_TYPE(b)) return Answer::no;
    if (is_plainly_static(a)) return Answer::yes;
    if (PyFloat_Check(a)) return same_sign(PyFloat_AS_DOUBLE(a), PyFloat_AS_DOUBLE(b));
    if (PyComplex_Check(a)) {
      const Py_complex x = PyComplex_AsCComplex(a), y = PyComplex_AsCComplex(b);
      return same_sign(x.real, y.real) == Answer::yes ? same_sign(x.imag, y.imag) : Answer::no;
    }
    return Answer::within;
  }

  static Answer same_sign(double a, double b) { return std::signbit(a) == std::signbit(b) ? Answer::yes : Answer::no; }

  /// False where the two differ already; otherwise what is to be told lies in the list. Runs no Python.
  bool add(PyObject* a, PyObject* b) {
    const Answer answer = at_a_glance(a, b);
    if (answer == Answer::within && seen_.emplace(a, b).second) pairs_.emplace_back(nb::borrow(a), nb::borrow(b));
    return answer != Answer::no;
  }

  bool parts_alike(PyObject* a, PyObject* b) {
    if ((PyTuple_Check(a) || PyList_Check(a)) && !elements_alike(a, b)) return false;
    if (PyDict_Check(a) && !entries_alike(a, b)) return false;
    if (PyAnySet_Check(a) && !members_alike(a, b)) return false;
    const bool may_have_fields =
        !PyTuple_CheckExact(a) && !PyList_CheckExact(a) && !PyDict_CheckExact(a) && !PyAnySet_CheckExact(a);
    return !may_have_fields || fields_alike(a, b);
  }

  bool elements_alike(PyObject* a, PyObject* b) {
    if (PySequence_Fast_GET_SIZE(a) != PySequence_Fast_GET_SIZE(b)) return false;
    for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(a); ++i) {
      if (!add(PySequence_Fast_GET_ITEM(a, i), PySequence_Fast_GET_ITEM(b, i))) return false;
    }
    return true;
  }

  /// In their order, which a traced function that walks through them sees.
  bool entries_alike(PyObject* a, PyObject* b) {
    const nb::object x = steal_or_throw(PyDict_Items(a)), y = steal_or_throw(PyDict_Items(b));
    if (PyList_GET_SIZE(x.ptr()) != PyList_GET_SIZE(y.ptr())) return false;
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(x.ptr()); ++i) {
      PyObject *one = PyList_GET_ITEM(x.ptr(), i), *other = PyList_GET_ITEM(y.ptr(), i);
      if (!equal(PyTuple_GET_ITEM(one, 0), PyTuple_GET_ITEM(other, 0)) || !elements_alike(one, other)) return false;
    }
    return true;
  }

  bool members_alike(PyObject* a, PyObject* b) {
    nb::dict found;
    for (const nb::handle element : nb::borrow<nb::tuple>(steal_or_throw(PySequence_Tuple(b))))
      found[element] = element;
    for (const nb::handle element : nb::borrow<nb::tuple>(steal_or_throw(PySequence_Tuple(a)))) {
      if (!found.contains(element) || !add(element.ptr(), nb::object(found[element]).ptr())) return false;
    }
    return true;
  }

  /// Those of a dataclass, which any object may claim to be.
  bool fields_alike(PyObject* a, PyObject* b) {
    const nb::object fields = nb::getattr(nb::handle(a).type(), "__dataclass_fields__", nb::none());
    if (!PyDict_Check(fields.ptr())) return true;
    const nb::object entries = steal_or_throw(PyDict_Items(fields.ptr()));
    for (const nb::handle entry : nb::borrow<nb::list>(entries)) {
      const nb::handle name = PyTuple_GET_ITEM(entry.ptr(), 0), field = PyTuple_GET_ITEM(entry.ptr(), 1);
      if (!PyUnicode_Check(name.ptr()) || nb::getattr(field, "compare", nb::none()).is(nb::handle(Py_False))) continue;
      const nb::object x = nb::getattr(nb::handle(a), name, nb::none()),
                       y = nb::getattr(nb::handle(b), name, nb::none());
      if (!add(x.ptr(), y.ptr())) return false;
    }
    return true;
  }

  std::vector<std::pair<nb::object, nb::object>> pairs_;  ///< held, so that no other object takes an address in seen_
  std::set<std::pair<PyObject*, PyObject*>> seen_;
};

}  // namespace

bool same_value(PyObject* a, PyObject* b) {
  if (Py_TYPE(a) != Py_TYPE(b)) return false;
  return equal(a, b) && Likeness().alike(a, b);
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
