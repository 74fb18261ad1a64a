#pragma once
#include <Python.h>

namespace lathe::python {

/// What torch knows of a tensor of its exact types (Tensor, Parameter) and DLPack does not carry.
///
/// The Python methods that tell it take 30 to 60 ns, since they look for overrides and release the GIL; the functions
/// of torch's C++ library that they end in take two. Those are called where the loaded libraries export them and a
/// tensor lies in its Python object as torch's python_variable.h says, which its attribute `_cdata` must confirm; the
/// methods elsewhere.
class TorchFlags {
 public:
  /// The answers of the torch that made `tensor`. Throws what importing torch raises.
  static const TorchFlags& of(PyObject* tensor);
  /// False makes every later answer come from the Python methods, true from where it is quickest: tests compare the
  /// two.
  static void use_library(bool on);

  /// True when `tensor` requires grad and grad mode is on.
  bool records_gradients(PyObject* tensor) const;
  /// True when the memory of `tensor` holds its elements with the other sign (a lazily negated view).
  bool is_negated(PyObject* tensor) const;

 private:
  explicit TorchFlags(PyObject* tensor);
  void find_library(PyObject* tensor);

  PyObject* requires_grad_name_;
  PyObject* is_grad_enabled_method_;
  PyObject* is_neg_method_;
  // c10::TensorImpl::requires_grad() const, c10::GradMode::is_enabled(), at::native::is_neg(const at::Tensor&); all or
  // none.
  bool (*requires_grad_)(const void* implementation) = nullptr;
  bool (*grad_enabled_)() = nullptr;
  bool (*is_neg_)(const void* tensor) = nullptr;
};

}  // namespace lathe::python
