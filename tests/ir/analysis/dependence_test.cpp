#include "ir/analysis/dependence.h"

#include <gtest/gtest.h>

#include <map>

#include "ir/reduction.h"
#include "ir/text/print.h"
#include "ir/visitor.h"
#include "programs.h"

namespace lathe {
namespace {

using testing::Executor;
using testing::Point;
using testing::RandomPrograms;
using testing::Touch;

TEST(RandomPrograms, CarryDependencesWhereverTwoIterationsMeet) {
  RandomPrograms programs(21);
  int independent = 0, found_independent = 0;
  for (int round = 0; round < 500; ++round) {
    Stmt body = programs.program();
    Stmt loop = For::make(programs.o, index(0), index(4), ForKind::serial, body);
    Bounds outer;
    outer.bind(programs.n, Interval{1, {}, 1, 0});
    bool proved = carried_dependences(loop, outer).empty();
    bool meet = false;
    for (std::int64_t n : {1, 3, 4, 9}) {
      std::map<Touch, std::int64_t> writer, reader;
      Point point;
      point[programs.n.get()] = n;
      Executor run(point, [&](const Touch& t, const Point& at) {
        std::int64_t iteration = at.at(programs.o.get());
        Touch write = t;
        write.is_write = true;
        if (t.is_write) {
          auto r = reader.find(write);
          meet |= r != reader.end() && r->second != iteration;
        }
        auto w = writer.find(write);
        meet |= w != writer.end() && w->second != iteration;
        auto [known, fresh] = (t.is_write ? writer : reader).emplace(write, iteration);
        if (!fresh && known->second != iteration) known->second = -1;
      });
      run.run(loop);
    }
    ASSERT_FALSE(proved && meet) << print(loop);
    independent += !meet;
    found_independent += proved;
  }
  // The programs mix indices wildly: about half of the independent ones are recognized.
  EXPECT_GT(independent, 30);
  EXPECT_GT(found_independent * 3, independent) << found_independent << " of " << independent;
}

bool stands(std::int64_t first, std::int64_t second, Direction direction) {
  switch (direction) {
    case Direction::equal:
      return first == second;
    case Direction::later:
      return second > first;
    case Direction::earlier:
      return second < first;
    default:
      return true;
  }
}

TEST(RandomPrograms, MeetOnlyInDirectionsThatAreFound) {
  RandomPrograms programs(23);
  const VarRef p = Var::make("p");
  constexpr Direction all[] = {Direction::equal, Direction::later, Direction::earlier, Direction::any};
  int apart = 0, found_apart = 0, known_distances = 0;
  for (int round = 0; round < 150; ++round) {
    const Expr inner_extents[] = {index(3), programs.o + 1, index(4) - programs.o};
    const Stmt inner = For::make(p, index(round % 2), inner_extents[round % 3], ForKind::serial, programs.program({p}));
    const Stmt outer = For::make(programs.o, index(0), index(4), ForKind::serial, inner);
    Bounds around;
    around.bind(programs.n, Interval{1, {}, 1, 0});
    const NestDependences nest({outer.as<For>(), inner.as<For>()}, around);
    using Instance = std::pair<std::int64_t, std::int64_t>;
    std::vector<std::map<Touch, std::map<Instance, bool>>> runs;
    for (std::int64_t n : {1, 4, 9}) {
      Point point;
      point[programs.n.get()] = n;
      auto& touched = runs.emplace_back();
      Executor run(point, [&](const Touch& t, const Point& at) {
        Touch key = t;
        key.is_write = true;
        touched[key][{at.at(programs.o.get()), at.at(p.get())}] |= t.is_write;
      });
      run.run(outer);
    }
    for (const Direction a : all)
      for (const Direction b : all) {
        const std::vector<CarriedDependence> found = nest.find({a, b}, 1000);
        for (const CarriedDependence& d : found)
          for (size_t i = 0; i < 2; ++i)
            if (d.distance[i]) {
              ++known_distances;
              ASSERT_TRUE(stands(0, *d.distance[i], i == 0 ? a : b)) << print(outer);
            }
        bool meet = false;
        for (const auto& touched : runs)
          for (const auto& [touch, instances] : touched)
            for (const auto& [x, first_writes] : instances)
              for (const auto& [y, second_writes] : instances)
                meet |= (first_writes || second_writes) && stands(x.first, y.first, a) && stands(x.second, y.second, b);
        // Within one instance every access meets itself.
        if (a == Direction::equal && b == Direction::equal) continue;
        ASSERT_FALSE(meet && found.empty()) << print(outer) << static_cast<int>(a) << static_cast<int>(b);
        apart += !meet;
        found_apart += found.empty();
      }
  }
  EXPECT_GT(apart, 300);
  EXPECT_GT(found_apart * 4, apart) << found_apart << " of " << apart;
  EXPECT_GT(known_distances, 10);
}

TEST(RandomPrograms, ReadOnlyWrittenElementsUnlessTheReadIsExposed) {
  RandomPrograms programs(24);
  const auto only_c = [&](const Buffer& buffer) { return buffer == programs.c; };
  int exposed_runs = 0, covered = 0;
  for (int round = 0; round < 1500; ++round) {
    // What is written first covers more or less of C.
    const VarRef i = Var::make("i"), j = Var::make("j");
    const Expr rows[] = {programs.n * 2 + 8, programs.n + 4, index(6)};
    const Stmt fill = For::make(i, index(0), rows[round % 3], ForKind::serial,
                                For::make(j, index(0), index(round % 2 ? 40 : 12), ForKind::serial,
                                          Store::make(programs.c, {i, j}, constant(f32, 0.0))));
    // What touches another buffer alone is passed over where blocks declare it.
    const Buffer other = BufferNode::make("D", f32, programs.c->shape);
    const Stmt elsewhere = replace_buffers(programs.program(), {{programs.c.get(), other}});
    const Stmt first = programs.program();
    Stmt body = Seq::make({fill, first, elsewhere, programs.program()});
    if (round % 2) {
      const std::vector<Param> params = {programs.o, programs.n, programs.a, programs.c, other};
      body = infer_regions(FuncNode::make("declared", params, body))->body;
    }
    const bool proved = exposed_reads(body, programs.bounds, only_c).empty();
    bool reads_c = false, bare = false;
    programs.each_point([&](const Point& point) {
      std::set<std::vector<std::int64_t>> written;
      Executor run(point, [&](const Touch& t, const Point&) {
        if (t.buffer != programs.c.get()) return;
        if (t.is_write) {
          written.insert(t.indices);
        } else {
          reads_c = true;
          bare |= !written.contains(t.indices);
        }
      });
      run.run(body);
    });
    ASSERT_FALSE(proved && bare) << print(body);
    exposed_runs += bare;
    covered += proved && reads_c;
  }
  EXPECT_GT(exposed_runs, 30);
  EXPECT_GT(covered, 30);
}

TEST(RandomPrograms, OrderBlocksThatShareAnElement) {
  RandomPrograms programs(22);
  programs.stores_in_blocks = true;
  int pairs = 0, apart = 0, found_apart = 0;
  for (int round = 0; round < 120; ++round) {
    Stmt first = programs.program();
    const Stmt written = Seq::make({first, programs.program()});
    const Func func = infer_regions(FuncNode::make("pairs", {programs.o, programs.n, programs.a, programs.c}, written));
    const Stmt& scope = func->body;
    // What touches memory in no block of its own is asked for by no one.
    std::vector<Stmt> leaves;
    for_each_stmt(scope, [&](const Stmt& s) {
      if (s.as<Block>() && s.as<Block>()->f.body.as<Store>()) leaves.push_back(s);
    });
    std::map<std::pair<const Node*, const Node*>, std::set<DependenceKind>> known;
    for (const Stmt& leaf : leaves) {
      for (const Dependence& d : dependences(scope, leaf, programs.bounds)) {
        EXPECT_TRUE((d.source == leaf) != (d.sink == leaf));
        known[{d.source.get(), d.sink.get()}].insert(d.kind);
      }
    }
    std::set<std::pair<const Node*, const Node*>> met;
    programs.each_point([&](const Point& point) {
      std::map<Touch, std::vector<std::pair<const Block*, bool>>> touched;
      Executor run(point, nullptr);
      Executor* current = &run;
      run = Executor(point, [&](const Touch& t, const Point&) {
        Touch key = t;
        key.is_write = true;
        auto& earlier = touched[key];
        const Block* here = current->innermost;
        for (auto& [block, wrote] : earlier) {
          if (block == here || !(wrote || t.is_write)) continue;
          const bool as_run = known.contains({block, here});
          const auto& kinds = as_run ? known[{block, here}] : known[{here, block}];
          // In a later iteration of a loop around both, the one that comes first in the text may run second.
          const DependenceKind kind = wrote && t.is_write ? DependenceKind::output
                                      : wrote == as_run   ? DependenceKind::flow
                                                          : DependenceKind::anti;
          ASSERT_TRUE(kinds.contains(kind)) << print(scope) << "\nat " << point.text();
          met.insert(as_run ? std::pair(block, here) : std::pair(here, block));
          ++pairs;
        }
        earlier.push_back({here, t.is_write});
      });
      run.run(scope);
    });
    if (::testing::Test::HasFatalFailure()) return;
    for (size_t i = 0; i < leaves.size(); ++i) {
      for (size_t j = 0; j < i; ++j) {
        const std::pair<const Node*, const Node*> pair(leaves[j].get(), leaves[i].get());
        apart += !met.contains(pair);
        found_apart += !known.contains(pair);
      }
    }
  }
  EXPECT_GT(pairs, 300);
  EXPECT_GT(apart, 50);
  EXPECT_GT(found_apart * 5, apart) << found_apart << " of " << apart;
}

TEST(Dependences, LookOnlyAtTheBlocksThatAreAskedFor) {
  const VarRef i = Var::make("i");
  const Buffer x = BufferNode::make("x", f32, {index(8)});
  const auto writer = [&](const char* name, std::int64_t at) {
    Block::Fields f;
    f.name = name;
    f.body = Store::make(x, {i + at}, constant(f32, 0.0));
    f.writes = {point_region(x, {i + at})};
    return Block::make(std::move(f));
  };
  const Stmt a = writer("a", 0), b = writer("b", 0), c = writer("c", 4);
  const Stmt scope = For::make(i, index(0), index(4), ForKind::serial, Seq::make({a, b, c}));
  Block::Fields around;
  around.name = "root";
  around.allocs = {x};
  around.body = scope;
  EXPECT_EQ(dependences(Block::make(std::move(around)), a).size(), 1u) << "x is allocated within";
  const auto found = dependences(scope, a);
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].kind, DependenceKind::output);
  EXPECT_EQ(found[0].source, a);
  EXPECT_EQ(found[0].sink, b);
  EXPECT_EQ(print(found[0].sink_region), "x[0:+4]");
  // What lies in a block is the block's.
  Block::Fields tile;
  tile.name = "tile";
  tile.writes = {full_region(x)};
  tile.body = a;
  const Stmt holder = Block::make(std::move(tile));
  const auto of_tile =
      dependences(For::make(i, index(0), index(4), ForKind::serial, Seq::make({holder, b, c})), holder);
  ASSERT_EQ(of_tile.size(), 1u);
  EXPECT_EQ(of_tile[0].source, holder);
  EXPECT_EQ(of_tile[0].sink, b);
  const auto only_flow = [&](DependenceKind kind, const Stmt&, const Stmt&) { return kind == DependenceKind::flow; };
  EXPECT_TRUE(dependences(scope, a, {}, only_flow).empty());
  const auto only_c = [&](DependenceKind, const Stmt&, const Stmt& sink) { return sink == c; };
  EXPECT_TRUE(dependences(scope, a, {}, only_c).empty());
}

