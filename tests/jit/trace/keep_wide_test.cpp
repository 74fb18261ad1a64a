#include "tests/jit/trace/harness.h"

namespace lathe::test {
namespace {

using Values = std::vector<double>;

/// The intermediate tensors and their types.
std::string types(const Func& func) {
  std::string text;
  for (const Buffer& buffer : allocations(func))
    text += (text.empty() ? "" : ", ") + buffer->name + " " + to_string(buffer->dtype);
  return text;
}

std::string types(const Operation& f, Precision precision = Precision::standard) {
  const std::vector<Tensor> x{input("x0", bf16, {index(4), index(8)}), input("x1", bf16, {index(4), index(8)})};
  return types(make_func("f", x, f(x), precision));
}

TEST(KeepWide, ChainsRoundOnce) {
  const auto chain = [](auto& x) { return std::vector<Tensor>{x[0] + 1 + 1}; };
  EXPECT_EQ(types(chain), "add f32");
  EXPECT_EQ(types(chain, Precision::strict), "add bf16");
  // 2048 + 1 is 2048 in f16, twice.
  EXPECT_EQ(values(run({array(f16, {1}, {2048})}, [](auto& x) { return x[0] + 1 + 1; })), (Values{2050}));
  EXPECT_EQ(values(run({array(f16, {1}, {300})}, [](auto& x) { return x[0] * x[0] / 1000; })), (Values{90}));
}

TEST(KeepWide, ReductionsHandOnWhatTheyFolded) {
  EXPECT_EQ(types([](auto& x) { return std::vector{x[0] - ops::mean(x[0], {{1}}, true)}; }),
            "mean_sum f32, mean f32, astype f32");
  EXPECT_EQ(types([](auto& x) { return std::vector{ops::softmax(x[0] * x[1])}; }),
            "multiply f32, softmax_max f32, softmax_exp f32, softmax_sum f32, softmax_scale f32");
}

TEST(KeepWide, ChoicesOfWideTensorsAreWide) {
  const auto chosen = [](auto& x) { return std::vector{ops::where(ops::greater(x[0], 0), x[0] * x[1], x[1]) + 1}; };
  EXPECT_EQ(types(chosen), "multiply f32, greater bool, where f32");
  const auto joined = [](auto& x) { return std::vector{ops::concat({x[0] * x[1], x[1] + 1}, 1) * 2}; };
  EXPECT_EQ(types(joined), "add f32, multiply f32");
  // Nobody calculates with what these choose.
  EXPECT_EQ(types([](auto& x) { return std::vector{ops::where(ops::greater(x[0], 0), x[0] * x[1], x[1])}; }),
            "multiply bf16, greater bool");
  EXPECT_EQ(types([](auto& x) { return std::vector{ops::where(ops::greater(x[0], 0), x[0], x[1]) + 1}; }),
            "greater bool, where bf16");
}

TEST(KeepWide, WhatTheCallerRoundsIsRounded) {
  const auto rounded = [](auto& x) {
    const Tensor wide = ops::astype(x[0], f32) * 1.5;
    return std::vector{ops::astype(ops::astype(wide, bf16), f32) + 1};
  };
  EXPECT_EQ(types(rounded), "astype f32, multiply f32, astype_1 bf16, astype_2 f32");
  EXPECT_EQ(values(run({array(f32, {1}, {1.00390625})},
                       [](auto& x) { return ops::astype(ops::astype(x[0], bf16), f32) * 1; })),
            (Values{1}));
}

TEST(KeepWide, OutputsAreRoundedToTheirReadersToo) {
  const auto both = [](auto& x) {
    const Tensor sum = x[0] + x[1];
    return std::vector{sum, (sum - x[0]) - x[1]};
  };
  EXPECT_EQ(types(both), "subtract f32");
  // What compensated summation keeps is what rounding lost.
  const std::vector<Array> lost = run_all({array(f16, {1}, {2048}), array(f16, {1}, {1})}, both);
  EXPECT_EQ(values(lost[0]), (Values{2048}));
  EXPECT_EQ(values(lost[1]), (Values{-1}));
}

TEST(KeepWide, ContractionsMultiplyPairsOfSixteenBits) {
  const auto product = [](auto& x) {
    return std::vector{ops::relu(ops::matmul(x[0] * x[1], ops::matrix_transpose(x[1] + 1)) * 2)};
  };
  EXPECT_EQ(types(product), "add bf16, multiply bf16, matmul f32, astype f32, multiply_1 f32");
  // A sum of squares takes each element once.
  const auto squares = [](auto& x) { return std::vector{ops::rms_norm(x[0] + x[1], std::nullopt, {-1}, 1e-6)}; };
  EXPECT_EQ(types(squares), "add f32, rms_norm_squares f32, rms_norm_scale f32");
}

TEST(KeepWide, ComparisonsSeeWhatWasRounded) {
  const auto greatest = [](auto& x) {
    const Tensor product = x[0] * x[1];
    const Tensor peak = ops::max(product, {{0}}, true);
    return std::vector{peak, ops::astype(ops::equal(product, peak), f32) * product};
  };
  const std::vector<Array> found =
      run_all({array(bf16, {3}, {1.0078125, 1, 0.5}), array(bf16, {3}, {1.0078125, 1, 1})}, greatest);
  EXPECT_EQ(values(found[0]), (Values{1.015625}));
  EXPECT_EQ(values(found[1])[0] > 0, true);
  EXPECT_EQ(values(found[1])[1], 0);
  // 60000 * 2 is infinite in f16, and asked for.
  const Array infinite = run({array(f16, {1}, {60000})}, [](auto& x) {
    const Tensor twice = x[0] * 2;
    return ops::where(ops::isinf(twice), twice * 0.25, twice * 0.5);
  });
  EXPECT_EQ(values(infinite), (Values{30000}));
}

TEST(KeepWide, BodiesOfOnesOwnRoundAsOperatorsDo) {
  const auto body = [](auto& x) {
    const Tensor own = compute({index(4), index(8)}, [&](const Indices& i) { return x[0].at(i) * x[1].at(i); }, "own");
    return std::vector{own + 1};
  };
  EXPECT_EQ(types(body), "own f32");
  const auto asked = [](auto& x) {
    const Tensor own = compute(
        {index(4), index(8)}, [&](const Indices& i) { return cast(bf16, cast(f32, x[0].at(i)) * constant(f32, 1.5)); },
        "own");
    return std::vector{own + 1};
  };
  EXPECT_EQ(types(asked), "own bf16");
}

}  // namespace
}  // namespace lathe::test
