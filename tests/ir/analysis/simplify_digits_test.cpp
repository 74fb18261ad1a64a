#include <gtest/gtest.h>

#include <fmt/ranges.h>

#include "ir/analysis/interval.h"
#include "ir/analysis/simplify.h"
#include "ir/text/print.h"

/// What fusing the loops over an array, splitting the fused one and laying the array out makes of an index.
namespace lathe {
namespace {

class Digits : public testing::Test {
 protected:
  Digits() {
    bounds_.bind(outer_, Interval::between(0, 1 << 20));
    bounds_.bind(inner_, Interval::between(0, 1));
  }

  /// The offset in a compact array of those extents of the element whose number is x, each digit simplified first.
  Expr offset(const Expr& x, const std::vector<std::int64_t>& extents) const {
    std::int64_t below = 1;
    Expr sum;
    for (size_t d = extents.size(); d-- > 0;) {
      Expr digit = Binary::make(BinaryOp::floor_div, x, number(below, x));
      if (d > 0) digit = Binary::make(BinaryOp::floor_mod, digit, number(extents[d], x));
      const Expr part = Binary::make(BinaryOp::mul, simplify(digit, bounds_), number(below, x));
      sum = sum ? Binary::make(BinaryOp::add, part, sum) : part;
      below *= extents[d];
    }
    return sum;
  }

  static Expr number(std::int64_t value, const Expr& like) { return IntImm::make(like->dtype, value); }

  Bounds bounds_;
  const VarRef outer_ = Var::make("o"), inner_ = Var::make("m");
};

TEST_F(Digits, OfAConstantShapeComeTogetherAgain) {
  const Expr base = Expr(outer_) * 32 + Expr(inner_) * 16;
  for (const std::vector<std::int64_t>& extents : std::vector<std::vector<std::int64_t>>{
           {20, 2, 4, 5}, {7, 3, 3}, {5, 3, 3, 3}, {2, 9, 6, 10}, {3, 64, 56, 56}, {11, 13, 17}, {4, 1, 12, 7}}) {
    for (const Expr& x : {base, Ramp::make(base, index(1), 16)}) {
      const Expr together = simplify(offset(x, extents), bounds_);
      EXPECT_EQ(print(together), print(simplify(x, bounds_))) << fmt::format("{}", fmt::join(extents, " x "));
    }
  }
}

TEST_F(Digits, OfRowsThatLanesShareComeTogetherAgain) {
  // The rows' numbers alone: of 99 x 2 elements each, over pairs.
  for (const auto& [pair, rows] : {std::pair<std::int64_t, std::int64_t>{2, 99}, {2, 7}, {3, 16}, {8, 33}}) {
    for (const Expr& x : {Expr(outer_) * 48, Ramp::make(Expr(outer_) * 48, index(1), 16)}) {
      const Expr row = Binary::make(BinaryOp::floor_div, x, number(pair, x));
      const Expr upper = simplify(Binary::make(BinaryOp::floor_div, x, number(pair * rows, x)), bounds_),
                 lower = simplify(Binary::make(BinaryOp::floor_mod, row, number(rows, x)), bounds_);
      const auto sum = [&](std::int64_t times) {
        return print(simplify(Binary::make(BinaryOp::mul, upper, number(times, x)) + lower, bounds_));
      };
      EXPECT_EQ(sum(rows), print(simplify(row, bounds_))) << rows << " of " << pair;
      EXPECT_NE(sum(rows + 1), print(simplify(row, bounds_)));
    }
  }
}

TEST_F(Digits, OfASymbolicShapeComeTogetherAgain) {
  const VarRef n = Var::make("n");
  bounds_.bind(n, Interval::between(1, 100));
  const Expr base = Expr(outer_) * 32 + Expr(inner_) * 16;
  for (const bool vector : {false, true}) {
    const Expr x = vector ? Ramp::make(base, index(1), 16) : base;
    const Expr by = vector ? Broadcast::make(n, 16) : Expr(n);
    const Expr quotient = Binary::make(BinaryOp::floor_div, x, by), rest = Binary::make(BinaryOp::floor_mod, x, by);
    EXPECT_EQ(print(simplify(Binary::make(BinaryOp::mul, quotient, by) + rest, bounds_)), print(simplify(x, bounds_)));
    EXPECT_EQ(print(simplify(rest + Binary::make(BinaryOp::mul, by, quotient), bounds_)), print(simplify(x, bounds_)));
    EXPECT_NE(print(simplify(quotient + rest, bounds_)), print(simplify(x, bounds_)));
  }
}

}  // namespace
}  // namespace lathe
