#pragma once
#include <nanobind/nanobind.h>

#include "jit/dlpack.h"
#include "jit/function.h"

namespace lathe::python {

/// Memory for a result that is still to be computed, aligned to 64 bytes, as DLPack hands it over: one block, which the
/// deleter frees from any thread. A framework makes a tensor of it in a third of the time that its own allocation
/// takes.
dlpack::ManagedTensorVersioned* allocate_managed(const OutputSpec& spec, TensorView* view);

/// Memory for a result that is still to be computed, as an object; a new reference.
PyObject* allocate_owned(const OutputSpec& spec, TensorView* view);
/// An array made of that memory by the own from_dlpack of the library that `type` comes from; a new reference. It comes
/// after the computation, since a library may copy.
PyObject* hand_over(PyTypeObject* type, PyObject* owned);

/// Adds the class whose instances hand that memory over.
void bind_owned(nanobind::module_& module);

}  // namespace lathe::python
