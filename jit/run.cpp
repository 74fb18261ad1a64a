#include "jit/run.h"

#include <fmt/format.h>

#include <bit>
#include <cmath>
#include <cstring>

#include "ir/analysis/simplify.h"
#include "ir/error.h"
#include "ir/interpreter/interpreter.h"
#include "ir/text/print.h"
#include "ir/visitor.h"
#include "jit/kernel_error.h"
#include "jit/layout.h"
#include "jit/runtime/context.h"
#include "jit/runtime/threads.h"

namespace lathe {
namespace {

Substitution scalar_values(const Func& func, std::span<const std::int64_t> scalars) {
  Substitution map;
  const std::vector<VarRef> params = scalar_params(func);
  for (size_t i = 0; i < params.size(); ++i) {
    if (params[i]->dtype == i64) map[params[i].get()] = index(scalars[i]);
  }
  return map;
}

void check_facts(const Func& func, std::span<const std::int64_t> scalars) {
  const std::vector<VarRef> params = scalar_params(func);
  const Substitution values = scalar_values(func, scalars);
  for (const Fact& fact : func->facts) {
    for (size_t i = 0; i < params.size(); ++i) {
      if (params[i] != fact.variable) continue;
      const std::int64_t value = scalars[i];
      const bool holds = (!fact.min || value >= *fact.min) && (!fact.max || value <= *fact.max) &&
                         (fact.multiple_of <= 1 || value % fact.multiple_of == 0) &&
                         (!fact.equals || is_int(simplify(substitute(fact.equals, values)), value));
      if (!holds) {
        throw InputError(Mistake::value, fmt::format("{}: scalar {} is {}, which breaks a fact of the program",
                                                     func->name, params[i]->name, value));
      }
    }
  }
}

void check_array(const Func& func, const Buffer& buffer, const TensorView& view,
                 std::span<const std::int64_t> scalars) {
  std::string expected = to_string(buffer->dtype) + "[";
  bool fits = view.dtype == buffer->dtype && view.rank == static_cast<int>(buffer->rank());
  for (size_t d = 0; d < buffer->rank(); ++d) {
    const std::int64_t extent = evaluate_extent(func, buffer->shape[d], scalars);
    expected += (d ? ", " : "") + std::to_string(extent);
    fits = fits && view.shape[d] == extent;
  }
  if (!fits) {
    throw InputError(view.dtype == buffer->dtype ? Mistake::value : Mistake::type,
                     fmt::format("{}: {} is {}, expected {}]", func->name, buffer->name, describe(view), expected));
  }
  if (!view.strides) return;
  const std::vector<Expr> strides = strides_of(buffer);
  for (size_t d = 0; d < buffer->rank(); ++d) {
    const std::int64_t stride = evaluate_extent(func, strides[d], scalars);
    if (view.shape[d] > 1 && view.strides[d] != stride) {
      throw InputError(Mistake::value, fmt::format("{}: {} has stride {} in dimension {}, the program expects {}",
                                                   func->name, buffer->name, view.strides[d], d, stride));
    }
  }
}

HostBuffer host_buffer(const TensorView& view) {
  std::int64_t low = 0, high = view.elements() > 0 ? 1 : 0;
  std::int64_t dense = 1;
  for (int d = view.rank; d-- > 0 && high > 0;) {
    const std::int64_t reach = (view.shape[d] - 1) * (view.strides ? view.strides[d] : dense);
    (reach < 0 ? low : high) += reach;
    dense *= view.shape[d];
  }
  auto* base = static_cast<std::byte*>(view.data);
  return {view.data, base + low * view.dtype.bytes(), base + high * view.dtype.bytes()};
}

template <class T>
std::string element_text(const void* at) {
  T value;
  std::memcpy(&value, at, sizeof value);
  return fmt::format("{}", value);
}

std::string element(DType dtype, const void* at) {
  const auto bits16 = [&] {
    std::uint16_t value;
    std::memcpy(&value, at, sizeof value);
    return value;
  };
  if (dtype == boolean) return *static_cast<const char*>(at) ? "true" : "false";
  if (dtype == i8) return fmt::format("{}", static_cast<int>(*static_cast<const std::int8_t*>(at)));
  if (dtype == u8) return fmt::format("{}", static_cast<int>(*static_cast<const std::uint8_t*>(at)));
  if (dtype == i16) return element_text<std::int16_t>(at);
  if (dtype == u16) return element_text<std::uint16_t>(at);
  if (dtype == i32) return element_text<std::int32_t>(at);
  if (dtype == u32) return element_text<std::uint32_t>(at);
  if (dtype == i64) return element_text<std::int64_t>(at);
  if (dtype == u64) return element_text<std::uint64_t>(at);
  if (dtype == f32) return element_text<float>(at);
  if (dtype == f64) return element_text<double>(at);
  if (dtype == bf16) return fmt::format("{}", std::bit_cast<float>(static_cast<std::uint32_t>(bits16()) << 16));
  const std::uint16_t half = bits16();
  const int exponent = half >> 10 & 31, fraction = half & 1023;
  const double magnitude = exponent == 0    ? std::ldexp(fraction, -24)
                           : exponent == 31 ? (fraction ? std::nan("") : HUGE_VAL)
                                            : std::ldexp(1024 + fraction, exponent - 25);
  return fmt::format("{}", half >> 15 ? -magnitude : magnitude);
}

/// Elements of one dimension that are shown before and behind "...".
constexpr std::int64_t shown = 4;

std::string nested(const TensorView& view, int dimension, const char* at) {
  if (dimension == view.rank) return element(view.dtype, at);
  std::int64_t stride = 1;
  for (int d = dimension + 1; d < view.rank; ++d) stride *= view.shape[d];
  if (view.strides) stride = view.strides[dimension];
  std::string text = "[";
  for (std::int64_t i = 0; i < view.shape[dimension]; ++i) {
    if (i == shown && view.shape[dimension] > 2 * shown) {
      text += ", ...";
      i = view.shape[dimension] - shown;
    }
    text += (i ? ", " : "") + nested(view, dimension + 1, at + i * stride * view.dtype.bytes());
  }
  return text + "]";
}

}  // namespace

std::int64_t scalar_bits(DType dtype, double value) {
  if (dtype == f64) return std::bit_cast<std::int64_t>(value);
  if (dtype == f32) return std::bit_cast<std::uint32_t>(static_cast<float>(value));
  if (dtype.is_float()) throw InputError(Mistake::type, fmt::format("a scalar parameter of {}", to_string(dtype)));
  return static_cast<std::int64_t>(value);
}

std::int64_t evaluate_extent(const Func& func, const Expr& extent, std::span<const std::int64_t> scalars) {
  const Expr value = simplify(substitute(extent, scalar_values(func, scalars)));
  const std::int64_t* number = as_int(value);
  if (!number) {
    throw InputError(Mistake::value,
                     fmt::format("{}: the extent {} does not follow from the scalars", func->name, print(extent)));
  }
  return *number;
}

std::string summarize(const TensorView& view) {
  return describe(view) + " " + nested(view, 0, static_cast<const char*>(view.data));
}

void check_arguments(const Func& func, std::span<const TensorView> arrays, std::span<const std::int64_t> scalars) {
  const std::vector<Buffer> buffers = buffer_params(func);
  if (arrays.size() != buffers.size() || scalars.size() != scalar_params(func).size()) {
    throw InputError(Mistake::value,
                     fmt::format("{}: it takes {} arrays and {} scalars, {} and {} were given", func->name,
                                 buffers.size(), scalar_params(func).size(), arrays.size(), scalars.size()));
  }
  check_facts(func, scalars);
  for (size_t i = 0; i < buffers.size(); ++i) check_array(func, buffers[i], arrays[i], scalars);
  const std::vector<bool> written = written_params(func);
  for (size_t i = 0; i < arrays.size(); ++i) {
    for (size_t j = 0; j < i; ++j) {
      if ((written[i] || written[j]) && alias_class(arrays[i], arrays[j]) != AliasClass::disjoint) {
        throw InputError(Mistake::value, fmt::format("{}: {} and {} share memory, and one is written", func->name,
                                                     buffers[j]->name, buffers[i]->name));
      }
    }
  }
}

void run_kernel(const Func& func, const Kernel& kernel, std::span<const TensorView> arrays,
                std::span<const std::int64_t> scalars) {
  check_arguments(func, arrays, scalars);
  CallContext context(kernel.shared_bytes, kernel.worker_bytes, thread_count());
  if (!context.get()) throw_kernel_error(LATHE_OUT_OF_MEMORY, "", 0, func->name);
  std::vector<void*> pointers;
  for (const TensorView& view : arrays) pointers.push_back(view.data);
  const std::int32_t status = kernel.entry(context.get(), pointers.data(), scalars.data());
  const LatheKernelError& error = context.get()->error;
  if (status != LATHE_OK) throw_kernel_error(status, error.message ? error.message : "", error.index, func->name);
}

void run_interpreted(const Func& func, std::span<const TensorView> arrays, std::span<const std::int64_t> scalars) {
  check_arguments(func, arrays, scalars);
  std::vector<HostBuffer> memory;
  for (const TensorView& view : arrays) memory.push_back(host_buffer(view));
  std::string message;
  std::int64_t at = 0;
  const std::int32_t status = interpret(func, memory, scalars, {}, &message, &at);
  if (status != LATHE_OK) throw_kernel_error(status, message, at, func->name);
}

}  // namespace lathe
