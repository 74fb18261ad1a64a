#include "bindings/python/errors.h"

#include <exception>
#include <new>

#include "ir/error.h"
#include "ir/interpreter/interpreter.h"

namespace nb = nanobind;

namespace lathe::python {
namespace {

PyObject* error_type;
PyObject* refusal_type;
PyObject* internal_type;

PyObject* add_error(nb::module_& module, const char* name, const char* doc, PyObject* base) {
  const std::string full = std::string("lathe.") + name;
  PyObject* type = PyErr_NewExceptionWithDoc(full.c_str(), doc, base, nullptr);
  module.attr(name) = nb::handle(type);
  return type;
}

PyObject* type_of(const InputError& error) {
  switch (error.mistake) {
    case Mistake::value:
      return PyExc_ValueError;
    case Mistake::type:
      return PyExc_TypeError;
    case Mistake::index:
      return PyExc_IndexError;
    case Mistake::syntax:
      return PyExc_SyntaxError;
  }
  return error_type;
}

}  // namespace

void bind_errors(nb::module_& module) {
  error_type =
      add_error(module, "Error", "Base of Lathe's own errors; mistakes of the caller raise Python's.", PyExc_Exception);
  refusal_type =
      add_error(module, "Refusal", "A well-formed request that cannot be carried out on this program.", error_type);
  internal_type = add_error(module, "InternalError", "A bug in Lathe; please report it with its text.", error_type);
  nb::register_exception_translator([](const std::exception_ptr& exception, void*) {
    try {
      std::rethrow_exception(exception);
    } catch (const Error&) {
      set_python_error();
    }
  });
}

void set_python_error() {
  try {
    throw;
  } catch (nb::python_error& error) {
    error.restore();
  } catch (const InputError& error) {
    PyErr_SetString(type_of(error), error.what());
  } catch (const Refusal& error) {
    PyErr_SetString(refusal_type, error.what());
  } catch (const Bug& error) {
    PyErr_SetString(internal_type, error.what());
  } catch (const Error& error) {
    PyErr_SetString(error_type, error.what());
  } catch (const nb::builtin_exception& error) {
    PyErr_SetString(error.type() == nb::exception_type::type_error ? PyExc_TypeError : PyExc_ValueError, error.what());
  } catch (const std::bad_alloc&) {
    PyErr_NoMemory();
  } catch (const std::exception& error) {
    PyErr_SetString(internal_type, error.what());
  }
}

}  // namespace lathe::python
