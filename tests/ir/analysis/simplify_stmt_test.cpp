#include <gtest/gtest.h>

#include "ir/analysis/simplify.h"
#include "ir/reduction.h"
#include "ir/text/print.h"
#include "programs.h"

namespace lathe {
namespace {

using testing::Executor;
using testing::Point;
using testing::RandomPrograms;
using testing::Touch;

struct Trace {
  std::vector<Touch> writes;  ///< in order
  std::set<Touch> reads;
};

Trace trace(const Stmt& s, const Point& point) {
  Trace result;
  Executor run(point, [&](const Touch& t, const Point&) {
    if (t.is_write)
      result.writes.push_back(t);
    else
      result.reads.insert(t);
  });
  run.run(s);
  return result;
}

TEST(RandomPrograms, WriteTheSameElementsInTheSameOrderWhenSimplified) {
  RandomPrograms programs(31);
  int changed = 0;
  for (int round = 0; round < 500; ++round) {
    Stmt body = programs.program();
    Stmt simple = simplify(body, programs.bounds);
    changed += !(simple == body);
    programs.each_point([&](const Point& point) {
      Trace before = trace(body, point), after = trace(simple, point);
      // A store that never runs takes its reads with it; nothing new is read.
      bool reads_less = std::includes(before.reads.begin(), before.reads.end(), after.reads.begin(), after.reads.end());
      ASSERT_TRUE(before.writes == after.writes && reads_less) << print(body) << "\nbecame\n"
                                                               << print(simple) << "\nat " << point.text();
    });
    if (HasFatalFailure()) return;
  }
  EXPECT_GT(changed, 230);
}

struct SimplifyStmt : ::testing::Test {
  VarRef n = Var::make("n"), i = Var::make("i"), io = Var::make("io"), ii = Var::make("ii");
  Buffer a = BufferNode::make("A", f32, {n}), c = BufferNode::make("C", f32, {n});
  Bounds bounds;

  void SetUp() override { bounds.bind(n, Interval{1, {}, 1, 0}); }
  Stmt loop(const VarRef& v, Expr extent, Stmt body) {
    return For::make(v, index(0), std::move(extent), ForKind::serial, std::move(body));
  }
  Stmt store(Expr at) { return Store::make(c, {at}, load(a, {at})); }
  std::string text(const Stmt& s) { return print(simplify(s, bounds)); }
};

TEST_F(SimplifyStmt, LoopsOfNoOrOneIterationGo) {
  EXPECT_EQ(text(loop(i, index(0), store(i))), print(Seq::make({})));
  EXPECT_EQ(text(loop(i, index(1), store(i + 3))), print(store(index(3))));
  EXPECT_EQ(text(For::make(i, n - 1, index(1), ForKind::serial, store(i))), print(store(n - 1)));
}

TEST_F(SimplifyStmt, DecidedIfsBecomeTheirArm) {
  Stmt guarded =
      loop(io, floor_div(Expr(n), 8), loop(ii, index(8), If::make(lt(io * 8 + ii, Expr(n)), store(io * 8 + ii))));
  EXPECT_EQ(text(guarded), print(loop(io, floor_div(Expr(n), 8), loop(ii, index(8), store(io * 8 + ii)))));
  Stmt never = loop(i, n, If::make(ge(Expr(i), Expr(n)), store(i)));
  EXPECT_EQ(text(never), print(Seq::make({})));
}

TEST_F(SimplifyStmt, ConditionsHoldInTheirArms) {
  Stmt nested = loop(i, n, If::make(lt(Expr(i), index(4)), If::make(lt(Expr(i), index(6)), store(i)), store(i)));
  EXPECT_EQ(text(nested), print(loop(i, n, If::make(lt(Expr(i), index(4)), store(i), store(i)))));
  Stmt asserted = Seq::make(
      {Assert::make(lt(Expr(n), index(10)), "op|axis|what"), If::make(lt(Expr(n), index(20)), store(index(0)))});
  EXPECT_EQ(text(asserted), print(Seq::make({Assert::make(lt(Expr(n), index(10)), "op|axis|what"), store(index(0))})));
}

TEST_F(SimplifyStmt, MasksOfAllLanesOrNoneGo) {
  Expr lanes = Ramp::make(io * 8, index(1), 8);
  auto masked = [&](Expr limit) {
    Expr mask = lt(lanes, Broadcast::make(limit, 8));
    return loop(io, floor_div(Expr(n), 8), Store::make(c, {lanes}, load(a, {lanes}, mask), mask));
  };
  EXPECT_EQ(text(masked(n)), print(loop(io, floor_div(Expr(n), 8), Store::make(c, {lanes}, load(a, {lanes})))));
  EXPECT_EQ(text(masked(index(0))), print(Seq::make({})));
}

TEST_F(SimplifyStmt, PredicatesThatAlwaysHoldGo) {
  VarRef v = Var::make("v");
  Block::Fields f;
  f.name = "b";
  f.iters = {{v, {index(0), n}, IterKind::space}};
  f.bindings = {io * 8 + ii};
  f.predicate = logical_and(lt(io * 8 + ii, Expr(n)), lt(Expr(ii), index(8)));
  f.body = store(v);
  Stmt whole = simplify(loop(io, floor_div(Expr(n), 8), loop(ii, index(8), Block::make(f))), bounds);
  EXPECT_FALSE(whole.as<For>()->body.as<For>()->body.as<Block>()->f.predicate);
  Stmt partial = simplify(loop(io, floor_div(n + 7, 8), loop(ii, index(8), Block::make(f))), bounds);
  EXPECT_EQ(print(partial.as<For>()->body.as<For>()->body.as<Block>()->f.predicate), "io * 8 + ii < n");
}

TEST_F(SimplifyStmt, WholeDimensionsStayWhole) {
  bounds.bind(n, Interval::point(8));
  VarRef v = Var::make("v");
  Block::Fields f;
  f.name = "b";
  f.iters = {{v, {index(0), n}, IterKind::space}};
  f.bindings = {i};
  f.reads = {full_region(a)};
  f.writes = {full_region(c)};
  f.writes[0].ranges[0].extent = min(Expr(n), index(9));
  f.body = store(v);
  const Stmt simple = simplify(loop(i, n, Block::make(f)), bounds);
  const Block* block = simple.as<For>()->body.as<Block>();
  EXPECT_EQ(print(block->f.reads[0]), "A[..]");
  EXPECT_EQ(print(block->f.writes[0]), "C[0:+8]");
}

TEST_F(SimplifyStmt, ReductionsKeepTheirCanonicalUpdate) {
  VarRef v = Var::make("v"), k = Var::make("k");
  Block::Fields f;
  f.name = "ones";
  f.iters = {{v, {index(0), n}, IterKind::space}, {k, {index(0), index(1)}, IterKind::reduce}};
  f.bindings = {i, index(0)};
  f.reducer = simple_reducer(BinaryOp::add, f32);
  f.init = make_init(*f.reducer, {{c, {v + k}}});
  f.body = make_update(*f.reducer, {{c, {v + k}}}, {constant(f32, 1.0) * constant(f32, 1.0)});
  Stmt simple = simplify(loop(i, n, Block::make(f)), bounds);
  auto* block = simple.as<For>()->body.as<Block>();
  auto parts = match_update(*block);
  ASSERT_TRUE(parts.has_value());
  EXPECT_EQ(print(parts->outputs[0].indices[0]), "v");
}

}  // namespace
}  // namespace lathe
