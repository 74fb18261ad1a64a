#pragma once
#include <nanobind/nanobind.h>

#include <deque>
#include <memory>
#include <utility>
#include <vector>

#include "bindings/python/result_form.h"
#include "jit/function.h"

namespace lathe::python {

/// One thing that a traced function's meaning hangs on besides its arguments: what one place held when it was traced.
/// Another object there is another operator.
struct Guard {
  /// lathe/_guards.py counts them in this order.
  enum class Kind : std::uint8_t {
    cell,      ///< of a closure
    entry,     ///< of a dict: a global, a module's or an instance's attribute, a constant subscript
    element,   ///< of a list
    in_class,  ///< what a class itself holds under a name
    slot,      ///< an instance's, by its class's descriptor
    length,    ///< of a list or dict
    function   ///< a Python function's code and defaults
  } kind;
  nanobind::object container;
  nanobind::object key;       ///< null for a cell, a length and a function
  nanobind::object expected;  ///< null when there was nothing
  /// False for what the function may write itself as it is traced: settle_guards lets go of that.
  bool firm;
  bool dropped = false;

  bool holds() const { return dropped || holds_now(); }
  nanobind::object now() const;

 private:
  bool holds_now() const;
};

/// The Python function behind what @lathe.jit returned; null for other objects.
nanobind::handle jitted_function(nanobind::handle object);

/// The guards of `function` and of every Python function that it can be seen to reach (lathe/_guards.py); `arguments`
/// are its static ones, by name.
std::vector<Guard> collect_guards(nanobind::handle function, const nanobind::dict& arguments);

/// How one argument goes in, or that a container of arguments begins or ends.
enum class Role : std::uint8_t { array, scalar, fixed, list, tuple, named_tuple, dict, end };

/// An array that a traced function met and that is no argument. The reference is held.
struct Captured {
  PyObject* array;
  /// Was it made by the trace itself, so that nobody else holds it? Then it is a constant, and a later trace that makes
  /// an equal one means this.
  bool made_by_trace = false;
  /// Has a trace been through with it as an input? Until then it is what the last trace found, and an equal array that
  /// is neither it nor a view of its memory can only have been made anew.
  bool settled = false;
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

  /// After a trace: what it has filled in itself (a table made on first use) is guarded as it is from now on, and what
  /// it has changed (a counter, a memo) no longer, as each call would trace anew.
  void settle_guards();

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
