#include "bindings/python/trace_scope.h"

#include <fmt/format.h>
#include <nanobind/nanobind.h>

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <string>

#include "bindings/python/borrow.h"

namespace nb = nanobind;

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

/// The array that `array`'s memory belongs to, as NumPy and torch say it; null where it is its own or nobody says.
nb::object base_of(nb::handle array) {
  for (const char* name : {"base", "_base"}) {
    nb::object base = nb::getattr(array, name, nb::none());
    if (!base.is_none()) return base;
  }
  return {};
}

/// Can another library's array lie under a tensor that was made of it (torch.from_numpy)? torch cannot resize such.
bool may_be_lent(nb::handle array) {
  const nb::object storage = nb::getattr(array, "untyped_storage", nb::none());
  if (storage.is_none()) return false;
  const nb::object resizable = nb::getattr(storage(), "resizable", nb::none());
  return !resizable.is_none() && !nb::cast<bool>(resizable());
}

/// Which of `arrays`, each of which is held once here, does nobody else reach, their bases included?
std::vector<bool> unshared(const std::vector<PyObject*>& arrays) {
  std::map<PyObject*, Py_ssize_t> known;  // references to it that these arrays and the walk below explain
  std::set<PyObject*> walked;
  std::vector<std::vector<nb::object>> bases(arrays.size());
  for (size_t i = 0; i < arrays.size(); ++i) {
    ++known[arrays[i]];
    nb::handle at = arrays[i];
    for (nb::object base = base_of(at); base.is_valid(); base = base_of(at)) {
      ++known[base.ptr()];
      // NumPy's array holds its base; what stands for torch's is made when it is asked for.
      if (walked.insert(at.ptr()).second && nb::hasattr(base, "__array_interface__")) ++known[base.ptr()];
      at = base;
      bases[i].push_back(std::move(base));
    }
  }
  std::vector<bool> result;
  for (size_t i = 0; i < arrays.size(); ++i) {
    const auto alone = [&](PyObject* object) { return Py_REFCNT(object) == known[object]; };
    result.push_back(
        alone(arrays[i]) && !may_be_lent(arrays[i]) &&
        std::all_of(bases[i].begin(), bases[i].end(), [&](const auto& base) { return alone(base.ptr()); }));
  }
  return result;
}

}  // namespace

TraceScope::TraceScope(std::vector<Captured>* captured, std::vector<Tensor> inputs)
    : captured_(captured), inputs_(std::move(inputs)), outer_(active_scope) {
  active_scope = this;
}

TraceScope::~TraceScope() {
  active_scope = outer_;
  for (const Met& met : met_) Py_DECREF(met.array);
}

TraceScope* TraceScope::active() {
  return active_scope;
}

Tensor TraceScope::capture(PyObject* object) {
  for (size_t i = 0; i < inputs_.size(); ++i) {
    if ((*captured_)[i].array == object) return inputs_[i];
  }
  for (const Met& met : met_) {
    if (met.array == object) return met.tensor;
  }
  Borrowed borrowed;
  borrowed.borrow(object, false, {"a captured array"});
  const auto find = [&](const auto& same, const auto& may_be) -> std::optional<size_t> {
    for (size_t i = 0; i < inputs_.size(); ++i) {
      if (!may_be((*captured_)[i])) continue;
      Borrowed known;
      known.borrow((*captured_)[i].array, false, {"a captured array"});
      if (same(known.view, borrowed.view)) return i;
    }
    return std::nullopt;
  };
  // Each trace makes its views of captured arrays anew, and what these hold may change between calls.
  if (const auto view = find(same_memory, [](const Captured&) { return true; })) {
    (*captured_)[*view].made_by_trace = false;
    return inputs_[*view];
  }
  const auto constant = find(same_values, [](const Captured& one) { return one.made_by_trace || !one.settled; });
  if (constant) {
    met_.push_back({Py_NewRef(object), inputs_[*constant], constant});
    return inputs_[*constant];
  }
  Shape shape;
  for (int d = 0; d < borrowed.view.rank; ++d) shape.push_back(index(borrowed.view.shape[d]));
  const Tensor tensor = input(fmt::format("c{}", inputs_.size() + met_.size()), borrowed.view.dtype, std::move(shape));
  met_.push_back({Py_NewRef(object), tensor, std::nullopt});
  return tensor;
}

bool TraceScope::hand_over_new() {
  std::vector<PyObject*> arrays;
  for (const Met& met : met_) arrays.push_back(met.array);
  const std::vector<bool> made = unshared(arrays);
  bool found = false;
  for (size_t i = 0; i < met_.size(); ++i) {
    // What somebody else holds is not the constant that it equals: it may change.
    const auto& constant = met_[i].equal_to;
    if (constant && (made[i] || !(*captured_)[*constant].settled)) continue;
    found = true;
    if (std::any_of(captured_->begin(), captured_->end(), [&](const auto& one) { return one.array == arrays[i]; }))
      continue;
    captured_->push_back({Py_NewRef(arrays[i]), made[i]});
  }
  if (!found) {
    for (size_t i = 0; i < inputs_.size(); ++i) (*captured_)[i].settled = true;
  }
  return found;
}

}  // namespace lathe::python