struct Loops : ::testing::Test {
  VarRef n = Var::make("n"), m = Var::make("m"), i = Var::make("i"), j = Var::make("j"), k = Var::make("k");
  Bounds bounds;

  void SetUp() override {
    bounds.bind(n, Interval{1, {}, 1, 0});
    bounds.bind(m, Interval{1, {}, 1, 0});
  }
  Buffer buffer(const char* name, std::vector<Expr> shape) { return BufferNode::make(name, f32, std::move(shape)); }
  Stmt loop(const VarRef& v, Expr extent, Stmt body) {
    return For::make(v, index(0), std::move(extent), ForKind::serial, std::move(body));
  }
  bool independent(const Stmt& loop) { return carried_dependences(loop, bounds).empty(); }
};

TEST_F(Loops, ElementwiseIsIndependent) {
  Buffer a = buffer("A", {n}), c = buffer("C", {n});
  EXPECT_TRUE(independent(loop(i, n, Store::make(c, {i}, load(a, {i})))));
  EXPECT_TRUE(independent(loop(i, n, Store::make(c, {i}, load(c, {i}) + load(c, {i})))));
}

TEST_F(Loops, FlatDynamicRowsAreIndependent) {
  Buffer c = buffer("C", {n * m});
  Stmt nest = loop(i, m, loop(j, n, Store::make(c, {i * n + j}, constant(f32, 0.0))));
  EXPECT_TRUE(independent(nest));
  EXPECT_FALSE(independent(loop(i, m, loop(j, n + 1, Store::make(c, {i * n + j}, constant(f32, 0.0))))));
}

