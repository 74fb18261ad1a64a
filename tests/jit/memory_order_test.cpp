#include "jit/memory_order.h"

#include <gtest/gtest.h>

#include <functional>
#include <numeric>

#include "ir/analysis/verify.h"
#include "ir/text/print.h"
#include "jit/cache/epoch.h"
#include "jit/function.h"
#include "jit/trace/ops/arithmetic.h"
#include "jit/trace/ops/joining.h"
#include "jit/trace/ops/linear_algebra.h"
#include "jit/trace/ops/normalization.h"
#include "jit/trace/ops/reduction.h"
#include "jit/trace/ops/scan.h"

namespace lathe {
namespace {

/// Six by eight floats, counted along memory, whose columns are contiguous.
struct Transposed {
  std::vector<float> data = std::vector<float>(48);
  std::vector<std::int64_t> shape{6, 8}, strides{1, 6}, rows{8, 1};
  Transposed() { std::iota(data.begin(), data.end(), 0.0f); }
  TensorView view() { return {data.data(), f32, 2, shape.data(), strides.data()}; }
  TensorView row_major() { return {data.data(), f32, 2, shape.data(), rows.data()}; }
};

TEST(MemoryOrder, ResultsThatTheFunctionLaysOutLieAsTheirArguments) {
  const EpochGuard guard;
  const Function f = jit([](Tensor x) { return x + literal(f32, 1.0); });
  Transposed x, out;
  const TensorView in = x.view(), compact = out.row_major();
  const Specialization& chosen = f.specialize({}, {&in, 1});
  EXPECT_EQ(chosen.outputs[0].strides, x.strides);
  const Specialization& given = f.specialize({&compact, 1}, {&in, 1});
  EXPECT_NE(&given, &chosen) << "a compact output is another layout than the one chosen";
  EXPECT_TRUE(given.outputs[0].strides.empty());
  f(compact, {in});
  for (int i = 0; i < 6; ++i) {
    for (int j = 0; j < 8; ++j) EXPECT_EQ(out.data[i * 8 + j], x.data[i + 6 * j] + 1);
  }
  f(out.view(), {in});
  for (size_t i = 0; i < out.data.size(); ++i) EXPECT_EQ(out.data[i], x.data[i] + 1);
}

TEST(MemoryOrder, ProgramsSeeRowMajorArrays) {
  const Function f = jit([](Tensor x) { return ops::softmax(x, -1); });
  Transposed x;
  const TensorView in = x.view();
  const Func traced = f.trace({}, {&in, 1});
  EXPECT_TRUE(verify(traced).empty()) << print(traced);
  const std::string text = print(traced);
  EXPECT_EQ(text.find("strides"), std::string::npos) << text;
  EXPECT_NE(text.find("x0: f32[8, 6], out: f32[8, 6]"), std::string::npos) << text;
  EXPECT_NE(text.find("alloc softmax_exp: f32[8, 6]"), std::string::npos) << "what lies between, too\n" << text;
  EXPECT_LT(text.find("for i1 in [0, 8)"), text.find("for i0_1 in [0, 6)")) << "loops follow what they write\n" << text;
}

TEST(MemoryOrder, WhatIsComputedOfSumsLiesAsWhatTheyFold) {
  const Function f = jit([](Tensor x) { return x - ops::mean(x, std::vector<std::int64_t>{1}, true); });
  std::vector<float> data(6 * 7 * 8);
  const std::vector<std::int64_t> shape{6, 7, 8}, strides{1, 6, 42};
  const TensorView in{data.data(), f32, 3, shape.data(), strides.data()};
  const Func traced = f.trace({}, {&in, 1});
  EXPECT_TRUE(verify(traced).empty()) << print(traced);
  const std::string text = print(traced);
  EXPECT_NE(text.find("alloc mean: f32[1, 8, 6]"), std::string::npos) << text;
  EXPECT_NE(text.find("out: f32[8, 7, 6]"), std::string::npos) << text;
}

TEST(MemoryOrder, FoldsWriteInTheOrderOfWhatTheyReadAndAreCopied) {
  const std::vector<std::pair<std::function<Tensor(Tensor)>, std::string>> folds{
      {[](Tensor x) { return ops::sum(x, std::vector<std::int64_t>{1}); }, "alloc out_in_order: f32[8, 6]"},
      {[](Tensor x) { return ops::argmax(x, 1); }, "alloc out_in_order: i64[8, 6]"}};
  std::vector<float> data(6 * 7 * 8);
  const std::vector<std::int64_t> shape{6, 7, 8}, strides{1, 6, 42}, rows{56, 8, 1};
  for (const auto& [fold, temporary] : folds) {
    const Function f = jit(fold);
    const TensorView in{data.data(), f32, 3, shape.data(), strides.data()},
        compact{data.data(), f32, 3, shape.data(), rows.data()};
    const Func traced = f.trace({}, {&in, 1});
    EXPECT_TRUE(verify(traced).empty()) << print(traced);
    EXPECT_NE(print(traced).find(temporary), std::string::npos) << print(traced);
    EXPECT_EQ(print(f.trace({}, {&compact, 1})).find("in_order"), std::string::npos) << "nothing lies across";
  }
}

TEST(MemoryOrder, RollsAlongNeighboursAreTwoPieces) {
  const Function f = jit([](Tensor x) { return ops::roll(x, {1}, std::vector<std::int64_t>{0}); });
  Transposed x;
  const TensorView in = x.view();
  const Func traced = f.trace({}, {&in, 1});
  EXPECT_TRUE(verify(traced).empty()) << print(traced);
  EXPECT_EQ(print(traced).find('%'), std::string::npos) << print(traced);
}

TEST(MemoryOrder, ScansAcrossAreTurnedAroundBehindThem) {
  std::vector<float> data(20 * 30);
  const std::vector<std::int64_t> shape{20, 30}, strides{1, 20};
  const TensorView in{data.data(), f32, 2, shape.data(), strides.data()};
  const auto traced = [&](std::int64_t axis) {
    const Function f = jit([axis](Tensor x) { return ops::cumulative_sum(x, axis); });
    return print(f.trace({}, {&in, 1}));
  };
  EXPECT_NE(traced(1).find("alloc out_in_order: f32[30, 20]"), std::string::npos) << traced(1);
  EXPECT_EQ(traced(0).find("in_order"), std::string::npos) << "vectors lie across where results do";
}

TEST(MemoryOrder, WhatIsRoundedToAGivenOutputLiesAsThat) {
  const Function f = jit([](Tensor x) { return ops::astype(ops::matmul(x, x), f64) * 2; });
  std::vector<double> data(36);
  std::vector<float> elements(36);
  const std::vector<std::int64_t> shape{6, 6}, columns{1, 6}, rows{6, 1};
  for (const auto& in_order : {rows, columns}) {
    const TensorView in{elements.data(), f32, 2, shape.data(), in_order.data()};
    for (const auto& out_order : {rows, columns}) {
      const TensorView out{data.data(), f64, 2, shape.data(), out_order.data()};
      const std::string text = print(f.trace({&out, 1}, {&in, 1}));
      EXPECT_EQ(text.find("writes matmul[vi1, vi0]") != std::string::npos, out_order == columns) << text;
    }
  }
}

}  // namespace
}  // namespace lathe
