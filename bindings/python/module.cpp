#include <nanobind/nanobind.h>

#include "bindings/python/bind.h"
#include "bindings/python/errors.h"
#include "bindings/python/owned.h"

NB_MODULE(_lathe, module) {
  nanobind::set_leak_warnings(false);
  lathe::python::bind_errors(module);
  lathe::python::bind_owned(module);
  lathe::python::bind_types(module);
  lathe::python::bind_operators(module);
  lathe::python::bind_compute(module);
  lathe::python::bind_program(module);
  lathe::python::bind_schedule(module);
  lathe::python::bind_jit(module);
  lathe::python::bind_runtime(module);
}
