#include "ir/analysis/access_walk.h"

#include <algorithm>

#include "ir/analysis/simplify.h"
#include "ir/visitor.h"

namespace lathe {

bool AccessWalk::is_allocated(const BufferNode* buffer) const {
  return !reports_allocated_ && std::find(allocated_.begin(), allocated_.end(), buffer) != allocated_.end();
}

void AccessWalk::report(const Buffer& buffer, const std::vector<Expr>& indices, bool is_write, const Expr& mask) {
  if (is_allocated(buffer.get())) return;
  for (const Hint& hint : hints_)
    if (hint.buffer == buffer.get() && hint.is_write == is_write) return;
  if (indices.size() != buffer->rank()) return accessed({full_region(buffer), is_write, mask});
  accessed({point_region(buffer, indices), is_write, mask});
}

void AccessWalk::walk(const Expr& e) {
  if (!e) return;
  switch (e->kind) {
    case ExprKind::IntImm:
    case ExprKind::FloatImm:
    case ExprKind::Var:
      return;
    default:
      break;
  }
  // Shared nodes once: their accesses are the same.
  if (e->references.load(std::memory_order_relaxed) > 1) {
    if (std::find(seen_.begin(), seen_.end(), e.get()) != seen_.end()) return;
    seen_.push_back(e.get());
  }
  auto all = [&](const std::vector<Expr>& exprs) {
    for (const Expr& child : exprs) walk(child);
  };
  switch (e->kind) {
    case ExprKind::Unary:
      return walk(e.as<Unary>()->a);
    case ExprKind::Binary:
      walk(e.as<Binary>()->a);
      return walk(e.as<Binary>()->b);
    case ExprKind::Select: {
      auto* s = e.as<Select>();
      walk(s->condition);
      walk(s->when_true);
      return walk(s->when_false);
    }
    case ExprKind::Cast:
      return walk(e.as<Cast>()->value);
    case ExprKind::Load: {
      auto* l = e.as<Load>();
      report(l->buffer, l->indices, false, l->mask);
      all(l->indices);
      return walk(l->mask);
    }
    case ExprKind::Ramp:
      walk(e.as<Ramp>()->base);
      return walk(e.as<Ramp>()->stride);
    case ExprKind::Broadcast:
      return walk(e.as<Broadcast>()->value);
    case ExprKind::Shuffle:
      return all(e.as<Shuffle>()->vectors);
    case ExprKind::Call:
      return all(e.as<Call>()->args);
    case ExprKind::AddressOf: {
      // Whoever takes the address may read and write anything.
      auto* a = e.as<AddressOf>();
      all(a->indices);
      if (is_allocated(a->buffer.get())) return;
      accessed({full_region(a->buffer), false, nullptr});
      return accessed({full_region(a->buffer), true, nullptr});
    }
    default:
      return;
  }
}

void AccessWalk::walk(const Stmt& s) {
  if (!s) return;
  auto root = [&](const Expr& e) {
    seen_.clear();
    walk(e);
  };
  switch (s->kind) {
    case StmtKind::For: {
      auto* loop = s.as<For>();
      root(loop->min);
      root(loop->extent);
      Bounds::Mark mark = bounds_.mark();
      bounds_.bind(loop->variable, Range{loop->min, loop->extent});
      enter(s);
      walk(loop->body);
      leave(s);
      return bounds_.rollback(mark);
    }
    case StmtKind::Block:
      return walk_block(s);
    case StmtKind::Store: {
      auto* store = s.as<Store>();
      for (const Expr& i : store->indices) root(i);
      root(store->mask);
      root(store->value);
      enter(s);
      report(store->buffer, store->indices, true, store->mask);
      return leave(s);
    }
    case StmtKind::Let: {
      auto* let = s.as<Let>();
      root(let->value);
      Bounds::Mark mark = bounds_.mark();
      bounds_.bind_value(let->variable, let->value);
      enter(s);
      walk(let->body);
      leave(s);
      return bounds_.rollback(mark);
    }
    case StmtKind::If: {
      auto* node = s.as<If>();
      root(node->condition);
      enter(s);
      auto arm = [&](const Stmt& body, const Expr& condition) {
        Bounds::Mark mark = bounds_.mark();
        guards_.push_back(condition);
        if (assume_guards_) bounds_.assume(condition);
        walk(body);
        guards_.pop_back();
        bounds_.rollback(mark);
      };
      arm(node->then_case, node->condition);
      if (node->else_case) arm(node->else_case, logical_not(node->condition));
      return leave(s);
    }
    case StmtKind::While:
      root(s.as<While>()->condition);
      enter(s);
      // Whether the body runs at all is unknown.
      guards_.push_back(s.as<While>()->condition);
      walk(s.as<While>()->body);
      guards_.pop_back();
      return leave(s);
    case StmtKind::Seq:
      for (const Stmt& child : s.as<Seq>()->stmts) walk(child);
      return;
    case StmtKind::Eval:
      return root(s.as<Eval>()->value);
    case StmtKind::Assert:
      root(s.as<Assert>()->condition);
      return root(s.as<Assert>()->index);
  }
}

void AccessWalk::bind_instance(const Block& block, const Expr& predicate) {
  const Block::Fields& f = block.f;
  if (predicate && assume_guards_) bounds_.assume(predicate);
  for (size_t i = 0; i < f.iters.size(); ++i) {
    bounds_.bind(f.iters[i].variable, f.iters[i].domain);
    if (i < f.bindings.size()) bounds_.bind_value(f.iters[i].variable, f.bindings[i]);
  }
}

void AccessWalk::walk_init(const Block& block, const Bounds::Mark& around) {
  const Expr& predicate = block.f.predicate;
  if (!block.f.init || !predicate) return walk(block.f.init);
  // It runs for each point of the domain that the loops reach, whatever the predicate says.
  bounds_.rollback(around);
  guards_.pop_back();
  const Expr exists = point_exists(block.f, bounds_);
  if (exists) guards_.push_back(exists);
  bind_instance(block, exists);
  walk(block.f.init);
  if (exists) guards_.pop_back();
  bounds_.rollback(around);
  guards_.push_back(predicate);
  bind_instance(block, predicate);
}

void AccessWalk::walk_block(const Stmt& s) {
  if (passes_over(*s.as<Block>())) return;
  const Block::Fields& f = s.as<Block>()->f;
  auto root = [&](const Expr& e) {
    seen_.clear();
    walk(e);
  };
  for (const Expr& binding : f.bindings) root(binding);
  root(f.predicate);
  Bounds::Mark mark = bounds_.mark();
  if (f.predicate) guards_.push_back(f.predicate);
  bind_instance(*s.as<Block>(), f.predicate);
  size_t hints = hints_.size(), allocated = allocated_.size();
  enter(s);
  auto report_hints = [&](const std::vector<Region>& regions, bool is_write) {
    for (const Region& r : regions) {
      if (!is_hint(r) || is_allocated(r.buffer.get()) || !governs(r, *s.as<Block>(), is_write)) continue;
      bool covered = std::any_of(hints_.begin(), hints_.begin() + hints, [&](const Hint& hint) {
        return hint.buffer == r.buffer.get() && hint.is_write == is_write;
      });
      if (!covered) accessed({r, is_write, nullptr});
      hints_.push_back({r.buffer.get(), is_write});
    }
  };
  report_hints(f.reads, false);
  report_hints(f.writes, true);
  for (const Buffer& buffer : f.allocs) allocated_.push_back(buffer.get());
  walk_init(*s.as<Block>(), mark);
  walk(f.body);
  hints_.resize(hints);
  allocated_.resize(allocated);
  leave(s);
  if (f.predicate) guards_.pop_back();
  bounds_.rollback(mark);
}

}  // namespace lathe