TEST_F(Loops, FusedIndexSplitOverTwoDimensionsIsIndependent) {
  Buffer c = buffer("C", {m, n}), d = buffer("D", {index(8), index(5), index(7)});
  EXPECT_TRUE(
      independent(loop(i, m * n, Store::make(c, {floor_div(Expr(i), n), floor_mod(Expr(i), n)}, constant(f32, 0.0)))));
  EXPECT_TRUE(independent(
      loop(i, index(280),
           Store::make(d, {floor_div(Expr(i), 35), floor_mod(floor_div(Expr(i), 7), 5), floor_mod(Expr(i), 7)},
                       constant(f32, 0.0)))));
  EXPECT_FALSE(independent(loop(i, m * n, Store::make(c, {floor_div(Expr(i), n), index(0)}, constant(f32, 0.0)))));
}

TEST_F(Loops, FusedIndexSplitAgainIsIndependent) {
  for (const auto& [columns, width] : {std::pair{14, 8}, {7, 16}, {5, 8}, {6, 8}, {3, 4}, {10, 16}}) {
    Buffer c = buffer("C", {index(40), index(columns)});
    const Expr whole = i * width + j;
    Stmt inner = loop(j, index(width),
                      Store::make(c, {floor_div(whole, columns), floor_mod(whole, columns)}, constant(f32, 0.0)));
    Bounds around = bounds;
    around.bind(i, Range{index(0), index(7)});
    EXPECT_TRUE(carried_dependences(inner, around).empty()) << columns << " " << width;
    EXPECT_TRUE(independent(loop(i, index(7), inner))) << columns << " " << width;
  }
}

