#include "ir/analysis/float_interval.h"

#include <gtest/gtest.h>

#include "evaluate.h"
#include "ir/analysis/regions.h"
#include "ir/analysis/simplify.h"
#include "ir/text/print.h"

namespace lathe {
namespace {

using testing::Evaluator;
using testing::Point;

/// Evaluates an f32 or f64 expression over integer variables as a machine would.
double value(const Expr& e, const Point& point) {
  auto rounded = [&](double v) { return e->dtype == f32 ? double(float(v)) : v; };
  if (auto* imm = e.as<FloatImm>()) return imm->value;
  if (auto* c = e.as<Cast>())
    return rounded(c->value->dtype.is_float() ? value(c->value, point) : double(Evaluator(point).at(c->value)));
  if (auto* u = e.as<Unary>()) {
    double a = value(u->a, point);
    switch (u->op) {
      case UnaryOp::neg:
        return -a;
      case UnaryOp::abs:
        return std::fabs(a);
      case UnaryOp::floor:
        return std::floor(a);
      case UnaryOp::ceil:
        return std::ceil(a);
      case UnaryOp::trunc:
        return std::trunc(a);
      case UnaryOp::round:
        return std::nearbyint(a);
      case UnaryOp::sqrt:
        return rounded(std::sqrt(a));
      default:
        throw std::logic_error("value: unary");
    }
  }
  auto* b = e.as<Binary>();
  double x = value(b->a, point), y = value(b->b, point);
  switch (b->op) {
    case BinaryOp::add:
      return rounded(x + y);
    case BinaryOp::sub:
      return rounded(x - y);
    case BinaryOp::mul:
      return rounded(x * y);
    case BinaryOp::div:
      return rounded(x / y);
    case BinaryOp::min:
      return std::isnan(x) || std::isnan(y) ? NAN : std::min(x, y);
    case BinaryOp::max:
      return std::isnan(x) || std::isnan(y) ? NAN : std::max(x, y);
    default:
      throw std::logic_error("value: binary");
  }
}

struct FloatForms : ::testing::Test {
  VarRef v = Var::make("v"), w = Var::make("w");
  Bounds bounds;

