#include "ir/analysis/regions.h"
#include "ir/error.h"

namespace lathe {
namespace {

/// Walks down to one statement, learning on the way.
class Descent {
 public:
  Descent(const Func& func, const Stmt& place) : bounds(func), place_(place) {}

  bool reach(const Stmt& s) {
    if (!s) return false;
    if (s == place_) return true;
    Bounds::Mark mark = bounds.mark();
    bool found = below(s);
    if (!found) bounds.rollback(mark);
    return found;
  }

  Bounds bounds;

 private:
  bool below(const Stmt& s) {
    if (auto* loop = s.as<For>()) {
      bounds.bind(loop->variable, Range{loop->min, loop->extent});
      return reach(loop->body);
    }
    if (auto* let = s.as<Let>()) {
      bounds.bind_value(let->variable, let->value);
      return reach(let->body);
    }
    if (auto* node = s.as<If>()) {
      Bounds::Mark mark = bounds.mark();
      bounds.assume(node->condition);
      if (reach(node->then_case)) return true;
      bounds.rollback(mark);
      bounds.assume(logical_not(node->condition));
      return reach(node->else_case);
    }
    if (auto* loop = s.as<While>()) return reach(loop->body);
    if (auto* seq = s.as<Seq>()) {
      for (const Stmt& child : seq->stmts)
        if (reach(child)) return true;
      return false;
    }
    if (auto* block = s.as<Block>()) {
      if (block->f.predicate) bounds.assume(block->f.predicate);
      for (const Iter& iter : block->f.iters) bounds.bind(iter.variable, iter.domain);
      return reach(block->f.init) || reach(block->f.body);
    }
    return false;
  }

  const Stmt& place_;
};

}  // namespace

Bounds bounds_at(const Func& func, const Stmt& place) {
  Descent descent(func, place);
  LATHE_CHECK(descent.reach(func->body), "bounds_at: the statement is not in the function " + func->name);
  return std::move(descent.bounds);
}

}  // namespace lathe