TEST_F(Loops, SplitWithPredicateIsIndependent) {
  Buffer c = buffer("C", {n});
  Block::Fields f;
  VarRef v = Var::make("v");
  f.name = "b";
  f.iters = {{v, {index(0), n}, IterKind::space}};
  f.bindings = {i * 8 + j};
  f.predicate = lt(i * 8 + j, Expr(n));
  f.body = Store::make(c, {v}, constant(f32, 0.0));
  Stmt inner = loop(j, index(8), Block::make(f));
  EXPECT_TRUE(independent(loop(i, floor_div(n + 7, 8), inner)));
  Bounds around = bounds;
  around.bind(i, Range{index(0), floor_div(n + 7, 8)});
  EXPECT_TRUE(carried_dependences(inner, around).empty());
}

TEST_F(Loops, BlocksOfTilesAreIndependentWhereTheyDoNotOverlap) {
  Buffer c = buffer("C", {index(64)});
  const auto tiles = [&](const Expr& place, int rows, const Expr& read) {
    return loop(i, index(4), loop(j, index(rows), loop(k, index(2), Store::make(c, {place}, load(c, {read})))));
  };
  const Expr place = i * 8 + j * 2 + k, back = index(32) - (i * 8 + j * 2 + k);
  EXPECT_TRUE(independent(tiles(place, 4, place)));
  EXPECT_TRUE(independent(tiles(back, 4, back)));
  EXPECT_TRUE(independent(tiles(place, 3, place + 2))) << "two places are left between";
  EXPECT_FALSE(independent(tiles(place, 5, place))) << "the last row of a block is the first of the next";
  EXPECT_FALSE(independent(tiles(place, 4, place + 1)));
  EXPECT_FALSE(independent(tiles(back, 4, back - 1)));
  EXPECT_FALSE(independent(tiles(place, 4, i * 16 + j * 2 + k))) << "by other blocks";
}

