#include <gtest/gtest.h>

#include <fmt/format.h>

#include "ir/analysis/interval.h"
#include "ir/analysis/simplify.h"
#include "ir/text/print.h"
#include "tests/ir/analysis/evaluate.h"

/// Conditions on indices that are kept within limits, as borders written by hand have them.
namespace lathe {
namespace {

TEST(Limits, LeaveConditionsOnTheIndexAlone) {
  const VarRef i = Var::make("i");
  Bounds bounds;
  bounds.bind(i, Interval::between(-6, 6));
  for (const BinaryOp limit : {BinaryOp::min, BinaryOp::max}) {
    for (const BinaryOp compare : {BinaryOp::lt, BinaryOp::le, BinaryOp::gt, BinaryOp::ge}) {
      for (std::int64_t constant = -3; constant <= 3; ++constant) {
        for (std::int64_t side = -4; side <= 4; ++side) {
          const Expr limited = Binary::make(limit, Expr(i) + 1, IntImm::make(i64, constant));
          const Expr condition = Binary::make(compare, limited, IntImm::make(i64, side));
          const Expr simple = simplify(condition, bounds);
          const std::string text = print(condition) + " -> " + print(simple);
          EXPECT_EQ(text.find("min(", text.find("->")), std::string::npos) << text;
          EXPECT_EQ(text.find("max(", text.find("->")), std::string::npos) << text;
          for (std::int64_t value = -6; value <= 6; ++value) {
            const testing::Point point{{{i.get(), value}}};
            EXPECT_EQ(testing::Evaluator(point).lanes(simple), testing::Evaluator(point).lanes(condition)) << text;
          }
        }
      }
    }
  }
}

TEST(Limits, OfChoicesWithinChoicesAreAskedOnce) {
  const VarRef i = Var::make("i");
  Bounds bounds;
  bounds.bind(i, Interval::between(0, 31));
  const Expr zero = FloatImm::make(f32, 0), one = FloatImm::make(f32, 1);
  const Expr inside = logical_and(lt(index(1), Expr(i)), lt(Expr(i), index(30)));
  const Expr near = max(min(Expr(i) - 1, index(29)), index(0));
  const Expr again = logical_and(lt(index(0), near), lt(near, index(29)));
  EXPECT_EQ(print(simplify(select(inside, select(again, one, zero), zero), bounds)),
            "select(1 < i && i < 30, 1.0f32, 0.0f32)");
}

/// A sum with an integer that is loaded may wrap, and is kept within the limits all the same; nothing else of it is
/// known.
TEST(Limits, HoldOfSumsThatMayWrap) {
  const VarRef i = Var::make("i");
  const Buffer x = BufferNode::make("x", i64, {index(8)});
  Bounds bounds;
  bounds.bind(i, Interval::between(0, 7));
  const Expr sum = Expr(i) + Load::make(x, {Expr(i)});
  const Expr kept = min(max(sum, index(0)), index(9));
  const auto simple = [&](const Expr& condition) { return print(simplify(condition, bounds)); };
  EXPECT_EQ(simple(ge(kept, index(0))), "true");
  EXPECT_EQ(simple(lt(kept, index(10))), "true");
  EXPECT_EQ(simple(gt(kept, index(9))), "false");
  EXPECT_EQ(simple(eq(kept, index(-1))), "false");
  EXPECT_EQ(simple(lt(kept, index(9))), "min(max(i + x[i], 0), 9) < 9");
  bounds.assume(ge(Load::make(x, {Expr(i)}), index(0)));
  EXPECT_EQ(simple(ge(max(sum, index(-5)), index(0))), "max(i + x[i], -5) >= 0");
}

}  // namespace
}  // namespace lathe
