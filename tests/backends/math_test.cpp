/// Functions that go to SLEEF or to exact arithmetic, compiled: against MPFR within 4 ULP, and against the interpreter
/// bit for bit. Our own f32 functions are checked by tests/exhaustive.
#include <gtest/gtest.h>

#include <bit>
#include <cfenv>
#include <cmath>
#include <cstring>
#include <functional>
#include <limits>
#include <random>

#include "backends/cpu/cpu.h"
#include "ir/interpreter/interpreter.h"
#include "tests/exhaustive/kernel.h"
#include "tests/exhaustive/reference.h"

namespace lathe {
namespace {

using exhaustive::ElementwiseKernel;
using exhaustive::Exact2;
using exhaustive::Number;

constexpr int count = 240;  // a multiple of every lane count below

struct Case {
  std::string level;
  Device device;
  int lanes;
};

/// Each level with its vector, one lane, a width that must be split and one that must be padded.
std::vector<Case> cases(int bits) {
  std::vector<Case> result;
  for (const char* level : {"native", "avx2", "baseline"}) {
    const Device device = host_device(level);
    for (const int lanes : {1, 3, device.lanes(bits), 2 * device.lanes(bits) + 1}) {
      if (count % lanes == 0 || lanes > 4) result.push_back({level, device, lanes});
    }
  }
  return result;
}

/// Special values, magnitudes of every exponent, and the neighbourhoods of thresholds.
template <class T>
std::vector<T> samples(std::uint64_t seed, int size) {
  constexpr T infinity = std::numeric_limits<T>::infinity(), largest = std::numeric_limits<T>::max();
  std::vector<T> result = {T(0),
                           -T(0),
                           1,
                           -1,
                           2,
                           T(0.5),
                           infinity,
                           -infinity,
                           std::numeric_limits<T>::quiet_NaN(),
                           largest,
                           -largest,
                           std::numeric_limits<T>::min(),
                           std::numeric_limits<T>::denorm_min(),
                           -std::numeric_limits<T>::denorm_min(),
                           T(88.5),
                           T(-89.2),
                           T(709.5),
                           T(-710.2),
                           T(-745),
                           T(1e19),
                           T(-1e25),
                           T(1e38),
                           T(3e38),
                           T(1e-20),
                           T(-3),
                           T(7),
                           T(1e10),
                           T(-1e5)};
  std::mt19937_64 random(seed);
  while (static_cast<int>(result.size()) < size) {
    const std::uint64_t bits = random();
    if (bits % 3 == 0) {
      if constexpr (sizeof(T) == 4) {
        result.push_back(std::bit_cast<float>(static_cast<std::uint32_t>(bits >> 32)));
      } else {
        result.push_back(std::bit_cast<double>(random()));
      }
    } else {
      const T unit = static_cast<T>(static_cast<double>(static_cast<std::int64_t>(random())) * 0x1p-63);
      result.push_back(bits % 3 == 1 ? unit : unit * T(100));
    }
  }
  return result;
}

int padded(int lanes) {
  return (count + lanes - 1) / lanes * lanes;
}

using Exact1 = int (*)(mpfr_ptr, mpfr_srcptr, mpfr_rnd_t);

double error(float got, mpfr_srcptr truth) {
  return exhaustive::error_in_ulps(got, truth);
}
double error(double got, mpfr_srcptr truth) {
  return exhaustive::error_in_ulps_f64(got, truth);
}

template <class T>
constexpr DType dtype_of = sizeof(T) == 4 ? f32 : f64;

template <class T>
void check_unary(UnaryOp op, Exact1 exact) {
  for (const Case& c : cases(sizeof(T) * 8)) {
    const ElementwiseKernel kernel(op, dtype_of<T>, c.device, c.lanes);
    const std::vector<T> in = samples<T>(static_cast<std::uint64_t>(op), padded(c.lanes));
    std::vector<T> out(in.size());
    kernel(out.data(), {in.data()}, static_cast<std::int64_t>(in.size()));
    for (size_t i = 0; i < in.size(); ++i) {
      const Number x(in[i]);
      Number truth;
      exact(truth.value, x.value, MPFR_RNDN);
      ASSERT_LE(error(out[i], truth.value), 4) << to_string(op) << "(" << in[i] << ") = " << out[i] << ", " << c.level
                                               << ", " << c.lanes << " lanes of " << to_string(dtype_of<T>);
    }
  }
}

/// On so many arguments: up to `range`, near `edges`, and tiny.
void check_doubles(UnaryOp op, Exact1 exact, const Device& device, double range, const std::vector<double>& edges,
                   size_t count = size_t{1} << 15) {
  const ElementwiseKernel kernel(op, f64, device, device.lanes(64));
  std::vector<double> in;
  std::mt19937_64 random(17);
  for (const double edge : edges) {
    const double step = std::max(0x1p-50, std::nextafter(std::abs(edge), INFINITY) - std::abs(edge));
    for (int i = -20; i < 20; ++i) in.push_back(edge + i * step);
  }
  while (in.size() < count) {
    const double unit = static_cast<double>(static_cast<std::int64_t>(random())) * 0x1p-63;
    in.push_back(random() % 4 ? unit * range : std::ldexp(unit, -static_cast<int>(random() % 1080)));
  }
  std::vector<double> out(in.size());
  kernel(out.data(), {in.data()}, static_cast<std::int64_t>(in.size()));
  for (size_t i = 0; i < in.size(); ++i) {
    const Number x(in[i]);
    Number truth;
    exact(truth.value, x.value, MPFR_RNDN);
    ASSERT_LE(error(out[i], truth.value), 2) << to_string(op) << "(" << in[i] << ") = " << out[i];
  }
}

TEST(Math, ErfOfDoublesIsWithinTwoUlps) {
  check_doubles(UnaryOp::erf, mpfr_erf, host_device(), 6, {0.0, 0.25, 0.5, 1.75, 2.0, 2.5, 3.5, 5.5, 5.9375, 6.0});
}

TEST(Math, ExpOfDoublesIsWithinTwoUlps) {
  const double half_ln2 = std::log(2) / 2;
  for (const char* level : {"native", "avx2", "baseline"})
    check_doubles(UnaryOp::exp, mpfr_exp, host_device(level), 760,
                  {0.0, half_ln2, -half_ln2, 3 * half_ln2, 709.0, 709.782712893384, 710.0, -708.396, -745.133, -746.0});
}

/// Where a product is too small for a denormal, cores take a multiple of its time: masked scores are such arguments.
template <class T>
void check_far_below(UnaryOp op) {
  for (const Case& c : cases(sizeof(T) * 8)) {
    const ElementwiseKernel kernel(op, dtype_of<T>, c.device, c.lanes);
    for (const T far : {T(-2000), T(-1e30), -std::numeric_limits<T>::infinity()}) {
      const std::vector<T> in(static_cast<size_t>(padded(c.lanes)), far);
      std::vector<T> out(in.size(), T(1));
      std::feclearexcept(FE_ALL_EXCEPT);
      kernel(out.data(), {in.data()}, static_cast<std::int64_t>(in.size()));
      EXPECT_EQ(std::fetestexcept(FE_UNDERFLOW), 0) << to_string(op) << "(" << far << "), " << c.level;
      for (const T value : out) EXPECT_TRUE(value == 0 && !std::signbit(value)) << value;
    }
  }
}

TEST(Math, ExponentialsFarBelowAreZeroWithoutUnderflow) {
  check_far_below<float>(UnaryOp::exp);
  check_far_below<float>(UnaryOp::exp2);
  check_far_below<double>(UnaryOp::exp);
}

TEST(Math, OwnFunctionsOfDoublesAreWithinTwoUlps) {
  const double quarter = std::acos(0.0);
  for (const char* level : {"native", "avx2", "baseline"}) {
    const Device device = host_device(level);
    check_doubles(UnaryOp::tanh, mpfr_tanh, device, 20, {0.0, 0.2, 0.35, 0.55, 1.0, 19.0, 19.1});
    // The greatest numbers whose results are finite.
    constexpr double of_exp = 709.782712893384, of_half = 710.4758600739439;
    for (const double range : {40.0, 711.0}) {
      check_doubles(UnaryOp::expm1, mpfr_expm1, device, range, {0.0, 0.35, -0.35, 1.04, -1.04, -37.4, -38.0, of_exp});
      check_doubles(UnaryOp::sinh, mpfr_sinh, device, range, {0.0, 0.35, -0.35, 1.04, 19.0, of_exp, of_half, -of_half});
      check_doubles(UnaryOp::cosh, mpfr_cosh, device, range, {0.0, 0.35, -0.35, 1.04, 19.0, of_exp, of_half, -of_half});
    }
    // Where halves of results are rounded on their way.
    constexpr size_t many = size_t{1} << 18;
    check_doubles(UnaryOp::sinh, mpfr_sinh, device, 0.5, {0x1.a6db49fd0db08p-2, 0x1.bcff6278814eap-2}, many);
  }
  for (const char* level : {"native", "avx2"}) {
    const Device device = host_device(level);
    check_doubles(UnaryOp::log, mpfr_log, device, 4, {0.0, 0.75, 1.0, 1.5, 2.0, 3.0, 0x1p-1022});
    check_doubles(UnaryOp::log2, mpfr_log2, device, 4, {0.0, 0.75, 1.0, 1.5, 2.0, 3.0, 0x1p-1022});
    check_doubles(UnaryOp::log10, mpfr_log10, device, 4, {0.0, 0.75, 1.0, 1.5, 2.0, 3.0, 0x1p-1022});
    check_doubles(UnaryOp::log1p, mpfr_log1p, device, 4, {0.0, -1.0, -0.25, 0.5, 2.0, 0x1p53, 0x1p54, 0x1p1000});
    check_doubles(UnaryOp::sin, mpfr_sin, device, 1e6, {0.0, quarter, 2 * quarter, 1e9, -1e9});
    check_doubles(UnaryOp::cos, mpfr_cos, device, 100, {0.0, quarter, 3 * quarter, 1e9, -1e9});
    check_doubles(UnaryOp::tan, mpfr_tan, device, 100, {0.0, quarter, 2 * quarter, quarter / 2, 1e9, -1e9});
    check_doubles(UnaryOp::asin, mpfr_asin, device, 1, {0.0, 0.5, -0.5, 1.0, -1.0, 0x1p-27});
    check_doubles(UnaryOp::acos, mpfr_acos, device, 1, {0.0, 0.5, -0.5, 1.0, -1.0, 0x1p-27});
    check_doubles(UnaryOp::atan, mpfr_atan, device, 8, {0.0, 1.0, -1.0, 2.5, 1e10, 0x1p54, 1e300});
  }
  check_doubles(UnaryOp::log, mpfr_log, host_device("baseline"), 4, {0.0, 0.75, 1.0, 1.5, 0x1p-1022});
  check_doubles(UnaryOp::log1p, mpfr_log1p, host_device("baseline"), 4, {0.0, -1.0, -0.25, 0.5, 0x1p53, 0x1p1000});
}

/// Squares that leave the range, in some lanes beside others that do not.
TEST(Math, HypotIsWithinTwoUlpsWhereSquaresLeaveTheRange) {
  for (const char* level : {"native", "avx2", "baseline"}) {
    const Device device = host_device(level);
    const ElementwiseKernel kernel(BinaryOp::hypot, f64, device, device.lanes(64));
    std::vector<double> x, y;
    std::mt19937_64 random(3);
    for (int i = 0; i < 1 << 14; ++i) {
      const auto unit = [&] { return static_cast<double>(static_cast<std::int64_t>(random())) * 0x1p-63; };
      const int scale = random() % 2 ? 0 : static_cast<int>(random() % 2000) - 1000;
      x.push_back(i % 5 ? std::ldexp(unit(), scale) : 0.0);
      y.push_back(i % 7 ? std::ldexp(unit(), scale) : 0.0);
    }
    std::vector<double> out(x.size());
    kernel(out.data(), {x.data(), y.data()}, static_cast<std::int64_t>(x.size()));
    for (size_t i = 0; i < x.size(); ++i) {
      const Number a(x[i]), b(y[i]);
      Number truth;
      mpfr_hypot(truth.value, a.value, b.value, MPFR_RNDN);
      ASSERT_LE(error(out[i], truth.value), 2) << "hypot(" << x[i] << ", " << y[i] << ") = " << out[i] << ", " << level;
    }
  }
}

int rsqrt(mpfr_ptr result, mpfr_srcptr x, mpfr_rnd_t rounding) {
  mpfr_rec_sqrt(result, x, rounding);
  return mpfr_zero_p(x) ? mpfr_setsign(result, result, mpfr_signbit(x), rounding) : 0;  // 1 / sqrt(-0) is 1 / -0
}
int sigmoid(mpfr_ptr result, mpfr_srcptr x, mpfr_rnd_t rounding) {
  mpfr_neg(result, x, rounding);
  mpfr_exp(result, result, rounding);
  mpfr_add_ui(result, result, 1, rounding);
  return mpfr_ui_div(result, 1, result, rounding);
}

TEST(Math, EveryFunctionOfOneArgumentIsWithinFourUlps) {
  const std::pair<UnaryOp, Exact1> functions[] = {
      {UnaryOp::rsqrt, rsqrt},      {UnaryOp::exp, mpfr_exp},     {UnaryOp::exp2, mpfr_exp2},
      {UnaryOp::expm1, mpfr_expm1}, {UnaryOp::log, mpfr_log},     {UnaryOp::log2, mpfr_log2},
      {UnaryOp::log10, mpfr_log10}, {UnaryOp::log1p, mpfr_log1p}, {UnaryOp::sin, mpfr_sin},
      {UnaryOp::cos, mpfr_cos},     {UnaryOp::tan, mpfr_tan},     {UnaryOp::asin, mpfr_asin},
      {UnaryOp::acos, mpfr_acos},   {UnaryOp::atan, mpfr_atan},   {UnaryOp::sinh, mpfr_sinh},
      {UnaryOp::cosh, mpfr_cosh},   {UnaryOp::tanh, mpfr_tanh},   {UnaryOp::asinh, mpfr_asinh},
      {UnaryOp::acosh, mpfr_acosh}, {UnaryOp::atanh, mpfr_atanh}, {UnaryOp::erf, mpfr_erf},
      {UnaryOp::sigmoid, sigmoid}};
  for (const auto& [op, exact] : functions) {
    check_unary<float>(op, exact);
    check_unary<double>(op, exact);
  }
}

template <class T>
void check_binary(BinaryOp op, Exact2 exact) {
  for (const Case& c : cases(sizeof(T) * 8)) {
    const ElementwiseKernel kernel(op, dtype_of<T>, c.device, c.lanes);
    const std::vector<T> x = samples<T>(1, 60), y = samples<T>(2, padded(c.lanes));
    for (const T first : x) {
      const std::vector<T> left(y.size(), first);
      std::vector<T> out(y.size());
      kernel(out.data(), {left.data(), y.data()}, static_cast<std::int64_t>(y.size()));
      for (size_t i = 0; i < y.size(); ++i) {
        const Number a(first), b(y[i]);
        Number truth;
        exact(truth.value, a.value, b.value, MPFR_RNDN);
        ASSERT_LE(error(out[i], truth.value), 4)
            << to_string(op) << "(" << first << ", " << y[i] << ") = " << out[i] << ", " << c.level << ", " << c.lanes
            << " lanes of " << to_string(dtype_of<T>);
      }
    }
  }
}

TEST(Math, PowAtan2AndHypotAreWithinFourUlps) {
  check_binary<double>(BinaryOp::pow, mpfr_pow);
  check_binary<float>(BinaryOp::pow, mpfr_pow);
  check_binary<double>(BinaryOp::atan2, mpfr_atan2);
  check_binary<float>(BinaryOp::atan2, mpfr_atan2);
  check_binary<double>(BinaryOp::hypot, mpfr_hypot);
  check_binary<float>(BinaryOp::hypot, mpfr_hypot);
}

/// What the interpreter makes of value(in0[i], in1[i], ..), element by element.
template <class T>
std::vector<T> interpreted(DType dtype, std::vector<std::vector<T>> in,
                           const std::function<Expr(const std::vector<Expr>&)>& value) {
  const auto n = static_cast<std::int64_t>(in[0].size());
  const VarRef i = Var::make("i");
  std::vector<T> out(in[0].size());
  std::vector<HostBuffer> buffers;
  std::vector<Param> params;
  std::vector<Expr> operands;
  const auto add = [&](std::vector<T>& v) {
    auto* begin = reinterpret_cast<std::byte*>(v.data());
    buffers.push_back({begin, begin, begin + v.size() * sizeof(T)});
    const Buffer buffer = BufferNode::make("b" + std::to_string(params.size()), dtype, {index(n)});
    params.push_back(buffer);
    return buffer;
  };
  const Buffer result = add(out);
  for (std::vector<T>& v : in) operands.push_back(load(add(v), {i}));
  const Stmt body = For::make(i, index(0), index(n), ForKind::serial, Store::make(result, {i}, value(operands)));
  EXPECT_EQ(interpret(FuncNode::make("oracle", params, body, {}, {}, Stage::flatten), buffers, {}), 0);
  return out;
}

template <class T>
bool same(T a, T b) {
  if (a != a && b != b) return true;  // NaNs are alike
  return std::memcmp(&a, &b, sizeof(T)) == 0;
}

template <class T>
void check_exact(BinaryOp op, DType dtype, const std::vector<T>& xs, std::vector<T> y) {
  for (const Case& c : cases(static_cast<int>(sizeof(T)) * 8)) {
    const ElementwiseKernel kernel(op, dtype, c.device, c.lanes);
    while (y.size() % static_cast<size_t>(c.lanes) != 0) y.push_back(y[y.size() / 2]);
    for (const T first : xs) {
      const std::vector<T> x(y.size(), first);
      std::vector<T> out(y.size());
      kernel(out.data(), {x.data(), y.data()}, static_cast<std::int64_t>(y.size()));
      const std::vector<T> expected =
          interpreted<T>(dtype, {x, y}, [&](const std::vector<Expr>& v) { return binary(op, v[0], v[1]); });
      for (size_t i = 0; i < y.size(); ++i) {
        ASSERT_TRUE(same(out[i], expected[i]))
            << to_string(op) << "(" << +first << ", " << +y[i] << ") = " << +out[i] << ", expected " << +expected[i]
            << ", " << c.level << ", " << c.lanes << " lanes of " << to_string(dtype);
      }
    }
  }
}

TEST(Math, FloatDivisionCopysignAndNextafterAreExact) {
  for (const BinaryOp op : {BinaryOp::floor_mod, BinaryOp::floor_div, BinaryOp::copysign, BinaryOp::nextafter}) {
    check_exact<float>(op, f32, samples<float>(5, 70), samples<float>(6, 90));
    check_exact<double>(op, f64, samples<double>(7, 70), samples<double>(8, 90));
  }
}

template <class T>
std::vector<T> integers(std::uint64_t seed, int size) {
  std::vector<T> result = {
      0, 1, static_cast<T>(-1), 2, 3, 7, 10, std::numeric_limits<T>::min(), std::numeric_limits<T>::max()};
  std::mt19937_64 random(seed);
  while (static_cast<int>(result.size()) < size) result.push_back(static_cast<T>(random() >> (random() % 64)));
  return result;
}

TEST(Math, IntegerPowersAreExactModuloTheWidth) {
  check_exact<std::int8_t>(BinaryOp::pow, i8, integers<std::int8_t>(1, 40), integers<std::int8_t>(2, 40));
  check_exact<std::uint8_t>(BinaryOp::pow, u8, integers<std::uint8_t>(1, 40), integers<std::uint8_t>(2, 40));
  check_exact<std::int16_t>(BinaryOp::pow, i16, integers<std::int16_t>(1, 40), integers<std::int16_t>(2, 40));
  check_exact<std::uint16_t>(BinaryOp::pow, u16, integers<std::uint16_t>(1, 40), integers<std::uint16_t>(2, 40));
  check_exact<std::int32_t>(BinaryOp::pow, i32, integers<std::int32_t>(1, 40), integers<std::int32_t>(2, 40));
  check_exact<std::uint32_t>(BinaryOp::pow, u32, integers<std::uint32_t>(1, 40), integers<std::uint32_t>(2, 40));
  check_exact<std::int64_t>(BinaryOp::pow, i64, integers<std::int64_t>(1, 40), integers<std::int64_t>(2, 40));
  check_exact<std::uint64_t>(BinaryOp::pow, u64, integers<std::uint64_t>(1, 40), integers<std::uint64_t>(2, 40));
}

/// Units in the last place between two 16-bit floats, by their bits; 0 for two NaNs.
int short_distance(std::uint16_t a, std::uint16_t b, int mantissa_bits) {
  const auto is_nan = [&](std::uint16_t x) { return (x & 0x7fff) > ((0x7fff >> mantissa_bits) << mantissa_bits); };
  if (is_nan(a) || is_nan(b)) return is_nan(a) && is_nan(b) ? 0 : 0x10000;
  const auto ordered = [](std::uint16_t x) { return x & 0x8000 ? 0x8000 - x : static_cast<int>(x); };
  return std::abs(ordered(a) - ordered(b));
}

TEST(Math, HalvesAreComputedInF32AndRoundedOnce) {
  const UnaryOp functions[] = {UnaryOp::exp,   UnaryOp::exp2, UnaryOp::expm1,   UnaryOp::log,
                               UnaryOp::log1p, UnaryOp::sin,  UnaryOp::cosh,    UnaryOp::tanh,
                               UnaryOp::erf,   UnaryOp::sqrt, UnaryOp::atanh,   UnaryOp::rsqrt,
                               UnaryOp::asinh, UnaryOp::sinh, UnaryOp::sigmoid, UnaryOp::floor};
  std::vector<std::uint16_t> in;
  for (int bits = 0; bits < 0x10000; bits += 13) in.push_back(static_cast<std::uint16_t>(bits));
  while (in.size() % 64 != 0) in.push_back(0x8000);
  for (const DType type : {f16, bf16}) {
    for (const char* level : {"native", "avx2", "baseline"}) {
      const Device device = host_device(level);
      for (const UnaryOp op : functions) {
        std::vector<std::uint16_t> out(in.size());
        const ElementwiseKernel kernel(op, type, device, device.lanes(32));
        kernel(out.data(), {in.data()}, static_cast<std::int64_t>(in.size()));
        const std::vector<std::uint16_t> expected =
            interpreted<std::uint16_t>(type, {in}, [&](const std::vector<Expr>& x) { return unary(op, x[0]); });
        for (size_t i = 0; i < in.size(); ++i) {
          ASSERT_LE(short_distance(out[i], expected[i], type == f16 ? 10 : 7), 1)
              << to_string(op) << " of " << to_string(type) << " with bits " << in[i] << ": " << out[i] << ", expected "
              << expected[i] << ", " << level;
        }
      }
    }
  }
}

}  // namespace
}  // namespace lathe
