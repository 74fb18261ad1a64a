#include <cmath>

#include "tests/jit/trace/harness.h"

namespace lathe::test {
namespace {

using Values = std::vector<double>;
using Extents = std::vector<std::int64_t>;

Array product(Extents a, Extents b) {
  return run({iota(f32, std::move(a)), iota(f32, std::move(b))}, [](auto& x) { return ops::matmul(x[0], x[1]); });
}

TEST(Matmul, TakesVectorsMatricesAndBatches) {
  EXPECT_EQ(values(product({2, 3}, {3, 2})), (Values{10, 13, 28, 40}));
  EXPECT_EQ(values(product({3}, {3})), (Values{5}));
  EXPECT_TRUE(product({3}, {3}).shape.empty());
  EXPECT_EQ(values(product({3}, {3, 2})), (Values{10, 13}));
  EXPECT_EQ(values(product({2, 3}, {3})), (Values{5, 14}));
  const Array batch = product({2, 1, 2, 3}, {2, 3, 2});
  EXPECT_EQ(batch.shape, (Extents{2, 2, 2, 2}));
  EXPECT_EQ(values(batch)[0], 10);
  EXPECT_EQ(values(batch)[15], 9 * 7 + 10 * 9 + 11 * 11);
  EXPECT_EQ(product({2, 2, 3}, {3}).shape, (Extents{2, 2}));
  EXPECT_EQ(product({3}, {2, 3, 4}).shape, (Extents{2, 4}));
  EXPECT_EQ(values(product({2, 0}, {0, 2})), (Values{0, 0, 0, 0}));
  EXPECT_EQ(values(product({2, 1}, {1, 2})), (Values{0, 0, 0, 1}));
}

TEST(Matmul, IntegersWrapInTheirTypeAndHalvesAccumulateInSingle) {
  const Array integers =
      run({array(i8, {1, 2}, {100, 100}), array(i8, {2, 1}, {1, 1})}, [](auto& x) { return ops::matmul(x[0], x[1]); });
  EXPECT_EQ(integers.dtype, i8);
  EXPECT_EQ(values(integers), (Values{-56}));
  Values ones(101, 1);
  ones[0] = 2048;
  const Array halves = run({array(f16, {101}, ones), array(f16, {101}, Values(101, 1))},
                           [](auto& x) { return ops::matmul(x[0], x[1]); });
  EXPECT_EQ(halves.dtype, f16);
  EXPECT_EQ(values(halves), (Values{2148}));
}

TEST(Matmul, ReadsTransposedOperandsInPlace) {
  const Func func = trace({empty(f32, {4, 6}), empty(f32, {5, 6})},
                          [](auto& x) { return std::vector{ops::matmul(x[0], ops::matrix_transpose(x[1]))}; });
  EXPECT_TRUE(allocations(func).empty());
}

TEST(Einsum, AgreesWithWhatItSpells) {
  const auto einsum = [](const char* equation, Extents a, Extents b) {
    return run({iota(f32, std::move(a)), iota(f32, std::move(b))},
               [&](auto& x) { return ops::einsum(equation, x[0], x[1]); });
  };
  EXPECT_EQ(values(einsum("ij,jk->ik", {2, 3}, {3, 2})), (Values{10, 13, 28, 40}));
  EXPECT_EQ(values(einsum("ij,jk", {2, 3}, {3, 2})), (Values{10, 13, 28, 40}));
  EXPECT_EQ(values(einsum("ij, kj -> ki", {2, 3}, {2, 3})), (Values{5, 14, 14, 50}));
  EXPECT_EQ(values(einsum("i,i->", {3}, {3})), (Values{5}));
  EXPECT_EQ(values(einsum("i,j->ij", {2}, {3})), (Values{0, 0, 0, 0, 1, 2}));
  EXPECT_EQ(values(einsum("ij,ij->ij", {2, 2}, {2, 2})), (Values{0, 1, 4, 9}));
  EXPECT_EQ(values(einsum("ii,i->", {3, 3}, {3})), (Values{0 * 0 + 4 * 1 + 8 * 2}));
  EXPECT_EQ(einsum("bhqd,bhkd->bhqk", {2, 3, 4, 5}, {2, 3, 6, 5}).shape, (Extents{2, 3, 4, 6}));
  EXPECT_EQ(values(einsum("ij,jk->ik", {1, 3}, {1, 2})), (Values{0, 3}));
  EXPECT_EQ(values(einsum("ba,b", {2, 2}, {2})), (Values{2, 3}));  // the implicit result is alphabetical
}

TEST(Einsum, RoundsTheProductOfManyOnce) {
  const auto product = [](const std::vector<DType>& dtypes, const Values& of) {
    std::vector<Array> arrays;
    for (size_t k = 0; k < of.size(); ++k) arrays.push_back(array(dtypes[k], {1}, {of[k]}));
    return run(arrays, [](auto& x) { return ops::einsum("i,i,i->i", x); });
  };
  EXPECT_EQ(product({i8, i8, i32}, {100, 100, 1}).dtype, i32);
  EXPECT_EQ(values(product({i8, i8, i32}, {100, 100, 1})), (Values{10000}));
  EXPECT_EQ(values(product({f16, f16, f32}, {300, 300, 1})), (Values{90000}));
  EXPECT_EQ(product({f16, f16, f16}, {256, 256, 0.5}).dtype, f16);
  EXPECT_EQ(values(product({f16, f16, f16}, {256, 256, 0.5})), (Values{32768}));
}

TEST(Einsum, OfOneOperandIsNoProduct) {
  const auto einsum = [](const char* equation, Extents extents) {
    return run({iota(f32, std::move(extents))}, [&](auto& x) { return ops::einsum(equation, x); });
  };
  EXPECT_EQ(values(einsum("ij->ji", {2, 3})), (Values{0, 3, 1, 4, 2, 5}));
  EXPECT_EQ(values(einsum("ij->j", {2, 3})), (Values{3, 5, 7}));
  EXPECT_EQ(values(einsum("ii->i", {3, 3})), (Values{0, 4, 8}));
  EXPECT_EQ(values(einsum("iij->ji", {2, 2, 2})), (Values{0, 6, 1, 7}));
  EXPECT_EQ(values(einsum("ii", {3, 3})), (Values{12}));
  EXPECT_EQ(values(einsum("ii", {1, 3})), (Values{3}));  // an extent of 1 broadcasts
  EXPECT_EQ(values(einsum("", {})), (Values{0}));
  const Array zeros = run({array(f32, {1, 2}, {-0.0, -0.0})}, [](auto& x) { return ops::einsum("ij->ji", x); });
  for (double zero : values(zeros)) EXPECT_TRUE(std::signbit(zero));
}

TEST(Vecdot, ContractsOneAxisAndBroadcastsTheRest) {
  EXPECT_EQ(values(run({iota(f32, {2, 3}), iota(f32, {3})}, [](auto& x) { return ops::vecdot(x[0], x[1]); })),
            (Values{5, 14}));
  EXPECT_EQ(values(run({iota(f32, {2, 3}), iota(f32, {2, 1})}, [](auto& x) { return ops::vecdot(x[0], x[1], -2); })),
            (Values{3, 4, 5}));
}

TEST(Outer, MultipliesEveryPair) {
  EXPECT_EQ(values(run({iota(i32, {3}), iota(i32, {2})}, [](auto& x) { return ops::outer(x[0], x[1]); })),
            (Values{0, 0, 0, 1, 0, 2}));
}

}  // namespace
}  // namespace lathe::test
