#include "jit/run.h"

#include <fmt/format.h>

#include <array>
#include <bit>
#include <cmath>
#include <cstring>

#include "ir/error.h"
#include "ir/interpreter/interpreter.h"
#include "jit/kernel_error.h"
#include "jit/runtime/context.h"
#include "jit/runtime/threads.h"

namespace lathe {
namespace {

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

std::string summarize(const TensorView& view) {
  return describe(view) + " " + nested(view, 0, static_cast<const char*>(view.data));
}

void run_kernel(const Parameters& parameters, const Kernel& kernel, std::span<const TensorView> arrays,
                std::span<const std::int64_t> scalars) {
  parameters.check(arrays, scalars);
  CallContext context(kernel.shared_bytes, kernel.worker_bytes, thread_count());
  if (!context.get()) throw_kernel_error(LATHE_OUT_OF_MEMORY, "", 0, parameters.func()->name);
  constexpr size_t few = 16;
  std::array<void*, few> inline_pointers;
  std::vector<void*> more_pointers(arrays.size() > few ? arrays.size() : 0);
  void** const pointers = arrays.size() > few ? more_pointers.data() : inline_pointers.data();
  for (size_t i = 0; i < arrays.size(); ++i) pointers[i] = arrays[i].data;
  const std::int32_t status = kernel.entry(context.get(), pointers, scalars.data());
  const LatheKernelError& error = context.get()->error;
  if (status != LATHE_OK)
    throw_kernel_error(status, error.message ? error.message : "", error.index, parameters.func()->name);
}

void run_interpreted(const Parameters& parameters, std::span<const TensorView> arrays,
                     std::span<const std::int64_t> scalars) {
  parameters.check(arrays, scalars);
  const Func& func = parameters.func();
  std::vector<HostBuffer> memory;
  for (const TensorView& view : arrays) memory.push_back(host_buffer(view));
  std::string message;
  std::int64_t at = 0;
  const std::int32_t status = interpret(func, memory, scalars, {}, &message, &at);
  if (status != LATHE_OK) throw_kernel_error(status, message, at, func->name);
}

}  // namespace lathe
