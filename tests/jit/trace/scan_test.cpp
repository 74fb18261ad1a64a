#include "jit/trace/ops/scan.h"

#include "ir/reduction.h"
#include "tests/jit/trace/harness.h"

namespace lathe::test {
namespace {

using Values = std::vector<double>;
using Extents = std::vector<std::int64_t>;

Values on(const Array& x, const std::function<Tensor(const Tensor&)>& f) {
  return values(run({x}, [&](auto& v) { return f(v[0]); }));
}

TEST(Scan, RunsAlongAnyAxis) {
  const Array x = iota(f32, {2, 2, 3});
  EXPECT_EQ(on(x, [](auto& v) { return ops::cumulative_sum(v, 2); }),
            (Values{0, 1, 3, 3, 7, 12, 6, 13, 21, 9, 19, 30}));
  EXPECT_EQ(on(x, [](auto& v) { return ops::cumulative_sum(v, -2); }), (Values{0, 1, 2, 3, 5, 7, 6, 7, 8, 15, 17, 19}));
  EXPECT_EQ(on(x, [](auto& v) { return ops::cumulative_sum(v, 0); }), (Values{0, 1, 2, 3, 4, 5, 6, 8, 10, 12, 14, 16}));
  EXPECT_EQ(on(array(f64, {4}, {2, 3, 0.5, -1}), [](auto& v) { return ops::cumulative_prod(v); }),
            (Values{2, 6, 3, -3}));
}

TEST(Scan, PutsTheIdentityBeforeTheResults) {
  const Array x = iota(i32, {2, 3});
  const Array sums = run({x}, [](auto& v) { return ops::cumulative_sum(v[0], 1, std::nullopt, true); });
  EXPECT_EQ(sums.shape, (Extents{2, 4}));
  EXPECT_EQ(values(sums), (Values{0, 0, 1, 3, 0, 3, 7, 12}));
  EXPECT_EQ(on(x, [](auto& v) { return ops::cumulative_prod(v, 0, std::nullopt, true); }),
            (Values{1, 1, 1, 0, 1, 2, 0, 4, 10}));
  EXPECT_EQ(on(empty(f32, {2, 0}), [](auto& v) { return ops::cumulative_prod(v, 1, std::nullopt, true); }),
            (Values{1, 1}));
}

TEST(Scan, AccumulatesAsReductionsDo) {
  const Array sums = run({array(i8, {3}, {127, 127, 127})}, [](auto& x) { return ops::cumulative_sum(x[0]); });
  EXPECT_EQ(sums.dtype, i64);
  EXPECT_EQ(values(sums), (Values{127, 254, 381}));
  EXPECT_EQ(run({array(u8, {1}, {1})}, [](auto& x) { return ops::cumulative_prod(x[0]); }).dtype, u64);
  EXPECT_EQ(run({array(i8, {1}, {1})}, [](auto& x) { return ops::cumulative_sum(x[0], 0, f64); }).dtype, f64);
  // One f16 step at 2048 is 2: adding ones in f16 would stay there.
  Values ones(101, 1);
  ones[0] = 2048;
  EXPECT_EQ(on(array(f16, {101}, ones), [](auto& v) { return ops::cumulative_sum(v); }).back(), 2148);
}

TEST(Scan, OfOneElementOrNoneHasNothingToCombine) {
  EXPECT_EQ(on(array(f32, {2, 1}, {3, 4}), [](auto& v) { return ops::cumulative_sum(v, 1); }), (Values{3, 4}));
  EXPECT_EQ(run({empty(f32, {2, 0})}, [](auto& v) { return ops::cumulative_sum(v[0], 1); }).shape, (Extents{2, 0}));
}

TEST(Scan, TakesAnyReducerOfOneValue) {
  const Array x = array(f32, {5}, {1, 3, 2, 5, 4});
  const auto greatest = [](const Tensor& v) {
    return scan(v.shape(), 0, simple_reducer(BinaryOp::max, f32), [&](const Indices& i) { return v.at(i); });
  };
  EXPECT_EQ(on(x, greatest), (Values{1, 3, 3, 5, 5}));
}

TEST(Scan, RefusesWhatItCannotRunAlong) {
  const Tensor x = input("x", f32, ops::make_shape({2, 3})), truth = input("b", boolean, ops::make_shape({3}));
  EXPECT_EQ(error_of([&] { ops::cumulative_sum(x); }),
            "cumulative_sum: given f32[2, 3]; expected axis=, which only a 1-d tensor may leave out");
  EXPECT_EQ(error_of([&] { ops::cumulative_sum(x, 2); }).substr(0, 15), "cumulative_sum:");
  EXPECT_EQ(error_of([&] { ops::cumulative_prod(truth); }, Mistake::type).substr(0, 16), "cumulative_prod:");
  const auto halves = [](const Indices&) { return constant(f16, 1); };
  EXPECT_EQ(error_of([&] { scan({index(3)}, 0, simple_reducer(BinaryOp::add, f16), halves); }, Mistake::type),
            "scan: the reducer folds f16; expected f32, which f16 is computed in");
  EXPECT_EQ(error_of([&] { scan({index(3)}, 0, simple_reducer(BinaryOp::add, f32), halves); }, Mistake::type),
            "scan: the terms of the scan have type f16; its reducer folds f32");
  EXPECT_EQ(error_of([&] { scan({index(3)}, 1, simple_reducer(BinaryOp::add, f16), halves); }),
            "scan: axis 1 is out of range for the shape [3]");
}

}  // namespace
}  // namespace lathe::test
