#include "jit/trace/promotion.h"

#include <map>
#include <sstream>

#include "tests/jit/trace/harness.h"

namespace lathe::test {
namespace {

/// The tables of the Array API standard 2024.12, "Type Promotion Rules", with f16 and bf16 added; "-" is undefined.
constexpr const char* table = R"(
      bool i8   i16  i32  i64  u8   u16  u32  u64  f16  bf16 f32  f64
bool  bool -    -    -    -    -    -    -    -    -    -    -    -
i8    -    i8   i16  i32  i64  i16  i32  i64  -    -    -    -    -
i16   -    i16  i16  i32  i64  i16  i32  i64  -    -    -    -    -
i32   -    i32  i32  i32  i64  i32  i32  i64  -    -    -    -    -
i64   -    i64  i64  i64  i64  i64  i64  i64  -    -    -    -    -
u8    -    i16  i16  i32  i64  u8   u16  u32  u64  -    -    -    -
u16   -    i32  i32  i32  i64  u16  u16  u32  u64  -    -    -    -
u32   -    i64  i64  i64  i64  u32  u32  u32  u64  -    -    -    -
u64   -    -    -    -    -    u64  u64  u64  u64  -    -    -    -
f16   -    -    -    -    -    -    -    -    -    f16  f32  f32  f64
bf16  -    -    -    -    -    -    -    -    -    f32  bf16 f32  f64
f32   -    -    -    -    -    -    -    -    -    f32  f32  f32  f64
f64   -    -    -    -    -    -    -    -    -    f64  f64  f64  f64
)";

TEST(Promotion, FollowsTheStandardsTablesForEveryPair) {
  std::istringstream in(table);
  std::vector<std::string> columns(std::size(all_dtypes));
  for (std::string& column : columns) in >> column;
  int checked = 0;
  for (std::string row; in >> row;) {
    for (const std::string& column : columns) {
      std::string expected;
      in >> expected;
      const std::optional<DType> result = promote(*parse_dtype(row), *parse_dtype(column));
      EXPECT_EQ(result ? to_string(*result) : "-", expected) << row << " with " << column;
      ++checked;
    }
  }
  EXPECT_EQ(checked, 169);
}

Tensor tensor(DType dtype) {
  return input("x", dtype, {index(3)});
}

TEST(Promotion, WeakScalarsGiveWayToArraysOfTheirKind) {
  for (DType dtype : all_dtypes) {
    const auto accepts = [&](const Tensor& number) {
      try {
        EXPECT_EQ(result_type("op", std::vector<Tensor>{tensor(dtype), number}), dtype);
        EXPECT_EQ(result_type("op", std::vector<Tensor>{number, tensor(dtype)}), dtype);
        return true;
      } catch (const InputError& error) {
        EXPECT_EQ(error.mistake, Mistake::type);
        return false;
      }
    };
    EXPECT_EQ(accepts(true), dtype.is_bool()) << to_string(dtype);
    EXPECT_EQ(accepts(1), dtype.is_integer() || dtype.is_float()) << to_string(dtype);
    EXPECT_EQ(accepts(1.5), dtype.is_float()) << to_string(dtype);
  }
}

TEST(Promotion, WeakScalarsAloneStayWeak) {
  const Tensor sum = Tensor(1) + Tensor(2.5);
  EXPECT_TRUE(sum.is_weak());
  EXPECT_EQ(sum.dtype(), f64);
  EXPECT_EQ((tensor(f16) * sum).dtype(), f16);
  EXPECT_EQ((tensor(i8) * (Tensor(3) * 2)).dtype(), i8);
}

TEST(Promotion, ALiteralMustFitTheIntegersItMeets) {
  EXPECT_EQ(error_of([] { tensor(u8) + 256; }), "add: the int 256 does not fit u8");
  EXPECT_EQ(error_of([] { tensor(u64) + -1; }), "add: the int -1 does not fit u64");
  EXPECT_EQ((tensor(u8) + 255).dtype(), u8);
}

TEST(Promotion, MixedKindsSayWhatWasGiven) {
  EXPECT_EQ(
      error_of([] { tensor(i32) + tensor(f32); }, Mistake::type),
      "add: dtypes do not mix: given i32[3] and f32[3]; expected all floating, all integer (u64 only with unsigned "
      "ones) or all bool");
  EXPECT_EQ(
      error_of([] { tensor(i32) * 1.5; }, Mistake::type),
      "multiply: dtypes do not mix: given i32[3] and float scalar; expected scalars of the arrays' kind, or an int "
      "with floats");
  EXPECT_EQ(error_of([] { ops::exp(tensor(i32)); }, Mistake::type), "exp: takes f16, bf16, f32, f64; given i32[3]");
  EXPECT_EQ(error_of([] { tensor(i32) / tensor(i32); }, Mistake::type),
            "divide: takes f16, bf16, f32, f64; given i32[3] and i32[3]");
  EXPECT_EQ(error_of([] { ops::logical_and(tensor(i32), tensor(i32)); }, Mistake::type),
            "logical_and: takes bool; given i32[3] and i32[3]");
}

TEST(Promotion, F16WithBf16IsComputedInF32) {
  const Array sum = run({array(f16, {1}, {1}), array(bf16, {1}, {0.00390625})}, [](auto& x) { return x[0] + x[1]; });
  EXPECT_EQ(sum.dtype, f32);
  EXPECT_EQ(values(sum)[0], 1.00390625);
}

}  // namespace
}  // namespace lathe::test
