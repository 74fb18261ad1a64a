#include <cmath>
#include <limits>

#include "jit/trace/ops/registry.h"
#include "tests/jit/trace/harness.h"

namespace lathe::test {
namespace {

using Values = std::vector<double>;
using ops::BinaryOperator;
using ops::UnaryOperator;

constexpr double inf = std::numeric_limits<double>::infinity();
const double nan = std::numeric_limits<double>::quiet_NaN();

void expect_same(const Values& actual, const Values& expected, double tolerance, const std::string& what) {
  ASSERT_EQ(actual.size(), expected.size()) << what;
  for (size_t k = 0; k < actual.size(); ++k) {
    if (std::isnan(expected[k])) {
      EXPECT_TRUE(std::isnan(actual[k])) << what << " element " << k << ": " << actual[k];
    } else if (std::isinf(expected[k]) || expected[k] == 0) {
      EXPECT_EQ(actual[k], expected[k]) << what << " element " << k;
    } else {
      EXPECT_NEAR(actual[k], expected[k], std::abs(expected[k]) * tolerance) << what << " element " << k;
    }
  }
}

/// The relative spacing of a float type.
double unit(DType dtype) {
  return dtype == f64 ? 1e-14 : dtype == f32 ? 4e-7 : dtype == f16 ? 1e-3 : 8e-3;
}

struct UnaryCase {
  const char* name;
  double (*reference)(double);
};

double sigmoid(double v) {
  return 1 / (1 + std::exp(-v));
}

const UnaryCase float_cases[] = {
    {"exp", std::exp},
    {"exp2", std::exp2},
    {"expm1", std::expm1},
    {"log", std::log},
    {"log2", std::log2},
    {"log10", std::log10},
    {"log1p", std::log1p},
    {"sqrt", std::sqrt},
    {"sin", std::sin},
    {"cos", std::cos},
    {"tan", std::tan},
    {"asin", std::asin},
    {"acos", std::acos},
    {"atan", std::atan},
    {"sinh", std::sinh},
    {"cosh", std::cosh},
    {"tanh", std::tanh},
    {"asinh", std::asinh},
    {"acosh", std::acosh},
    {"atanh", std::atanh},
    {"erf", std::erf},
    {"floor", std::floor},
    {"ceil", std::ceil},
    {"trunc", std::trunc},
    {"round", std::nearbyint},
    {"abs", std::fabs},
    {"sigmoid", sigmoid},
    {"rsqrt", [](double v) { return 1 / std::sqrt(v); }},
    {"negative", [](double v) { return -v; }},
    {"positive", [](double v) { return v; }},
    {"reciprocal", [](double v) { return 1 / v; }},
    {"sign", [](double v) { return std::isnan(v) ? v
                                   : v > 0       ? 1.0
                                   : v < 0       ? -1.0
                                                 : 0.0; }},
    {"square", [](double v) { return v * v; }},
    {"isnan", [](double v) { return double(std::isnan(v)); }},
    {"isinf", [](double v) { return double(std::isinf(v)); }},
    {"isfinite", [](double v) { return double(std::isfinite(v)); }},
    {"signbit", [](double v) { return double(std::signbit(v)); }},
    {"relu", [](double v) { return std::isnan(v) ? v : std::max(v, 0.0); }},
    {"gelu", [](double v) { return v / 2 * (1 + std::erf(v / std::sqrt(2.0))); }},
    {"gelu_tanh", [](double v) { return v / 2 * (1 + std::tanh(std::sqrt(2 / M_PI) * (v + 0.044715 * v * v * v))); }},
    {"silu", [](double v) { return v * sigmoid(v); }},
    {"softplus", [](double v) { return std::max(v, 0.0) + std::log1p(std::exp(-std::fabs(v))); }},
};

TEST(Elementwise, UnaryFloatFunctionsAgreeWithTheirDefinition) {
  const Values points{0.0, 0.25, -0.25, 0.5, 1, 1.5, 2.5, -2.5, -1, 3, inf, -inf, nan};
  for (const UnaryCase& each : float_cases) {
    const ops::Operator* op = ops::find_operator(each.name);
    ASSERT_TRUE(op && std::holds_alternative<UnaryOperator>(op->call)) << each.name;
    Values expected;
    for (double point : points) expected.push_back(each.reference(point));
    for (DType dtype : {f16, bf16, f32, f64}) {
      const Array out =
          run({array(dtype, {13}, points)}, [&](auto& x) { return std::get<UnaryOperator>(op->call)(x[0]); });
      expect_same(values(out), expected, 4 * unit(dtype), std::string(each.name) + " " + to_string(dtype));
    }
  }
}

TEST(Elementwise, EveryUnaryOperatorOfFloatsHasACase) {
  for (const ops::Operator& op : ops::operators()) {
    if (!std::holds_alternative<UnaryOperator>(op.call)) continue;
    if (op.name == "logical_not" || op.name == "bitwise_invert" || op.name == "bitwise_count" ||
        op.name == "matrix_transpose")
      continue;
    bool found = false;
    for (const UnaryCase& each : float_cases) found = found || each.name == op.name;
    EXPECT_TRUE(found) << op.name;
  }
}

struct BinaryCase {
  const char* name;
  double (*reference)(double, double);
};

double float_remainder(double a, double b) {
  const double r = std::fmod(a, b);
  return r != 0 ? ((r < 0) != (b < 0) ? r + b : r) : std::copysign(0.0, b);
}

const BinaryCase binary_float_cases[] = {
    {"add", [](double a, double b) { return a + b; }},
    {"subtract", [](double a, double b) { return a - b; }},
    {"multiply", [](double a, double b) { return a * b; }},
    {"divide", [](double a, double b) { return a / b; }},
    {"floor_divide", [](double a, double b) { return std::floor(a / b); }},
    {"remainder", float_remainder},
    {"pow", [](double a, double b) { return std::pow(a, b); }},
    {"maximum", [](double a, double b) { return std::max(a, b); }},
    {"minimum", [](double a, double b) { return std::min(a, b); }},
    {"hypot", [](double a, double b) { return std::hypot(a, b); }},
    {"atan2", [](double a, double b) { return std::atan2(a, b); }},
    {"copysign", [](double a, double b) { return std::copysign(a, b); }},
    {"logaddexp", [](double a, double b) { return std::log(std::exp(a) + std::exp(b)); }},
    {"equal", [](double a, double b) { return double(a == b); }},
    {"not_equal", [](double a, double b) { return double(a != b); }},
    {"less", [](double a, double b) { return double(a < b); }},
    {"less_equal", [](double a, double b) { return double(a <= b); }},
    {"greater", [](double a, double b) { return double(a > b); }},
    {"greater_equal", [](double a, double b) { return double(a >= b); }},
};

BinaryOperator binary_operator(const char* name) {
  const ops::Operator* op = ops::find_operator(name);
  if (!op || !std::holds_alternative<BinaryOperator>(op->call)) throw Bug(name);
  return std::get<BinaryOperator>(op->call);
}

TEST(Elementwise, BinaryFloatFunctionsAgreeWithTheirDefinition) {
  const Values left{1.5, -1.5, 7, -7, 0.25, 2, 3}, right{2, 2, -2, -2, 4, 2, 0.5};
  for (const BinaryCase& each : binary_float_cases) {
    const BinaryOperator f = binary_operator(each.name);
    Values expected;
    for (size_t k = 0; k < left.size(); ++k) expected.push_back(each.reference(left[k], right[k]));
    for (DType dtype : {f16, bf16, f32, f64}) {
      const Array out =
          run({array(dtype, {7}, left), array(dtype, {7}, right)}, [&](auto& x) { return f(x[0], x[1]); });
      expect_same(values(out), expected, 4 * unit(dtype), std::string(each.name) + " " + to_string(dtype));
    }
  }
}

Array run_binary(const char* name, Array a, Array b) {
  return run({std::move(a), std::move(b)}, [&](auto& x) { return binary_operator(name)(x[0], x[1]); });
}

TEST(Elementwise, IntegerArithmeticWrapsAndFloors) {
  const auto on = [](const char* name, DType dtype, Values a, Values b) {
    const std::int64_t n = static_cast<std::int64_t>(a.size());
    return values(run_binary(name, array(dtype, {n}, a), array(dtype, {n}, b)));
  };
  EXPECT_EQ(on("add", i8, {127, -128}, {1, -1}), (Values{-128, 127}));
  EXPECT_EQ(on("multiply", u8, {200, 16}, {2, 16}), (Values{144, 0}));
  EXPECT_EQ(on("floor_divide", i32, {7, -7, 7, -7, 5}, {2, 2, -2, -2, 0}), (Values{3, -4, -4, 3, 0}));
  EXPECT_EQ(on("remainder", i32, {7, -7, 7, -7, 5}, {2, 2, -2, -2, 0}), (Values{1, 1, -1, -1, 0}));
  EXPECT_EQ(on("floor_divide", i8, {-128}, {-1}), (Values{-128}));
  EXPECT_EQ(on("pow", i32, {2, -3, 5}, {10, 3, 0}), (Values{1024, -27, 1}));
  EXPECT_EQ(on("bitwise_left_shift", u8, {1, 255, 1}, {7, 1, 8}), (Values{128, 254, 0}));
  EXPECT_EQ(on("bitwise_right_shift", i8, {-128, -1, 64}, {7, 100, 3}), (Values{-1, -1, 8}));
  EXPECT_EQ(on("bitwise_xor", boolean, {0, 1, 1}, {1, 1, 0}), (Values{1, 0, 1}));
  EXPECT_EQ(on("bitwise_and", i16, {12, -1}, {10, 255}), (Values{8, 255}));
  EXPECT_EQ(on("maximum", u32, {4e9, 1}, {1, 2}), (Values{4e9, 2}));
  EXPECT_EQ(values(run({array(i8, {3}, {-128, -5, 5})}, [](auto& x) { return ops::abs(x[0]); })), (Values{-128, 5, 5}));
  EXPECT_EQ(values(run({array(u8, {2}, {0, 5})}, [](auto& x) { return ops::negative(x[0]); })), (Values{0, 251}));
  EXPECT_EQ(values(run({array(i32, {3}, {-7, 0, 7})}, [](auto& x) { return ops::sign(x[0]); })), (Values{-1, 0, 1}));
  EXPECT_EQ(values(run({array(u32, {2}, {0, 7})}, [](auto& x) { return ops::sign(x[0]); })), (Values{0, 1}));
  EXPECT_EQ(values(run({array(i32, {2}, {3, 4})}, [](auto& x) { return ops::isfinite(x[0]); })), (Values{1, 1}));
  EXPECT_EQ(values(run({array(boolean, {2}, {0, 1})}, [](auto& x) { return ops::bitwise_invert(x[0]); })),
            (Values{1, 0}));
}

TEST(Elementwise, RoundingAnIntegerIsThatInteger) {
  const Func func = trace({empty(i32, {4})}, [](auto& x) { return std::vector{ops::floor(ops::round(x[0])) + 1}; });
  EXPECT_EQ(std::get<std::string>(func->attrs.at("operators")), "add");
}

TEST(Elementwise, LogaddexpIsSafeAtInfinities) {
  const Values a{-inf, inf, -inf, 1000, 0}, b{-inf, inf, 3, 1000, nan};
  const Values out = values(run_binary("logaddexp", array(f64, {5}, a), array(f64, {5}, b)));
  expect_same(out, {-inf, inf, 3, 1000 + std::log(2.0), nan}, 1e-15, "logaddexp");
}

TEST(Elementwise, NextafterStepsInItsOwnType) {
  const Values a{1, 1, 0, 0, -1, 5, nan}, b{2, 0, 1, -1, 0, 5, 1};
  for (DType dtype : {f16, bf16}) {
    const double spacing = dtype == f16 ? 0x1p-10 : 0x1p-7, least = dtype == f16 ? 0x1p-24 : 0x1p-133;
    expect_same(values(run_binary("nextafter", array(dtype, {7}, a), array(dtype, {7}, b))),
                {1 + spacing, 1 - spacing / 2, least, -least, -1 + spacing / 2, 5, nan}, 0, to_string(dtype));
  }
  EXPECT_EQ(values(run_binary("nextafter", array(f32, {1}, {1}), array(f32, {1}, {2}))), (Values{1 + 0x1p-23}));
}

TEST(Elementwise, ClipWhereAstype) {
  const Array x = array(f32, {4}, {-2, 0.5, 3, nan});
  const auto clip = [&](std::optional<Tensor> low, std::optional<Tensor> high) {
    return values(run({x}, [&](auto& v) { return ops::clip(v[0], low, high); }));
  };
  expect_same(clip(-1, 1), {-1, 0.5, 1, nan}, 0, "both");
  expect_same(clip(0, std::nullopt), {0, 0.5, 3, nan}, 0, "low");
  expect_same(clip(std::nullopt, 0), {-2, 0, 0, nan}, 0, "high");
  expect_same(clip(std::nullopt, std::nullopt), {-2, 0.5, 3, nan}, 0, "neither");
  EXPECT_EQ(values(run({array(boolean, {2}, {1, 0})},
                       [](auto& v) { return ops::where(v[0], ops::full({}, 1.5, f32), -1.5); })),
            (Values{1.5, -1.5}));
  EXPECT_EQ(values(run({array(f32, {3}, {1.9, -1.9, 300})}, [](auto& v) { return ops::astype(v[0], i16); })),
            (Values{1, -1, 300}));
  EXPECT_EQ(values(run({array(i32, {2}, {0, -3})}, [](auto& v) { return ops::astype(v[0], boolean); })),
            (Values{0, 1}));
  EXPECT_EQ(values(run({array(u64, {1}, {5})}, [](auto& v) { return ops::astype(v[0], bf16); })), (Values{5}));
}

TEST(Elementwise, BroadcastsAsNumPy) {
  const Array out = run({iota(f32, {3, 1}), iota(f32, {2, 1, 4})}, [](auto& x) { return x[0] * 10 + x[1]; });
  EXPECT_EQ(out.shape, (std::vector<std::int64_t>{2, 3, 4}));
  EXPECT_EQ(values(out)[23], 27);
  EXPECT_EQ(run({empty(f32, {0, 3}), empty(f32, {1, 3})}, [](auto& x) { return x[0] + x[1]; }).shape,
            (std::vector<std::int64_t>{0, 3}));
  EXPECT_EQ(values(run({array(f32, {}, {2}), array(f32, {}, {3})}, [](auto& x) { return x[0] * x[1]; })), (Values{6}));
}

}  // namespace
}  // namespace lathe::test
