#include "ir/analysis/narrow_cast.h"

#include <gtest/gtest.h>

#include "ir/analysis/simplify.h"
#include "ir/buffer.h"
#include "ir/text/print.h"

namespace lathe {
namespace {

const Buffer bytes = BufferNode::make("x", u8, {index(8)}), words = BufferNode::make("y", i32, {index(8)});
const Expr byte = load(bytes, {index(0)}), word = load(words, {index(0)});

std::string narrowed(const Expr& wide, DType type) {
  return print(simplify(cast(type, wide), Bounds()));
}

TEST(NarrowCast, OfWhatLowBitsDecide) {
  const Expr chosen = select(lt(byte, constant(u8, 3)), constant(i64, 300), constant(i64, 0));
  EXPECT_EQ(narrowed(chosen + cast(i64, byte), u8), "select(x[0] < 3u8, 44u8, 0u8) + x[0]");
  EXPECT_EQ(narrowed(cast(i32, byte) * constant(i32, -1), i16), "cast<i16>(x[0]) * -1i16");
  EXPECT_EQ(narrowed(binary(BinaryOp::bit_xor, cast(i64, word), cast(i64, byte)), i32), "y[0] ^ cast<i32>(x[0])");
}

TEST(NarrowCast, NotOfWhatHighBitsDecide) {
  for (const Expr& wide : {binary(BinaryOp::shr, cast(i64, byte) * constant(i64, 77), constant(i64, 8)),
                           floor_div(cast(i64, byte) + constant(i64, 1), constant(i64, 3)),
                           min(cast(i64, byte), constant(i64, 400)), cast(i64, word) + constant(i64, 1)})
    EXPECT_FALSE(narrow_cast(wide, u8)) << print(wide);
  EXPECT_FALSE(narrow_cast(cast(i32, byte) + constant(i32, 1), i64)) << "wider";
  EXPECT_FALSE(narrow_cast(cast(i32, byte) + constant(i32, 1), f32)) << "a float";
}

}  // namespace
}  // namespace lathe
