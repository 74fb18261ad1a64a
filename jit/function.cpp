#include "jit/function.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>

#include "backends/llvm/version.h"
#include "ir/error.h"
#include "ir/structural.h"
#include "jit/cache/epoch.h"
#include "jit/cache/kernel_cache.h"
#include "jit/call_key.h"
#include "jit/compile.h"
#include "jit/kernel_error.h"
#include "jit/memory_order.h"
#include "jit/runtime/context.h"
#include "jit/runtime/threads.h"
#include "jit/specialize.h"

namespace lathe {
namespace {

using Clock = std::chrono::steady_clock;

std::atomic<bool> profiling{false};

double milliseconds_since(Clock::time_point start) {
  return std::chrono::duration<double, std::milli>(Clock::now() - start).count();
}

/// An open-addressing table that is only ever read, or replaced as a whole; slots go from null to an entry once.
struct Table {
  explicit Table(size_t capacity) : slots(capacity) {}
  std::vector<std::atomic<Specialization*>> slots;  // a power of two, at most half full

  Specialization* find(const CallKey& key, std::uint64_t hash) const {
    const size_t mask = slots.size() - 1;
    for (size_t i = hash & mask;; i = (i + 1) & mask) {
      Specialization* entry = slots[i].load(std::memory_order_acquire);
      if (!entry || key.equals(entry->key)) return entry;
    }
  }

  void insert(Specialization* entry, std::uint64_t hash) {
    const size_t mask = slots.size() - 1;
    size_t i = hash & mask;
    while (slots[i].load(std::memory_order_relaxed)) i = (i + 1) & mask;
    slots[i].store(entry, std::memory_order_release);
  }
};

/// Inputs, then outputs; where no output is given, dense ones as allocators make them, large ones at a cache line.
std::vector<ArgumentLayout> argument_layouts(const Func& traced, std::span<const TensorView> outputs,
                                             std::span<const TensorView> inputs) {
  const std::vector<Buffer> buffers = buffer_params(traced);
  std::vector<ArgumentLayout> layouts(buffers.size());
  size_t i = 0;
  for (const TensorView& view : inputs) layouts.at(i++) = {classify_strides(view), CallKey::classify_input(view)};
  for (const TensorView& view : outputs) layouts.at(i++) = {classify_strides(view), CallKey::classify_output(view)};
  std::vector<StrideClasses> classes;
  classes.reserve(i);
  for (size_t k = 0; k < i; ++k) classes.push_back(layouts[k].strides);
  const MemoryOrders orders = i < layouts.size() ? memory_orders(traced, classes) : MemoryOrders();
  for (; i < layouts.size(); ++i) {
    if (const auto order = orders.find(buffers[i].get()); order != orders.end()) layouts[i].strides = order->second;
    std::int64_t bytes = buffers[i]->dtype.bytes();
    for (const Expr& extent : buffers[i]->shape) bytes *= as_int(extent) ? *as_int(extent) : 0;
    if (bytes >= least_streamed_bytes()) layouts[i].alignment = AlignmentClass::line;
  }
  return layouts;
}

Shape constant_shape(const TensorView& view) {
  Shape shape;
  for (int d = 0; d < view.rank; ++d) shape.push_back(index(view.shape[d]));
  return shape;
}

}  // namespace

struct Function::State {
  std::string name;
  TraceFunction trace;
  Precision precision = Precision::standard;

  std::atomic<Table*> table{new Table(16)};
  std::mutex mutex;  // guards what follows, and every change of the table
  std::vector<std::unique_ptr<Specialization>> entries;
  std::atomic<std::uint64_t> generation{0};

  ~State() { delete table.load(); }

