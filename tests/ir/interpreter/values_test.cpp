#include <cmath>
#include <limits>

#include "ir/intrinsics.h"
#include "tests/ir/interpreter/run.h"

namespace lathe::testing {
namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();
const double nan_value = std::numeric_limits<double>::quiet_NaN();

/// The value of a constant expression, through a Func that stores it.
double value(const Expr& e, const InterpreterOptions& options = {}) {
  const Buffer out = array("out", e->dtype.element(), {e->dtype.lanes});
  const Expr where = e->dtype.is_scalar() ? index(0) : Ramp::make(index(0), index(1), e->dtype.lanes);
  Data data(e->dtype.element(), e->dtype.lanes);
  EXPECT_EQ(run(FuncNode::make("f", {out}, Store::make(out, {where}, e)), {&data}, {}, options), 0);
  return data.values()[0];
}
double value(BinaryOp op, DType dtype, double a, double b) {
  return value(Binary::make(op, constant(dtype, a), constant(dtype, b)));
}
double value(UnaryOp op, DType dtype, double a) {
  return value(Unary::make(op, constant(dtype, a)));
}

TEST(InterpreterValues, IntegersWrapToTheirWidth) {
  EXPECT_EQ(value(BinaryOp::add, i8, 127, 1), -128);
  EXPECT_EQ(value(BinaryOp::mul, u8, 16, 17), 16);
  EXPECT_EQ(value(BinaryOp::sub, u32, 0, 1), 4294967295.0);
  EXPECT_EQ(value(UnaryOp::neg, i16, -32768), -32768);
  EXPECT_EQ(value(UnaryOp::abs, i8, -128), -128);
}

TEST(InterpreterValues, DivisionFloorsAndNeverTraps) {
  EXPECT_EQ(value(BinaryOp::floor_div, i32, -7, 2), -4);
  EXPECT_EQ(value(BinaryOp::floor_mod, i32, -7, 2), 1);
  EXPECT_EQ(value(BinaryOp::floor_mod, i32, 7, -2), -1);
  EXPECT_EQ(value(BinaryOp::floor_div, i32, 5, 0), 0);
  EXPECT_EQ(value(BinaryOp::floor_mod, i32, 5, 0), 0);
  EXPECT_EQ(value(BinaryOp::floor_div, i8, -128, -1), -128);
  EXPECT_EQ(value(BinaryOp::floor_mod, i8, -128, -1), 0);
  EXPECT_EQ(value(BinaryOp::floor_div, u8, 200, 7), 28);
}

TEST(InterpreterValues, FloatDivisionHasTheDivisorsSign) {
  EXPECT_EQ(value(BinaryOp::floor_div, f32, -7, 2), -4);
  EXPECT_EQ(value(BinaryOp::floor_mod, f32, -7, 2), 1);
  EXPECT_EQ(value(BinaryOp::floor_mod, f64, 5.5, -2), -0.5);
  EXPECT_EQ(value(BinaryOp::floor_mod, f64, -1, infinity), infinity);
  EXPECT_TRUE(std::isnan(value(BinaryOp::floor_mod, f32, 1, 0)));
  EXPECT_TRUE(std::signbit(value(BinaryOp::floor_mod, f32, 4, -2)));
}

TEST(InterpreterValues, ShiftsPastTheWidth) {
  EXPECT_EQ(value(BinaryOp::shl, i32, 1, 32), 0);
  EXPECT_EQ(value(BinaryOp::shl, i32, 1, -1), 0);
  EXPECT_EQ(value(BinaryOp::shr, i32, -5, 40), -1);
  EXPECT_EQ(value(BinaryOp::shr, u8, 255, 8), 0);
  EXPECT_EQ(value(BinaryOp::shr, i8, -8, 1), -4);
}

TEST(InterpreterValues, CastsTruncateWrapAndTestForZero) {
  EXPECT_EQ(value(Cast::make(i32, constant(f32, -2.75))), -2);
  EXPECT_EQ(value(Cast::make(u8, constant(i32, -1))), 255);
  EXPECT_EQ(value(Cast::make(boolean, constant(f32, 0.5))), 1);
  EXPECT_EQ(value(Cast::make(boolean, constant(f32, -0.0))), 0);
  EXPECT_EQ(value(Cast::make(f32, constant(boolean, 1))), 1);
  EXPECT_EQ(value(Cast::make(f16, constant(f32, 65519.0))), 65504);
  EXPECT_EQ(value(Cast::make(f16, constant(f32, 65520.0))), infinity);
  EXPECT_EQ(value(Cast::make(bf16, constant(f32, 1.00390625))), 1);
  // One rounding, not two: 2^53 + 1 lies on a float's half way only after it was rounded to double.
  EXPECT_EQ(value(Cast::make(f32, constant(i64, std::int64_t{(1LL << 54) + (1LL << 30) + 1}))), 0x1.000002p54);
}

TEST(InterpreterValues, MinAndMaxPropagateNanAndOrderZeros) {
  EXPECT_TRUE(std::isnan(value(BinaryOp::min, f32, 1, nan_value)));
  EXPECT_TRUE(std::isnan(value(BinaryOp::max, f16, nan_value, 1)));
  EXPECT_TRUE(std::signbit(value(BinaryOp::min, f32, 0.0, -0.0)));
  EXPECT_FALSE(std::signbit(value(BinaryOp::max, f32, -0.0, 0.0)));
  EXPECT_EQ(value(BinaryOp::max, u64, 3, -1), -1);  // read back as its bits
}

TEST(InterpreterValues, NanCompares) {
  EXPECT_EQ(value(BinaryOp::eq, f32, nan_value, nan_value), 0);
  EXPECT_EQ(value(BinaryOp::ne, f32, nan_value, nan_value), 1);
  EXPECT_EQ(value(BinaryOp::le, f64, nan_value, 1), 0);
  EXPECT_EQ(value(BinaryOp::lt, u8, 200, 100), 0);
}

TEST(InterpreterValues, EachFloatOperationRoundsToItsDtype) {
  EXPECT_EQ(value(BinaryOp::add, f32, 16777216, 1), 16777216);
  EXPECT_EQ(value(BinaryOp::add, f16, 2048, 1), 2048);
  EXPECT_EQ(value(BinaryOp::add, bf16, 256, 1), 256);
  EXPECT_EQ(value(BinaryOp::add, f64, 16777216, 1), 16777217);
  InterpreterOptions exact;
  exact.exact_floats = true;
  const Expr one = constant(f32, 1), big = constant(f32, 16777216);
  EXPECT_EQ(value((big + one) - big), 0);
  EXPECT_EQ(value((big + one) - big, exact), 1);
}

TEST(InterpreterValues, RoundIsHalfToEven) {
  EXPECT_EQ(value(UnaryOp::round, f32, 2.5), 2);
  EXPECT_EQ(value(UnaryOp::round, f64, -3.5), -4);
}

TEST(InterpreterValues, NextafterStepsInItsOwnFormat) {
  EXPECT_EQ(value(BinaryOp::nextafter, f32, 1, 2), 1 + 0x1p-23);
  EXPECT_EQ(value(BinaryOp::nextafter, f16, 1, 2), 1 + 0x1p-10);
  EXPECT_EQ(value(BinaryOp::nextafter, bf16, 1, 0), 1 - 0x1p-8);
  EXPECT_EQ(value(BinaryOp::nextafter, f16, 0, -1), -0x1p-24);
}

TEST(InterpreterValues, IntegerPowersWrap) {
  EXPECT_EQ(value(BinaryOp::pow, i32, 3, 4), 81);
  EXPECT_EQ(value(BinaryOp::pow, u8, 2, 8), 0);
  EXPECT_EQ(value(BinaryOp::pow, i32, -1, -3), -1);
  EXPECT_EQ(value(BinaryOp::pow, i32, 2, -1), 0);
}

TEST(InterpreterValues, FmaRoundsOnce) {
  const Expr x = constant(f32, 1 + 0x1p-12);
  EXPECT_EQ(value(fma(x, x, constant(f32, -1))), 0x1p-11 + 0x1p-24);
}

TEST(InterpreterValues, LanesFoldByHalves) {
  const Expr v = Shuffle::make({constant(f32, 1), constant(f32, 16777216), constant(f32, 1), constant(f32, -16777216)},
                               {0, 1, 2, 3});
  // (1 + 1) + (2^24 - 2^24), where a left to right sum would lose a one.
  EXPECT_EQ(value(reduce_lanes(BinaryOp::add, v)), 2);
}

TEST(InterpreterValues, ReinterpretKeepsBits) {
  EXPECT_EQ(value(reinterpret(i32, constant(f32, 1))), 0x3f800000);
  EXPECT_EQ(value(reinterpret(f16, constant(u16, 0x3c01))), 1 + 0x1p-10);
  EXPECT_EQ(value(reinterpret(u16, constant(f16, 0x1p-24))), 1);
}

TEST(InterpreterValues, EveryShortFloatSurvivesMemory) {
  for (const DType dtype : {f16, bf16}) {
    for (std::uint64_t bits = 0; bits < 65536; ++bits) {
      const interpreter::Cell cell = interpreter::from_bits(dtype, bits);
      if (std::isnan(cell.d)) continue;
      ASSERT_EQ(interpreter::to_bits(dtype, cell), bits) << to_string(dtype);
    }
  }
}

TEST(InterpreterValues, MaskedLanesTouchNoMemory) {
  const Buffer a = array("A", i32, {2}), out = array("out", i32, {4});
  const Expr lanes = Ramp::make(index(0), index(1), 4);
  const Expr mask = lt(lanes, Broadcast::make(index(2), 4));
  const Stmt copy = Store::make(out, {lanes}, load(a, {lanes}, mask));
  Data x(i32, {5, 6}), y(i32, 4);
  EXPECT_EQ(run(FuncNode::make("f", {a, out}, copy), {&x, &y}), 0);
  EXPECT_EQ(y.values(), (std::vector<double>{5, 6, 0, 0}));
  Data z(i32, 4);
  EXPECT_EQ(run(FuncNode::make("f", {a, out}, Store::make(out, {lanes}, load(a, {lanes}, mask), mask)), {&x, &z}), 0);
  EXPECT_EQ(z.values(), (std::vector<double>{5, 6, 99, 99}));
}

TEST(InterpreterValues, StridesAndOffsetsCountFromTheBase) {
  // A reversed view of every second element.
  const Buffer a = BufferNode::make("A", i32, {index(3)}, space::global, {index(-2)}, index(4));
  const Buffer out = array("out", i32, {3});
  const VarRef i = Var::make("i");
  const Func func = FuncNode::make("f", {a, out}, for_loop(i, 3, Store::make(out, {i}, load(a, {i}))));
  Data x(i32, {1, 2, 3, 4, 5}), y(i32, 3);
  EXPECT_EQ(run(func, {&x, &y}), 0);
  EXPECT_EQ(y.values(), (std::vector<double>{5, 3, 1}));
}

TEST(InterpreterValues, WorkspaceBuffersLieAtTheirOffsets) {
  const Buffer out = array("out", i32, {2});
  const Buffer t = BufferNode::make("t", i32, {index(2)}, space::global, {}, index(3));
  // A flat index counts from the workspace's start, the buffer's offset included.
  for (const Stage stage : {Stage::before_flatten, Stage::flatten}) {
    const std::int64_t first = stage == Stage::flatten ? 3 : 0;
    const Stmt body = Seq::make({Store::make(t, {index(first)}, constant(i32, 4)),
                                 Store::make(t, {index(first + 1)}, constant(i32, 5)),
                                 Store::make(out, {index(0)}, load(t, {index(first + 1)})),
                                 Store::make(out, {index(1)}, load(t, {index(first)}))});
    const auto func = [&](std::int64_t bytes) {
      return FuncNode::make("f", {out}, body, {}, {{"shared_bytes", bytes}}, stage);
    };
    Data y(i32, 2);
    EXPECT_EQ(run(func(20), {&y}), 0);
    EXPECT_EQ(y.values(), (std::vector<double>{5, 4}));
    EXPECT_NE(trap_of([&] { run(func(16), {&y}); }).find("of the shared workspace is out of range"), std::string::npos);
  }
}

TEST(InterpreterValues, ScalarsOfOtherTypesAreBits) {
  const Buffer out = array("out", f32, {1});
  const VarRef x = Var::make("x", f32);
  Data y(f32, 1);
  EXPECT_EQ(run(FuncNode::make("f", {out, x}, Store::make(out, {index(0)}, x)), {&y}, {0x40200000}), 0);
  EXPECT_EQ(y.values()[0], 2.5);
}

}  // namespace
}  // namespace lathe::testing
