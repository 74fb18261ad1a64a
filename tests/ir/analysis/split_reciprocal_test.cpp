#include "ir/analysis/split_reciprocal.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>

namespace lathe {
namespace {

template <class Float>
Float divided(Float x, const SplitReciprocal& by) {
  return std::fma(x, static_cast<Float>(by.high), x * static_cast<Float>(by.low));
}

/// Is every quotient of the numbers from 1 to 2 rounded correctly?
bool divides_every_float(float divisor, const SplitReciprocal& by) {
  for (float x = 1; x < 2; x = std::nextafter(x, 2.0f)) {
    if (divided(x, by) != x / divisor) return false;
  }
  return true;
}

/// The two parts, whether or not they are given.
SplitReciprocal parts(float divisor) {
  float high = static_cast<float>(1 / static_cast<double>(divisor));
  if (std::fabs(static_cast<double>(high) * divisor) > 1) high = std::nextafter(high, 0.0f);
  return {high, static_cast<float>(std::fma(-static_cast<double>(high), divisor, 1.0) / divisor)};
}

TEST(SplitReciprocal, IsGivenWhereItDividesEveryFloat) {
  std::mt19937 random(7);
  std::uniform_real_distribution<float> uniform(1, 2);
  int given = 0;
  for (int i = 0; i < 30; ++i) {
    const float divisor = uniform(random);
    const auto by = split_reciprocal(divisor, 24);
    EXPECT_EQ(by.has_value(), divides_every_float(divisor, parts(divisor))) << divisor;
    given += by.has_value();
  }
  EXPECT_GT(given, 20);
  EXPECT_LT(given, 30);
}

TEST(SplitReciprocal, OfShortConstantsAndOfBothSigns) {
  for (const double divisor : {3.0, 5.0, 6.0, 7.0, 9.0, 10.0, 12.0, 255.0, 1000.0, 65535.0, -3.0, -0.75, 1.5}) {
    const auto by = split_reciprocal(divisor, 24);
    ASSERT_TRUE(by.has_value()) << divisor;
    EXPECT_TRUE(divides_every_float(static_cast<float>(divisor), *by)) << divisor;
    EXPECT_TRUE(split_reciprocal(divisor, 53).has_value()) << divisor;
  }
}

TEST(SplitReciprocal, DividesDoublesNearTheMiddleBetweenTwo) {
  std::mt19937_64 random(11);
  std::uniform_real_distribution<double> uniform(1, 2);
  int given = 0;
  for (int i = 0; i < 200; ++i) {
    const double divisor = i % 2 == 0 ? uniform(random) : std::round(1000 * uniform(random)) / 100;
    const auto by = split_reciprocal(divisor, 53);
    if (!by) continue;
    ++given;
    for (int k = 0; k < 2000; ++k) {
      // A quotient next to the middle between two numbers, and another.
      const double middle = uniform(random), near = middle * divisor + 0.5 * (std::nextafter(middle, 2.0) - middle);
      for (const double x : {near, std::ldexp(uniform(random), k % 600 - 300), -uniform(random)})
        ASSERT_EQ(divided(x, *by), x / divisor) << x << " / " << divisor;
    }
  }
  EXPECT_GT(given, 100);
}

TEST(SplitReciprocal, KeepsZerosInfinitiesAndNan) {
  constexpr double infinity = std::numeric_limits<double>::infinity();
  for (const double divisor : {3.0, -3.0}) {
    const auto by = split_reciprocal(divisor, 53);
    ASSERT_TRUE(by.has_value());
    EXPECT_EQ(divided(infinity, *by), infinity / divisor);
    EXPECT_EQ(divided(-infinity, *by), -infinity / divisor);
    EXPECT_EQ(std::signbit(divided(0.0, *by)), std::signbit(0.0 / divisor));
    EXPECT_EQ(std::signbit(divided(-0.0, *by)), std::signbit(-0.0 / divisor));
    EXPECT_TRUE(std::isnan(divided(std::nan(""), *by)));
    EXPECT_EQ(divided(std::numeric_limits<double>::max(), *by), std::numeric_limits<double>::max() / divisor);
  }
}

TEST(SplitReciprocal, NotOfPowersOfTwoNorFarFromOne) {
  for (const double divisor :
       {1.0, 2.0, 0.25, 0.0, 3e300, 3e-300, std::numeric_limits<double>::infinity(), std::nan("")})
    EXPECT_FALSE(split_reciprocal(divisor, 53).has_value()) << divisor;
  EXPECT_FALSE(split_reciprocal(3e12, 24).has_value());
}

}  // namespace
}  // namespace lathe
