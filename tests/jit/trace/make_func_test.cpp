#include "tests/jit/trace/harness.h"

namespace lathe::test {
namespace {

int count(const Func& func, StmtKind kind) {
  int found = 0;
  for_each_stmt(func->body, [&](const Stmt& s) { found += s->kind == kind; });
  return found;
}

TEST(MakeFunc, GeluOfProductPlusOneIsOneNestAnOperator) {
  const Func func =
      trace({empty(f32, {4, 8}), empty(f32, {8})}, [](auto& x) { return std::vector{ops::gelu(x[0] * x[1] + 1)}; });
  EXPECT_EQ(count(func, StmtKind::Block), 4);  // root, multiply, add, gelu
  EXPECT_EQ(allocations(func).size(), 2u);
  EXPECT_EQ(std::get<std::string>(func->attrs.at("operators")), "multiply,add,gelu");
  EXPECT_EQ(func->stage, Stage::begin);
}

TEST(MakeFunc, ATensorUsedTwiceIsOneBlock) {
  const Func func = trace({empty(f32, {4})}, [](auto& x) {
    const Tensor e = ops::exp(x[0]);
    return std::vector{e * e + e};
  });
  EXPECT_EQ(count(func, StmtKind::Store), 3);
}

TEST(MakeFunc, BlockNamesAreUnique) {
  const Func func = trace({empty(f32, {4})}, [](auto& x) { return std::vector{x[0] + 1 + 2 + 3}; });
  std::set<std::string> names;
  for_each_stmt(func->body, [&](const Stmt& s) {
    if (const Block* block = s.as<Block>()) {
      EXPECT_TRUE(names.insert(block->f.name).second) << block->f.name;
    }
  });
  EXPECT_EQ(names, (std::set<std::string>{"root", "add", "add_1", "add_2"}));
}

TEST(MakeFunc, OnlyWhatOutputsNeedIsKept) {
  const Func func = trace({empty(f32, {4}), empty(f32, {4})}, [](auto& x) {
    ops::exp(x[1]);
    return std::vector{ops::log(x[0])};
  });
  EXPECT_EQ(count(func, StmtKind::Store), 1);
  EXPECT_EQ(func->params.size(), 3u);  // an input that is not read stays a parameter
}

TEST(MakeFunc, OutputsThatAreInputsViewsOrRepeatedAreCopied) {
  const auto outputs = run_all({iota(f32, {2, 3})}, [](auto& x) {
    const Tensor twice = x[0] * 2;
    return std::vector{x[0], ops::matrix_transpose(x[0]), twice, twice};
  });
  EXPECT_EQ(values(outputs[0]), (std::vector<double>{0, 1, 2, 3, 4, 5}));
  EXPECT_EQ(values(outputs[1]), (std::vector<double>{0, 3, 1, 4, 2, 5}));
  EXPECT_EQ(outputs[1].shape, (std::vector<std::int64_t>{3, 2}));
  EXPECT_EQ(values(outputs[2]), (std::vector<double>{0, 2, 4, 6, 8, 10}));
  EXPECT_EQ(values(outputs[3]), values(outputs[2]));
}

TEST(MakeFunc, AnOutputMayBeReadByOthers) {
  const auto outputs = run_all({iota(f32, {3})}, [](auto& x) {
    const Tensor square = x[0] * x[0];
    return std::vector{square, square + 1};
  });
  EXPECT_EQ(values(outputs[1]), (std::vector<double>{1, 2, 5}));
}

TEST(MakeFunc, SymbolicExtentsBecomeScalarParameters) {
  const VarRef n = Var::make("n");
  const Tensor x = input("x", f32, {n, index(4)});
  const Func func = make_func("f", {x}, {ops::sum(x * 2, {{1}})});
  ASSERT_EQ(scalar_params(func).size(), 1u);
  EXPECT_EQ(scalar_params(func)[0], n);
  ASSERT_EQ(func->facts.size(), 1u);
  EXPECT_EQ(func->facts[0].min, 2);
  EXPECT_TRUE(verify(func).empty());
}

TEST(MakeFunc, SymbolicExtentsPassThroughTheLibrary) {
  const VarRef n = Var::make("n"), m = Var::make("m");
  const Tensor x = input("x", f32, {n, index(4)}), y = input("y", f32, {index(4), m}), i = input("i", i64, {m});
  const std::vector<std::pair<const char*, Tensor>> traced = {
      {"softmax", ops::softmax(x, 0)},
      {"layer_norm", ops::layer_norm(x)},
      {"mean", ops::mean(x, {{0}}, true)},
      {"argmax", ops::argmax(x, 0)},
      {"matmul", ops::matmul(x, y)},
      {"concat", ops::concat({x, x + 1}, 0)},
      {"take", ops::take(x, i, 0)},
      {"flip", ops::flip(x) + 1},
      {"pad", ops::pad(x, {{1, 1}}) * 2},
      {"tril", ops::tril(ops::matmul(x, y))},
      {"reshape", ops::reshape(x, {-1, 2}) + 1},
  };
  for (const auto& [name, output] : traced) {
    const Func func = make_func("f", {x, y, i}, {output});
    EXPECT_EQ(scalar_params(func), (std::vector<VarRef>{n, m})) << name;
    for (const Finding& finding : verify(func)) {
      ADD_FAILURE() << name << ": " << finding.rule << ": " << finding.message << "\n" << print(func);
    }
  }
  EXPECT_EQ(
      error_of([&] { x + ops::matrix_transpose(y); }),
      "add: shapes do not broadcast: given f32[n, 4] and f32[m, 4]; expected equal extents, or 1, but axis -2 has n "
      "and m");
}

TEST(MakeFunc, AnExtentThatOnlyACheckOrAValueSpeaksOfIsAParameter) {
  const VarRef n = Var::make("n");
  const Tensor x = input("x", f32, {index(9)}), i = input("i", i64, {index(9)});
  const std::vector<std::pair<const char*, Tensor>> traced = {
      {"index_add", ops::index_add(ops::zeros({n}, f32), i, x)},
      {"take_along_axis", ops::take_along_axis(ops::ones({n}, f32), i, 0)},
      {"take", ops::take(ops::flip(ops::cumulative_sum(ops::ones({n}, i64), 0)), i, 0)},
  };
  for (const auto& [name, output] : traced) {
    const Func func = make_func("f", {x, i}, {output});
    EXPECT_EQ(scalar_params(func), (std::vector<VarRef>{n})) << name;
    for (const Finding& finding : verify(func)) {
      ADD_FAILURE() << name << ": " << finding.rule << ": " << finding.message << "\n" << print(func);
    }
  }
}

TEST(MakeFunc, RunTimeScalarsAreParameters) {
  const Tensor x = input("x", f32, {index(4)}), alpha = scalar("alpha", f64, true);
  const Func func = make_func("f", {x, alpha}, {x * (alpha + 1)});
  EXPECT_EQ(buffer_params(func)[1]->dtype, f32);
  EXPECT_EQ(count(func, StmtKind::Store), 1);  // alpha + 1 is no block of its own
  Array data = iota(f32, {4}), out = empty(f32, {4});
  EXPECT_EQ(interpret(func, std::vector{host(data), host(out)}, std::vector{std::bit_cast<std::int64_t>(2.0)}), 0);
  EXPECT_EQ(values(out), (std::vector<double>{0, 3, 6, 9}));
}

TEST(MakeFunc, BindsWhatALongValueUsesOftenAndNothingInAShortOne) {
  const auto powers = [](int count) {
    const Tensor x = input("x", f32, {index(4)});
    return make_func("f", {x}, {compute({index(4)}, [&](const Indices& i) {
                       Expr y = x.at(i);
                       for (int k = 0; k < count; ++k) y = y * y + y;
                       return y;
                     })});
  };
  EXPECT_EQ(count(powers(4), StmtKind::Let), 0);
  EXPECT_GE(count(powers(30), StmtKind::Let), 10);
  EXPECT_TRUE(verify(powers(30)).empty());
}

TEST(MakeFunc, RefusesWhatIsNoParameter) {
  const Tensor x = input("x", f32, {index(4)}), y = input("y", f32, {index(4)});
  EXPECT_EQ(
      error_of([&] { make_func("f", {x}, {x + y}); }),
      "f: 'y' is read, but is not among the inputs: it is a tensor of another trace, which has no value here, or was "
      "left out of them");
  EXPECT_EQ(error_of([&] { make_func("f", {x, x}, {x + x}); }), "f: input 'x' occurs twice");
  EXPECT_EQ(error_of([&] { make_func("f", {x, x + 1}, {x}); }),
            "f: f32[4] stands among the inputs but is computed; expected an input or a scalar");
  EXPECT_EQ(error_of([&] { input("my x", f32, {}); }),
            "input name 'my x' is not an identifier: expected letters, digits and underscores");
}

TEST(MakeFunc, ALongChainNeedsNoDeepStack) {
  Tensor x = input("x", f32, {index(2)}), y = x;
  for (int k = 0; k < 3000; ++k) y = y + x;
  EXPECT_EQ(count(make_func("f", {x}, {y}), StmtKind::Store), 3000);
}

TEST(Compute, ReductionIsTheOutermostThingOfItsBody) {
  const Array out = run({iota(f32, {2, 3}), iota(f32, {3, 2})}, [](auto& x) {
    return compute({index(2), index(2)}, [&](const Indices& i) {
      return reduce(simple_reducer(BinaryOp::add, f32), {index(3)},
                    [&](const Indices& r) { return x[0](i[0], r[0]) * x[1](r[0], i[1]); });
    });
  });
  EXPECT_EQ(values(out), (std::vector<double>{10, 13, 28, 40}));
}

TEST(Compute, CalculatesHalfPrecisionInSingle) {
  // In f16, 2048 + 1 would be 2048 before 2 is added.
  const Array out = run({array(f16, {1}, {2048})}, [](auto& x) {
    return compute({index(1)}, [&](const Indices& i) { return x[0](i[0]) + constant(f16, 1) + constant(f16, 2); });
  });
  EXPECT_EQ(out.dtype, f16);
  EXPECT_EQ(values(out)[0], 2052);  // 2051 rounds to even
  EXPECT_EQ(error_of(
                [] {
                  compute({}, [](const Indices&) {
                    return reduce(simple_reducer(BinaryOp::add, f16), {index(2)},
                                  [](const Indices&) { return constant(f16, 1); });
                  });
                },
                Mistake::type),
            "reduce: the reducer folds f16; expected f32, which f16 is computed in");
}

TEST(Compute, RefusesAWrongNumberOfIndicesAndMixedTerms) {
  const Tensor x = input("x", f32, {index(4), index(2)});
  EXPECT_EQ(error_of([&] { compute({index(4)}, [&](const Indices& i) { return x(i[0]); }); }),
            "x: f32[4, 2] is indexed with 1 indices; expected 2");
  EXPECT_EQ(error_of(
                [&] {
                  compute({index(4)}, [&](const Indices& i) {
                    return reduce(simple_reducer(BinaryOp::add, f64), {index(2)},
                                  [&](const Indices& r) { return x(i[0], r[0]); });
                  });
                },
                Mistake::type),
            "reduce: term 0 of the reduction has type f32; its reducer folds f64");
}

}  // namespace
}  // namespace lathe::test
