#pragma once
#include <nanobind/nanobind.h>

#include <deque>
#include <memory>
#include <utility>
#include <vector>

#include "bindings/python/result_form.h"
#include "jit/function.h"

namespace lathe::python {

/// One thing that a traced function's meaning hangs on besides its arguments: what a closure cell or a global held when
/// it was traced. Another object there is another operator.
struct Guard {
  nanobind::object container;  ///< a cell, or a globals dict
  nanobind::object name;       ///< the global's name; null for a cell
  nanobind::object expected;   ///< null when there was nothing

  bool holds() const;
};

/// The Python function behind what @lathe.jit returned; null for other objects.
nanobind::handle jitted_function(nanobind::handle object);

/// The guards of `function` and of every Python function that it can reach through closures and globals.
std::vector<Guard> collect_guards(nanobind::handle function);

/// How one argument goes in, or that a container of arguments begins or ends.
enum class Role : std::uint8_t { array, scalar, fixed, list, tuple, named_tuple, dict, end };

/// An array that a traced function met and that is no argument. The reference is held.
struct Captured {
  PyObject* array;
  /// Was it made by the trace itself, so that nobody else holds it? Then it is a constant, and a later trace that makes
  /// an equal one means this.
  bool made_by_trace = false;
};

/// One reading of the Python function: for these static arguments and captured values, an operator.
struct Variant {
  std::vector<Role> roles;
  /// In order, the static arguments, the type of each named tuple, and the keys of each dict, as a tuple.
  std::vector<nanobind::object> fixed;
  std::vector<Guard> guards;
  std::vector<Captured> captured;  ///< inputs behind the arguments
  std::deque<ResultForm> forms;    ///< of results, each once, one alone first: Specialization::form counts them
  std::unique_ptr<Function> function;
  size_t users = 0;            ///< calls that hold it; changed by those that hold the GIL
  std::uint64_t last_use = 0;  ///< the number of the call that used it last

  Variant() = default;
  Variant(const Variant&) = delete;
  Variant& operator=(const Variant&) = delete;
  ~Variant();
};

/// Keeps a variant from being dropped while a call, which may let go of the GIL, uses it. Made and ended under the GIL.
class VariantUse {
 public:
  explicit VariantUse(Variant& variant) : variant_(&variant) { ++variant.users; }
  VariantUse(VariantUse&& other) noexcept : variant_(std::exchange(other.variant_, nullptr)) {}
  VariantUse& operator=(VariantUse&&) = delete;
  ~VariantUse() {
    if (variant_) --variant_->users;
  }
  Variant& operator*() const { return *variant_; }
  Variant* operator->() const { return variant_; }

 private:
  Variant* variant_;
};

/// Traces `function` on Tensors and scalars set out by the variant's roles, the last of them under the names of
/// `keywords`, a tuple. Called without the GIL held or with it.
TraceResult trace_python(Variant& variant, PyObject* function, PyObject* keywords, const std::vector<Tensor>& inputs,
                         const std::vector<Tensor>& scalars);

/// Thrown out of a trace that met captured arrays for the first time: the call starts again with them as inputs.
struct RetraceWithCaptures {};

}  // namespace lathe::python
