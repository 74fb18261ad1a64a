#include "bindings/python/trace_scope.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <string>

#include "bindings/python/borrow.h"

namespace lathe::python {
namespace {
thread_local TraceScope* active_scope = nullptr;

/// The elements' bytes in row-major order, whatever the strides.
void append_elements(const TensorView& view, const char* at, int d, std::string* bytes) {
  const std::int64_t size = view.dtype.bytes();
  if (!view.strides || d == view.rank) {
    std::int64_t count = 1;
    for (int inner = d; inner < view.rank; ++inner) count *= view.shape[inner];
    bytes->append(at, static_cast<size_t>(count * size));
    return;
  }
  for (std::int64_t i = 0; i < view.shape[d]; ++i) append_elements(view, at + i * view.strides[d] * size, d + 1, bytes);
}

std::string elements_of(const TensorView& view) {
  std::string bytes;
  if (view.elements() > 0) append_elements(view, static_cast<const char*>(view.data), 0, &bytes);
  return bytes;
}

bool same_form(const TensorView& a, const TensorView& b) {
  return a.dtype == b.dtype && std::equal(a.shape, a.shape + a.rank, b.shape, b.shape + b.rank);
}

bool same_memory(const TensorView& a, const TensorView& b) {
  if (a.data != b.data || !same_form(a, b) || !a.strides != !b.strides) return false;
  return !a.strides || std::equal(a.strides, a.strides + a.rank, b.strides);
}

bool same_values(const TensorView& a, const TensorView& b) {
  return same_form(a, b) && elements_of(a) == elements_of(b);
}

}  // namespace

TraceScope::TraceScope(std::vector<Captured>* captured, std::vector<Tensor> inputs)
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
    if ((*captured_)[i].array == object) return inputs_[i];
  }
  Borrowed borrowed;
  borrowed.borrow(object, false, {"a captured array"});
  const auto find = [&](const auto& same, bool made_by_trace) -> std::optional<size_t> {
    for (size_t i = 0; i < inputs_at_start_; ++i) {
      if (made_by_trace && !(*captured_)[i].made_by_trace) continue;
      Borrowed known;
      known.borrow((*captured_)[i].array, false, {"a captured array"});
      if (same(known.view, borrowed.view)) return i;
    }
    return std::nullopt;
  };
  // Each trace makes its views of captured arrays anew, and what these hold may change between calls.
  if (const auto view = find(same_memory, false)) {
    (*captured_)[*view].made_by_trace = false;
    return inputs_[*view];
  }
  if (const auto made = find(same_values, true)) return inputs_[*made];
  Shape shape;
  for (int d = 0; d < borrowed.view.rank; ++d) shape.push_back(index(borrowed.view.shape[d]));
  const Tensor tensor = input(fmt::format("c{}", captured_->size()), borrowed.view.dtype, std::move(shape));
  captured_->push_back({Py_NewRef(object)});
  inputs_.push_back(tensor);
  return tensor;
}

void TraceScope::mark_made_by_trace() {
  for (size_t i = inputs_at_start_; i < captured_->size(); ++i)
    (*captured_)[i].made_by_trace = Py_REFCNT((*captured_)[i].array) == 1;
}

}  // namespace lathe::python