TEST_F(Loops, EvenAndOddNeverMeet) {
  Buffer c = buffer("C", {n * 2 + 2});
  EXPECT_TRUE(independent(loop(i, n, Store::make(c, {i * 2}, load(c, {i * 2 + 1})))));
  EXPECT_FALSE(independent(loop(i, n, Store::make(c, {i * 2}, load(c, {i * 2 + 2})))));
}

TEST_F(Loops, ShiftedReadIsCarried) {
  Buffer c = buffer("C", {n + 1});
  auto found = carried_dependences(loop(i, n, Store::make(c, {i + 1}, load(c, {i}))), bounds);
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].kind, DependenceKind::flow);
  EXPECT_EQ(print(found[0].first.region), "C[i + 1]");
  EXPECT_EQ(print(found[0].second.region), "C[i]");
  auto anti = carried_dependences(loop(i, n, Store::make(c, {i}, load(c, {i + 1}))), bounds);
  ASSERT_EQ(anti.size(), 1u);
  EXPECT_EQ(anti[0].kind, DependenceKind::anti);
}

TEST_F(Loops, ReductionIsCarriedAndSaysSo) {
  Buffer a = buffer("A", {n, m}), c = buffer("C", {n});
  VarRef vi = Var::make("vi"), vk = Var::make("vk");
  Block::Fields f;
  f.name = "sum";
  f.iters = {{vi, {index(0), n}, IterKind::space}, {vk, {index(0), m}, IterKind::reduce}};
  f.bindings = {i, k};
  f.reducer = simple_reducer(BinaryOp::add, f32);
  f.init = make_init(*f.reducer, {{c, {vi}}});
  f.body = make_update(*f.reducer, {{c, {vi}}}, {load(a, {vi, vk})});
  f.writes = {point_region(c, {vi})};
  Stmt reduce = loop(k, m, Block::make(f));
  EXPECT_TRUE(independent(loop(i, n, reduce)));
  auto found = carried_dependences(reduce, bounds, 10);
  ASSERT_FALSE(found.empty());
  for (const auto& d : found) EXPECT_TRUE(d.is_reduction);
}

TEST_F(Loops, DataDependentStoresAreCarried) {
  Buffer table = BufferNode::make("T", i64, {n}), c = buffer("C", {n});
  EXPECT_FALSE(independent(loop(i, n, Store::make(c, {load(table, {i})}, constant(f32, 0.0)))));
}

TEST_F(Loops, WhatAnIterationAllocatesIsItsOwn) {
  Buffer t = buffer("t", {index(4)}), a = buffer("A", {n}), c = buffer("C", {n});
  Block::Fields f;
  f.name = "scope";
  f.allocs = {t};
  f.iters = {};
  f.body = Seq::make({Store::make(t, {index(0)}, load(a, {i})), Store::make(c, {i}, load(t, {index(0)}))});
  EXPECT_TRUE(independent(loop(i, n, Block::make(f))));
}

}  // namespace
}  // namespace lathe
