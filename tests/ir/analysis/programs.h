#pragma once
#include <functional>
#include <set>

#include "evaluate.h"
#include "ir/stmt.h"

namespace lathe::testing {

/// One element that a run touched.
struct Touch {
  const BufferNode* buffer;
  bool is_write;
  std::vector<std::int64_t> indices;
  auto operator<=>(const Touch&) const = default;
};

/// Runs a statement over integers, memory left out: values of loads are never needed, for the programs here compute
/// indices from variables alone. Calls `touched` for every element read or written.
class Executor {
 public:
  Executor(Point point, std::function<void(const Touch&, const Point&)> touched)
      : point_(std::move(point)), touched_(std::move(touched)) {}

  /// The innermost block that is being run, or null.
  const Block* innermost = nullptr;

  void run(const Stmt& s) {
    if (!s) return;
    switch (s->kind) {
      case StmtKind::For: {
        auto* loop = s.as<For>();
        std::int64_t first = value(loop->min), count = value(loop->extent);
        for (std::int64_t i = first; i < first + count; ++i) {
          point_[loop->variable.get()] = i;
          run(loop->body);
        }
        return;
      }
      case StmtKind::Block: {
        const Block::Fields& f = s.as<Block>()->f;
        if (f.predicate && !value(f.predicate)) return;
        for (size_t i = 0; i < f.iters.size(); ++i) point_[f.iters[i].variable.get()] = value(f.bindings[i]);
        const Block* outer = std::exchange(innermost, s.as<Block>());
        run(f.init);
        run(f.body);
        innermost = outer;
        return;
      }
      case StmtKind::Store: {
        auto* store = s.as<Store>();
        reads(store->value);
        touch(store->buffer, store->indices, store->mask, store->value->dtype.lanes, true);
        return;
      }
      case StmtKind::Let:
        if (s.as<Let>()->variable->dtype == i64)
          point_[s.as<Let>()->variable.get()] = value(s.as<Let>()->value);
        else
          reads(s.as<Let>()->value);
        return run(s.as<Let>()->body);
      case StmtKind::If:
        return run(value(s.as<If>()->condition) ? s.as<If>()->then_case : s.as<If>()->else_case);
      case StmtKind::Seq:
        for (const Stmt& child : s.as<Seq>()->stmts) run(child);
        return;
      default:
        throw std::logic_error("run: statement");
    }
  }

 private:
  std::int64_t value(const Expr& e) const { return Evaluator(point_).at(e); }

  void reads(const Expr& e) {
    if (auto* l = e.as<Load>()) return touch(l->buffer, l->indices, l->mask, e->dtype.lanes, false);
    if (auto* b = e.as<Binary>()) reads(b->a), reads(b->b);
  }

  void touch(const Buffer& buffer, const std::vector<Expr>& indices, const Expr& mask, int lanes, bool is_write) {
    for (int lane = 0; lane < lanes; ++lane) {
      if (mask && !Evaluator(point_).at(mask, lane)) continue;
      Touch t{buffer.get(), is_write, {}};
      for (const Expr& i : indices) t.indices.push_back(Evaluator(point_).at(i, lane));
      touched_(t, point_);
    }
  }

  Point point_;
  std::function<void(const Touch&, const Point&)> touched_;
};

/// Seeded random statements over an outer variable `o` in [0, 4) and a size `n` in 1 .. 9: plain, split and triangular
/// loops, blocks with predicates, Ifs, Lets, masks and vector accesses to a buffer A that is read and a C that is
/// written.
class RandomPrograms {
 public:
  VarRef o = Var::make("o"), n = Var::make("n");
  Buffer a = BufferNode::make("A", f32, {n * 4 + 16, index(40)}),
         c = BufferNode::make("C", f32, {n * 2 + 8, index(40)});
  Bounds bounds;

  explicit RandomPrograms(std::uint64_t seed) : random_(seed) {
    bounds.bind(n, Interval{1, {}, 1, 0});
    bounds.bind(o, Range{index(0), index(4)});
  }

  /// `more` are variables from outside that may be used beside o.
  Stmt program(const std::vector<VarRef>& more = {}) {
    scope_ = {o};
    for (const VarRef& variable : more) scope_.push_back(variable);
    names_ = 0;
    return statement(4);
  }

