#include "ir/text/parse.h"
#include "tests/ir/interpreter/run.h"

namespace lathe::testing {
namespace {

TEST(InterpreterTraps, IndexOutOfShapeEvenInsideTheMemory) {
  const Buffer a = array("A", i32, {2, 3}), out = array("out", i32, {1});
  const Func func = FuncNode::make("f", {a, out}, Store::make(out, {index(0)}, load(a, {index(0), index(3)})));
  Data x(i32, {1, 2, 3, 4, 5, 6}), y(i32, 1);
  EXPECT_EQ(trap_of([&] { run(func, {&x, &y}); }).substr(0, 41), "index 1 of A is out of range: 3 in [0, 3)");
}

TEST(InterpreterTraps, FlatIndexOutOfMemory) {
  const Buffer a = array("A", i32, {2, 3}), out = array("out", i32, {1});
  const Func func =
      FuncNode::make("f", {a, out}, Store::make(out, {index(0)}, load(a, {index(6)})), {}, {}, Stage::flatten);
  Data x(i32, {1, 2, 3, 4, 5, 6}), y(i32, 1);
  EXPECT_NE(trap_of([&] { run(func, {&x, &y}); }).find("element 6 (counted from the base) of A is out of range"),
            std::string::npos);
}

TEST(InterpreterTraps, ReadingAnOutputBeforeItIsWritten) {
  const Buffer out = array("out", i32, {2});
  const Func func = FuncNode::make("f", {out}, Store::make(out, {index(0)}, load(out, {index(1)})));
  Data y(i32, 2);
  EXPECT_NE(trap_of([&] { run(func, {&y}); }).find("of out is read before it is written"), std::string::npos);
  InterpreterOptions lenient;
  lenient.trap_uninitialized = false;
  EXPECT_EQ(run(func, {&y}, {}, lenient), 0);
}

/// for i in 0..3 parallel: out[..] = ..
Func parallel_func(const Buffer& out, const VarRef& i, Stmt body) {
  return FuncNode::make("f", {out}, for_loop(i, 3, std::move(body), ForKind::parallel));
}

TEST(InterpreterTraps, ParallelIterationsThatWriteOneElement) {
  const Buffer out = array("out", i32, {3});
  const VarRef i = Var::make("i");
  Data y(i32, 3);
  const Func conflict = parallel_func(out, i, Store::make(out, {floor_div(i, 2)}, constant(i32, 1)));
  EXPECT_NE(trap_of([&] { run(conflict, {&y}); }).find("both write an element of out"), std::string::npos);
  EXPECT_EQ(run(parallel_func(out, i, Store::make(out, {i}, cast(i32, i))), {&y}), 0);
  EXPECT_EQ(y.values(), (std::vector<double>{0, 1, 2}));
}

TEST(InterpreterTraps, ParallelIterationThatReadsWhatAnotherWrites) {
  const Buffer out = array("out", i32, {4});
  const VarRef i = Var::make("i");
  const Stmt fill =
      Seq::make({Store::make(out, {index(0)}, constant(i32, 1)), Store::make(out, {index(1)}, constant(i32, 1)),
                 Store::make(out, {index(2)}, constant(i32, 1)), Store::make(out, {index(3)}, constant(i32, 1))});
  const Stmt shift = for_loop(i, 3, Store::make(out, {i}, load(out, {i + 1})), ForKind::parallel);
  Data y(i32, 4);
  EXPECT_NE(
      trap_of([&] { run(FuncNode::make("f", {out}, Seq::make({fill, shift})), {&y}); }).find("parallel loop conflict"),
      std::string::npos);
}

TEST(InterpreterTraps, WhatIterationsHaveOfTheirOwnNoOtherReads) {
  const auto func = [](const std::string& write) {
    return parse_func(R"(func f(x: f32[6], out: f32[4]) stage begin {
  block root() reads x[..] writes out[..] {
    alloc row: f32[3]
    parallel for i in [0, 4) @{parallel_grain: 1, private_row: 1} {
      for j in )" + write +
                      R"( {
        row[j] = x[i + j]
      }
      out[i] = row[0] + row[1] + row[2]
    }
  }
})");
  };
  Data x(f32, {1, 2, 3, 4, 5, 6}), y(f32, 4);
  EXPECT_EQ(run(func("[0, 3)"), {&x, &y}), 0);
  EXPECT_EQ(y.values(), (std::vector<double>{6, 9, 12, 15}));
  EXPECT_NE(trap_of([&] { run(func("[0, 2 + i // 3)"), {&x, &y}); }).find("before it is written"), std::string::npos);
}

TEST(InterpreterTraps, NestedParallelLoopsAreCheckedAtBothLevels) {
  const Buffer out = array("out", i32, {3});
  const VarRef i = Var::make("i"), j = Var::make("j");
  Data y(i32, 3);
  const Stmt inner = for_loop(j, 2, Store::make(out, {i}, cast(i32, j)), ForKind::parallel);
  EXPECT_NE(trap_of([&] { run(parallel_func(out, i, inner), {&y}); }).find("both write"), std::string::npos);
}

TEST(InterpreterTraps, LoopThatNeverEnds) {
  const Buffer out = array("out", i32, {1});
  const Func func =
      FuncNode::make("f", {out}, While::make(constant(boolean, 1), Store::make(out, {index(0)}, constant(i32, 1))));
  Data y(i32, 1);
  InterpreterOptions options;
  options.step_limit = 1000;
  EXPECT_EQ(trap_of([&] { run(func, {&y}, {}, options); }).substr(0, 26), "the step limit is reached\n");
}

TEST(InterpreterTraps, ExternCallsButRegisteredOnes) {
  const Buffer out = array("out", f32, {2});
  const auto func = [&](const std::string& callee) {
    const Expr call = Call::make(f32, CallKind::extern_scalar, callee, {constant(f32, 0.5), constant(f32, 3)});
    return FuncNode::make("f", {out}, Store::make(out, {index(0)}, call));
  };
  Data y(f32, 2);
  EXPECT_EQ(trap_of([&] { run(func("nobody_knows"), {&y}); }),
            "the interpreter runs no extern functions but registered ones, and 'nobody_knows' is not");
  register_interpreter_extern("test_scale", [](std::span<const double> args) { return args[0] * args[1]; });
  EXPECT_EQ(run(func("test_scale"), {&y}), 0);
  EXPECT_EQ(y.values()[0], 1.5);
}

TEST(InterpreterAsserts, FailedAssertReturnsItsMessageAndIndex) {
  const Buffer out = array("out", i32, {4});
  const VarRef n = Var::make("n");
  const Stmt check = Assert::make(lt(n, index(4)), "take|0|index", n);
  const Func func = FuncNode::make("f", {out, n}, Seq::make({check, Store::make(out, {n}, constant(i32, 1))}));
  Data y(i32, 4);
  std::string message;
  std::int64_t where = 0;
  EXPECT_EQ(run(func, {&y}, {9}, {}, &message, &where), 1);
  EXPECT_EQ(message, "take|0|index");
  EXPECT_EQ(where, 9);
  EXPECT_EQ(y.values()[0], 99);
  EXPECT_EQ(run(func, {&y}, {2}, {}, &message, &where), 0);
}

}  // namespace
}  // namespace lathe::testing