  const Specialization* find(const CallKey& key, std::span<const TensorView> outputs);
  Func make_traced(std::span<const TensorView> inputs, std::span<const ScalarValue> scalars,
                   size_t* form = nullptr) const;
  std::unique_ptr<Specialization> prepare(const CallKey& key, std::span<const TensorView> outputs,
                                          std::span<const TensorView> inputs, std::span<const ScalarValue> scalars,
                                          bool* waited) const;
  Specialization* publish(std::unique_ptr<Specialization> entry, const CallKey& key);
  void drop_evicted();
  void rebuild();
  void check_outputs(const Specialization& entry, std::span<const TensorView> outputs) const;
  void run_through_temporaries(const Function& function, const Specialization& entry,
                               std::span<const TensorView> outputs, std::span<const TensorView> inputs,
                               std::span<const ScalarValue> scalars) const;
};

Func Function::State::make_traced(std::span<const TensorView> inputs, std::span<const ScalarValue> scalars,
                                  size_t* form) const {
  std::vector<Tensor> tensors, numbers, parameters;
  for (size_t i = 0; i < inputs.size(); ++i) {
    const TensorView& view = inputs[i];
    if (std::find(std::begin(all_dtypes), std::end(all_dtypes), view.dtype) == std::end(all_dtypes)) {
      throw InputError(Mistake::type,
                       fmt::format("{}: argument {} has a dtype that Lathe has no kernels for", name, i));
    }
    if (view.rank > max_rank) {
      throw InputError(Mistake::value, fmt::format("{}: argument {} has rank {}, at most {} are supported", name, i,
                                                   view.rank, max_rank));
    }
    tensors.push_back(input(fmt::format("x{}", i), view.dtype, constant_shape(view)));
  }
  for (size_t i = 0; i < scalars.size(); ++i) {
    numbers.push_back(scalar(fmt::format("s{}", i), scalars[i].dtype, scalars[i].weak));
  }
  const TraceResult results = trace(tensors, numbers);
  if (form) *form = results.form;
  parameters = tensors;
  parameters.insert(parameters.end(), numbers.begin(), numbers.end());
  return make_func(name, parameters, results.tensors, precision);
}

std::unique_ptr<Specialization> Function::State::prepare(const CallKey& key, std::span<const TensorView> outputs,
                                                         std::span<const TensorView> inputs,
                                                         std::span<const ScalarValue> scalars, bool* waited) const {
  const auto start = Clock::now();
  auto entry = std::make_unique<Specialization>();
  Func func = make_traced(inputs, scalars, &entry->form);
  entry->key.assign(key.words().begin(), key.words().end());

  const std::vector<Buffer> buffers = buffer_params(func);
  for (size_t i = inputs.size(); i < buffers.size(); ++i) {
    OutputSpec spec{buffers[i]->dtype, {}};
    for (const Expr& extent : buffers[i]->shape) {
      const std::int64_t* value = as_int(extent);
      LATHE_CHECK(value, "an output's extent is not constant");
      spec.shape.push_back(*value);
    }
    entry->outputs.push_back(std::move(spec));
  }
  if (!outputs.empty()) check_outputs(*entry, outputs);

  const std::vector<ArgumentLayout> layouts = argument_layouts(func, outputs, inputs);
  Signature& signature = entry->signature;
  for (size_t i = 0; i < buffers.size(); ++i) {
    const bool is_output = i >= inputs.size();
    std::vector<std::int64_t> dims;
    if (is_output) {
      OutputSpec& spec = entry->outputs[i - inputs.size()];
      dims = spec.shape;
      if (outputs.empty() && layouts[i].strides != 0) spec.strides = permuted_strides(layouts[i].strides, spec.shape);
    } else {
      dims.assign(inputs[i].shape, inputs[i].shape + inputs[i].rank);
    }
    signature.tensors.push_back({buffers[i]->dtype, dims, layouts[i].strides, layouts[i].alignment, is_output});
    entry->at_lines |= layouts[i].alignment == AlignmentClass::line;
  }
  for (const ScalarValue& scalar : scalars) {
    entry->scalars.push_back(scalar.dtype);
    signature.scalars.push_back(scalar.dtype);
  }
  std::vector<StrideParameter> runtime;
  func = apply_layouts(func, layouts, &runtime);
  for (const StrideParameter& r : runtime) entry->runtime_strides.push_back({r.tensor, r.dimension});

  const Device& device = compile_device(precision);
  signature.program = structural_hash(func);
  if (precision == Precision::strict) signature.precision = "strict";
  signature.device = device.fingerprint();
  signature.abi = LATHE_ABI_VERSION;
  signature.lathe = lathe_version;
  signature.llvm = llvm_version();

  CompileTimes times;
  times.trace = milliseconds_since(start);
  entry->kernel =
      KernelCache::instance().find_or_compile(signature, [&] { return compile(func, device, true, times); }, waited);
  return entry;
}

const Specialization* Function::State::find(const CallKey& key, std::span<const TensorView> outputs) {
  if (generation.load(std::memory_order_relaxed) != KernelCache::instance().generation()) [[unlikely]]
    drop_evicted();
  const Specialization* found = table.load(std::memory_order_acquire)->find(key, key.hash());
  if (!found) return nullptr;
  if (!outputs.empty()) check_outputs(*found, outputs);
  count_hit();
  return found;
}

void Function::State::rebuild() {
  size_t capacity = 16;
  while (capacity < 4 * entries.size()) capacity *= 2;
  auto next = std::make_unique<Table>(capacity);
  for (const auto& entry : entries) next->insert(entry.get(), CallKey::hash_words(entry->key));
  Table* old = table.exchange(next.release(), std::memory_order_acq_rel);
  retire([old] { delete old; });
}

Specialization* Function::State::publish(std::unique_ptr<Specialization> entry, const CallKey& key) {
  const std::lock_guard lock(mutex);
  const std::uint64_t hash = key.hash();
  if (Specialization* other = table.load()->find(key, hash)) return other;  // another thread was faster
  Specialization* published = entry.get();
  entries.push_back(std::move(entry));
  if (2 * entries.size() > table.load()->slots.size()) {
    rebuild();
  } else {
    table.load()->insert(published, hash);
  }
  return published;
}

void Function::State::drop_evicted() {
  const std::uint64_t now = KernelCache::instance().generation();
  const std::lock_guard lock(mutex);
  if (generation.load() == now) return;
  const auto gone = std::stable_partition(entries.begin(), entries.end(), [](const auto& entry) {
    return !entry->kernel->evicted.load(std::memory_order_acquire);
  });
  if (gone != entries.end()) {
    auto dropped = std::make_shared<std::vector<std::unique_ptr<Specialization>>>(
        std::make_move_iterator(gone), std::make_move_iterator(entries.end()));
    entries.erase(gone, entries.end());
    rebuild();
    retire([dropped] { dropped->clear(); });
  }
  generation.store(now);
}

void Function::State::check_outputs(const Specialization& entry, std::span<const TensorView> outputs) const {
  if (outputs.size() != entry.outputs.size()) {
    throw InputError(Mistake::value, fmt::format("{}: it returns {} results, but {} outputs were given", name,
                                                 entry.outputs.size(), outputs.size()));
  }
  for (size_t i = 0; i < outputs.size(); ++i) {
    const OutputSpec& spec = entry.outputs[i];
    const TensorView& view = outputs[i];
    const bool same_shape = view.rank == static_cast<int>(spec.shape.size()) &&
                            std::equal(spec.shape.begin(), spec.shape.end(), view.shape);
    if (same_shape && view.dtype == spec.dtype) continue;
    const TensorView expected{nullptr, spec.dtype, static_cast<std::int32_t>(spec.shape.size()), spec.shape.data(),
                              nullptr};
    throw InputError(same_shape ? Mistake::type : Mistake::value,
                     fmt::format("{}: output {} is {}, expected {}", name, i, describe(view), describe(expected)));
  }
}

void Function::State::run_through_temporaries(const Function& function, const Specialization& entry,
                                              std::span<const TensorView> outputs, std::span<const TensorView> inputs,
                                              std::span<const ScalarValue> scalars) const {
  std::vector<TensorView> temporaries(outputs.begin(), outputs.end());
  for (size_t i = 0; i < outputs.size(); ++i) {
    if (overlaps_itself(outputs[i])) {
      throw InputError(Mistake::value,
                       fmt::format("{}: output {} {} overlaps itself: two of its indices name one element", name, i,
                                   describe(outputs[i])));
    }
    for (size_t j = 0; j < i; ++j) {
      if (alias_class(outputs[i], outputs[j]) != AliasClass::disjoint) {
        throw InputError(Mistake::value, fmt::format("{}: outputs {} and {} overlap", name, j, i));
      }
    }
    temporaries[i].strides = nullptr;
    temporaries[i].data = thread_scratch(static_cast<int>(i), std::max<std::int64_t>(dense_bytes(outputs[i]), 1));
    if (!temporaries[i].data) throw_kernel_error(LATHE_OUT_OF_MEMORY, "", 0, name);
  }
  const Specialization& dense = function.specialize(temporaries, inputs, scalars);
  function.run(dense, temporaries, inputs, scalars);
  for (size_t i = 0; i < outputs.size(); ++i) scatter_dense(temporaries[i].data, outputs[i]);
}

Function::Function(std::string name, TraceFunction trace, Precision precision) : state_(std::make_unique<State>()) {
  state_->name = std::move(name);
  state_->precision = precision;
  state_->trace = std::move(trace);
}
Function::~Function() {
  // A call of another thread must not outlive its Function, but its epoch may: what it reads is freed after it.
  if (state_) retire([state = state_.release()] { delete state; });
}
Function::Function(Function&&) noexcept = default;
Function& Function::operator=(Function&&) noexcept = default;

const std::string& Function::name() const {
  return state_->name;
}

Precision Function::precision() const {
  return state_->precision;
}

Func Function::trace(std::span<const TensorView> outputs, std::span<const TensorView> inputs,
                     std::span<const ScalarValue> scalars) const {
  const Func func = state_->make_traced(inputs, scalars);
  std::vector<StrideParameter> runtime;
  return apply_layouts(func, argument_layouts(func, outputs, inputs), &runtime);
}

const Specialization* Function::find(std::span<const TensorView> outputs, std::span<const TensorView> inputs,
                                     std::span<const ScalarValue> scalars) const {
  const CallKey key(outputs, inputs, scalars);
  return state_->find(key, outputs);
}

const Specialization& Function::specialize(std::span<const TensorView> outputs, std::span<const TensorView> inputs,
                                           std::span<const ScalarValue> scalars) const {
  const CallKey key(outputs, inputs, scalars);
  if (const Specialization* found = state_->find(key, outputs)) [[likely]]
    return *found;
  bool waited = false;
  std::unique_ptr<Specialization> entry = state_->prepare(key, outputs, inputs, scalars, &waited);
  waited ? count_miss() : count_hit();
  return *state_->publish(std::move(entry), key);
}

void Function::run(const Specialization& entry, std::span<const TensorView> outputs, std::span<const TensorView> inputs,
                   std::span<const ScalarValue> scalars) const {
  if (entry.at_lines && !std::all_of(outputs.begin(), outputs.end(), CallKey::is_at_line)) [[unlikely]] {
    // The entry was made before its outputs were there, and an allocator put one elsewhere than assumed.
    const Specialization& other = specialize(outputs, inputs, scalars);
    if (&other != &entry) return run(other, outputs, inputs, scalars);
  }
  for (size_t i = 0; i < outputs.size(); ++i) {
    const bool chosen = outputs[i].strides == entry.outputs[i].strides.data();
    bool apart = chosen || is_dense(outputs[i]) || !overlaps_itself(outputs[i]);
    for (const TensorView& in : inputs) apart = apart && alias_class(outputs[i], in) == AliasClass::disjoint;
    for (size_t j = 0; j < i; ++j) apart = apart && alias_class(outputs[i], outputs[j]) == AliasClass::disjoint;
    if (!apart) [[unlikely]] {
      return state_->run_through_temporaries(*this, entry, outputs, inputs, scalars);
    }
  }

  constexpr size_t inline_count = 32;
  void* inline_buffers[inline_count];
  std::int64_t inline_scalars[inline_count];
  std::vector<void*> more_buffers;
  std::vector<std::int64_t> more_scalars;
  void** buffers = inline_buffers;
  std::int64_t* numbers = inline_scalars;
  if (inputs.size() + outputs.size() > inline_count) {
    more_buffers.resize(inputs.size() + outputs.size());
    buffers = more_buffers.data();
  }
  if (scalars.size() + entry.runtime_strides.size() > inline_count) {
    more_scalars.resize(scalars.size() + entry.runtime_strides.size());
    numbers = more_scalars.data();
  }
  size_t n = 0;
  for (const TensorView& view : inputs) buffers[n++] = view.data;
  for (const TensorView& view : outputs) buffers[n++] = view.data;
  n = 0;
  for (const ScalarValue& scalar : scalars) numbers[n++] = scalar.bits;
  for (const Specialization::RuntimeStride& r : entry.runtime_strides) {
    const auto tensor = static_cast<size_t>(r.tensor);
    const TensorView& view = tensor < inputs.size() ? inputs[tensor] : outputs[tensor - inputs.size()];
    numbers[n++] = view.strides[r.dimension];
  }

  const Kernel& kernel = *entry.kernel;
  CallContext context(kernel.shared_bytes, kernel.worker_bytes, thread_count());
  if (!context.get()) throw_kernel_error(LATHE_OUT_OF_MEMORY, "", 0, state_->name);
  std::int32_t status;
  kernel.calls.fetch_add(1, std::memory_order_relaxed);
  if (profiling.load(std::memory_order_relaxed)) [[unlikely]] {
    const auto start = Clock::now();
    status = kernel.entry(context.get(), buffers, numbers);
    kernel.nanoseconds.fetch_add((Clock::now() - start).count(), std::memory_order_relaxed);
    kernel.profiled_calls.fetch_add(1, std::memory_order_relaxed);
  } else {
    status = kernel.entry(context.get(), buffers, numbers);
  }
  if (status != LATHE_OK) [[unlikely]] {
    const LatheKernelError& error = context.get()->error;
    throw_kernel_error(status, error.message ? error.message : "", error.index, state_->name);
  }
}

void Function::operator()(std::span<const TensorView> outputs, std::span<const TensorView> inputs,
                          std::span<const ScalarValue> scalars) const {
  const EpochGuard guard;
  run(specialize(outputs, inputs, scalars), outputs, inputs, scalars);
}

void set_profiling(bool on) {
  profiling.store(on);
}

namespace detail {
void wrong_arity(const std::string& name, size_t expected, size_t given) {
  throw InputError(Mistake::type, fmt::format("{}: it takes {} tensors, {} were given", name, expected, given));
}
}  // namespace detail

}  // namespace lathe
