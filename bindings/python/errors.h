#pragma once
#include <nanobind/nanobind.h>

namespace lathe::python {

/// Adds lathe.Error and its children to the module and teaches nanobind to raise them.
void bind_errors(nanobind::module_& module);
/// Sets the Python error for the C++ exception in flight; call from a catch block.
void set_python_error();

}  // namespace lathe::python