  void SetUp() override {
    bounds.bind(v, Range{index(0), index(1000)});
    bounds.bind(w, Range{index(-20), index(60)});
  }
  std::string index_of(const Expr& e) { return print(simplify(cast(i64, e), bounds)); }
};

TEST_F(FloatForms, HalfPixelIndicesAreExact) {
  Expr half = constant(f32, 0.5), two = constant(f32, 2.0);
  EXPECT_EQ(index_of(unary(UnaryOp::floor, cast(f32, v * 2) + half)), "v * 2");
  EXPECT_EQ(index_of(unary(UnaryOp::floor, (cast(f32, v) + half) * two - half)), "v * 2");
  EXPECT_EQ(index_of(unary(UnaryOp::floor, (cast(f32, v) + half) * half - half)), "(v + 1) // 2 - 1");
  EXPECT_EQ(index_of(unary(UnaryOp::ceil, cast(f32, v) * half)), "0 - (0 - v) // 2");
  EXPECT_EQ(index_of(cast(f32, v)), "v");
}

TEST_F(FloatForms, RoundingThatCannotCrossAnIntegerIsExactToo) {
  // v / 10 + 0.25 / 10 is never near an integer; v * 0.1f may be.
  Expr near = unary(UnaryOp::floor, cast(f32, v) * constant(f32, 3.0) + constant(f32, 0.3));
  EXPECT_EQ(index_of(near), "v * 3");
  Expr crossing = unary(UnaryOp::floor, cast(f32, v) * constant(f32, 0.1));
  EXPECT_EQ(index_of(crossing), print(cast(i64, crossing)));
  EXPECT_EQ(*bounds.interval(cast(i64, crossing)).max, 99);
}

TEST_F(FloatForms, LargeIntegersAreNotExactInSinglePrecision) {
  VarRef big = Var::make("big");
  bounds.bind(big, Range{index(0), index((1 << 24) + 2)});
  EXPECT_EQ(index_of(cast(f32, big)), print(cast(i64, cast(f32, big))));
  EXPECT_EQ(index_of(cast(f64, big)), "big");
}

TEST_F(FloatForms, NanMayBecomeAnyIndex) {
  Buffer data = BufferNode::make("data", f32, {index(10)});
  Expr clamped = min(max(load(data, {v}), constant(f32, 0.0)), constant(f32, 9.0));
  FloatBound known = float_bound(clamped, bounds);
  EXPECT_TRUE(known.may_be_nan);
  EXPECT_EQ(known.low, 0);
  EXPECT_EQ(known.high, 9);
  EXPECT_FALSE(bounds.interval(cast(i64, clamped)).max.has_value());
}

TEST_F(FloatForms, AResizeReadsABoundedWindow) {
  VarRef o = Var::make("o"), i = Var::make("i");
  Buffer in = BufferNode::make("in", f32, {index(4000)}), out = BufferNode::make("out", f32, {index(1024)});
  Bounds outer;
  outer.bind(o, Range{index(0), index(128)});
  Expr x = (cast(f32, o * 8 + i) + constant(f32, 0.5)) * constant(f32, 3.7) - constant(f32, 0.5);
  Stmt tile = For::make(i, index(0), index(8), ForKind::serial,
                        Store::make(out, {o * 8 + i}, load(in, {cast(i64, unary(UnaryOp::floor, x))})));
  Region read = read_regions(tile, outer)[0];
  for (std::int64_t at = 0; at < 128; ++at) {
    Point point;
    point[o.get()] = at;
    std::int64_t first = Evaluator(point).at(read.ranges[0].min), count = Evaluator(point).at(read.ranges[0].extent);
    EXPECT_LE(count, 32);
    for (std::int64_t k = 0; k < 8; ++k) {
      point[i.get()] = k;
      auto used = static_cast<std::int64_t>(std::floor(value(x, point)));
      EXPECT_LE(first, used);
      EXPECT_LT(used, first + count);
    }
  }
}

TEST_F(FloatForms, HoldForRandomExpressions) {
  std::mt19937_64 random(5);
  auto below = [&](int n) { return static_cast<int>(random() % n); };
  std::function<Expr(int, DType)> make = [&](int depth, DType t) -> Expr {
    static const double constants[] = {0.5, 0.25, 2, 3, 1.0 / 3, 0.1, -1.5, 7.25, 100, 1e-3};
    if (depth == 0 || below(8) == 0)
      return below(3) ? cast(t, below(2) ? v * below(5) + w : w * (below(7) - 3) + below(9))
                      : constant(t, constants[below(10)]);
    auto child = [&] { return make(depth - 1, t); };
    switch (below(10)) {
      case 0:
      case 1:
        return child() + child();
      case 2:
        return child() - child();
      case 3:
      case 4:
        return child() * constant(t, constants[below(10)]);
      case 5:
        return div(child(), constant(t, constants[below(10)]));
      case 6: {
        UnaryOp ops[] = {UnaryOp::floor, UnaryOp::ceil, UnaryOp::trunc, UnaryOp::round, UnaryOp::neg, UnaryOp::abs};
        return unary(ops[below(6)], child());
      }
      case 7:
        return below(2) ? min(child(), child()) : max(child(), child());
      case 8:
        return child() * child();
      default:
        return unary(UnaryOp::floor, child());
    }
  };
  int forms = 0, exact = 0;
  for (int round = 0; round < 4000; ++round) {
    Expr e = make(3, round % 2 ? f32 : f64);
    FloatBound known = float_bound(e, bounds);
    Expr as_index = cast(i64, e);
    Interval interval = bounds.interval(as_index);
    auto integers = integer_forms(*as_index.as<Cast>(), bounds);
    forms += known.has_form;
    exact += integers && integers->exact;
    for (int sample = 0; sample < 40; ++sample) {
      Point point;
      point[v.get()] = below(1000);
      point[w.get()] = below(60) - 20;
      double got = value(e, point);
      if (std::isnan(got)) {
        ASSERT_TRUE(known.may_be_nan) << print(e);
        continue;
      }
      ASSERT_LE(known.low, got) << print(e);
      ASSERT_GE(known.high, got) << print(e);
      if (known.has_form) {
        long double sum = known.constant;
        for (const auto& t : known.terms) sum += static_cast<long double>(t.coefficient) * Evaluator(point).at(t.atom);
        ASSERT_LE(std::fabs(static_cast<double>(sum - got)), known.radius) << print(e) << " at " << point.text();
      }
      if (std::fabs(got) < 1e15) {
        auto whole = static_cast<std::int64_t>(got);
        ASSERT_TRUE(interval.contains(whole)) << print(e);
        if (integers) {
          ASSERT_LE(Evaluator(point).at(to_expr(integers->low)), whole) << print(e) << " at " << point.text();
          ASSERT_GE(Evaluator(point).at(to_expr(integers->high)), whole) << print(e) << " at " << point.text();
        }
      }
    }
  }
  EXPECT_GT(forms, 2000);
  EXPECT_GT(exact, 300);
}

}  // namespace
}  // namespace lathe
