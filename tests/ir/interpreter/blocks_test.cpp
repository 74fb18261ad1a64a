#include "ir/reduction.h"
#include "tests/ir/interpreter/run.h"

namespace lathe::testing {
namespace {

/// C[i] = sum over k of A[i, k], its block's loops in the given order and kinds.
struct RowSum {
  Buffer a, c;
  VarRef i = Var::make("i"), k = Var::make("k"), vi = Var::make("vi"), vk = Var::make("vk");
  std::int64_t m, n;
  Block::Fields fields;

  RowSum(std::int64_t m, std::int64_t n) : a(array("A", f32, {m, n})), c(array("C", f32, {m})), m(m), n(n) {
    const Reducer reducer = simple_reducer(BinaryOp::add, f32);
    const std::vector<ReductionOutput> outputs = {{c, {vi}}};
    fields.name = "C";
    fields.iters = {{vi, {index(0), index(m)}, IterKind::space}, {vk, {index(0), index(n)}, IterKind::reduce}};
    fields.bindings = {i, k};
    fields.reads = {point_region(a, {vi, vk})};
    fields.writes = {point_region(c, {vi})};
    fields.reducer = reducer;
    fields.init = make_init(reducer, outputs);
    fields.body = make_update(reducer, outputs, {load(a, {vi, vk})});
  }
  Func func(Stmt body) { return FuncNode::make("row_sum", {a, c}, std::move(body)); }
  Stmt block() { return Block::make(fields); }
};

TEST(InterpreterBlocks, ReductionStartsFromItsIdentity) {
  RowSum sum(2, 3);
  Data a(f32, {1, 2, 3, 4, 5, 6}), c(f32, 2);
  EXPECT_EQ(run(sum.func(for_loop(sum.i, 2, for_loop(sum.k, 3, sum.block()))), {&a, &c}), 0);
  EXPECT_EQ(c.values(), (std::vector<double>{6, 15}));
}

TEST(InterpreterBlocks, InitRunsOncePerSpacePointInAnyLoopOrder) {
  RowSum sum(2, 3);
  Data a(f32, {1, 2, 3, 4, 5, 6}), c(f32, 2);
  EXPECT_EQ(run(sum.func(for_loop(sum.k, 3, for_loop(sum.i, 2, sum.block()))), {&a, &c}), 0);
  EXPECT_EQ(c.values(), (std::vector<double>{6, 15}));
}

TEST(InterpreterBlocks, InitRunsOncePerSpacePointOfAFusedLoop) {
  RowSum sum(2, 3);
  const VarRef f = Var::make("f");
  sum.fields.bindings = {floor_div(f, 3), floor_mod(f, 3)};
  Data a(f32, {1, 2, 3, 4, 5, 6}), c(f32, 2);
  EXPECT_EQ(run(sum.func(for_loop(f, 6, sum.block())), {&a, &c}), 0);
  EXPECT_EQ(c.values(), (std::vector<double>{6, 15}));
}

TEST(InterpreterBlocks, InitRunsWithoutReduceInstances) {
  for (const bool reduce_outside : {false, true}) {
    RowSum sum(2, 0);
    Data a(f32, 0), c(f32, 2);
    const Stmt loops = reduce_outside ? for_loop(sum.k, 0, for_loop(sum.i, 2, sum.block()))
                                      : for_loop(sum.i, 2, for_loop(sum.k, 0, sum.block()));
    EXPECT_EQ(run(sum.func(loops), {&a, &c}), 0);
    EXPECT_EQ(c.values(), (std::vector<double>{0, 0}));
  }
}

TEST(InterpreterBlocks, PredicateOnTheReductionDoesNotHoldBackInit) {
  RowSum sum(2, 3);
  const VarRef ko = Var::make("ko"), ki = Var::make("ki");
  const Expr k = ko * index(2) + ki;
  sum.fields.bindings = {sum.i, k};
  // The first instance fails the predicate: only init runs there.
  sum.fields.predicate = logical_and(lt(k, index(3)), ge(k, index(1)));
  Data a(f32, {1, 2, 3, 4, 5, 6}), c(f32, 2);
  EXPECT_EQ(run(sum.func(for_loop(sum.i, 2, for_loop(ko, 2, for_loop(ki, 2, sum.block())))), {&a, &c}), 0);
  EXPECT_EQ(c.values(), (std::vector<double>{5, 11}));
}

TEST(InterpreterBlocks, InitNeedsNoInstanceButAPointOfTheDomain) {
  RowSum sum(2, 3);
  // Loops past the domain reach no point there; a point without instances starts all the same.
  sum.fields.predicate = lt(sum.i, index(1));
  Data a(f32, {1, 2, 3, 4, 5, 6}), c(f32, 2);
  EXPECT_EQ(run(sum.func(for_loop(sum.i, 4, for_loop(sum.k, 3, sum.block()))), {&a, &c}), 0);
  EXPECT_EQ(c.values(), (std::vector<double>{6, 0}));
}

TEST(InterpreterBlocks, BindingOutsideTheDomainTraps) {
  RowSum sum(2, 3);
  Data a(f32, {1, 2, 3, 4, 5, 6}), c(f32, 2);
  EXPECT_EQ(trap_of([&] { run(sum.func(for_loop(sum.i, 3, for_loop(sum.k, 3, sum.block()))), {&a, &c}); }),
            "iter vi is bound to 2, outside its domain [0, 2)\n  in: block C(space vi in [0, 2) = i, reduce vk in [0, "
            "3) = k)\n"
            "  with i = 2, k = 0, vi = 2, vk = 0");
}

TEST(InterpreterBlocks, AllocationIsUndefinedAtTheStartOfEachInstance) {
  const Buffer out = array("out", i32, {2}), t = array("t", i32, {1});
  const VarRef i = Var::make("i"), v = Var::make("v");
  Block::Fields fields;
  fields.name = "b";
  fields.iters = {{v, {index(0), index(2)}, IterKind::ordered}};
  fields.bindings = {i};
  fields.allocs = {t};
  const Stmt write_first = If::make(eq(v, index(0)), Store::make(t, {index(0)}, constant(i32, 7)));
  fields.body = Seq::make({write_first, Store::make(out, {v}, load(t, {index(0)}))});
  const Func func = FuncNode::make("f", {out}, for_loop(i, 2, Block::make(fields)));
  Data data(i32, 2);
  EXPECT_NE(
      trap_of([&] { run(func, {&data}); }).find("element 0 (counted from the base) of t is read before it is written"),
      std::string::npos);
}

}  // namespace
}  // namespace lathe::testing
