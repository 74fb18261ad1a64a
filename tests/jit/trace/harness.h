#pragma once
#include <gtest/gtest.h>

#include <bit>
#include <cstring>
#include <set>
#include <string>
#include <vector>

#include "ir/analysis/verify.h"
#include "ir/interpreter/interpreter.h"
#include "ir/reduction.h"
#include "ir/text/print.h"
#include "ir/visitor.h"
#include "jit/trace/ops/ops.h"

/// Traced operators, run by the interpreter on arrays given and read as doubles.
namespace lathe::test {

struct Array {
  DType dtype;
  std::vector<std::int64_t> shape;
  std::vector<std::byte> bytes;

  size_t size() const { return bytes.size() / static_cast<size_t>(dtype.bytes()); }
};

inline void put(DType dtype, std::byte* place, double value) {
  const auto store = [&](auto element) { std::memcpy(place, &element, sizeof element); };
  if (dtype == f64) return store(value);
  if (dtype == f32) return store(static_cast<float>(value));
  if (dtype == f16) return store(static_cast<_Float16>(value));
  if (dtype == bf16) {
    return store(
        static_cast<std::uint16_t>(std::bit_cast<std::uint32_t>(static_cast<float>(round_to(bf16, value))) >> 16));
  }
  const std::int64_t whole = static_cast<std::int64_t>(value);
  std::memcpy(place, &whole, static_cast<size_t>(dtype.bytes()));
}

inline double get(DType dtype, const std::byte* place) {
  const auto read = [&](auto element) {
    std::memcpy(&element, place, sizeof element);
    return element;
  };
  if (dtype == f64) return read(double());
  if (dtype == f32) return read(float());
  if (dtype == f16) return static_cast<double>(read(_Float16()));
  if (dtype == bf16) return std::bit_cast<float>(static_cast<std::uint32_t>(read(std::uint16_t())) << 16);
  std::int64_t whole = 0;
  std::memcpy(&whole, place, static_cast<size_t>(dtype.bytes()));
  return dtype == u64 ? static_cast<double>(static_cast<std::uint64_t>(whole))
                      : static_cast<double>(wrap_integer(dtype, whole));
}

inline Array empty(DType dtype, std::vector<std::int64_t> shape) {
  std::int64_t count = 1;
  for (std::int64_t extent : shape) count *= extent;
  return {dtype, std::move(shape), std::vector<std::byte>(static_cast<size_t>(count * dtype.bytes()))};
}

inline Array array(DType dtype, std::vector<std::int64_t> shape, const std::vector<double>& values) {
  Array result = empty(dtype, std::move(shape));
  EXPECT_EQ(result.size(), values.size());
  for (size_t k = 0; k < values.size(); ++k)
    put(dtype, &result.bytes[k * static_cast<size_t>(dtype.bytes())], values[k]);
  return result;
}

/// 0, 1, 2, ..
inline Array iota(DType dtype, std::vector<std::int64_t> shape) {
  Array result = empty(dtype, std::move(shape));
  for (size_t k = 0; k < result.size(); ++k)
    put(dtype, &result.bytes[k * static_cast<size_t>(dtype.bytes())], double(k));
  return result;
}

inline std::vector<double> values(const Array& a) {
  std::vector<double> result;
  for (size_t k = 0; k < a.size(); ++k)
    result.push_back(get(a.dtype, &a.bytes[k * static_cast<size_t>(a.dtype.bytes())]));
  return result;
}

inline HostBuffer host(Array& a) {
  return {a.bytes.data(), a.bytes.data(), a.bytes.data() + a.bytes.size()};
}

using Operation = std::function<std::vector<Tensor>(const std::vector<Tensor>&)>;

/// The Func of `f` on inputs of the arrays' dtypes and shapes, named x0, x1, ..
inline Func trace(const std::vector<Array>& arrays, const Operation& f) {
  std::vector<Tensor> inputs;
  for (const Array& a : arrays) {
    inputs.push_back(input("x" + std::to_string(inputs.size()), a.dtype, ops::make_shape(a.shape)));
  }
  return make_func("traced", inputs, f(inputs));
}

struct Status {
  std::int32_t code = 0;
  std::string message;
  std::int64_t index = 0;
};

/// Traces, verifies and interprets.
inline std::vector<Array> run_all(std::vector<Array> arrays, const Operation& f, Status* status = nullptr) {
  const Func func = trace(arrays, f);
  for (const Finding& finding : verify(func))
    ADD_FAILURE() << finding.rule << ": " << finding.message << "\n" << print(func);
  std::vector<Array> outputs;
  const std::vector<Buffer> params = buffer_params(func);
  for (size_t k = arrays.size(); k < params.size(); ++k) {
    std::vector<std::int64_t> shape;
    for (const Expr& extent : params[k]->shape) shape.push_back(*as_int(extent));
    outputs.push_back(empty(params[k]->dtype, shape));
  }
  std::vector<HostBuffer> buffers;
  for (Array& a : arrays) buffers.push_back(host(a));
  for (Array& a : outputs) buffers.push_back(host(a));
  Status own;
  Status& result = status ? *status : own;
  result.code = interpret(func, buffers, {}, {}, &result.message, &result.index);
  if (!status) {
    EXPECT_EQ(result.code, 0) << result.message;
  }
  return outputs;
}

inline Array run(std::vector<Array> arrays, const std::function<Tensor(const std::vector<Tensor>&)>& f) {
  return run_all(std::move(arrays), [&](const std::vector<Tensor>& x) { return std::vector<Tensor>{f(x)}; }).front();
}

/// The message of the InputError that `f` throws; a failure when it throws none.
template <class F>
std::string error_of(const F& f, Mistake mistake = Mistake::value) {
  try {
    f();
  } catch (const InputError& error) {
    EXPECT_EQ(error.mistake, mistake) << error.what();
    return error.what();
  }
  ADD_FAILURE() << "nothing was thrown";
  return "";
}

}  // namespace lathe::test
