#include "ir/analysis/regions.h"

#include <gtest/gtest.h>

#include <random>
#include <set>

#include "ir/analysis/simplify.h"
#include "ir/text/print.h"
#include "programs.h"

namespace lathe {
namespace {

using testing::Evaluator;
using testing::Executor;
using testing::Point;
using testing::RandomPrograms;
using testing::Touch;

bool holds(const Region& region, const std::vector<std::int64_t>& indices, const Point& point) {
  for (size_t d = 0; d < indices.size(); ++d) {
    std::int64_t first = Evaluator(point).at(region.ranges[d].min),
                 count = Evaluator(point).at(region.ranges[d].extent);
    if (indices[d] < first || indices[d] >= first + count) return false;
  }
  return true;
}

bool inside_buffer(const Touch& t, const Point& point) {
  for (size_t d = 0; d < t.indices.size(); ++d)
    if (t.indices[d] < 0 || t.indices[d] >= Evaluator(point).at(t.buffer->shape[d])) return false;
  return true;
}

std::string texts(const std::vector<Region>& regions) {
  std::string result;
  for (const Region& r : regions) result += print(r) + "; ";
  return result;
}

TEST(RandomPrograms, TouchOnlyTheirMayRegions) {
  RandomPrograms programs(11);
  for (int round = 0; round < 800; ++round) {
    Stmt body = programs.program();
    std::vector<Region> reads = read_regions(body, programs.bounds), writes = write_regions(body, programs.bounds);
    programs.each_point([&](const Point& point) {
      Executor run(point, [&](const Touch& t, const Point&) {
        if (!inside_buffer(t, point)) return;
        bool covered = false;
        for (const Region& r : t.is_write ? writes : reads)
          covered |= r.buffer.get() == t.buffer && holds(r, t.indices, point);
        ASSERT_TRUE(covered) << print(body) << "\nat " << point.text() << "touches " << t.indices[0] << ", "
                             << t.indices[1] << "\nreads " << texts(reads) << "\nwrites " << texts(writes);
      });
      run.run(body);
      for (const std::vector<Region>* regions : {&reads, &writes})
        for (const Region& r : *regions)
          for (size_t d = 0; d < 2; ++d) {
            ASSERT_GE(Evaluator(point).at(r.ranges[d].extent), 0) << print(r);
            Region inside = clip(r, programs.bounds);
            std::int64_t first = Evaluator(point).at(inside.ranges[d].min);
            std::int64_t count = Evaluator(point).at(inside.ranges[d].extent);
            ASSERT_GE(count, 0) << print(inside);
            ASSERT_TRUE(count == 0 || (first >= 0 && first + count <= Evaluator(point).at(r.buffer->shape[d])))
                << print(body) << print(inside) << " leaves the buffer at " << point.text();
          }
    });
    if (HasFatalFailure()) return;
  }
}

TEST(RandomPrograms, WriteAllOfTheirMustRegions) {
  RandomPrograms programs(12);
  int found = 0;
  for (int round = 0; round < 1200; ++round) {
    Stmt body = programs.program();
    std::vector<Region> must = must_write_regions(body, programs.bounds);
    found += !must.empty();
    programs.each_point([&](const Point& point) {
      std::set<Touch> written;
      Executor run(point, [&](const Touch& t, const Point&) {
        if (t.is_write) written.insert(t);
      });
      run.run(body);
      for (const Region& r : must) {
        std::int64_t first[2], count[2];
        for (int d = 0; d < 2; ++d) {
          first[d] = Evaluator(point).at(r.ranges[d].min);
          count[d] = Evaluator(point).at(r.ranges[d].extent);
        }
        for (std::int64_t i = first[0]; i < first[0] + count[0]; ++i)
          for (std::int64_t j = first[1]; j < first[1] + count[1]; ++j)
            ASSERT_TRUE(written.count(Touch{r.buffer.get(), true, {i, j}}))
                << print(body) << "\nat " << point.text() << "leaves " << i << ", " << j << " of " << texts(must);
      }
    });
    if (HasFatalFailure()) return;
  }
  EXPECT_GT(found, 250);
}

/// Stores that pass over rows as one run: indices are quotients and remainders of a walk by two loops, which may leave
/// elements out, go over some twice, begin within a row, end where a condition says, or count other rows than these.
TEST(RandomPrograms, WriteTheRowsThatTheirRunsCount) {
  std::mt19937_64 random(7);
  const auto below = [&](int k) { return static_cast<int>(random() % static_cast<std::uint64_t>(k)); };
  int found = 0, rows = 0;
  for (int round = 0; round < 3000; ++round) {
    const VarRef o = Var::make("o"), x = Var::make("x"), y = Var::make("y");
    const int inner = 1 + below(5), middle = 1 + below(4), step = 1 + below(6), length = 1 + below(6),
              outer = 1 + below(8);
    Expr walk = Expr(x) * step + Expr(y);
    if (below(3) == 0) walk = walk + below(8);
    if (below(4) == 0) walk = walk + Expr(o) * (1 + below(7));
    const Expr row = floor_div(walk, inner * middle),
               part = below(2) != 0 ? floor_mod(floor_div(walk, inner), middle)
                                    : floor_div(floor_mod(walk, inner * middle), inner),
               last = floor_mod(walk, below(8) != 0 ? inner : inner + 1);
    std::vector<Expr> indices = {row, part, last};
    if (below(3) == 0) indices[0] = Expr(o) * (1 + below(3)) + indices[0];
    if (below(6) == 0) std::swap(indices[below(3)], indices[below(3)]);
    if (below(8) == 0) indices[below(3)] = index(below(2));
    const Buffer c = BufferNode::make("C", f32, {index(99), index(99), index(99)});
    Stmt body = Store::make(c, indices, constant(f32, 0.0));
    if (below(2) != 0) body = If::make(lt(walk, index(below(40))), body);
    if (below(4) == 0) body = If::make(lt(row + Expr(o), index(below(9))), body);
    if (below(6) == 0) body = If::make(ge(part, index(below(2))), body);
    body = For::make(y, index(0), index(length), ForKind::serial, body);
    body = For::make(x, index(below(2)), index(outer), ForKind::serial, body);
    Bounds bounds;
    bounds.bind(o, Range{index(0), index(4)});
    const std::vector<Region> must = must_write_regions(body, bounds);
    found += !must.empty();
    for (const std::int64_t at : {0, 1, 3}) {
      Point point;
      point[o.get()] = at;
      std::set<std::vector<std::int64_t>> written;
      Executor run(point, [&](const Touch& t, const Point&) { written.insert(t.indices); });
      run.run(body);
      for (const Region& region : must) {
        std::vector<std::int64_t> first, count;
        for (const Range& range : region.ranges) {
          first.push_back(Evaluator(point).at(range.min));
          count.push_back(Evaluator(point).at(range.extent));
        }
        for (std::int64_t i = first[0]; i < first[0] + count[0]; ++i)
          for (std::int64_t j = first[1]; j < first[1] + count[1]; ++j)
            for (std::int64_t k = first[2]; k < first[2] + count[2]; ++k) {
              ++rows;
              ASSERT_TRUE(written.contains({i, j, k})) << print(body) << "\nat o = " << at << " leaves " << i << ", "
                                                       << j << ", " << k << " of " << texts(must);
            }
      }
    }
  }
  EXPECT_GT(found, 500);
  EXPECT_GT(rows, 10000);
}

struct Regions : ::testing::Test {
  VarRef n = Var::make("n"), io = Var::make("io"), ii = Var::make("ii"), i = Var::make("i"), j = Var::make("j");
  Buffer a = BufferNode::make("A", f32, {n, index(64)}), c = BufferNode::make("C", f32, {n});
  Bounds bounds;

