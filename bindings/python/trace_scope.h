#pragma once
#include <Python.h>

#include <optional>
#include <unordered_map>
#include <utility>
#include <vector>

#include "bindings/python/variant.h"
#include "jit/trace/tensor.h"

namespace lathe::python {

/// The trace that runs on this thread. An array that an operator meets and that is no argument, because the function
/// captured it, becomes an input of its own here, once.
class TraceScope {
 public:
  /// `captured` is what earlier traces of the same function found, in the order of its inputs; the last of `inputs`
  /// stand for the first of them. Traces on other threads may add to it meanwhile.
  TraceScope(std::vector<Captured>* captured, std::vector<Tensor> inputs);
  ~TraceScope();
  TraceScope(const TraceScope&) = delete;
  TraceScope& operator=(const TraceScope&) = delete;

  /// Null outside of any trace.
  static TraceScope* active();
  /// The input that stands for the array `object`.
  Tensor capture(PyObject* object);
  /// Once the function has returned and its result is read: what nobody else holds, the function itself has made.
  /// Appends what this trace found to the list, and says whether there was anything.
  bool hand_over_new();
  /// What a body computes of Python's numbers alone, and the same as exact as these are (weak.h).
  void keep_weak(const Expr& expr, const Expr& exact) { weak_.insert_or_assign(expr.get(), std::pair{expr, exact}); }
  std::optional<Expr> weak_form(const Expr& expr) const {
    const auto found = weak_.find(expr.get());
    return found == weak_.end() ? std::nullopt : std::optional(found->second.second);
  }

 private:
  /// An array that this trace met, and what stands for it. The reference is held.
  struct Met {
    PyObject* array;
    Tensor tensor;
    std::optional<size_t> equal_to;  ///< the constant that it was taken for; none: a new one
  };

  std::vector<Captured>* captured_;
  std::vector<Tensor> inputs_;  ///< for the first so many of *captured_
  std::vector<Met> met_;
  std::unordered_map<const ExprNode*, std::pair<Expr, Expr>> weak_;
  TraceScope* outer_;
};

}  // namespace lathe::python
