#pragma once
#include <Python.h>

#include <vector>

#include "bindings/python/variant.h"
#include "jit/trace/tensor.h"

namespace lathe::python {

/// The trace that runs on this thread. An array that an operator meets and that is no argument, because the function
/// captured it, becomes an input of its own here, once.
class TraceScope {
 public:
  /// `captured` is what earlier traces of the same function found, in the order of its inputs; new finds are appended.
  TraceScope(std::vector<Captured>* captured, std::vector<Tensor> inputs);
  ~TraceScope();
  TraceScope(const TraceScope&) = delete;
  TraceScope& operator=(const TraceScope&) = delete;

  /// Null outside of any trace.
  static TraceScope* active();
  /// The input that stands for the array `object`.
  Tensor capture(PyObject* object);
  /// Once the function has returned and its result is read: what nobody else holds, the function itself has made.
  void mark_made_by_trace();
  bool found_new() const { return captured_->size() > inputs_at_start_; }

 private:
  std::vector<Captured>* captured_;
  std::vector<Tensor> inputs_;
  size_t inputs_at_start_;
  TraceScope* outer_;
};

}  // namespace lathe::python
