/// lower_math without a backend: what it leaves, how large it is, and that the interpreter still runs what it makes.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>

#include "ir/interpreter/interpreter.h"
#include "ir/intrinsics.h"
#include "ir/passes/lower_math.h"
#include "ir/passes/math/vector_library.h"
#include "ir/visitor.h"

namespace lathe {
namespace {

Device device(const std::string& triple, bool fused, std::vector<std::string> features, int vector_bits) {
  Device d;
  d.name = "cpu";
  d.triple = triple;
  d.fused_multiply_add = fused;
  d.features = std::move(features);
  d.vector_bits = vector_bits;
  return d;
}

std::vector<Device> devices() {
  return {device("x86_64-pc-linux-gnu", true, {"avx2", "avx512f", "fma", "sse4.1"}, 512),
          device("x86_64-pc-linux-gnu", true, {"avx2", "avx512f", "avx512vl", "fma", "sse4.1"}, 512),
          device("x86_64-pc-linux-gnu", true, {"avx2", "fma", "sse4.1"}, 256),
          device("x86_64-pc-linux-gnu", true, {"avx2", "fma", "sse4.1", "sse4a"}, 256),
          device("x86_64-pc-linux-gnu", false, {}, 128),
          device("aarch64-linux-gnu", true, {"neon"}, 128),
          device("riscv64-linux-gnu", true, {}, 128)};
}

constexpr int elements = 48;

/// out[i] = value(in0[i], in1[i]) over 48 elements, `lanes` at a time; in1 is there when the arity is 2.
Func elementwise(DType in, DType out, int arity, int lanes,
                 const std::function<Expr(const std::vector<Expr>&)>& value) {
  const VarRef i = Var::make("i");
  const Expr first = i * lanes;
  const Expr place = lanes == 1 ? first : Ramp::make(first, index(1), lanes);
  const Buffer result = BufferNode::make("out", out, {index(elements)});
  std::vector<Param> params = {result};
  std::vector<Expr> operands;
  for (int k = 0; k < arity; ++k) {
    const Buffer operand = BufferNode::make("in" + std::to_string(k), in, {index(elements)});
    params.push_back(operand);
    operands.push_back(load(operand, {place}));
  }
  const Stmt body =
      For::make(i, index(0), index(elements / lanes), ForKind::serial, Store::make(result, {place}, value(operands)));
  return FuncNode::make("elementwise", std::move(params), body, {}, {}, Stage::flatten);
}

template <typename T = float>
std::vector<T> run(const Func& func, std::vector<std::vector<T>> in) {
  static const bool once = [] {
    math::for_each_library_meaning(register_interpreter_extern);
    return true;
  }();
  (void)once;
  std::vector<T> out(elements);
  std::vector<HostBuffer> buffers;
  const auto add = [&](std::vector<T>& v) {
    auto* begin = reinterpret_cast<std::byte*>(v.data());
    buffers.push_back({begin, begin, begin + v.size() * sizeof(T)});
  };
  add(out);
  for (std::vector<T>& v : in) add(v);
  EXPECT_EQ(interpret(func, buffers, {}), 0);
  return out;
}

std::vector<float> inputs(std::uint64_t seed) {
  std::vector<float> result = {0.0f,   -0.0f,   1.0f,  -1.0f,   INFINITY, -INFINITY, NAN,
                               1e-45f, 3.4e38f, 88.8f, -103.5f, 1e6f,     -3e30f};
  std::mt19937_64 random(seed);
  while (result.size() < elements) {
    result.push_back(random() % 2 ? std::bit_cast<float>(static_cast<std::uint32_t>(random()))
                                  : static_cast<float>(static_cast<double>(random() % 100000) / 5000 - 10));
  }
  return result;
}

/// Within two units in the last place, counted in floats between.
bool near(float a, float b) {
  if (std::isnan(a) || std::isnan(b)) return std::isnan(a) && std::isnan(b);
  const auto ordered = [](float x) {
    const auto bits = std::bit_cast<std::int32_t>(x);
    return static_cast<std::int64_t>(bits < 0 ? std::int32_t{-0x7fffffff - 1} - bits : bits);
  };
  return std::abs(ordered(a) - ordered(b)) <= 2;
}

const UnaryOp lowered_unary[] = {UnaryOp::rsqrt, UnaryOp::exp,    UnaryOp::exp2,  UnaryOp::expm1, UnaryOp::log,
                                 UnaryOp::log2,  UnaryOp::log10,  UnaryOp::log1p, UnaryOp::sin,   UnaryOp::cos,
                                 UnaryOp::tan,   UnaryOp::asin,   UnaryOp::acos,  UnaryOp::atan,  UnaryOp::sinh,
                                 UnaryOp::cosh,  UnaryOp::tanh,   UnaryOp::asinh, UnaryOp::acosh, UnaryOp::atanh,
                                 UnaryOp::erf,   UnaryOp::sigmoid};
const BinaryOp lowered_binary[] = {BinaryOp::pow,       BinaryOp::atan2,     BinaryOp::hypot,   BinaryOp::floor_div,
                                   BinaryOp::floor_mod, BinaryOp::nextafter, BinaryOp::copysign};

bool is_lowered(const Expr& e) {
  if (const auto* node = e.as<Unary>()) return std::count(std::begin(lowered_unary), std::end(lowered_unary), node->op);
  const auto* node = e.as<Binary>();
  return node && (node->dtype.is_float() || node->op == BinaryOp::pow) &&
         std::count(std::begin(lowered_binary), std::end(lowered_binary), node->op);
}

int left_in(const Func& func) {
  int count = 0;
  for_each_expr(func->body, [&](const Expr& e) { count += is_lowered(e); });
  return count;
}

TEST(LowerMath, LeavesNoFunctionBehindForAnyTypeLaneCountOrDevice) {
  for (const Device& d : devices()) {
    for (const DType type : {f16, bf16, f32, f64}) {
      for (const int lanes : {1, 3, 8, 16}) {
        for (const UnaryOp op : lowered_unary) {
          const Func func = elementwise(type, type, 1, lanes, [&](const auto& x) { return unary(op, x[0]); });
          EXPECT_EQ(left_in(func), 1);
          EXPECT_EQ(left_in(lower_math(func, d)), 0) << to_string(op) << " of " << to_string(type.with_lanes(lanes));
        }
        for (const BinaryOp op : lowered_binary) {
          const Func func = elementwise(type, type, 2, lanes, [&](const auto& x) { return binary(op, x[0], x[1]); });
          EXPECT_EQ(left_in(lower_math(func, d)), 0) << to_string(op) << " of " << to_string(type.with_lanes(lanes));
        }
      }
    }
  }
}

TEST(LowerMath, TheInterpreterRunsWhatItMakes) {
  const std::vector<float> x = inputs(1), y = inputs(2);
  for (const Device& d : devices()) {
    for (const UnaryOp op : lowered_unary) {
      const Func func = elementwise(f32, f32, 1, 16, [&](const auto& v) { return unary(op, v[0]); });
      const std::vector<float> expected = run(func, {x}), got = run(lower_math(func, d), {x});
      for (size_t i = 0; i < x.size(); ++i) {
        EXPECT_TRUE(near(got[i], expected[i]))
            << to_string(op) << "(" << x[i] << ") = " << got[i] << ", expected " << expected[i];
      }
    }
    for (const BinaryOp op : lowered_binary) {
      const Func func = elementwise(f32, f32, 2, 16, [&](const auto& v) { return binary(op, v[0], v[1]); });
      const std::vector<float> expected = run(func, {x, y}), got = run(lower_math(func, d), {x, y});
      for (size_t i = 0; i < x.size(); ++i) {
        EXPECT_TRUE(near(got[i], expected[i]))
            << to_string(op) << "(" << x[i] << ", " << y[i] << ") = " << got[i] << ", expected " << expected[i];
      }
    }
  }
}

TEST(LowerMath, TanhAndErfTakeTheirCoefficientsFromTablesThatOneInstructionPermutes) {
  // Lanes of the tables: 16 with AVX-512's short vectors, 8 with AVX2, of AMD 4, none elsewhere.
  const int expected[] = {8, 16, 8, 4, 0, 0, 0};
  for (size_t i = 0; i < devices().size(); ++i) {
    for (const UnaryOp op : {UnaryOp::tanh, UnaryOp::erf}) {
      const Func func = elementwise(f32, f32, 1, 8, [&](const auto& x) { return unary(op, x[0]); });
      int lanes = 0;
      for_each_expr(lower_math(func, devices()[i])->body, [&](const Expr& e) {
        const Call* call = e.as<Call>();
        if (call && call->callee == "permute") lanes = call->args[0]->dtype.lanes;
      });
      EXPECT_EQ(lanes, expected[i]) << to_string(op);
    }
  }
}

TEST(LowerMath, TanhAndErfNeverPassOneAndReachIt) {
  std::vector<float> x(elements);
  for (int i = 0; i < elements; ++i)
    x[static_cast<size_t>(i)] = 3.75f + 0.0625f * static_cast<float>(i % 24) + (i < 24 ? 0.0f : 4.5f);
  for (const Device& d : devices()) {
    for (const UnaryOp op : {UnaryOp::tanh, UnaryOp::erf}) {
      const Func func = elementwise(f32, f32, 1, 16, [&](const auto& v) { return unary(op, v[0]); });
      for (const float y : run(lower_math(func, d), {x})) EXPECT_LE(y, 1.0f) << to_string(op);
      for (const float far : {9.5f, 30.0f, std::numeric_limits<float>::infinity()}) {
        for (const float y : run(lower_math(func, d), {std::vector<float>(elements, far)}))
          EXPECT_EQ(y, 1.0f) << to_string(op) << " of " << far;
      }
    }
  }
}

TEST(LowerMath, AValueUsedTwiceIsBoundOnce) {
  // Twelve functions one in the other: unbound, the innermost would be written out millions of times.
  const Func func = elementwise(f32, f32, 1, 8, [](const auto& x) {
    Expr e = x[0];
    for (int i = 0; i < 12; ++i) e = unary(i % 2 ? UnaryOp::tanh : UnaryOp::erf, e);
    return e;
  });
  int nodes = 0;
  for_each_expr(lower_math(func, devices()[0])->body, [&](const Expr&) { ++nodes; });
  EXPECT_LT(nodes, 12 * 200);
  const std::vector<float> x = inputs(3);
  const std::vector<float> got = run(lower_math(func, devices()[0]), {x});
  EXPECT_TRUE(std::isnan(got[6]));
  EXPECT_GT(got[2], 0.1f);
}

TEST(LowerMath, AConditionOfAWhileIsLoweredWhereNothingCanBeBound) {
  const Buffer state = BufferNode::make("out", f32, {index(elements)});
  const Expr now = load(state, {index(0)});
  const Expr runs = lt(unary(UnaryOp::exp, unary(UnaryOp::sin, now)), constant(f32, 2.0));
  const Stmt body = Seq::make({Store::make(state, {index(0)}, constant(f32, 0.0)),
                               While::make(runs, Store::make(state, {index(0)}, now + constant(f32, 0.25)))});
  const Func func = FuncNode::make("search", {state}, body, {}, {}, Stage::flatten);
  for (const Device& d : devices()) {
    const Func lowered = lower_math(func, d);
    EXPECT_EQ(left_in(lowered), 0);
    std::vector<float> out(elements, 0.0f);
    auto* begin = reinterpret_cast<std::byte*>(out.data());
    const HostBuffer buffer{begin, begin, begin + out.size() * sizeof(float)};
    EXPECT_EQ(interpret(lowered, {&buffer, 1}, {}), 0);
    EXPECT_EQ(out[0], 1.0f);  // exp(sin(0.75)) is 1.98, exp(sin(1)) is 2.32
  }
}

TEST(LowerMath, ConstantPowersAreProducts) {
  for (const double exponent : {0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 7.0, 64.0, -1.0, -2.0, -8.0, 0.5, -0.5}) {
    const Func func = elementwise(f32, f32, 1, 8, [&](const auto& x) {
      return binary(BinaryOp::pow, x[0], Broadcast::make(constant(f32, exponent), 8));
    });
    int nodes = 0;
    const Func lowered = lower_math(func, devices()[0]);
    for_each_expr(lowered->body, [&](const Expr&) { ++nodes; });
    EXPECT_LT(nodes, 50) << exponent;
    const std::vector<float> x = inputs(4), expected = run(func, {x}), got = run(lowered, {x});
    for (size_t i = 0; i < x.size(); ++i) EXPECT_TRUE(near(got[i], expected[i])) << x[i] << "^" << exponent;
  }
}

TEST(ExactRemainder, IsFmod) {
  std::mt19937_64 random(7);
  const double special[] = {0.0,        -0.0,       1.0, -3.5, INFINITY, NAN, 0x1p-1074, 0x1.fffffffffffffp+1023,
                            -0x1p-1022, 0x1.8p-1060};
  for (int i = 0; i < 20000; ++i) {
    const auto draw = [&] {
      return random() % 4 ? std::bit_cast<double>(random()) : special[random() % std::size(special)];
    };
    const double x = draw(), y = draw(), got = lathe_exact_remainder(x, y), expected = std::fmod(x, y);
    if (std::isnan(expected)) {
      EXPECT_TRUE(std::isnan(got)) << x << " by " << y;
    } else {
      EXPECT_EQ(std::bit_cast<std::uint64_t>(got), std::bit_cast<std::uint64_t>(expected)) << x << " by " << y;
    }
  }
}

/// Operands of a division with quotients of every size, and beside those whole numbers where a rounded quotient could
/// be one too large; the first are special ones.
template <typename T, typename Bits>
std::pair<std::vector<T>, std::vector<T>> divided(std::mt19937_64& random) {
  constexpr T largest = std::numeric_limits<T>::max(), least = std::numeric_limits<T>::denorm_min(),
              infinity = std::numeric_limits<T>::infinity();
  const T special[] = {0, -T{0}, 1, -3, infinity, -infinity, std::numeric_limits<T>::quiet_NaN(), largest, least};
  std::vector<T> x, y;
  while (x.size() < elements) {
    const auto any = [&] {
      return random() % 4 > 0 ? std::bit_cast<T>(static_cast<Bits>(random())) : special[random() % std::size(special)];
    };
    const T divisor = any();
    const T quotient = std::ldexp(static_cast<T>(random() >> 11), -static_cast<int>(random() % 54));
    const T whole = divisor * std::trunc(quotient);
    const T beside[] = {whole, std::nextafter(whole, T{0}), std::nextafter(whole, infinity), any()};
    x.push_back(beside[random() % 4]);
    y.push_back(divisor);
  }
  return {x, y};
}

template <typename T, typename Bits>
void expect_exact_remainders(DType dtype, int lanes) {
  std::mt19937_64 random(8);
  for (const BinaryOp op : {BinaryOp::floor_mod, BinaryOp::floor_div}) {
    const Func func = elementwise(dtype, dtype, 2, lanes, [&](const auto& v) { return binary(op, v[0], v[1]); });
    for (const Device& d : devices()) {
      const Func lowered = lower_math(func, d);
      for (int round = 0; round < 30; ++round) {
        const auto [x, y] = divided<T, Bits>(random);
        const std::vector<T> expected = run<T>(func, {x, y}), got = run<T>(lowered, {x, y});
        for (size_t i = 0; i < x.size(); ++i) {
          if (std::isnan(expected[i]) && std::isnan(got[i])) continue;
          ASSERT_EQ(std::bit_cast<Bits>(got[i]), std::bit_cast<Bits>(expected[i]))
              << to_string(op) << "(" << x[i] << ", " << y[i] << ") = " << got[i] << ", expected " << expected[i];
        }
      }
    }
  }
}

TEST(LowerMath, RemaindersOfFloatsAreExactWhateverTheQuotient) {
  expect_exact_remainders<float, std::uint32_t>(f32, 16);
  expect_exact_remainders<double, std::uint64_t>(f64, 8);
}

}  // namespace
}  // namespace lathe