  void SetUp() override { bounds.bind(n, Interval{1, {}, 1, 0}); }
};

TEST_F(Regions, SplitLoopWithPredicateWritesTheWholeBuffer) {
  Block::Fields f;
  f.name = "fill";
  VarRef v = Var::make("v");
  f.iters = {{v, {index(0), n}, IterKind::space}};
  f.bindings = {io * 8 + ii};
  f.predicate = lt(io * 8 + ii, Expr(n));
  f.body = Store::make(c, {v}, constant(f32, 0.0));
  Stmt inner = For::make(ii, index(0), index(8), ForKind::serial, Block::make(f));
  Stmt nest = For::make(io, index(0), floor_div(n + 7, 8), ForKind::serial, inner);
  EXPECT_EQ(texts(must_write_regions(nest, bounds)), "C[..]; ");
  EXPECT_EQ(texts(write_regions(nest, bounds)), "C[..]; ");
  bounds.bind(io, Range{index(0), floor_div(n + 7, 8)});
  EXPECT_EQ(texts(write_regions(inner, bounds)), "C[io * 8:+min(io * 8 + 8, n) - io * 8]; ");
}

TEST_F(Regions, OneRunOverRowsWritesTheWholeBuffer) {
  // Rows i * 4 to i * 4 + 3 of nine elements, in vectors of eight as one run of 36.
  const Buffer b = BufferNode::make("B", f32, {index(64), index(3), index(3)});
  const Expr walk = io * 8 + ii;
  bounds.bind(i, Range{index(0), index(16)});
  const auto writes = [&](const Expr& condition) {
    Stmt body = Store::make(b, {i * 4 + floor_div(walk, 9), floor_div(floor_mod(walk, 9), 3), floor_mod(walk, 3)},
                            constant(f32, 0.0));
    body = For::make(ii, index(0), index(8), ForKind::serial, If::make(condition, body));
    return texts(must_write_regions(For::make(io, index(0), index(5), ForKind::serial, body), bounds));
  };
  EXPECT_EQ(writes(lt(walk, index(36))), "B[i * 4:+4, .., ..]; ");
  EXPECT_EQ(writes(lt(walk, index(35))), "B[i * 4:+3, .., ..]; ") << "the last row lacks an element";
  EXPECT_EQ(writes(ge(walk, index(1))), "B[i * 4 + 1:+3, .., ..]; ") << "the first one does";
}

TEST_F(Regions, StencilReadsItsHaloWithinTheBuffer) {
  bounds.bind(i, Range{index(1), n - 2});
  Stmt s = For::make(j, index(0), index(3), ForKind::serial, Store::make(c, {i}, load(a, {i + j - 1, index(5)})));
  EXPECT_EQ(texts(read_regions(s, bounds)), "A[i - 1:+3, 5]; ");
}

TEST_F(Regions, ElementsOfUnknownOrderStayApart) {
  bounds.bind(i, Range{index(0), n});
  Stmt s = Store::make(c, {i}, load(c, {i}) + load(c, {n - 1 - i}) + load(c, {i + 1}));
  EXPECT_EQ(texts(read_regions(s, bounds)), "C[i:+2]; C[n - i - 1]; ");
}

TEST_F(Regions, DataDependentIndexReadsTheWholeDimension) {
  Buffer table = BufferNode::make("T", i64, {n});
  bounds.bind(i, Range{index(0), n});
  Stmt s = Store::make(c, {i}, load(a, {load(table, {i}), index(3)}));
  EXPECT_EQ(texts(read_regions(s, bounds)), "A[.., 3]; T[i]; ");
}

TEST_F(Regions, HintsReplaceInferenceAndAreNotUnioned) {
  Block::Fields f;
  f.name = "gather";
  VarRef v = Var::make("v");
  Buffer table = BufferNode::make("T", i64, {n});
  f.iters = {{v, {index(0), n}, IterKind::space}};
  f.bindings = {i};
  f.body = Store::make(c, {v}, load(a, {load(table, {v}), index(3)}));
  f.reads = {Region{a, {{v, index(1)}, {index(0), index(8)}}, Provenance::checked, "gather"}};
  Stmt nest = For::make(i, index(0), index(4), ForKind::serial, Block::make(f));
  Bounds outer;
  outer.bind(n, Interval{4, {}, 1, 0});
  std::vector<Region> reads = read_regions(nest, outer);
  EXPECT_EQ(reads.size(), 2u);
  EXPECT_EQ(reads[0].provenance, Provenance::checked);
  EXPECT_EQ(reads[0].block, "gather");
  EXPECT_TRUE(is_int(reads[0].ranges[0].extent, 4));
  Stmt inferred = infer_regions(Block::make(f), outer);
  EXPECT_EQ(inferred.as<Block>()->f.reads.size(), 2u);
  EXPECT_EQ(inferred.as<Block>()->f.reads[0].provenance, Provenance::checked);
}

TEST_F(Regions, InferenceOfAFuncKeepsAllocationsInside) {
  Block::Fields root, f;
  Buffer t = BufferNode::make("t", f32, {n});
  VarRef v = Var::make("v");
  f.name = "copy";
  f.iters = {{v, {index(0), n}, IterKind::space}};
  f.bindings = {i};
  f.body = Seq::make({Store::make(t, {v}, load(a, {v, index(0)})), Store::make(c, {v}, load(t, {v}))});
  root.name = "root";
  root.allocs = {t};
  root.body = For::make(i, index(0), n, ForKind::serial, Block::make(f));
  Func func = infer_regions(FuncNode::make("f", {n, a, c}, Block::make(root)));
  auto* outer = func->body.as<Block>();
  EXPECT_EQ(texts(outer->f.reads), "A[.., 0]; ");
  EXPECT_EQ(texts(outer->f.writes), "C[..]; ");
  auto* inner = outer->f.body.as<For>()->body.as<Block>();
  EXPECT_EQ(texts(inner->f.reads), "A[v, 0]; t[v]; ");
  EXPECT_EQ(infer_regions(func), func);
}

TEST_F(Regions, ArithmeticIsProvedSymbolically) {
  bounds.bind(i, Range{index(0), n});
  auto box = [&](Expr min, Expr extent) { return Region{c, {{min, extent}}, Provenance::inferred, ""}; };
  EXPECT_TRUE(contains(box(index(0), n), box(i, index(1)), bounds));
  EXPECT_FALSE(contains(box(i, index(1)), box(index(0), n), bounds));
  EXPECT_TRUE(contains(box(i, index(4)), box(i + 1, index(2)), bounds));
  EXPECT_TRUE(disjoint(box(i * 4, index(4)), box(i * 4 + 4, index(4)), bounds));
  EXPECT_FALSE(disjoint(box(i * 4, index(5)), box(i * 4 + 4, index(4)), bounds));
  EXPECT_EQ(print(unite(box(i, index(1)), box(i + 3, index(2)), bounds)), "C[i:+5]");
  EXPECT_EQ(print(intersect(box(i, index(4)), box(i + 3, index(4)), bounds)), "C[i + 3]");
}

}  // namespace
}  // namespace lathe
