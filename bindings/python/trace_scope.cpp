#include "bindings/python/trace_scope.h"

#include <fmt/format.h>

#include "bindings/python/borrow.h"

namespace lathe::python {
namespace {
thread_local TraceScope* active_scope = nullptr;
}  // namespace

TraceScope::TraceScope(std::vector<PyObject*>* captured, std::vector<Tensor> inputs)
    : captured_(captured), inputs_(std::move(inputs)), inputs_at_start_(captured->size()), outer_(active_scope) {
  active_scope = this;
}

TraceScope::~TraceScope() {
  active_scope = outer_;
}

TraceScope* TraceScope::active() {
  return active_scope;
}

Tensor TraceScope::capture(PyObject* object) {
  for (size_t i = 0; i < captured_->size(); ++i) {
    if ((*captured_)[i] == object) return inputs_[i];
  }
  Borrowed borrowed;
  borrowed.borrow(object, false, {"a captured array"});
  Shape shape;
  for (int d = 0; d < borrowed.view.rank; ++d) shape.push_back(index(borrowed.view.shape[d]));
  const Tensor tensor = input(fmt::format("c{}", captured_->size()), borrowed.view.dtype, std::move(shape));
  captured_->push_back(Py_NewRef(object));
  inputs_.push_back(tensor);
  return tensor;
}

}  // namespace lathe::python
