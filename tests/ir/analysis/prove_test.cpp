#include <gtest/gtest.h>

#include "evaluate.h"
#include "ir/analysis/simplify.h"
#include "ir/text/print.h"

namespace lathe {
namespace {

struct Variables : ::testing::Test {
  VarRef n = Var::make("n"), m = Var::make("m"), io = Var::make("io"), ii = Var::make("ii"), i = Var::make("i"),
         j = Var::make("j"), f = Var::make("f");
  Bounds bounds;

  void SetUp() override {
    bounds.bind(n, Interval{1, {}, 1, 0});
    bounds.bind(m, Interval{1, {}, 1, 0});
  }
  void expect_simplified(const Expr& e, const std::string& text) {
    EXPECT_EQ(print(simplify(e, bounds)), text) << print(e);
  }
};

using Prove = Variables;
using Simplify = Variables;

TEST_F(Prove, SplitWithPredicateStaysInTheDomain) {
  bounds.bind(io, Range{index(0), floor_div(n + 7, 8)});
  bounds.bind(ii, Range{index(0), index(8)});
  EXPECT_FALSE(proves(bounds, lt(io * 8 + ii, n)));
  EXPECT_TRUE(proves(bounds, lt(io * 8, n)));
  EXPECT_TRUE(proves(bounds, lt(io * 8 + ii, n + 7)));
  EXPECT_TRUE(proves(bounds, ge(io * 8 + ii, index(0))));
  bounds.assume(lt(io * 8 + ii, n));
  EXPECT_TRUE(proves(bounds, lt(io * 8 + ii, n)));
  EXPECT_TRUE(proves(bounds, le(io * 8 + ii, n - 1)));
  EXPECT_TRUE(proves(bounds, lt(io * 8 + ii, n * 2)));
}

TEST_F(Prove, ThePlaceNearerToAnEndIsWithinHalf) {
  bounds.bind(i, Interval::between(-1000, 5000));
  const Expr mirrored = Unary::make(UnaryOp::abs, i);
  EXPECT_TRUE(proves(bounds, le(min(mirrored, index(2016) - mirrored), index(1008))));
  EXPECT_FALSE(proves(bounds, le(min(mirrored, index(2016) - mirrored), index(1007))));
  EXPECT_TRUE(proves(bounds, ge(max(Expr(i), index(7) - i), index(4))));
  EXPECT_FALSE(proves(bounds, ge(max(Expr(i), index(7) - i), index(5))));
  EXPECT_TRUE(proves(bounds, le(min(Expr(i), index(-7) - i), index(-4))));
  const Expr loaded = Load::make(BufferNode::make("p", i64, {index(9)}), {j});
  EXPECT_FALSE(proves(bounds, ge(max(loaded, index(10) - loaded), index(5)))) << "10 less the least integer wraps";
}

TEST_F(Prove, LoadedIndicesAreKeptInBounds) {
  const Buffer places = BufferNode::make("p", i64, {index(8)});
  const Expr place = load(places, {index(3)}), kept = min(max(place, index(0)), index(15));
  EXPECT_TRUE(proves(bounds, ge(kept, index(0))));
  EXPECT_TRUE(proves(bounds, lt(kept, index(16))));
  EXPECT_FALSE(proves(bounds, lt(kept, index(15))));
  EXPECT_FALSE(proves(bounds, lt(min(max(place + 1, index(0)), index(15)), place + 1)));
}

TEST_F(Prove, ArmsOfAChoiceKnowWhatItCompares) {
  bounds.bind(i, Range{index(0), index(62)});
  const Expr place = Expr(i) - 3;
  const Expr low = Select::make(lt(place, index(0)), index(0) - place, place);
  const Expr turned = Select::make(ge(low, index(56)), index(110) - low, low);
  EXPECT_EQ(*bounds.interval(low).min, 0);
  EXPECT_EQ(*bounds.interval(low).max, 58);
  EXPECT_TRUE(proves(bounds, ge(turned, index(0))));
  EXPECT_TRUE(proves(bounds, lt(turned, index(56))));
  EXPECT_FALSE(proves(bounds, lt(turned, index(55))));
  const Expr late = Select::make(ge(low, index(57)), index(110) - low, low);
  EXPECT_FALSE(proves(bounds, lt(late, index(56))));
  const Expr inside = Select::make(lt(place, index(56)), place, index(110) - place);
  const Expr both = Select::make(lt(place, index(0)), index(0) - place, inside);
  EXPECT_EQ(bounds.interval(both).min, 0);
  EXPECT_EQ(bounds.interval(both).max, 55);
  EXPECT_EQ(bounds.interval(inside).min, -3) << "alone it knows nothing of the choice around it";
  // What may be any number may wrap around where it is compared.
  const Expr any = Load::make(BufferNode::make("data", i64, {index(4)}), {index(0)});
  EXPECT_FALSE(proves(bounds, ge(Select::make(lt(any, index(0)), index(0) - any, any), index(0))));
}

TEST_F(Prove, MainPartOfASplitNeedsNoPredicate) {
  bounds.bind(io, Range{index(0), floor_div(n, 8)});
  bounds.bind(ii, Range{index(0), index(8)});
  EXPECT_TRUE(proves(bounds, lt(io * 8 + ii, n)));
}

TEST_F(Prove, QuotientsOfKnownRemaindersAreExact) {
  // Of m a multiple of `known` the loops run over (a * m + b) // c, c times each; what is proved holds for every m.
  int proved = 0, exact = 0;
  for (std::int64_t known : {1, 2, 4, 6})
    for (std::int64_t c : {2, 3, 4})
      for (std::int64_t a : {1, 3})
        for (std::int64_t b = -3; b <= 3; ++b)
          for (std::int64_t bound = -4; bound <= 4; ++bound) {
            const VarRef multiple = Var::make("m");
            Bounds here;
            here.bind(multiple, Interval{known, known * 12, known, 0});
            const Expr whole = floor_div(multiple * a + b, c) * c;
            bool at_most = true, at_least = true;
            for (std::int64_t value = known; value <= known * 12; value += known) {
              testing::Point point;
              point[multiple.get()] = value;
              const std::int64_t w = testing::Evaluator(point).at(whole);
              at_most &= w <= a * value + bound;
              at_least &= w >= a * value + bound;
            }
            const bool below = proves(here, le(whole, multiple * a + bound)),
                       above = proves(here, ge(whole, multiple * a + bound));
            ASSERT_FALSE(below && !at_most) << print(whole) << " <= " << a << "m + " << bound;
            ASSERT_FALSE(above && !at_least) << print(whole) << " >= " << a << "m + " << bound;
            proved += below + above;
            if (known % c != 0) continue;
            EXPECT_EQ(below, at_most) << print(whole) << " <= " << a << "m + " << bound << ", m by " << known;
            EXPECT_EQ(above, at_least) << print(whole) << " >= " << a << "m + " << bound << ", m by " << known;
            ++exact;
          }
  EXPECT_GT(proved, 300);
  EXPECT_GT(exact, 100);
}

TEST_F(Prove, TwoLevelSplitStaysInItsBlock) {
  VarRef outer = Var::make("outer");
  bounds.bind(outer, Range{index(0), floor_div(n, 64)});
  bounds.bind(io, Range{index(0), index(8)});
  bounds.bind(ii, Range{index(0), index(8)});
  EXPECT_TRUE(proves(bounds, lt(outer * 64 + io * 8 + ii, n)));
  EXPECT_FALSE(proves(bounds, lt(outer * 64 + io * 8 + ii, n - 1)));
}

TEST_F(Prove, FlatIndexOfADynamicShapeIsInside) {
  bounds.bind(i, Range{index(0), m});
  bounds.bind(j, Range{index(0), n});
  EXPECT_TRUE(proves(bounds, lt(i * n + j, m * n)));
  EXPECT_TRUE(proves(bounds, ge(i * n + j, index(0))));
  EXPECT_FALSE(proves(bounds, lt(i * n + j, m * n - 1)));
}

TEST_F(Prove, FusedLoopGivesItsPartsTheirDomains) {
  bounds.bind(f, Range{index(0), m * n});
  EXPECT_TRUE(proves(bounds, lt(floor_mod(Expr(f), n), n)));
  EXPECT_TRUE(proves(bounds, ge(floor_mod(Expr(f), n), index(0))));
  VarRef g = Var::make("g");
  bounds.bind(g, Range{index(0), m * 16});
  EXPECT_TRUE(proves(bounds, lt(floor_div(Expr(g), 16), m)));
  EXPECT_TRUE(proves(bounds, lt(floor_div(Expr(f), n), m)));
}

TEST_F(Prove, TriangularDomains) {
  bounds.bind(i, Range{index(0), n});
  bounds.bind(j, Range{index(0), i + 1});
  EXPECT_TRUE(proves(bounds, le(Expr(j), Expr(i))));
  EXPECT_TRUE(proves(bounds, lt(Expr(j), Expr(n))));
  EXPECT_FALSE(proves(bounds, lt(Expr(j), Expr(i))));
}

TEST_F(Prove, MinOfTheTileAndWhatRemains) {
  bounds.bind(io, Range{index(0), floor_div(n + 15, 16)});
  bounds.bind(ii, Range{index(0), min(index(16), n - io * 16)});
  EXPECT_TRUE(proves(bounds, lt(io * 16 + ii, n)));
  EXPECT_TRUE(proves(bounds, lt(Expr(ii), index(16))));
  EXPECT_TRUE(proves(bounds, gt(min(index(16), n - io * 16), index(0))));
}

TEST_F(Prove, ClippedEndsKeepTheirOrder) {
  bounds.bind(io, Range{index(0), index(4)});
  bounds.bind(ii, Range{index(0), index(5)});
  EXPECT_TRUE(proves(bounds, le(max(io * 5 - 2, index(0)), max(io * 5 + ii - 2, index(0)))));
  EXPECT_TRUE(proves(bounds, le(min(io * 5 + 3, n), min(io * 5 + ii + 3, n))));
  EXPECT_FALSE(proves(bounds, lt(max(io * 5 - 2, index(0)), max(io * 5 + ii - 2, index(0)))));
}

TEST_F(Prove, DivisibleExtents) {
  VarRef d = Var::make("d");
  bounds.bind(d, Interval{16, {}, 16, 0});
  bounds.bind(io, Range{index(0), floor_div(Expr(d), 16)});
  bounds.bind(ii, Range{index(0), index(16)});
  EXPECT_TRUE(proves(bounds, lt(io * 16 + ii, d)));
  EXPECT_TRUE(proves_equal(bounds, floor_div(d + 15, 16), floor_div(Expr(d), 16)));
  EXPECT_TRUE(proves_equal(bounds, floor_mod(Expr(d), 8), index(0)));
}

TEST_F(Prove, EqualityOfDifferentSpellings) {
  bounds.bind(io, Range{index(0), n});
  bounds.bind(ii, Range{index(0), index(16)});
  EXPECT_TRUE(proves_equal(bounds, floor_div(io * 16 + ii, 16), io));
  EXPECT_TRUE(proves_equal(bounds, floor_mod(io * 16 + ii, 16), ii));
  EXPECT_TRUE(proves_equal(bounds, (io + 1) * n - io * n, n));
  EXPECT_FALSE(proves_equal(bounds, io * n, io * m));
}

TEST_F(Prove, AssumptionsChain) {
  bounds.bind(i, Interval{0, {}, 1, 0});
  bounds.bind(j, Interval{0, {}, 1, 0});
  bounds.assume(lt(Expr(i), Expr(j)));
  bounds.assume(lt(Expr(j), Expr(n)));
  EXPECT_TRUE(proves(bounds, lt(i + 1, n)));
  EXPECT_FALSE(proves(bounds, lt(i + 2, n)));
}

TEST_F(Prove, KnowsARemainderThatAConditionNames) {
  bounds.bind(i, Range{index(0), index(36)});
  const Expr place = floor_div(i + 1, 2);
  EXPECT_FALSE(proves(bounds, gt(place, index(0))));
  bounds.assume(eq(floor_mod(i + 1, 2), index(0)));
  EXPECT_TRUE(proves(bounds, gt(place, index(0))));
  EXPECT_TRUE(proves(bounds, le(place, index(18))));
  EXPECT_FALSE(proves(bounds, gt(place, index(1))));
  EXPECT_EQ(bounds.interval(i).min, 1);
  EXPECT_EQ(bounds.interval(i).max, 35);
  bounds.bind(j, Range{index(0), index(10)});
  bounds.assume(eq(floor_mod(index(7) - j, 3), index(2)));
  EXPECT_EQ(bounds.interval(j).min, 2);
  EXPECT_EQ(bounds.interval(j).max, 8);
}

TEST_F(Prove, LoadedIntegersMayWrap) {
  Buffer data = BufferNode::make("data", i64, {index(4)});
  Expr x = load(data, {index(0)});
  EXPECT_FALSE(proves(bounds, gt(x + 1, x)));
  EXPECT_TRUE(proves(bounds, eq(x, x)));
  bounds.assume(ge(x, index(0)));
  bounds.assume(lt(x, index(100)));
  EXPECT_TRUE(proves(bounds, gt(x + 1, x)));
  EXPECT_TRUE(proves(bounds, lt(x, index(200))));
}

TEST_F(Prove, VectorConditionsHoldInEveryLane) {
  bounds.bind(io, Range{index(0), floor_div(n, 16)});
  Expr lanes = Ramp::make(io * 16, index(1), 16);
  EXPECT_TRUE(proves(bounds, lt(lanes, Broadcast::make(n, 16))));
  EXPECT_FALSE(proves(bounds, lt(lanes, Broadcast::make(n - 1, 16))));
}

TEST_F(Simplify, SplitIndices) {
  bounds.bind(io, Range{index(0), index(10)});
  bounds.bind(ii, Range{index(0), index(16)});
  expect_simplified(floor_div(io * 16 + ii, 16), "io");
  expect_simplified(floor_mod(io * 16 + ii, 16), "ii");
  expect_simplified(floor_div(io * 16 + ii, 64), "io // 4");
  expect_simplified(floor_mod(io * 16 + ii, 32), "io % 2 * 16 + ii");
  expect_simplified(ii + (io * 16 + 3) - ii, "io * 16 + 3");
  expect_simplified(min(ii, index(20)), "ii");
  expect_simplified(max(io * 16 + ii, io * 16), "io * 16 + ii");
}

TEST_F(Simplify, FusedIndicesComeBack) {
  bounds.bind(f, Range{index(0), index(1000)});
  expect_simplified(floor_div(Expr(f), 8) * 8 + floor_mod(Expr(f), 8), "f");
  expect_simplified(floor_div(Expr(f), 40) * 40 + floor_mod(floor_div(Expr(f), 8), 5) * 8 + floor_mod(Expr(f), 8), "f");
  expect_simplified(floor_div(floor_div(Expr(f), 4), 2), "f // 8");
}

TEST_F(Simplify, FusedIndicesOfStepsPastTheDivisorComeBack) {
  bounds.bind(io, Range{index(0), index(49)});
  bounds.bind(ii, Range{index(0), index(16)});
  // The remainder takes the step 64 as 8, the quotient does not.
  const Expr x = io * 64 + ii + 16;
  expect_simplified(floor_mod(x, 56), "(io * 8 + ii + 16) % 56");
  expect_simplified(floor_div(x, 56) * 56 + floor_mod(x, 56), "io * 64 + ii + 16");
  expect_simplified(floor_div(x, 56) * -112 - floor_mod(x, 56) * 2, "io * -128 - ii * 2 - 32");
  expect_simplified(floor_div(io * 64 + ii, 56) * 56 + floor_mod(io * 64 + ii + 1, 56),
                    "(io * 64 + ii) // 56 * 56 + (io * 8 + ii + 1) % 56");
}

TEST_F(Simplify, FusedDigitsOfStepsPastTheirDivisorsComeBack) {
  bounds.bind(io, Range{index(0), index(22)});
  bounds.bind(ii, Range{index(0), index(16)});
  for (const int start : {0, 4, 16}) {
    const Expr x = io * 32 + ii + start;
    const auto digits = [&](const Expr& e) {
      return floor_div(e, 360) * 360 + floor_div(floor_mod(e, 360), 120) * 120 +
             floor_div(floor_mod(floor_mod(e, 360), 120), 30) * 30 +
             floor_div(floor_mod(floor_mod(floor_mod(e, 360), 120), 30), 6) * 6 +
             floor_mod(floor_mod(floor_mod(floor_mod(e, 360), 120), 30), 6);
    };
    expect_simplified(digits(x), print(simplify(x, bounds)));
    expect_simplified(digits(x) * -2 + io, print(simplify(x * -2 + io, bounds)));
  }
  // Of another number's digit nothing comes.
  expect_simplified(floor_mod(floor_div(io, 6), 3) * 6 + floor_mod(ii, 6), "io // 6 % 3 * 6 + ii % 6");
}

TEST_F(Simplify, FusedDigitsOfStepsThatSomeDivideComeBack) {
  bounds.bind(io, Range{index(0), index(25)});
  bounds.bind(ii, Range{index(0), index(16)});
  // Of 32 * io + 16 + ii the last digit to base 4 is ii % 4, and the one before it counts ii // 4 beside the step.
  for (int second = 2; second < 14; ++second) {
    for (int last = 2; last < 14; ++last) {
      for (const int start : {0, 16}) {
        const Expr x = io * 32 + ii + start;
        Expr sum = index(0), number = x;
        int scale = 1;
        for (const int radix : {last, second, 2, 3}) {
          sum = sum + floor_mod(number, radix) * scale;
          number = floor_div(number, radix);
          scale *= radix;
        }
        expect_simplified(sum + number * scale, print(simplify(x, bounds)));
      }
    }
  }
}

TEST_F(Simplify, SymbolicDivisors) {
  bounds.bind(i, Range{index(0), m});
  bounds.bind(j, Range{index(0), n});
  expect_simplified(floor_div(i * n + j, n), "i");
  expect_simplified(floor_mod(i * n + j, n), "j");
  bounds.bind(f, Range{index(0), m * n});
  expect_simplified(floor_div(Expr(f), n) * n + floor_mod(Expr(f), n), "f");
}

TEST_F(Simplify, RampsOfAffineIndices) {
  bounds.bind(io, Range{index(0), index(10)});
  Expr lane = Ramp::make(io * 16, index(1), 16);
  expect_simplified(lane + Broadcast::make(n, 16), print(Ramp::make(io * 16 + n, index(1), 16)));
  expect_simplified(lane * Broadcast::make(index(3), 16), print(Ramp::make(io * 48, index(3), 16)));
  expect_simplified(floor_div(lane, IntImm::make(i64.with_lanes(16), 16)), print(Broadcast::make(io, 16)));
  expect_simplified(floor_mod(lane, IntImm::make(i64.with_lanes(16), 16)), print(Ramp::make(index(0), index(1), 16)));
  expect_simplified(lt(lane, IntImm::make(i64.with_lanes(16), 160)), print(IntImm::make(boolean.with_lanes(16), 1)));
}

TEST_F(Simplify, ArithmeticOnOneOfTwoConstantsIsAChoice) {
  const Expr hot = eq(i, j), number = cast(f32, hot);
  expect_simplified(number * constant(f32, 0.5) + constant(f32, 0.25), "select(i == j, 0.75f32, 0.25f32)");
  expect_simplified(cast(bf16, (constant(f32, 1.0) - number) * constant(f32, -8.0)),
                    "select(i == j, -0.0bf16, -8.0bf16)");
  const Expr x = Var::make("x", f32);
  expect_simplified(number * x, "cast<f32>(i == j) * x");
  expect_simplified(select(hot, x, constant(f32, 0.0)) * constant(f32, 2.0), "select(i == j, x, 0.0f32) * 2.0f32");
}

TEST_F(Simplify, FloatsOnlyWhereExact) {
  VarRef x = Var::make("x", f32);
  expect_simplified(x * constant(f32, 1.0), "x");
  Expr sum = x + constant(f32, 0.0);
  EXPECT_EQ(simplify(sum, bounds), sum);
  Expr product = x * constant(f32, 0.0);
  EXPECT_EQ(simplify(product, bounds), product);
  Expr sine = unary(UnaryOp::sin, constant(f32, 1.0));
  EXPECT_EQ(simplify(sine, bounds), sine);
}

}  // namespace
}  // namespace lathe
