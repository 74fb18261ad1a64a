#include "tests/jit/trace/harness.h"

namespace lathe::test {
namespace {

using ops::Slice;
using Values = std::vector<double>;
using Extents = std::vector<std::int64_t>;

/// Views store and allocate nothing: a view as the output costs the one store of its copy.
Array run_view(std::vector<Array> arrays, const std::function<Tensor(const std::vector<Tensor>&)>& f) {
  const Func func = trace(arrays, [&](const std::vector<Tensor>& x) { return std::vector{f(x)}; });
  int stores = 0;
  for_each_stmt(func->body, [&](const Stmt& s) { stores += s->kind == StmtKind::Store; });
  EXPECT_EQ(stores, 1) << print(func);
  EXPECT_TRUE(allocations(func).empty()) << print(func);
  return run(std::move(arrays), f);
}

const Array x23 = iota(f32, {2, 3});

TEST(Views, Reshape) {
  EXPECT_EQ(values(run_view({iota(i32, {2, 3, 4})}, [](auto& x) { return ops::reshape(x[0], {4, -1}); })),
            values(iota(i32, {4, 6})));
  EXPECT_EQ(values(run_view({iota(i32, {6, 4})}, [](auto& x) { return ops::reshape(x[0], {1, 2, 3, 1, 4}); })),
            values(iota(i32, {6, 4})));
  EXPECT_EQ(run_view({empty(f32, {0, 3})}, [](auto& x) { return ops::reshape(x[0], {5, 0}); }).shape, (Extents{5, 0}));
  EXPECT_EQ(values(run_view({array(f32, {1, 1}, {7})}, [](auto& x) { return ops::reshape(x[0], {}); })), (Values{7}));
}

int count_blocks(const Func& func) {
  int blocks = 0;
  for_each_stmt(func->body, [&](const Stmt& s) { blocks += s->kind == StmtKind::Block; });
  return blocks;
}

TEST(Views, ThatReadWhatIsBelowOverAndOverAreKept) {
  const auto rolls = [](const std::vector<Tensor>& x) {
    Tensor rolled = x[0];
    for (int k = 0; k < 30; ++k) rolled = ops::roll(rolled, {1}, {{1}});
    return rolled;
  };
  const Func func = trace({x23}, [&](auto& x) { return std::vector{rolls(x)}; });
  EXPECT_LE(count_blocks(func), 8) << print(func);
  EXPECT_EQ(values(run({x23}, rolls)), values(x23));
}

TEST(Views, ThatReadManyTensorsOnceAreNot) {
  const Func func = trace({x23}, [](auto& x) { return std::vector{ops::concat(std::vector<Tensor>(100, x[0]), 0)}; });
  EXPECT_EQ(count_blocks(func), 2);
}

TEST(Views, OfTheItersOfABodyAreNotKept) {
  const auto f = [](const std::vector<Tensor>& x) {
    return compute({index(2)}, [&](const Indices& i) {
      Tensor row =
          view({index(3)}, f32, [&](const Indices& j, const Expr& mask) { return x[0].at({i[0], j[0]}, mask); });
      for (int k = 0; k < 9; ++k) row = ops::roll(row, {1}, {{0}});
      return row.at({index(1)});
    });
  };
  EXPECT_EQ(values(run({x23}, f)), (Values{1, 4}));
}

TEST(Views, ReshapeThatSplitsHeadsIsAffineAndMergingThemIsExact) {
  const Func func = trace({empty(f32, {2, 8, 12})}, [](auto& x) {
    return std::vector{ops::permute_dims(ops::reshape(x[0], {2, 8, 3, 4}), {0, 2, 1, 3})};
  });
  for_each_expr(func->body, [&](const Expr& e) {
    if (const Binary* node = e.as<Binary>()) {
      EXPECT_NE(node->op, BinaryOp::floor_div);
      EXPECT_NE(node->op, BinaryOp::floor_mod);
    }
  });
  // The two index maps undo each other, and simplification sees it.
  const Func round_trip = trace(
      {empty(f32, {8, 12})}, [](auto& x) { return std::vector{ops::reshape(ops::reshape(x[0], {8, 3, 4}), {8, 12})}; });
  for_each_expr(round_trip->body, [&](const Expr& e) {
    if (const Load* node = e.as<Load>()) {
      for (const Expr& i : node->indices) EXPECT_TRUE(i.as<Var>()) << print(i);
    }
  });
}

TEST(Views, SymbolicReshapeKeepsTheUnknownExtent) {
  const VarRef n = Var::make("n");
  const Tensor x = input("x", f32, {n, index(12)});
  const Tensor y = ops::reshape_to(x, {n, index(3), index(-1)});
  EXPECT_EQ(y.shape()[0], n);
  EXPECT_TRUE(is_int(y.shape()[2], 4));
  const Tensor flat = ops::reshape(x, {-1});
  EXPECT_TRUE(verify(make_func("f", {x}, {ops::reshape_to(flat, {n, index(12)}) + 1})).empty());
}

TEST(Views, PermuteExpandSqueezeBroadcast) {
  EXPECT_EQ(values(run_view({x23}, [](auto& x) { return ops::permute_dims(x[0], {1, 0}); })),
            (Values{0, 3, 1, 4, 2, 5}));
  EXPECT_EQ(values(run_view({x23}, [](auto& x) { return ops::matrix_transpose(x[0]); })), (Values{0, 3, 1, 4, 2, 5}));
  EXPECT_EQ(values(run_view({x23}, [](auto& x) { return ops::moveaxis(x[0], 0, -1); })), (Values{0, 3, 1, 4, 2, 5}));
  EXPECT_EQ(run_view({x23}, [](auto& x) { return ops::expand_dims(x[0], {0, -1}); }).shape, (Extents{1, 2, 3, 1}));
  EXPECT_EQ(run_view({empty(f32, {1, 2, 1})}, [](auto& x) { return ops::squeeze(x[0], {0, -1}); }).shape, (Extents{2}));
  EXPECT_EQ(values(run_view({iota(f32, {2, 1})},
                            [](auto& x) { return ops::broadcast_to(x[0], ops::make_shape({2, 2, 2})); })),
            (Values{0, 0, 1, 1, 0, 0, 1, 1}));
}

TEST(Views, FlipAndSlice) {
  EXPECT_EQ(values(run_view({x23}, [](auto& x) { return ops::flip(x[0]); })), (Values{5, 4, 3, 2, 1, 0}));
  EXPECT_EQ(values(run_view({x23}, [](auto& x) { return ops::flip(x[0], {{-1}}); })), (Values{2, 1, 0, 5, 4, 3}));
  const Array x = iota(f32, {10});
  const auto sliced = [&](Slice s) { return values(run_view({x}, [&](auto& v) { return ops::getitem(v[0], {s}); })); };
  EXPECT_EQ(sliced({2, 9, 3}), (Values{2, 5, 8}));
  EXPECT_EQ(sliced({-3, std::nullopt, 1}), (Values{7, 8, 9}));
  EXPECT_EQ(sliced({std::nullopt, std::nullopt, -4}), (Values{9, 5, 1}));
  EXPECT_EQ(sliced({7, 2, -2}), (Values{7, 5, 3}));
  EXPECT_EQ(sliced({5, 5, 1}), (Values{}));
  EXPECT_EQ(sliced({-100, 100, 5}), (Values{0, 5}));
  EXPECT_EQ(sliced({100, std::nullopt, -5}), (Values{9, 4}));
  const Array y = run_view({iota(f32, {2, 3, 4})}, [](auto& v) {
    return ops::getitem(v[0], {-1, ops::NewAxis(), ops::Ellipsis(), Slice{std::nullopt, std::nullopt, 2}});
  });
  EXPECT_EQ(y.shape, (Extents{1, 3, 2}));
  EXPECT_EQ(values(y), (Values{12, 14, 16, 18, 20, 22}));
}

TEST(Views, ConcatStackSplit) {
  const Array a = iota(f32, {2, 2}), b = array(f32, {2, 1}, {8, 9});
  EXPECT_EQ(values(run_view({a, b, a}, [](auto& x) { return ops::concat({x[0], x[1], x[2]}, 1); })),
            (Values{0, 1, 8, 0, 1, 2, 3, 9, 2, 3}));
  EXPECT_EQ(values(run_view({a, b}, [](auto& x) { return ops::concat({x[0], x[1]}, std::nullopt); })),
            (Values{0, 1, 2, 3, 8, 9}));
  EXPECT_EQ(values(run_view({a, empty(f32, {0, 2})}, [](auto& x) { return ops::concat({x[1], x[0], x[1]}, 0); })),
            values(a));
  const Array stacked = run_view({a, a}, [](auto& x) { return ops::stack({x[0], x[1]}, -1); });
  EXPECT_EQ(stacked.shape, (Extents{2, 2, 2}));
  EXPECT_EQ(values(stacked), (Values{0, 0, 1, 1, 2, 2, 3, 3}));
  EXPECT_EQ(run({array(i8, {1}, {1}), array(u8, {1}, {200})}, [](auto& x) { return ops::concat({x[0], x[1]}); }).dtype,
            i16);
  const auto parts =
      run_all({iota(f32, {6})}, [](auto& x) { return ops::split(x[0], std::vector<std::int64_t>{1, 3, 2}); });
  EXPECT_EQ(values(parts[1]), (Values{1, 2, 3}));
  EXPECT_EQ(values(run_all({iota(f32, {6})}, [](auto& x) { return ops::split(x[0], 3); })[2]), (Values{4, 5}));
  EXPECT_EQ(values(run_all({x23}, [](auto& x) { return ops::unstack(x[0], 1); })[2]), (Values{2, 5}));
}

TEST(Views, PadRollTriangles) {
  EXPECT_EQ(values(run_view({x23}, [](auto& x) { return ops::pad(x[0], {{1, 0}, {0, 2}}, 9); })),
            (Values{9, 9, 9, 9, 9, 0, 1, 2, 9, 9, 3, 4, 5, 9, 9}));
  EXPECT_EQ(values(run_view({x23}, [](auto& x) { return ops::roll(x[0], {1}, {{1}}); })), (Values{2, 0, 1, 5, 3, 4}));
  EXPECT_EQ(values(run_view({x23}, [](auto& x) { return ops::roll(x[0], {-2}, std::nullopt); })),
            (Values{2, 3, 4, 5, 0, 1}));
  EXPECT_EQ(values(run_view({x23}, [](auto& x) { return ops::roll(x[0], {1, 4}, {{0, 1}}); })),
            (Values{5, 3, 4, 2, 0, 1}));
  EXPECT_EQ(values(run_view({x23}, [](auto& x) { return ops::tril(x[0]); })), (Values{0, 0, 0, 3, 4, 0}));
  EXPECT_EQ(values(run_view({x23}, [](auto& x) { return ops::triu(x[0], 1); })), (Values{0, 1, 2, 0, 0, 5}));
}

TEST(Views, AMaskReachesThroughViewsToZero) {
  EXPECT_EQ(values(run_view({x23}, [](auto& x) { return ops::tril(ops::pad(x[0], {{0, 1}, {0, 0}}, 9)); })),
            (Values{0, 0, 0, 3, 4, 0, 9, 9, 9}));
  EXPECT_EQ(values(run_view({}, [](auto&) { return ops::triu(ops::ones(ops::make_shape({2, 2}))); })),
            (Values{1, 1, 0, 1}));
}

TEST(Views, AChainOfViewsStoresOnce) {
  const Array y = run_view({iota(f32, {4, 6})}, [](auto& x) {
    Tensor t = ops::permute_dims(ops::reshape(x[0], {4, 2, 3}), {1, 0, 2});
    t = ops::roll(ops::flip(ops::pad(t, {{0, 0}, {1, 1}, {0, 0}}, -1), {{2}}), {1}, {{1}});
    return ops::reshape(ops::getitem(t, {1, Slice{std::nullopt, std::nullopt, 2}}), {-1});
  });
  // Rows of the padded, rolled half: row 0 was row 5 (pad), row 2 was row 1 (x row 0), row 4 was row 3 (x row 2).
  EXPECT_EQ(values(y), (Values{-1, -1, -1, 5, 4, 3, 17, 16, 15}));
}

TEST(Views, FeedAComputeWithoutACopy) {
  const Func func = trace({empty(f32, {4, 6}), empty(f32, {4, 6})},
                          [](auto& x) { return std::vector{ops::matmul(x[0], ops::matrix_transpose(x[1]))}; });
  int stores = 0;
  for_each_stmt(func->body, [&](const Stmt& s) { stores += s->kind == StmtKind::Store; });
  EXPECT_EQ(stores, 2);  // init and update
  EXPECT_TRUE(allocations(func).empty());
}

TEST(Views, CreationStoresNothingOfItsOwn) {
  EXPECT_EQ(values(run_view({}, [](auto&) { return ops::arange(5, -1, -2); })), (Values{5, 3, 1}));
  EXPECT_EQ(values(run_view({}, [](auto&) { return ops::arange(0.0, 1.0, 0.25); })), (Values{0, 0.25, 0.5, 0.75}));
  EXPECT_EQ(values(run_view({}, [](auto&) { return ops::linspace(0, 1, 5); })), (Values{0, 0.25, 0.5, 0.75, 1}));
  EXPECT_EQ(values(run_view({}, [](auto&) { return ops::linspace(0, 1, 4, f64, false); })),
            (Values{0, 0.25, 0.5, 0.75}));
  EXPECT_EQ(values(run_view({}, [](auto&) { return ops::eye(2, 3, 1); })), (Values{0, 1, 0, 0, 0, 1}));
  EXPECT_EQ(values(run_view({}, [](auto&) { return ops::full(ops::make_shape({2}), 7, u8); })), (Values{7, 7}));
  EXPECT_EQ(values(run_view({x23}, [](auto& x) { return ops::ones_like(x[0], i16); })), (Values(6, 1)));
  EXPECT_EQ(values(run_view({x23}, [](auto& x) { return ops::zeros_like(x[0]); })), (Values(6, 0)));
}

TEST(Take, WrapsNegativeIndicesAndChecksEachOnce) {
  const Array out = run({x23, array(i32, {2, 2}, {0, -1, 1, -3})}, [](auto& x) { return ops::take(x[0], x[1], 1); });
  EXPECT_EQ(out.shape, (Extents{2, 2, 2}));
  EXPECT_EQ(values(out), (Values{0, 2, 1, 0, 3, 5, 4, 3}));
  const Func func = trace({x23, empty(i64, {4})}, [](auto& x) { return std::vector{ops::take(x[0], x[1], 1) + 1}; });
  int checks = 0;
  for_each_stmt(func->body, [&](const Stmt& s) { checks += s->kind == StmtKind::Assert; });
  EXPECT_EQ(checks, 1);
}

TEST(Take, StopsAtAnIndexOutsideBeforeReading) {
  for (const auto& [dtype, bad] :
       std::vector<std::pair<DType, double>>{{i64, 3}, {i64, -4}, {i8, 127}, {u8, 3}, {u32, 4e9}}) {
    Status status;
    run_all(
        {x23, array(dtype, {2}, {1, bad})}, [](auto& x) { return std::vector{ops::take(x[0], x[1], -1)}; }, &status);
    EXPECT_NE(status.code, 0);
    EXPECT_EQ(status.message, "take|axis 1|index");
    EXPECT_EQ(status.index, static_cast<std::int64_t>(bad));
  }
  Status status;
  run_all(
      {empty(f32, {2, 0}), array(i64, {1}, {0})}, [](auto& x) { return std::vector{ops::take(x[0], x[1], 1)}; },
      &status);
  EXPECT_EQ(status.message, "take|axis 1|index");
}

TEST(Take, AlongAxis) {
  EXPECT_EQ(
      values(run({x23, array(i64, {2, 1}, {2, -2})}, [](auto& x) { return ops::take_along_axis(x[0], x[1], 1); })),
      (Values{2, 4}));
  EXPECT_EQ(
      values(run({x23, array(i64, {1, 3}, {1, 0, 1})}, [](auto& x) { return ops::take_along_axis(x[0], x[1], 0); })),
      (Values{3, 1, 5}));
  EXPECT_EQ(values(run({x23, array(i64, {1, 1}, {1})}, [](auto& x) { return ops::take_along_axis(x[0], x[1], 1); })),
            (Values{1, 4}));
}

TEST(IndexAdd, AddsUpWhereIndicesAreEqual) {
  EXPECT_EQ(values(run({x23, array(i64, {4}, {1, 0, -1, 1}), iota(f32, {4, 3})},
                       [](auto& x) { return ops::index_add(x[0], x[1], x[2]); })),
            (Values{3, 5, 7, 18, 22, 26}));
  EXPECT_EQ(values(run({x23, array(u8, {3}, {2, 2, 0}), array(f32, {3}, {1, 10, 100})},
                       [](auto& x) { return ops::index_add(x[0], x[1], x[2], 1); })),
            (Values{100, 1, 13, 103, 4, 16}));
  EXPECT_EQ(values(run({array(i64, {5}, {0, 3, 3, 1, 3})},
                       [](auto& x) { return ops::index_add(ops::zeros(ops::make_shape({4}), i32), x[0], 1); })),
            (Values{1, 1, 0, 3}));
  EXPECT_EQ(
      values(run({x23, empty(i64, {0}), empty(f32, {0, 3})}, [](auto& x) { return ops::index_add(x[0], x[1], x[2]); })),
      values(x23));
}

TEST(IndexAdd, AddsHalvesUpInFull) {
  const Array ones = run({array(i64, {4096}, Values(4096, 0))}, [](auto& x) {
    return ops::index_add(ops::zeros(ops::make_shape({1}), f16), x[0], ops::ones(ops::make_shape({4096}), f16));
  });
  EXPECT_EQ(values(ones), (Values{4096}));
}

TEST(IndexAdd, StopsAtAnIndexOutside) {
  Status status;
  run_all(
      {x23, array(i64, {2}, {1, 2}), x23}, [](auto& x) { return std::vector{ops::index_add(x[0], x[1], x[2])}; },
      &status);
  EXPECT_EQ(status.message, "index_add|axis 0|index");
  EXPECT_EQ(status.index, 2);
}

TEST(OneHot, GivesARowOfZerosForAnIndexOutside) {
  EXPECT_EQ(values(run({array(i32, {3}, {1, -1, 2})}, [](auto& x) { return ops::one_hot(x[0], 3); })),
            (Values{0, 1, 0, 0, 0, 0, 0, 0, 1}));
}

}  // namespace
}  // namespace lathe::test
