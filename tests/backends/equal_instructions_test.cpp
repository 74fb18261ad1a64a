#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include "tests/backends/harness.h"

namespace lathe::testing {
namespace {

/// The greater of two vectors, and the places where they came from, under one condition written twice.
Func greater(const std::string& condition) {
  return parse_func(R"(
func greater(x: f32[8], y: f32[8], out: f32[8], place: i32[8]) stage end {
  let l: f32x8 = x[ramp(0, 1, 8)]
  let r: f32x8 = y[ramp(0, 1, 8)]
  let unused: f32x8 = l / r
  out[ramp(0, 1, 8)] = select()" +
                    condition +
                    R"(, r, l)
  place[ramp(0, 1, 8)] = select()" +
                    condition + R"(, 1i32x8, 2i32x8)
}
)");
}

std::vector<Bytes> arguments() {
  std::vector<float> left = floats(8), right = floats(8);
  left[1] = right[2] = left[3] = right[3] = std::numeric_limits<float>::quiet_NaN();
  std::reverse(right.begin(), right.end());
  left[5] = right[5];
  return {bytes_of(left), bytes_of(right), bytes_of(floats(8)), bytes_of(std::vector<std::int32_t>(8))};
}

TEST(EqualInstructions, AreEmittedOnce) {
  const Func func = greater("!(r <= l) && !is_nan(l) || l == r && r < l");
  const std::string text = llvm_ir_text(func, host_device("native"));
  EXPECT_EQ(count(text, " fcmp oeq "), 1u) << text;
  EXPECT_EQ(count(text, " fcmp olt "), 1u) << text;
  EXPECT_EQ(count(text, " or "), 1u) << text;
  EXPECT_EQ(count(text, " and "), 2u) << text;
  expect_same(func, arguments());
}

TEST(EqualInstructions, NegateAComparisonByItsOpposite) {
  const Func func = greater("!(r <= l)");
  const std::string text = llvm_ir_text(func, host_device("native"));
  EXPECT_EQ(count(text, " xor "), 0u) << text;
  EXPECT_EQ(count(text, " fcmp ugt "), 1u) << text;
  expect_same(func, arguments());
}

TEST(EqualInstructions, MakeFloatsOfConditionsWithoutIntegers) {
  const Func func = parse_func(R"(
func count(x: f32[8], y: f32[8], out: f32[8], half: bf16[8]) stage end {
  out[ramp(0, 1, 8)] = cast<f32>(x[ramp(0, 1, 8)] < y[ramp(0, 1, 8)])
  half[ramp(0, 1, 8)] = cast<bf16>(y[ramp(0, 1, 8)] < x[ramp(0, 1, 8)])
}
)");
  const std::string text = llvm_ir_text(func, host_device("native"));
  EXPECT_EQ(count(text, "uitofp"), 0u) << text;
  EXPECT_EQ(count(text, " add "), 0u) << "1 needs no rounding to bf16\n" << text;
  std::vector<Bytes> given = arguments();
  given[3] = bytes_of(std::vector<std::uint16_t>(8));
  expect_same(func, given);
}

/// Lanes of x where `condition` holds, read under `mask`, and `otherwise` elsewhere.
Func chosen(const std::string& condition, const std::string& mask, const std::string& otherwise) {
  return parse_func("func chosen(x: f32[8], n: i64, out: f32[8]) stage end { out[ramp(0, 1, 8)] = select(" + condition +
                    ", x[ramp(0, 1, 8) if " + mask + "], " + otherwise + ") }");
}

TEST(EqualInstructions, LeaveOutSelectsOfWhatAMaskHasLeftZero) {
  const std::string some = "ramp(0, 1, 8) < broadcast(n, 8)", fewer = "ramp(1, 1, 8) < broadcast(n, 8)";
  const auto selects = [&](const Func& func) {
    for (const std::int64_t n : {0, 3, 8}) expect_same(func, {bytes_of(floats(8)), bytes_of(floats(8))}, {n});
    return count(llvm_ir_text(func, host_device("native")), " select ");
  };
  EXPECT_EQ(selects(chosen(some, some, "0.0f32x8")), 0u);
  EXPECT_EQ(selects(chosen(some, some, "-0.0f32x8")), 1u) << "a zero of another sign";
  EXPECT_EQ(selects(chosen(some, some, "1.0f32x8")), 1u);
  EXPECT_EQ(selects(chosen(fewer, some, "0.0f32x8")), 1u) << "another mask";
}

TEST(EqualInstructions, AskTwoOperandsOfAMaximumAtOnceForNan) {
  const Device device = host_device("native");
  if (!device.has_feature("avx512dq") || !device.has_feature("avx512vl")) GTEST_SKIP() << "no vrangeps";
  const std::string five = assembly_text(parse_func(R"(
func greatest(x: f32[40], out: f32[8]) stage end {
  let a: f32x8 = max(x[ramp(0, 1, 8)], x[ramp(8, 1, 8)])
  let b: f32x8 = max(a, x[ramp(16, 1, 8)])
  let c: f32x8 = max(b, x[ramp(24, 1, 8)])
  out[ramp(0, 1, 8)] = max(c, x[ramp(32, 1, 8)])
}
)"),
                                         device);
  EXPECT_EQ(count(five, "\tvrangeps\t"), 4u) << five;
  EXPECT_EQ(count(five, "\tvcmpordps\t"), 3u) << five;
}

/// The greatest or least of so many vectors, one after the other.
Func extreme_of(const std::string& op, const std::string& dtype, int operands) {
  std::string text =
      "func extreme(x: " + dtype + "[" + std::to_string(8 * operands) + "], out: " + dtype + "[8]) stage end {\n";
  std::string found = "x[ramp(0, 1, 8)]";
  for (int k = 1; k < operands; ++k) {
    const std::string next = "v" + std::to_string(k);
    text += "  let " + next + ": " + dtype + "x8 = " + op + "(" + found + ", x[ramp(" + std::to_string(8 * k) +
            ", 1, 8)])\n";
    found = next;
  }
  return parse_func(text + "  out[ramp(0, 1, 8)] = " + found + "\n}\n");
}

/// In the lanes: numbers below zero, zeros of both signs, of one, a NaN in each place, infinities.
template <class T>
std::vector<T> rows_of_extremes(int operands, int nan_at) {
  const T nan = std::numeric_limits<T>::quiet_NaN(), infinite = std::numeric_limits<T>::infinity();
  std::vector<T> rows;
  for (int k = 0; k < operands; ++k) {
    const bool odd = k % 2 == 1;
    const T nan_here = k == nan_at ? nan : T(-1);
    rows.insert(rows.end(),
                {T(k - 9), odd ? T(0) : T(-0.0), T(-0.0), odd ? T(-0.0) : T(k - 5), nan_here,
                 k == nan_at ? -infinite : T(k), k == nan_at ? infinite : T(0), k == nan_at ? nan : infinite});
  }
  return rows;
}

template <class T>
void expect_extremes(const std::string& dtype) {
  for (const std::string op : {"max", "min"}) {
    for (const int operands : {2, 3, 4, 5, 9}) {
      const Func func = extreme_of(op, dtype, operands);
      for (int nan_at = 0; nan_at < operands; ++nan_at) {
        const std::vector<Bytes> buffers{bytes_of(rows_of_extremes<T>(operands, nan_at)), bytes_of(std::vector<T>(8))};
        const Bytes expected = run_interpreted(func, buffers).buffers[1];
        for (const auto& [name, device] : devices()) {
          const Bytes actual = run_compiled(func, device, buffers).buffers[1];
          for (int lane = 0; lane < 8; ++lane) {
            T mine, right;
            std::memcpy(&mine, actual.data() + lane * sizeof(T), sizeof(T));
            std::memcpy(&right, expected.data() + lane * sizeof(T), sizeof(T));
            EXPECT_EQ(std::isnan(mine), std::isnan(right))
                << op << " of " << operands << " on " << name << ", lane " << lane;
            if (std::isnan(right)) continue;
            EXPECT_EQ(mine, right) << op << " of " << operands << " on " << name << ", lane " << lane;
            EXPECT_EQ(std::signbit(mine), std::signbit(right))
                << op << " of " << operands << " on " << name << ", lane " << lane;
          }
        }
      }
    }
  }
}

TEST(EqualInstructions, KeepNanAndSignsOfZerosInExtremesOfSeveral) {
  expect_extremes<float>("f32");
  expect_extremes<double>("f64");
}

TEST(EqualInstructions, TakeThreeForEachOperandOfAMaximumWithoutRanges) {
  const Device device = host_device("avx2");
  if (!device.has_feature("avx2")) GTEST_SKIP() << "no AVX2";
  const std::string nine = assembly_text(extreme_of("max", "f32", 9), device);
  EXPECT_EQ(count(nine, "\tvmaxps\t"), 8u) << nine;
  EXPECT_EQ(count(nine, "\tvcmpunordps\t"), 5u) << nine;
}

TEST(EqualInstructions, LeaveOutAValueThatNothingUses) {
  EXPECT_EQ(count(llvm_ir_text(greater("l < r"), host_device("native")), " fdiv "), 0u);
}

}  // namespace
}  // namespace lathe::testing
