#include "bindings/python/torch_flags.h"

#include <dlfcn.h>
#include <nanobind/nanobind.h>

#include "jit/runtime/openmp.h"

namespace nb = nanobind;

namespace lathe::python {
namespace {

bool library_allowed = true;  // under the GIL

/// The at::Tensor within a Python tensor: the first member behind the object's head. It is one pointer, to a
/// c10::TensorImpl.
void* const* tensor_in(PyObject* object) {
  return reinterpret_cast<void* const*>(reinterpret_cast<char*>(object) + sizeof(PyObject));
}

/// A function of a library that is loaded already, or null.
template <class F>
F* find_symbol(const char* library, const char* symbol) {
  void* handle = dlopen(library, RTLD_LAZY | RTLD_NOLOAD);
  return handle ? reinterpret_cast<F*>(dlsym(handle, symbol)) : nullptr;
}

}  // namespace

TorchFlags::TorchFlags(PyObject* tensor) {
  const nb::object torch = nb::module_::import_("torch");
  is_grad_enabled_method_ = torch.attr("is_grad_enabled").inc_ref().ptr();
  is_neg_method_ = torch.attr("Tensor").attr("is_neg").inc_ref().ptr();
  requires_grad_name_ = PyUnicode_InternFromString("requires_grad");
  find_library(tensor);
  find_openmp("libtorch_cpu.so", "_ZN2at15get_num_threadsEv");
}

void TorchFlags::find_library(PyObject* tensor) {
  const nb::object address = nb::getattr(nb::handle(tensor), "_cdata", nb::none());
  if (!PyLong_Check(address.ptr()) || PyLong_AsVoidPtr(address.ptr()) != *tensor_in(tensor)) {
    PyErr_Clear();
    return;
  }
  auto* requires_grad = find_symbol<bool(const void*)>("libc10.so", "_ZNK3c1010TensorImpl13requires_gradEv");
  auto* grad_enabled = find_symbol<bool()>("libc10.so", "_ZN3c108GradMode10is_enabledEv");
  auto* is_neg = find_symbol<bool(const void*)>("libtorch_cpu.so", "_ZN2at6native6is_negERKNS_6TensorE");
  if (!requires_grad || !grad_enabled || !is_neg) return;
  requires_grad_ = requires_grad;
  grad_enabled_ = grad_enabled;
  is_neg_ = is_neg;
}

const TorchFlags& TorchFlags::of(PyObject* tensor) {
  // No guarded static: its lock could be held by a thread that waits for the GIL. Two threads at once make a second
  // one.
  static const TorchFlags* flags = nullptr;
  if (!flags) flags = new TorchFlags(tensor);
  return *flags;
}

void TorchFlags::use_library(bool on) {
  library_allowed = on;
}

bool TorchFlags::records_gradients(PyObject* tensor) const {
  if (requires_grad_ && library_allowed) return requires_grad_(*tensor_in(tensor)) && grad_enabled_();
  const nb::object requires_grad = nb::steal(PyObject_GetAttr(tensor, requires_grad_name_));
  if (!requires_grad.is_valid()) throw nb::python_error();
  if (requires_grad.ptr() != Py_True) return false;
  const nb::object enabled = nb::steal(PyObject_CallNoArgs(is_grad_enabled_method_));
  if (!enabled.is_valid()) throw nb::python_error();
  return enabled.ptr() == Py_True;
}

bool TorchFlags::is_negated(PyObject* tensor) const {
  if (is_neg_ && library_allowed) return is_neg_(static_cast<const void*>(tensor_in(tensor)));
  const nb::object negated = nb::steal(PyObject_CallOneArg(is_neg_method_, tensor));
  if (!negated.is_valid()) throw nb::python_error();
  return negated.ptr() == Py_True;
}

}  // namespace lathe::python
