#include <cmath>
#include <limits>

#include "tests/jit/trace/harness.h"

namespace lathe::test {
namespace {

using Values = std::vector<double>;
using Extents = std::vector<std::int64_t>;

constexpr double inf = std::numeric_limits<double>::infinity();
const double nan = std::numeric_limits<double>::quiet_NaN();
const Array x23 = iota(f32, {2, 3});

Values on(const Array& x, const std::function<Tensor(const Tensor&)>& f) {
  return values(run({x}, [&](auto& v) { return f(v[0]); }));
}

void expect_near(const Values& actual, const Values& expected, double tolerance) {
  ASSERT_EQ(actual.size(), expected.size());
  for (size_t k = 0; k < actual.size(); ++k) {
    if (std::isnan(expected[k])) {
      EXPECT_TRUE(std::isnan(actual[k])) << k << ": " << actual[k];
    } else if (std::isinf(expected[k])) {
      EXPECT_EQ(actual[k], expected[k]) << k;
    } else {
      EXPECT_NEAR(actual[k], expected[k], tolerance) << k;
    }
  }
}

TEST(Reduction, FoldsAnyAxesAndKeepsThemAsOnes) {
  const Array x = iota(f64, {2, 3, 4});
  EXPECT_EQ(on(x, [](auto& v) { return ops::sum(v); }), (Values{276}));
  EXPECT_EQ(on(x, [](auto& v) { return ops::sum(v, {{0, 2}}); }), (Values{60, 92, 124}));
  EXPECT_EQ(on(x, [](auto& v) { return ops::sum(v, {{-2}}); }), (Values{12, 15, 18, 21, 48, 51, 54, 57}));
  EXPECT_EQ(run({x}, [](auto& v) { return ops::sum(v[0], {{0, 2}}, true); }).shape, (Extents{1, 3, 1}));
  EXPECT_EQ(run({x}, [](auto& v) { return ops::sum(v[0], std::nullopt, true); }).shape, (Extents{1, 1, 1}));
  EXPECT_EQ(on(x, [](auto& v) { return ops::sum(v, std::vector<std::int64_t>{}); }), values(x));
  EXPECT_EQ(on(array(f32, {}, {3}), [](auto& v) { return ops::sum(v); }), (Values{3}));
}

TEST(Reduction, SmallIntegersSumInSixtyFourBits) {
  const Array sum = run({array(i8, {3}, {127, 127, 127})}, [](auto& x) { return ops::sum(x[0]); });
  EXPECT_EQ(sum.dtype, i64);
  EXPECT_EQ(values(sum), (Values{381}));
  const Array product = run({array(u8, {3}, {255, 255, 255})}, [](auto& x) { return ops::prod(x[0]); });
  EXPECT_EQ(product.dtype, u64);
  EXPECT_EQ(values(product), (Values{16581375}));
  EXPECT_EQ(run({array(i8, {1}, {1})}, [](auto& x) { return ops::sum(x[0], std::nullopt, false, f64); }).dtype, f64);
}

TEST(Reduction, HalfPrecisionAccumulatesInSingle) {
  // One f16 step at 2048 is 2: adding ones in f16 would stay there.
  const Array sum = run({array(f16, {100}, Values(100, 1)), array(f16, {1}, {2048})},
                        [](auto& x) { return ops::sum(ops::concat({x[1], x[0]})); });
  EXPECT_EQ(sum.dtype, f16);
  EXPECT_EQ(values(sum), (Values{2148}));
}

TEST(Reduction, OverNothingGivesTheIdentity) {
  const Array none = empty(f32, {2, 0});
  EXPECT_EQ(on(none, [](auto& v) { return ops::sum(v, {{1}}); }), (Values{0, 0}));
  EXPECT_EQ(on(none, [](auto& v) { return ops::prod(v, {{1}}); }), (Values{1, 1}));
  EXPECT_EQ(on(none, [](auto& v) { return ops::all(v, {{1}}); }), (Values{1, 1}));
  EXPECT_EQ(on(none, [](auto& v) { return ops::any(v, {{1}}); }), (Values{0, 0}));
  expect_near(on(none, [](auto& v) { return ops::mean(v, {{1}}); }), {nan, nan}, 0);
  EXPECT_EQ(on(none, [](auto& v) { return ops::max(v, {{0}}); }), (Values{}));
  EXPECT_EQ(error_of([] { ops::max(input("x", f32, ops::make_shape({2, 0})), {{1}}); }),
            "max: has no value over no elements: given f32[2, 0]");
  EXPECT_EQ(error_of([] { ops::argmin(input("x", f32, ops::make_shape({0}))); }),
            "argmin: has no value over no elements: given f32[0]");
}

TEST(Reduction, MeanVarianceDeviation) {
  EXPECT_EQ(on(x23, [](auto& v) { return ops::mean(v, {{0}}); }), (Values{1.5, 2.5, 3.5}));
  expect_near(on(x23, [](auto& v) { return ops::var(v); }), {35.0 / 12}, 1e-6);
  expect_near(on(x23, [](auto& v) { return ops::var(v, {{1}}, 1); }), {1, 1}, 1e-6);
  expect_near(on(x23, [](auto& v) { return ops::std(v, {{1}}, 0, true); }), {std::sqrt(2.0 / 3), std::sqrt(2.0 / 3)},
              1e-6);
  // Two passes: a large mean does not swallow the deviations.
  expect_near(on(array(f32, {4}, {1e6, 1e6 + 1, 1e6 + 2, 1e6 + 3}), [](auto& v) { return ops::var(v); }), {1.25}, 1e-6);
  expect_near(on(array(f32, {1}, {3}), [](auto& v) { return ops::var(v, std::nullopt, 1); }), {nan}, 0);
}

TEST(Reduction, ExtremesPropagateNaN) {
  const Array x = array(f32, {3, 3}, {1, 5, 2, nan, -inf, 4, -inf, -inf, -inf});
  expect_near(on(x, [](auto& v) { return ops::max(v, {{1}}); }), {5, nan, -inf}, 0);
  expect_near(on(x, [](auto& v) { return ops::min(v, {{1}}); }), {1, nan, -inf}, 0);
  EXPECT_EQ(run({array(u8, {2}, {3, 250})}, [](auto& v) { return ops::max(v[0]); }).dtype, u8);
}

TEST(Reduction, ArgExtremesTakeTheFirstOfTiesAndTheFirstNaN) {
  const Array x = array(f32, {4, 4}, {1, 7, 7, 0, 3, nan, 9, nan, -inf, -inf, -inf, -inf, inf, 0, inf, 0});
  EXPECT_EQ(on(x, [](auto& v) { return ops::argmax(v, 1); }), (Values{1, 1, 0, 0}));
  EXPECT_EQ(on(x, [](auto& v) { return ops::argmin(v, 1); }), (Values{3, 1, 0, 1}));
  EXPECT_EQ(on(x, [](auto& v) { return ops::argmax(v); }), (Values{5}));
  EXPECT_EQ(run({x}, [](auto& v) { return ops::argmax(v[0], std::nullopt, true); }).shape, (Extents{1, 1}));
  EXPECT_EQ(run({x}, [](auto& v) { return ops::argmax(v[0], 0, true); }).shape, (Extents{1, 4}));
  const Array integers = array(i8, {3}, {-128, -128, -128});
  EXPECT_EQ(on(integers, [](auto& v) { return ops::argmax(v); }), (Values{0}));
  EXPECT_EQ(run({integers}, [](auto& v) { return ops::argmax(v[0]); }).dtype, i64);
}

TEST(Reduction, AnyAndAllTakeEveryType) {
  for (DType dtype : all_dtypes) {
    const Array x = array(dtype, {2, 2}, {1, 0, 1, 1});
    EXPECT_EQ(on(x, [](auto& v) { return ops::all(v, {{1}}); }), (Values{0, 1})) << to_string(dtype);
    EXPECT_EQ(on(x, [](auto& v) { return ops::any(v, {{1}}); }), (Values{1, 1})) << to_string(dtype);
  }
  EXPECT_EQ(on(array(f32, {1}, {nan}), [](auto& v) { return ops::any(v); }), (Values{1}));
}

TEST(Normalization, SoftmaxAndItsLogarithm) {
  const Array x = array(f64, {3, 3}, {0, 0, 0, 1000, 1000, -inf, -inf, -inf, -inf});
  expect_near(on(x, [](auto& v) { return ops::softmax(v); }), {1 / 3., 1 / 3., 1 / 3., 0.5, 0.5, 0, nan, nan, nan},
              1e-15);
  const double third = -std::log(3.0), half = -std::log(2.0);
  expect_near(on(x, [](auto& v) { return ops::log_softmax(v); }),
              {third, third, third, half, half, -inf, nan, nan, nan}, 1e-12);
  expect_near(on(array(f32, {2, 2}, {0, 1, 0, 1}), [](auto& v) { return ops::softmax(v, 0); }), Values(4, 0.5), 1e-7);
  EXPECT_EQ(run({array(bf16, {2}, {0, 0})}, [](auto& v) { return ops::softmax(v[0]); }).dtype, bf16);
}

TEST(Normalization, LogsumexpIsSafeAtInfinities) {
  const Array x = array(f64, {4, 2}, {1000, 1000, -inf, -inf, inf, 0, nan, 0});
  expect_near(on(x, [](auto& v) { return ops::logsumexp(v, {{1}}); }), {1000 + std::log(2.0), -inf, inf, nan}, 1e-12);
}

TEST(Normalization, LayerNormAndRmsNorm) {
  const Array x = array(f64, {2, 3}, {1, 2, 3, 10, 10, 10}), weight = array(f64, {3}, {1, 2, 3}),
              bias = array(f64, {3}, {0, 1, 0});
  const double s = 1 / std::sqrt(2.0 / 3 + 1e-5);
  expect_near(values(run({x, weight, bias}, [](auto& v) { return ops::layer_norm(v[0], v[1], v[2]); })),
              {-s, 1, 3 * s, 0, 1, 0}, 1e-12);
  const double r = 1 / std::sqrt(14.0 / 3 + 1e-6), q = 10 / std::sqrt(100 + 1e-6);
  expect_near(values(run({x, weight}, [](auto& v) { return ops::rms_norm(v[0], v[1]); })),
              {r, 4 * r, 9 * r, q, 2 * q, 3 * q}, 1e-12);
  expect_near(
      values(run({x}, [](auto& v) { return ops::layer_norm(v[0], std::nullopt, std::nullopt, {0, 1}, 0.0); })),
      [] {
        double mean = 6, square = (25 + 16 + 9 + 48) / 6.0;
        Values expected;
        for (double v : {1, 2, 3, 10, 10, 10}) expected.push_back((v - mean) / std::sqrt(square));
        return expected;
      }(),
      1e-12);
}

}  // namespace
}  // namespace lathe::test
