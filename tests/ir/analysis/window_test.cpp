#include "ir/analysis/window.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>

#include "evaluate.h"
#include "ir/analysis/fold.h"

namespace lathe {
namespace {

using testing::Evaluator;
using testing::Point;

TEST(Window, FollowsQuotientsAndBounds) {
  const VarRef v = Var::make("v"), w = Var::make("w");
  EXPECT_EQ(greatest_gain(v * 2 + w, v, 15), 30);
  EXPECT_EQ(greatest_gain(floor_div(v * 100 + 116, 133), v, 15), 12);
  EXPECT_EQ(greatest_gain(min(floor_div(v, 7) + 1, index(99)), v, 15), 3);
  EXPECT_EQ(greatest_gain(max(v * 3 - w, w), v, 15), 45);
  EXPECT_EQ(greatest_gain(w * 5, v, 15), 0);
}

TEST(Window, KnowsNothingOfWhatMayFall) {
  const VarRef v = Var::make("v"), w = Var::make("w");
  for (const Expr& e : {w - v, v * -1, floor_mod(v, 5), v * w, floor_div(v, w), floor_div(v, -3), v * v})
    EXPECT_EQ(greatest_gain(e, v, 15), std::nullopt);
}

Expr resized(const Expr& place, double scale) {
  const Expr position =
      (cast(f32.with_lanes(place->dtype.lanes), place) + widen(constant(f32, 0.5), place->dtype.lanes)) *
          widen(constant(f32, scale), place->dtype.lanes) -
      widen(constant(f32, 0.5), place->dtype.lanes);
  return cast(i64.with_lanes(place->dtype.lanes),
              unary(UnaryOp::floor, max(position, widen(constant(f32, 0.0), place->dtype.lanes))));
}

TEST(Window, FollowsFloatsThatAreRoundedToPlaces) {
  const VarRef v = Var::make("v");
  Bounds bounds;
  bounds.bind(v, Interval::between(0, 1000));
  EXPECT_EQ(greatest_gain(resized(v, 0.5), v, 15, bounds), 8);
  EXPECT_EQ(greatest_gain(resized(v, 100.0 / 133), v, 15, bounds), 12);
  EXPECT_EQ(greatest_gain(min(resized(v, 0.5) + 1, index(99)), v, 15, bounds), 8);
  EXPECT_EQ(greatest_gain(resized(v, 0.5), v, 15), std::nullopt);  // of any size
  EXPECT_EQ(greatest_gain(resized(v, -0.5), v, 15, bounds), std::nullopt);
  EXPECT_EQ(greatest_gain(resized(Ramp::make(v, index(1), 16), 0.5), bounds), 8);
}

TEST(Window, NoStepOfARoundedFloatGainsMore) {
  std::mt19937 random(11);
  const VarRef v = Var::make("v");
  constexpr int most = 4000;
  Bounds bounds;
  bounds.bind(v, Interval::between(0, most));
  for (int round = 0; round < 200; ++round) {
    const double scale = std::ldexp(static_cast<double>(random() % 4096 + 1), -static_cast<int>(random() % 14));
    const auto gain = greatest_gain(resized(v, scale), v, 15, bounds);
    if (scale * most > 0x1p31) continue;
    ASSERT_TRUE(gain);
    const auto at = [&](int place) {
      const float position = (static_cast<float>(place) + 0.5F) * static_cast<float>(scale) - 0.5F;
      return static_cast<std::int64_t>(std::floor(std::max(position, 0.0F)));
    };
    for (int place = 0; place + 15 <= most; ++place) {
      ASSERT_LE(at(place), at(place + 1));
      ASSERT_LE(at(place + 15) - at(place), gain.value_or(-1)) << scale << " at " << place;
    }
  }
}

TEST(Window, TheGainOfAVectorIsFromItsFirstLane) {
  const Expr ramp = Ramp::make(Var::make("v"), index(3), 16), four = Broadcast::make(index(4), 16);
  EXPECT_EQ(greatest_gain(floor_div(ramp, four)), 12);
  EXPECT_EQ(greatest_gain(ramp + four), 45);
  EXPECT_EQ(greatest_gain(Ramp::make(index(0), index(-1), 16)), std::nullopt);
  EXPECT_FALSE(first_lane(Load::make(BufferNode::make("b", i64, {index(64)}), {ramp})));
}

/// An index that never falls as v grows, built at random.
Expr rising(const VarRef& v, std::mt19937& random, int depth) {
  const auto number = [&](int most) { return std::int64_t{static_cast<int>(random() % static_cast<unsigned>(most))}; };
  if (depth == 0) return random() % 2 == 0 ? Expr(v) : index(number(40) - 20);
  const Expr a = rising(v, random, depth - 1);
  switch (random() % 5) {
    case 0:
      return a + rising(v, random, depth - 1);
    case 1:
      return Binary::make(BinaryOp::mul, a, index(number(6)));
    case 2:
      return Binary::make(BinaryOp::floor_div, a, index(number(9) + 1));
    case 3:
      return Binary::make(BinaryOp::min, a, rising(v, random, depth - 1));
    default:
      return Binary::make(BinaryOp::max, a, index(number(40) - 20));
  }
}

TEST(Window, NoStepGainsMoreAndNoneFalls) {
  std::mt19937 random(7);
  const VarRef v = Var::make("v");
  for (int round = 0; round < 3000; ++round) {
    const Expr e = rising(v, random, 4);
    const auto gain = greatest_gain(e, v, 15);
    ASSERT_TRUE(gain);
    for (const std::int64_t start : {-37, -1, 0, 5, 100}) {
      std::int64_t before = Evaluator(Point({{v.get(), start}})).at(e);
      const std::int64_t first = before;
      for (std::int64_t step = 1; step <= 15; ++step) {
        const std::int64_t now = Evaluator(Point({{v.get(), start + step}})).at(e);
        ASSERT_GE(now, before);
        ASSERT_LE(now - first, gain.value_or(-1));
        before = now;
      }
    }
  }
}

}  // namespace
}  // namespace lathe
