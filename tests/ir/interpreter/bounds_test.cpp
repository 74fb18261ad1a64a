#include <cmath>
#include <limits>

#include "ir/reduction.h"
#include "tests/ir/interpreter/run.h"

namespace lathe::testing {
namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();

struct Bounded {
  double value;
  FloatBound bound;
};

/// out[0] = e over A, with its bound.
Bounded bounded(const Buffer& a, const std::vector<double>& values, const Expr& e) {
  const Buffer out = array("out", e->dtype, {1});
  Data x(a->dtype, values), y(e->dtype, 1);
  std::vector<std::vector<FloatBound>> bounds;
  InterpreterOptions options;
  options.bounds = &bounds;
  EXPECT_EQ(run(FuncNode::make("f", {a, out}, Store::make(out, {index(0)}, e)), {&x, &y}, {}, options), 0);
  return {y.values()[0], bounds[1][0]};
}

TEST(InterpreterBounds, ExactOperationsHaveNoRadius) {
  const Buffer a = array("A", f32, {2});
  const Bounded b = bounded(a, {3, -5}, max(-load(a, {index(1)}), load(a, {index(0)})));
  EXPECT_EQ(b.value, 5);
  EXPECT_EQ(b.bound.exact, 5);
  EXPECT_EQ(b.bound.radius, 0);
}

TEST(InterpreterBounds, SumThatCancelsKeepsTheErrorOfItsTerms) {
  const Buffer a = array("A", f32, {2});
  const Expr big = load(a, {index(0)}), one = load(a, {index(1)});
  const Bounded b = bounded(a, {16777216, 1}, (big + one) - big);
  EXPECT_EQ(b.value, 0);
  EXPECT_EQ(b.bound.exact, 1);
  EXPECT_GE(b.bound.radius, 1);
  EXPECT_LE(b.bound.radius, 16);
}

TEST(InterpreterBounds, ProductIsAccurateToAUnit) {
  const Buffer a = array("A", f32, {2});
  const Bounded b = bounded(a, {1.1f, 1.3f}, load(a, {index(0)}) * load(a, {index(1)}));
  EXPECT_NEAR(b.bound.exact, 1.43, 1e-6);
  EXPECT_LE(std::abs(b.value - b.bound.exact), b.bound.radius);
  EXPECT_LT(b.bound.radius, 1.43 * 0x1p-23);
}

TEST(InterpreterBounds, ProductInAnyOrderStaysWithinBelowTheNormalRange) {
  const Buffer a = array("A", f32, {3});
  const Expr tiny = load(a, {index(0)}), small = load(a, {index(1)}), large = load(a, {index(2)});
  const std::vector<double> values = {0x1.234567p-100f, 0x1p-40, 0x1p90};
  const Bounded first = bounded(a, values, tiny * small * large), last = bounded(a, values, tiny * large * small);
  EXPECT_NE(first.value, last.value);
  EXPECT_LE(std::abs(last.value - first.bound.exact), first.bound.radius);
  EXPECT_LE(std::abs(first.value - last.bound.exact), last.bound.radius);
  EXPECT_LT(last.bound.radius, 0x1p-50);
}

TEST(InterpreterBounds, NoBoundAcrossADiscontinuityOrBeyondTheRange) {
  const Buffer a = array("A", f32, {2});
  const Expr x = load(a, {index(0)}), y = load(a, {index(1)});
  // x - x*y/y may be anything about zero, so nothing can be said of its inverse.
  EXPECT_EQ(bounded(a, {1.1f, 1.3f}, div(constant(f32, 1), x - div(x * y, y))).bound.radius, infinity);
  EXPECT_EQ(bounded(a, {1e30f, 1e30f}, x * y).bound.radius, infinity);
  EXPECT_EQ(bounded(a, {1.1f, 1.3f}, unary(UnaryOp::log, x - div(x * y, y))).bound.radius, infinity);
}

TEST(InterpreterBounds, SpecialValuesThatAreCertain) {
  const Buffer a = array("A", f32, {2});
  const Expr x = load(a, {index(0)}), y = load(a, {index(1)});
  const Bounded b = bounded(a, {-infinity, 2}, unary(UnaryOp::exp, x) * y);
  EXPECT_EQ(b.bound.exact, 0);
  EXPECT_LT(b.bound.radius, 1e-40);
  EXPECT_TRUE(std::isnan(bounded(a, {infinity, 2}, x - x).bound.exact));
  EXPECT_EQ(bounded(a, {infinity, 2}, x - x).bound.radius, 0);
}

TEST(InterpreterBounds, RoundedFiniteTermsDoNotMakeANanOrAnInfinityUncertain) {
  const Buffer a = array("A", f32, {3});
  const Expr x = load(a, {index(0)}), y = load(a, {index(1)}), z = load(a, {index(2)});
  const auto radius = [&](double special, const Expr& e) { return bounded(a, {special, 1.1f, 1.3f}, e).bound.radius; };
  const Expr rounded = y * z, near_zero = y - div(y * z, z);
  for (const double special : {std::nan(""), infinity}) {
    EXPECT_EQ(radius(special, x + rounded), 0);
    EXPECT_EQ(radius(special, rounded + x + rounded), 0);
    EXPECT_EQ(radius(special, x * rounded), 0);
    EXPECT_EQ(radius(special, div(x, rounded)), 0);
  }
  EXPECT_EQ(radius(std::nan(""), x * near_zero), 0);
  EXPECT_EQ(radius(infinity, x * near_zero), infinity);  // either sign, or NaN
  EXPECT_EQ(radius(infinity, div(x, near_zero)), infinity);
  EXPECT_EQ(radius(std::nan(""), max(x, rounded)), 0);
  // The finite terms may overflow to -inf before they meet +inf.
  EXPECT_EQ(bounded(a, {infinity, -3e38f, -2e38f}, x + y + z).bound.radius, infinity);
}

TEST(InterpreterBounds, ReductionInAnyOrderStaysWithin) {
  // Terms of very different size, summed forward (by the run) and backward (by hand).
  const std::vector<double> terms = {1, 1, 1, 1, 1, 1, 1, 0x1p25, -0x1p25};
  const Buffer a = array("A", f32, {9}), out = array("out", f32, {1});
  const VarRef k = Var::make("k"), vk = Var::make("vk");
  const Reducer reducer = simple_reducer(BinaryOp::add, f32);
  Block::Fields fields;
  fields.name = "sum";
  fields.iters = {{vk, {index(0), index(9)}, IterKind::reduce}};
  fields.bindings = {k};
  fields.reducer = reducer;
  fields.init = make_init(reducer, {{out, {index(0)}}});
  fields.body = make_update(reducer, {{out, {index(0)}}}, {load(a, {vk})});
  Data x(f32, terms), y(f32, 1);
  std::vector<std::vector<FloatBound>> bounds;
  InterpreterOptions options;
  options.bounds = &bounds;
  EXPECT_EQ(run(FuncNode::make("f", {a, out}, for_loop(k, 9, Block::make(fields))), {&x, &y}, {}, options), 0);
  float backward = 0;
  for (size_t i = terms.size(); i-- > 0;) backward += static_cast<float>(terms[i]);
  const FloatBound bound = bounds[1][0];
  EXPECT_EQ(bound.exact, 7);
  EXPECT_LE(std::abs(y.values()[0] - 7), bound.radius);
  EXPECT_LE(std::abs(backward - 7), bound.radius);
  EXPECT_LT(bound.radius, 10 * 0x1p26 * 0x1p-24 * 1.1);  // the identity counts as a term
}

}  // namespace
}  // namespace lathe::testing
