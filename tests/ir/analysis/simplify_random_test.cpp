#include <gtest/gtest.h>

#include "evaluate.h"
#include "ir/analysis/simplify.h"
#include "ir/text/print.h"

namespace lathe {
namespace {

using testing::Evaluator;
using testing::Point;
using testing::RandomExprs;
using testing::Space;

constexpr int sampling = 23;

TEST(RandomExpressions, KeepTheirValueUnderSimplify) {
  Space space;
  RandomExprs random(space, 1);
  for (int round = 0; round < 20000; ++round) {
    int lanes = round % 3 == 0 ? 4 : 1;
    Expr e = round % 4 == 1 ? random.condition(3, lanes) : random.number(4, lanes);
    Expr s = simplify(e, space.bounds);
    ASSERT_EQ(s->dtype, e->dtype);
    bool ok = true;
    space.each_point(round, sampling, [&](const Point& point) {
      if (ok && Evaluator(point).lanes(e) != Evaluator(point).lanes(s)) {
        ok = false;
        ADD_FAILURE() << print(e) << "\n  became " << print(s) << "\n  at " << point.text();
      }
    });
    if (!ok) return;
  }
}

TEST(RandomExpressions, StayWithinTheirInterval) {
  Space space;
  RandomExprs random(space, 2);
  int bounded = 0;
  for (int round = 0; round < 20000; ++round) {
    Expr e = random.number(3, round % 3 == 0 ? 4 : 1);
    Interval known = space.bounds.interval(e);
    bounded += known.min || known.max || known.multiple_of != 1;
    space.each_point(round, sampling, [&](const Point& point) {
      for (std::int64_t value : Evaluator(point).lanes(e))
        ASSERT_TRUE(known.contains(value)) << print(e) << " = " << value << " not in [" << known.min.value_or(-999999) << ", "
                                           << known.max.value_or(999999) << "] mod " << known.multiple_of << ", "
                                           << known.remainder;
    });
    if (HasFatalFailure()) return;
  }
  EXPECT_GT(bounded, 10000);
}

TEST(RandomExpressions, AreProvedOnlyWhenTheyHoldEverywhere) {
  Space space;
  RandomExprs random(space, 3);
  int proved = 0;
  for (int round = 0; round < 20000; ++round) {
    Bounds bounds = space.bounds;
    // Every third is to be proved under an assumption.
    Expr assumed = round % 3 == 0 ? random.condition(2) : nullptr;
    if (assumed) bounds.assume(assumed);
    Expr e = random.condition(2);
    if (!proves(bounds, e)) continue;
    ++proved;
    space.each_point(round, sampling, [&](const Point& point) {
      if (assumed && !Evaluator(point).at(assumed)) return;
      ASSERT_TRUE(Evaluator(point).at(e)) << print(e) << (assumed ? " given " + print(assumed) : "");
    });
    if (HasFatalFailure()) return;
  }
  EXPECT_GT(proved, 2000);
}

}  // namespace
}  // namespace lathe
