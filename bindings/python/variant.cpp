#include "bindings/python/variant.h"

#include <fmt/format.h>
#include <nanobind/stl/string.h>

#include <algorithm>
#include <set>

#include "bindings/python/arguments.h"
#include "bindings/python/convert.h"
#include "bindings/python/trace_scope.h"
#include "ir/error.h"

namespace nb = nanobind;

namespace lathe::python {
namespace {

void collect(nb::handle function, std::vector<Guard>* guards, std::set<PyObject*>* seen) {
  if (PyMethod_Check(function.ptr())) return collect(PyMethod_GET_FUNCTION(function.ptr()), guards, seen);
  if (const nb::handle wrapped = jitted_function(function); wrapped.is_valid()) function = wrapped;
  if (!PyFunction_Check(function.ptr()) || !seen->insert(function.ptr()).second) return;
  std::vector<nb::object> reached;
  if (PyObject* closure = PyFunction_GetClosure(function.ptr())) {
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(closure); ++i) {
      PyObject* cell = PyTuple_GET_ITEM(closure, i);
      const nb::object content = nb::borrow(PyCell_GET(cell));
      guards->push_back({nb::borrow(cell), {}, content});
      if (content.is_valid()) reached.push_back(content);
    }
  }
  PyObject* globals = PyFunction_GetGlobals(function.ptr());
  // co_names also lists attributes; a name that is no global is guarded for staying none. Code within code counts too.
  std::vector<nb::object> codes{nb::borrow(PyFunction_GetCode(function.ptr()))};
  std::set<std::string> names;
  while (!codes.empty()) {
    const nb::object code = codes.back();
    codes.pop_back();
    for (const nb::handle name : nb::borrow<nb::tuple>(code.attr("co_names"))) {
      if (!names.insert(nb::str(name).c_str()).second) continue;
      const nb::object value = nb::borrow(PyDict_GetItemWithError(globals, name.ptr()));
      if (!value.is_valid()) continue;
      guards->push_back({nb::borrow(globals), nb::borrow(name), value});
      reached.push_back(value);
    }
    for (const nb::handle constant : nb::borrow<nb::tuple>(code.attr("co_consts"))) {
      if (PyCode_Check(constant.ptr())) codes.push_back(nb::borrow(constant));
    }
  }
  for (const nb::object& object : reached) collect(object, guards, seen);
}

}  // namespace

bool Guard::holds() const {
  if (!name.is_valid()) return PyCell_GET(container.ptr()) == expected.ptr();
  return PyDict_GetItemWithError(container.ptr(), name.ptr()) == expected.ptr();
}

std::vector<Guard> collect_guards(nb::handle function) {
  std::vector<Guard> guards;
  std::set<PyObject*> seen;
  collect(function, &guards, &seen);
  return guards;
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
  scope.mark_made_by_trace();
  if (scope.found_new()) throw RetraceWithCaptures();
  // By index, of a size read anew: comparing keys may run Python, and another thread may add a form then.
  while (traced.form < variant.forms.size() && !(variant.forms[traced.form] == form)) ++traced.form;
  if (traced.form == variant.forms.size()) variant.forms.push_back(std::move(form));
  return traced;
}

}  // namespace lathe::python
