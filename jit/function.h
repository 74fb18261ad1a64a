#pragma once
#include <atomic>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <tuple>
#include <type_traits>
#include <vector>

#include "jit/cache/signature.h"
#include "jit/kernel.h"
#include "jit/tensor_view.h"
#include "jit/trace/tensor.h"

namespace lathe {

/// What a TraceFunction returns: its results, and a number of its own that the Specialization hands back.
struct TraceResult {
  std::vector<Tensor> tensors = {};
  size_t form = 0;

  TraceResult() = default;
  TraceResult(std::vector<Tensor> results) : tensors(std::move(results)) {}  // NOLINT: what most functions return
};

/// An operator as its author writes it: symbolic inputs and run-time scalars in, symbolic outputs out.
using TraceFunction = std::function<TraceResult(const std::vector<Tensor>& inputs, const std::vector<Tensor>& scalars)>;

/// What memory a result wants.
struct OutputSpec {
  DType dtype;
  std::vector<std::int64_t> shape;
  std::vector<std::int64_t> strides = {};  ///< in elements; empty means compact row-major
};

/// A kernel for one exact set of layouts, with what a call must do around it.
struct Specialization {
  std::vector<std::uint64_t> key;
  std::shared_ptr<Kernel> kernel;
  Signature signature;
  std::vector<OutputSpec> outputs;
  size_t form = 0;  ///< TraceResult::form
  struct RuntimeStride {
    int tensor, dimension;  ///< tensor counts inputs, then outputs
  };
  std::vector<RuntimeStride> runtime_strides;
  std::vector<DType> scalars;  ///< the types that the kernel reads its scalars as
  bool at_lines = false;       ///< the kernel assumes AlignmentClass::line of some output
};

/// An operator that compiles itself for whatever it is called with, once per signature. Calls come from any thread; a
/// call whose kernel is there takes no lock and allocates nothing.
class Function {
 public:
  Function(std::string name, TraceFunction trace, Precision precision = Precision::standard);
  ~Function();
  Function(Function&&) noexcept;
  Function& operator=(Function&&) noexcept;

  /// Computes `outputs` from `inputs`. Outputs may overlap inputs, which costs a temporary; they may not overlap
  /// themselves or each other. Throws InputError for wrong shapes, dtypes or indices out of range.
  void operator()(std::span<const TensorView> outputs, std::span<const TensorView> inputs,
                  std::span<const ScalarValue> scalars = {}) const;
  void operator()(const TensorView& output, std::initializer_list<TensorView> inputs) const {
    (*this)({&output, 1}, {inputs.begin(), inputs.size()});
  }

  /// The specialization for these arguments, compiled if it is new. `outputs` may be empty: then they are dense, in the
  /// layouts that Specialization::outputs says (jit/memory_order.h). Valid while the caller holds an EpochGuard
  /// (jit/cache/epoch.h).
  const Specialization& specialize(std::span<const TensorView> outputs, std::span<const TensorView> inputs,
                                   std::span<const ScalarValue> scalars = {}) const;
  /// The same where it exists already, counted as a hit; null otherwise.
  const Specialization* find(std::span<const TensorView> outputs, std::span<const TensorView> inputs,
                             std::span<const ScalarValue> scalars = {}) const;
  /// Runs a specialization on arguments that it was made for.
  void run(const Specialization& specialization, std::span<const TensorView> outputs,
           std::span<const TensorView> inputs, std::span<const ScalarValue> scalars = {}) const;

  /// The Func that these arguments trace to, their layouts applied; where no outputs are given, in the layouts that
  /// the function chooses for them.
  Func trace(std::span<const TensorView> outputs, std::span<const TensorView> inputs,
             std::span<const ScalarValue> scalars = {}) const;

  const std::string& name() const;
  Precision precision() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// While on, every call measures its kernel's time (Kernel::nanoseconds).
void set_profiling(bool on);

namespace detail {
template <class F>
struct tensor_arity : tensor_arity<decltype(&F::operator())> {};
template <class C, class R, class... A>
struct tensor_arity<R (C::*)(A...) const> : std::integral_constant<size_t, sizeof...(A)> {};
template <class R, class... A>
struct tensor_arity<R (*)(A...)> : std::integral_constant<size_t, sizeof...(A)> {};

template <class F, size_t... I>
std::vector<Tensor> apply_tensors(const F& f, const std::vector<Tensor>& inputs, std::index_sequence<I...>) {
  if constexpr (std::is_same_v<decltype(f(inputs[I]...)), Tensor>) {
    return {f(inputs[I]...)};
  } else {
    return f(inputs[I]...);
  }
}

[[noreturn]] void wrong_arity(const std::string& name, size_t expected, size_t given);
}  // namespace detail

/// A Function from a callable of so many Tensors that returns a Tensor or a vector of them:
///   lathe::Function f = lathe::jit([](Tensor x, Tensor y) { return ops::gelu(ops::add(x, y)); });
template <class F>
Function jit(F f, const std::string& name = "function", Precision precision = Precision::standard) {
  constexpr size_t arity = detail::tensor_arity<F>::value;
  const auto trace = [f = std::move(f), name](const std::vector<Tensor>& inputs, const std::vector<Tensor>&) {
    if (inputs.size() != arity) detail::wrong_arity(name, arity, inputs.size());
    return detail::apply_tensors(f, inputs, std::make_index_sequence<arity>());
  };
  return Function(name, trace, precision);
}

}  // namespace lathe
