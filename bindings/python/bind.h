#pragma once
#include <nanobind/nanobind.h>

/// What module.cpp puts together, one function a file.
namespace lathe::python {

void bind_types(nanobind::module_& module);      ///< DType, Expr, Tensor
void bind_operators(nanobind::module_& module);  ///< the operator library
void bind_compute(nanobind::module_& module);    ///< compute and reduce
void bind_jit(nanobind::module_& module);        ///< the callable that @lathe.jit returns, and Lowered
void bind_program(nanobind::module_& module);    ///< programs: text, passes, compile, interpret
void bind_schedule(nanobind::module_& module);   ///< Schedule, its handles and records
void bind_runtime(nanobind::module_& module);    ///< cache, threads, information

}  // namespace lathe::python
