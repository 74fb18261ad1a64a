#pragma once
#include <gtest/gtest.h>

#include <cstring>
#include <vector>

#include "ir/interpreter/arithmetic.h"
#include "ir/interpreter/interpreter.h"

namespace lathe::testing {

/// An array of elements of `dtype`, written and read as doubles (exact for every value that these tests use).
struct Data {
  DType dtype;
  std::vector<std::byte> bytes;

  Data(DType dtype, const std::vector<double>& values) : dtype(dtype), bytes(values.size() * size_t(dtype.bytes())) {
    for (size_t k = 0; k < values.size(); ++k) {
      const interpreter::Cell cell = dtype.is_float() ? interpreter::Cell{.d = values[k]}
                                                      : interpreter::Cell{.i = static_cast<std::int64_t>(values[k])};
      interpreter::store_element(dtype, bytes.data() + std::int64_t(k) * dtype.bytes(), cell);
    }
  }
  Data(DType dtype, size_t count) : Data(dtype, std::vector<double>(count, 99)) {}

  std::vector<double> values() const {
    std::vector<double> result;
    for (size_t k = 0; k < bytes.size(); k += size_t(dtype.bytes())) {
      const interpreter::Cell cell = interpreter::load_element(dtype, bytes.data() + k);
      result.push_back(dtype.is_float() ? cell.d : static_cast<double>(cell.i));
    }
    return result;
  }
  HostBuffer host() { return {bytes.data(), bytes.data(), bytes.data() + bytes.size()}; }
};

inline std::int32_t run(const Func& func, std::vector<Data*> data, std::vector<std::int64_t> scalars = {},
                        const InterpreterOptions& options = {}, std::string* message = nullptr,
                        std::int64_t* index = nullptr) {
  std::vector<HostBuffer> hosts;
  for (Data* d : data) hosts.push_back(d->host());
  return interpret(func, hosts, scalars, options, message, index);
}

/// The message of the Trap that `f` ends in; a failure when there is none.
template <class F>
std::string trap_of(F f) {
  try {
    f();
  } catch (const Trap& trap) {
    return trap.message();
  }
  ADD_FAILURE() << "no trap";
  return {};
}

inline Buffer array(std::string name, DType dtype, std::vector<std::int64_t> shape, std::string space = space::global) {
  std::vector<Expr> extents;
  for (const std::int64_t extent : shape) extents.push_back(index(extent));
  return BufferNode::make(std::move(name), dtype, std::move(extents), std::move(space));
}

inline Stmt for_loop(const VarRef& variable, std::int64_t extent, Stmt body, ForKind kind = ForKind::serial) {
  return For::make(variable, index(0), index(extent), kind, std::move(body));
}

}  // namespace lathe::testing
