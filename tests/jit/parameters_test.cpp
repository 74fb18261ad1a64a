#include "jit/parameters.h"

#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "ir/error.h"
#include "ir/text/parse.h"

namespace lathe {
namespace {

using Extents = std::vector<std::int64_t>;

std::array<float, 64> memory[2];

TensorView view(int array, const Extents& shape, const Extents& strides = {}, DType dtype = f32) {
  return {memory[array].data(), dtype, static_cast<int>(shape.size()), shape.data(),
          strides.empty() ? nullptr : strides.data()};
}

/// What check says; nothing where it is content.
std::string mistake(const Parameters& parameters, const std::vector<TensorView>& arrays, const Extents& scalars = {}) {
  try {
    parameters.check(arrays, scalars);
  } catch (const InputError& error) {
    return error.what();
  }
  return "";
}

TEST(Parameters, OfConstantShape) {
  const Parameters parameters(
      parse_func("func f(x: f32[2, 1, 4], y: f32[2, 4]) {\n"
                 "  for i in [0, 2) { for j in [0, 4) { y[i, j] = x[i, 0, j] } } }"));
  EXPECT_EQ(parameters.arrays(), 2);
  EXPECT_EQ(parameters.name(1), "y");
  EXPECT_FALSE(parameters.written(0));
  EXPECT_TRUE(parameters.written(1));

  const Extents shape = {2, 1, 4}, compact = {4, 4, 1}, any_over_one = {4, 77, 1}, apart = {8, 4, 1};
  const Extents result = {2, 4}, longer = {2, 5}, turned = {1, 2};
  const TensorView y = view(1, result);
  EXPECT_EQ(mistake(parameters, {view(0, shape), y}), "");
  EXPECT_EQ(mistake(parameters, {view(0, shape, compact), y}), "");
  EXPECT_EQ(mistake(parameters, {view(0, shape, any_over_one), y}), "");
  EXPECT_EQ(mistake(parameters, {view(0, shape, apart), y}), "f: x has stride 8 in dimension 0, the program expects 4");
  EXPECT_EQ(mistake(parameters, {view(0, shape, {}, f64), y}), "f: x is f64[2, 1, 4], expected f32[2, 1, 4]");
  EXPECT_EQ(mistake(parameters, {view(0, result), y}), "f: x is f32[2, 4], expected f32[2, 1, 4]");
  EXPECT_EQ(mistake(parameters, {view(0, shape), view(1, longer)}), "f: y is f32[2, 5], expected f32[2, 4]");
  EXPECT_EQ(mistake(parameters, {view(0, shape), view(1, result, turned)}),
            "f: y has stride 1 in dimension 0, the program expects 4");
  EXPECT_EQ(mistake(parameters, {view(0, shape), view(0, result)}), "f: x and y share memory, and one is written");
  EXPECT_EQ(mistake(parameters, {y}), "f: it takes 2 arrays and 0 scalars, 1 and 0 were given");
}

TEST(Parameters, RefusesAnAddressThatIsNotAligned) {
  const Parameters parameters(
      parse_func("func f(x: f32[4], y: f32[4] align 64, z: f32[n] align 16, n: i64) {\n"
                 "  for i in [0, 4) { y[i] = x[i] } }"));
  alignas(64) static std::array<std::byte, 256> bytes;
  const Extents shape = {4}, none = {0};
  const auto at = [&](size_t offset, const Extents& extents) {
    return TensorView{bytes.data() + offset, f32, 1, extents.data(), nullptr};
  };
  EXPECT_EQ(mistake(parameters, {at(4, shape), at(64, shape), at(144, shape)}, {4}), "");
  EXPECT_EQ(mistake(parameters, {at(4, shape), at(80, shape), at(144, shape)}, {4}),
            "f: y begins at an address that is no multiple of 64 bytes, which the program expects");
  EXPECT_EQ(mistake(parameters, {at(4, shape), at(64, shape), at(136, shape)}, {4}),
            "f: z begins at an address that is no multiple of 16 bytes, which the program expects");
  EXPECT_EQ(mistake(parameters, {at(2, shape), at(64, shape), at(144, shape)}, {4}),
            "f: x begins at an address that is no multiple of 4 bytes, which the program expects");
  EXPECT_EQ(mistake(parameters, {at(4, shape), at(64, shape), at(136, none)}, {0}), "");
}

TEST(Parameters, OfShapeThatScalarsGive) {
  const Parameters parameters(
      parse_func("func f(x: f32[n], y: f32[n], n: i64) facts {n in [1, 8]} {\n"
                 "  for i in [0, n) { y[i] = x[i] } }"));
  ASSERT_EQ(parameters.scalars().size(), 1);
  const Extents shape = {5};
  EXPECT_EQ(mistake(parameters, {view(0, shape), view(1, shape)}, {5}), "");
  EXPECT_EQ(mistake(parameters, {view(0, shape), view(1, shape)}, {4}), "f: x is f32[5], expected f32[4]");
  EXPECT_EQ(mistake(parameters, {view(0, shape), view(1, shape)}, {0}),
            "f: scalar n is 0, which breaks a fact of the program");
}

}  // namespace
}  // namespace lathe
