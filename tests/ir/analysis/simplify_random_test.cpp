#include <gtest/gtest.h>

#include "evaluate.h"
#include "ir/analysis/fold.h"
#include "ir/analysis/simplify.h"
#include "ir/text/print.h"
#include "ir/visitor.h"

namespace lathe {
namespace {

using testing::Evaluator;
using testing::Point;
using testing::RandomExprs;
using testing::Space;

constexpr int sampling = 23;

/// Puts a value where a load stands.
class Put : public Mutator {
 public:
  explicit Put(Expr value) : value_(std::move(value)) {}

 protected:
  Expr mutate_Load(const Expr&, const Load*) override { return value_; }

 private:
  Expr value_;
};

/// Folds constants from the leaves up, and nothing else.
Expr fold_all(const Expr& e) {
  auto* b = e.as<Binary>();
  if (!b) {
    auto* u = e.as<Unary>();
    return u ? fold_unary(u->op, fold_all(u->a)) : e;
  }
  return fold_binary(b->op, fold_all(b->a), fold_all(b->b));
}

TEST(RandomExpressions, KeepTheirValueUnderSimplify) {
  Space space;
  RandomExprs random(space, 1);
  for (int round = 0; round < 8000; ++round) {
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
  for (int round = 0; round < 8000; ++round) {
    Expr e = random.number(3, round % 3 == 0 ? 4 : 1);
    Interval known = space.bounds.interval(e);
    bounded += known.min || known.max || known.multiple_of != 1;
    space.each_point(round, sampling, [&](const Point& point) {
      for (std::int64_t value : Evaluator(point).lanes(e))
        ASSERT_TRUE(known.contains(value))
            << print(e) << " = " << value << " not in [" << known.min.value_or(-999999) << ", "
            << known.max.value_or(999999) << "] mod " << known.multiple_of << ", " << known.remainder;
    });
    if (HasFatalFailure()) return;
  }
  EXPECT_GT(bounded, 4000);
}

TEST(RandomExpressions, AreProvedOnlyWhenTheyHoldEverywhere) {
  Space space;
  RandomExprs random(space, 3);
  int proved = 0;
  for (int round = 0; round < 8000; ++round) {
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
  EXPECT_GT(proved, 800);
}

/// Values near the ends of 64 bits, folded as wrapping integers or left alone: indices cannot be so large, data can.
TEST(HugeConstants, AreNeitherReasonedAboutNorOverflow) {
  std::mt19937_64 random(9);
  Buffer data = BufferNode::make("data", i64, {index(4)});
  const std::int64_t ends[] = {INT64_MIN, INT64_MIN + 1,         INT64_MAX, INT64_MAX - 1, -1, 0, 1,
                               2,         std::int64_t{1} << 61, 3};
  const BinaryOp ops[] = {BinaryOp::add,       BinaryOp::sub, BinaryOp::mul, BinaryOp::floor_div,
                          BinaryOp::floor_mod, BinaryOp::min, BinaryOp::max};
  const BinaryOp comparisons[] = {BinaryOp::lt, BinaryOp::le, BinaryOp::gt, BinaryOp::ge, BinaryOp::eq, BinaryOp::ne};
  Expr unknown = load(data, {index(0)});
  std::function<Expr(int)> make = [&](int depth) -> Expr {
    if (depth == 0) return random() % 2 ? unknown : IntImm::make(i64, ends[random() % 10]);
    return Binary::make(ops[random() % 7], make(depth - 1), make(depth - 1));
  };
  // With the load replaced by each end, folding in any order must give the same as simplifying first.
  for (int round = 0; round < 5000; ++round) {
    Expr e = Binary::make(comparisons[random() % 6], make(2), make(2));
    Expr simple = simplify(e);
    for (std::int64_t end : ends) {
      Put put(IntImm::make(i64, end));
      ASSERT_EQ(print(fold_all(put.mutate(simple))), print(fold_all(put.mutate(e)))) << print(e) << "\n"
                                                                                     << print(simple) << " at " << end;
    }
  }
}

}  // namespace
}  // namespace lathe
