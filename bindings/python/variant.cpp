#include "bindings/python/variant.h"

#include <fmt/format.h>
#include <nanobind/stl/string.h>

#include <algorithm>

#include "bindings/python/arguments.h"
#include "bindings/python/convert.h"
#include "bindings/python/trace_scope.h"
#include "ir/error.h"

namespace nb = nanobind;

namespace lathe::python {

nb::object Guard::now() const {
  PyObject* const in = container.ptr();
  switch (kind) {
    case Kind::cell:
      return nb::borrow(PyCell_GET(in));
    case Kind::entry:
      return nb::borrow(PyDict_GetItemWithError(in, key.ptr()));
    case Kind::in_class:
      return nb::borrow(PyDict_GetItemWithError(reinterpret_cast<PyTypeObject*>(in)->tp_dict, key.ptr()));
    case Kind::element: {
      const Py_ssize_t given = PyLong_AsSsize_t(key.ptr()), size = PyList_GET_SIZE(in);
      const Py_ssize_t at = given < 0 ? given + size : given;
      return at < 0 || at >= size ? nb::object() : nb::borrow(PyList_GET_ITEM(in, at));
    }
    case Kind::slot: {
      nb::object value = nb::steal(PyObject_GetAttr(in, key.ptr()));
      if (!value.is_valid()) PyErr_Clear();
      return value;
    }
    default:
      return expected;
  }
}

bool Guard::holds_now() const {
  PyObject* const in = container.ptr();
  switch (kind) {
    case Kind::cell:
      return PyCell_GET(in) == expected.ptr();
    case Kind::entry:
      return PyDict_GetItemWithError(in, key.ptr()) == expected.ptr();
    case Kind::length:
      return PyLong_AsSsize_t(expected.ptr()) == (PyList_Check(in) ? PyList_GET_SIZE(in) : PyDict_GET_SIZE(in));
    case Kind::function: {
      const auto same = [&](Py_ssize_t i, PyObject* held) {
        return PyTuple_GET_ITEM(expected.ptr(), i) == (held ? held : Py_None);
      };
      return same(0, PyFunction_GET_CODE(in)) && same(1, PyFunction_GET_DEFAULTS(in)) &&
             same(2, PyFunction_GET_KW_DEFAULTS(in));
    }
    default:
      return now().ptr() == expected.ptr();
  }
}

std::vector<Guard> collect_guards(nb::handle function, const nb::dict& arguments) {
  const nb::module_ module = nb::module_::import_("lathe._guards");
  const nb::object missing = module.attr("MISSING");
  std::vector<Guard> guards;
  for (const nb::handle found : nb::borrow<nb::list>(module.attr("collect")(function, arguments))) {
    const nb::object key = found[2], expected = found[3];
    guards.push_back({static_cast<Guard::Kind>(nb::cast<int>(found[0])), found[1], key.is_none() ? nb::object() : key,
                      expected.is(missing) ? nb::object() : expected, nb::cast<bool>(found[4])});
  }
  return guards;
}

void Variant::settle_guards() {
  for (Guard& guard : guards) {
    if (guard.firm || guard.holds()) continue;
    if (guard.kind == Guard::Kind::entry && !guard.expected.is_valid()) {
      guard.expected = guard.now();
    } else {
      guard.dropped = true;
    }
  }
}

Variant::~Variant() {
  for (const Captured& one : captured) Py_DECREF(one.array);
}

TraceResult trace_python(Variant& variant, PyObject* function, PyObject* keywords, const std::vector<Tensor>& inputs,
                         const std::vector<Tensor>& scalars) {
  const nb::gil_scoped_acquire gil;
  const auto arrays = std::count(variant.roles.begin(), variant.roles.end(), Role::array);
  TraceScope scope(&variant.captured, {inputs.begin() + arrays, inputs.end()});
  nb::object result;
  {
    const std::vector<nb::object> arguments = traced_arguments(variant, inputs, scalars);
    std::vector<PyObject*> given;
    given.reserve(arguments.size());
    for (const nb::object& argument : arguments) given.push_back(argument.ptr());
    const size_t named = nb::len(keywords);
    result = nb::steal(PyObject_Vectorcall(function, given.data(), given.size() - named, named ? keywords : nullptr));
  }
  if (!result.is_valid()) throw nb::python_error();
  TraceResult traced;
  ResultForm form(result,
                  [&](nb::handle leaf) { traced.tensors.push_back(to_tensor(leaf, "a traced function's result")); });
  if (traced.tensors.empty()) throw InputError(Mistake::value, "a traced function returned no tensor");
  result.reset();
  variant.settle_guards();
  if (scope.hand_over_new()) throw RetraceWithCaptures();
  // By index, of a size read anew: comparing keys may run Python, and another thread may add a form then.
  while (traced.form < variant.forms.size() && !(variant.forms[traced.form] == form)) ++traced.form;
  if (traced.form == variant.forms.size()) variant.forms.push_back(std::move(form));
  return traced;
}

}  // namespace lathe::python
