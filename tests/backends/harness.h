#pragma once
#include <gtest/gtest.h>

#include <fmt/format.h>

#include <cstring>
#include <functional>
#include <string>
#include <vector>

#include "backends/cpu/cpu.h"
#include "backends/llvm/emit.h"
#include "ir/interpreter/interpreter.h"
#include "ir/text/parse.h"
#include "ir/text/print.h"
#include "jit/engine/engine.h"

namespace lathe::testing {

/// The devices that every emission test runs for: the host, and the host with features masked.
inline std::vector<std::pair<std::string, Device>> devices() {
  std::vector<std::pair<std::string, Device>> result = {{"native", host_device("native")},
                                                        {"baseline", host_device("baseline")}};
#if defined(__x86_64__)
  result.emplace_back("avx2", host_device("avx2"));
#endif
  return result;
}

/// How often `part` stands in `text`.
inline size_t count(const std::string& text, const std::string& part) {
  size_t found = 0;
  for (size_t at = 0; (at = text.find(part, at)) != std::string::npos; at += part.size()) ++found;
  return found;
}

/// One argument: raw bytes that both sides start from.
using Bytes = std::vector<std::byte>;

/// Multiples of 0.37 on both sides of 0, none of them 0.
inline std::vector<float> floats(int count) {
  std::vector<float> result(count);
  for (int i = 0; i < count; ++i) result[i] = 0.37f * static_cast<float>(i % 29) - 3.1f;
  return result;
}

template <class T>
Bytes bytes_of(const std::vector<T>& values) {
  Bytes bytes(values.size() * sizeof(T));
  if (!bytes.empty()) std::memcpy(bytes.data(), values.data(), bytes.size());
  return bytes;
}

template <class T>
std::vector<T> values_of(const Bytes& bytes) {
  std::vector<T> values(bytes.size() / sizeof(T));
  if (!bytes.empty()) std::memcpy(values.data(), bytes.data(), bytes.size());
  return values;
}

struct Outcome {
  std::int32_t status = 0;
  std::string message;
  std::int64_t index = 0;
  std::vector<Bytes> buffers;
};

/// A parallel_for that runs the pieces one after another, last piece first.
inline std::int32_t run_pieces(LatheContext*, std::int64_t n, std::int64_t grain, LatheParallelBody body,
                               void* closure) {
  for (std::int64_t end = n; end > 0; end -= grain) {
    const std::int32_t status =
        body(closure, std::max<std::int64_t>(0, end - grain), end, static_cast<std::int32_t>(end % 2));
    if (status != 0) return status;
  }
  return 0;
}

inline Outcome run_compiled(const Func& func, const Device& device, std::vector<Bytes> buffers,
                            std::vector<std::int64_t> scalars = {}, int threads = 1) {
  const ObjectCode object = compile_to_object(func, device);
  const auto kernel = Engine::instance().link(object);
  std::vector<void*> pointers;
  for (Bytes& bytes : buffers) pointers.push_back(bytes.data());
  std::vector<std::byte> shared(object.shared_bytes + 64), workers(2 * (object.worker_bytes + 64) + 64);
  auto aligned = [](std::vector<std::byte>& v) {
    return reinterpret_cast<void*>((reinterpret_cast<std::uintptr_t>(v.data()) + 63) / 64 * 64);
  };
  LatheContext context{};
  context.abi_version = LATHE_ABI_VERSION;
  context.thread_count = threads;
  context.parallel_for = run_pieces;
  context.shared_workspace = aligned(shared);
  context.worker_workspace = aligned(workers);
  context.worker_stride = (object.worker_bytes + 63) / 64 * 64;
  Outcome outcome;
  outcome.status = kernel->entry()(&context, pointers.data(), scalars.data());
  if (outcome.status != 0) outcome.message = context.error.message, outcome.index = context.error.index;
  outcome.buffers = std::move(buffers);
  return outcome;
}

inline Outcome run_interpreted(const Func& func, std::vector<Bytes> buffers,
                               const std::vector<std::int64_t>& scalars = {}) {
  std::vector<HostBuffer> host;
  for (Bytes& bytes : buffers) host.push_back({bytes.data(), bytes.data(), bytes.data() + bytes.size()});
  InterpreterOptions options;
  options.trap_uninitialized = false;
  Outcome outcome;
  outcome.status = interpret(func, host, scalars, options, &outcome.message, &outcome.index);
  outcome.buffers = std::move(buffers);
  return outcome;
}

/// Runs `func` compiled for each device and interpreted; every buffer must come out bit for bit the same.
inline void expect_same(const Func& func, const std::vector<Bytes>& buffers,
                        const std::vector<std::int64_t>& scalars = {}) {
  const Outcome expected = run_interpreted(func, buffers, scalars);
  for (auto& [name, device] : devices()) {
    for (int threads : {1, 2}) {
      const Outcome actual = run_compiled(func, device, buffers, scalars, threads);
      EXPECT_EQ(actual.status, expected.status) << name;
      EXPECT_EQ(actual.message, expected.message) << name;
      EXPECT_EQ(actual.index, expected.index) << name;
      if (expected.status != 0) continue;
      for (size_t i = 0; i < buffers.size(); ++i) {
        if (actual.buffers[i] == expected.buffers[i]) continue;
        size_t at = 0;
        while (actual.buffers[i][at] == expected.buffers[i][at]) ++at;
        ADD_FAILURE() << "buffer " << i << " differs from byte " << at << " on " << name << "\n" << print(func);
      }
    }
  }
}

inline Func parse_end(const std::string& text) {
  return parse_func(text);
}

}  // namespace lathe::testing
