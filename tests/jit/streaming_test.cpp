#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>
#include <memory>

#include "jit/cache/epoch.h"
#include "jit/cache/kernel_cache.h"
#include "jit/compile.h"
#include "jit/function.h"
#include "jit/layout.h"
#include "jit/runtime/threads.h"
#include "jit/trace/ops/arithmetic.h"

namespace lathe {
namespace {

constexpr std::int64_t columns = 1024;

/// Rows of floats that begin `offset` bytes behind a cache line.
struct Rows {
  Rows(std::int64_t rows, int offset, float value)
      : memory(std::aligned_alloc(line_bytes, static_cast<size_t>(rows * columns * 4) + size_t{2} * line_bytes),
               &std::free),
        shape{rows, columns} {
    data = reinterpret_cast<float*>(static_cast<char*>(memory.get()) + offset);
    for (std::int64_t i = 0; i < size(); ++i) set(i, value);
  }
  std::int64_t size() const { return shape[0] * shape[1]; }
  void set(std::int64_t i, float value) { std::memcpy(reinterpret_cast<char*>(data) + 4 * i, &value, 4); }
  float at(std::int64_t i) const {
    float value;
    std::memcpy(&value, reinterpret_cast<const char*>(data) + 4 * i, 4);
    return value;
  }
  TensorView view() const { return {data, f32, 2, shape, nullptr}; }
  void expect_all(float value) const {
    for (std::int64_t i = 0; i < size(); ++i) ASSERT_EQ(at(i), value) << i;
  }

  std::unique_ptr<void, decltype(&std::free)> memory;
  float* data;
  std::int64_t shape[2];
};

Function increment(const std::string& name) {
  return jit([](Tensor x) { return x + literal(f32, 1.0); }, name);
}

std::int64_t compiles() {
  return KernelCache::instance().info().compiles;
}

/// Rows whose output is streamed; fewer than are worth a test's memory, or none where the last cache is a giant.
std::int64_t streamed_rows() {
  const std::int64_t least = least_streamed_bytes();
  return least > (std::int64_t{128} << 20) ? 0 : (least + columns * 4 - 1) / (columns * 4);
}

TEST(Streaming, SmallOutputsAreOneKernelWhereverTheyBegin) {
  const Function f = increment("small_anywhere");
  const Rows x(4, 0, 2);
  const std::int64_t before = compiles();
  for (const int offset : {0, 4, 16, 32}) {
    const Rows out(4, offset, 0);
    f(out.view(), {x.view()});
    out.expect_all(3);
  }
  EXPECT_EQ(compiles() - before, 1);
}

TEST(Streaming, LargeOutputsAreTwoAndBothAreRight) {
  const std::int64_t rows = streamed_rows();
  if (rows == 0) GTEST_SKIP() << "the last cache has " << least_streamed_bytes() << " bytes";
  const Function f = increment("large_anywhere");
  const Rows x(rows, 4, 2);
  const std::int64_t before = compiles();
  for (const int threads : {1, 2}) {
    set_thread_count(threads);
    for (const int offset : {0, 4, 16, 32, 0}) {
      const Rows out(rows, offset, 0);
      f(out.view(), {x.view()});
      out.expect_all(3);
    }
  }
  set_thread_count(0);
  EXPECT_EQ(compiles() - before, 2);
  const Rows odd(rows, 1, 0);
  f(odd.view(), {x.view()});
  odd.expect_all(3);
  EXPECT_EQ(compiles() - before, 3) << "nothing is known of its address";
}

TEST(Streaming, ALargeOutputInThePlaceOfItsInput) {
  const std::int64_t rows = streamed_rows();
  if (rows == 0) GTEST_SKIP() << "the last cache has " << least_streamed_bytes() << " bytes";
  const Function f = increment("large_in_place");
  for (const int offset : {0, 16}) {
    const Rows x(rows, offset, 2);
    f(x.view(), {x.view()});
    x.expect_all(3);
  }
}

TEST(Streaming, AnEntryMadeBeforeItsOutputsTakesOnesThatBeginElsewhere) {
  const std::int64_t rows = streamed_rows();
  if (rows == 0) GTEST_SKIP() << "the last cache has " << least_streamed_bytes() << " bytes";
  const Function f = increment("large_before");
  const Rows x(rows, 0, 2), out(rows, 16, 0);
  const TensorView in = x.view(), to = out.view();
  const EpochGuard guard;
  const Specialization& entry = f.specialize({}, {&in, 1});
  EXPECT_NE(entry.signature.to_string().find(" strides dense at a cache line\n"), std::string::npos);
  f.run(entry, {&to, 1}, {&in, 1});
  out.expect_all(3);
}

#if defined(__x86_64__)
TEST(Streaming, TheMachineStreamsWhatDoesNotFitItsLastCache) {
  const std::int64_t rows = streamed_rows();
  if (rows == 0) GTEST_SKIP() << "the last cache has " << least_streamed_bytes() << " bytes";
  const Function f = increment("large_text");
  const auto code = [&](std::int64_t count, int offset) {
    const Rows x(count, 0, 2), out(count, offset, 0);
    const TensorView in = x.view(), to = out.view();
    return stage_text(f.trace({&to, 1}, {&in, 1}), compile_device(), "asm");
  };
  EXPECT_NE(code(rows, 0).find("movntps"), std::string::npos);
  EXPECT_EQ(code(rows, 4).find("movnt"), std::string::npos);
  EXPECT_EQ(code(rows - 1, 0).find("movnt"), std::string::npos) << "it fits the cache";
}
#endif

}  // namespace
}  // namespace lathe