  template <class F>
  void each_point(F&& f) const {
    for (std::int64_t vn : {1, 3, 4, 9})
      for (std::int64_t vo : {0, 1, 3}) {
        Point point;
        point[n.get()] = vn;
        point[o.get()] = vo;
        f(point);
      }
  }

  /// When set, blocks carry a unique name and every store stands in a block of its own.
  bool stores_in_blocks = false;

 private:
  int below(int k) { return static_cast<int>(random_() % k); }
  std::string name(const char* stem) { return stem + std::to_string(names_++); }
  Expr any() { return scope_[below(static_cast<int>(scope_.size()))]; }

  Expr number() {
    switch (below(10)) {
      case 0:
        return index(below(4));
      case 1:
      case 2:
      case 3:
        return any();
      case 4:
        return any() + below(3);
      case 5:
        return any() * (1 + below(4)) + any();
      case 6:
        return floor_div(any() * 3 + any(), 2);
      case 7:
        return floor_mod(any() + any(), 4);
      case 8:
        return below(2) ? min(any(), index(below(4))) : max(any(), any());
      default:
        return select(lt(any(), index(2)), any(), any() + 1);
    }
  }
  Expr condition() {
    switch (below(4)) {
      case 0:
        return lt(any(), index(below(5)));
      case 1:
        return lt(any() * 2 + any(), n + 1);
      case 2:
        return ge(any(), any());
      default:
        return logical_and(ge(any(), index(1)), lt(any(), Expr(n)));
    }
  }

  Stmt store() {
    Stmt result;
    if (below(5) == 0) {
      Expr lanes = Ramp::make(number(), index(1), 4);
      Expr mask = below(2) ? lt(lanes, Broadcast::make(n, 4)) : nullptr;
      result = Store::make(c, {number(), lanes}, load(a, {number(), lanes}, mask), mask);
    } else {
      Expr value = load(a, {number(), number()}, below(3) ? nullptr : condition());
      if (below(3) == 0) value = value + load(below(2) ? a : c, {number(), number()});
      result = Store::make(c, {number(), number()}, value, below(4) ? nullptr : condition());
    }
    if (!stores_in_blocks) return result;
    Block::Fields f;
    f.name = name("block");
    f.body = result;
    return Block::make(std::move(f));
  }

  Stmt statement(int depth) {
    if (depth <= 0) return store();
    const std::vector<Expr> outer = scope_;
    Stmt result;
    switch (below(9)) {
      case 0:
      case 1:
      case 2: {
        VarRef v = Var::make(name("i"));
        Expr extents[] = {index(1 + below(5)), n, any() + 1, min(index(4), n - any())};
        Expr extent = extents[below(4)];
        scope_.push_back(v);
        result = For::make(v, index(below(2)), extent, ForKind::serial, statement(depth - 1));
        break;
      }
      case 3:
      case 4: {
        VarRef io = Var::make(name("io")), ii = Var::make(name("ii")), v = Var::make(name("v"));
        bool whole_domain = below(2);
        if (whole_domain)
          scope_.push_back(v);
        else
          scope_ = {o, v};
        Block::Fields f;
        f.name = name("block");
        f.iters = {{v, {index(0), n}, IterKind::space}};
        f.bindings = {io * 4 + ii};
        f.predicate = lt(io * 4 + ii, Expr(n));
        f.body = statement(depth - 1);
        result = For::make(io, index(0), floor_div(n + 3, 4), ForKind::serial,
                           For::make(ii, index(0), index(4), ForKind::serial, Block::make(std::move(f))));
        break;
      }
      case 5: {
        Expr test = condition();
        Stmt yes = statement(depth - 1);
        result = If::make(test, yes, below(2) ? statement(depth - 1) : nullptr);
        break;
      }
      case 6: {
        VarRef v = Var::make(name("let"));
        Expr value = number();
        scope_.push_back(v);
        result = Let::make(v, value, statement(depth - 1));
        break;
      }
      case 7: {
        Stmt first = statement(depth - 1);
        result = Seq::make({first, statement(depth - 1)});
        break;
      }
      default:
        result = store();
    }
    scope_ = outer;
    return result;
  }

  std::mt19937_64 random_;
  std::vector<Expr> scope_;
  int names_ = 0;
};

}  // namespace lathe::testing
