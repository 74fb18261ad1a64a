#include "schedule/primitives/fold_choices.h"

#include <fmt/format.h>

#include <algorithm>

#include "ir/analysis/affine.h"
#include "ir/analysis/simplify.h"
#include "ir/structural.h"
#include "ir/visitor.h"
#include "schedule/access.h"
#include "schedule/complete.h"
#include "schedule/rewrite.h"

namespace lathe {
namespace {

/// Does the condition hold for the values of the variable below `bound`?
bool holds_below(const Expr& condition, const VarRef& variable, std::int64_t bound) {
  const Binary* comparison = condition.as<Binary>();
  if (!comparison || comparison->a != Expr(variable)) return false;
  return (comparison->op == BinaryOp::lt && is_int(comparison->b, bound)) ||
         (comparison->op == BinaryOp::le && is_int(comparison->b, bound - 1));
}

/// What a chain of choices takes for each value of the variable, from 0 on; empty where there is no such chain.
std::vector<Expr> arms_of(const Expr& chain, const VarRef& variable, std::int64_t count) {
  std::vector<Expr> arms;
  Expr rest = chain;
  for (std::int64_t value = 0; value + 1 < count; ++value) {
    const Select* choice = rest.as<Select>();
    if (!choice || !holds_below(choice->condition, variable, value + 1)) return {};
    arms.push_back(choice->when_true);
    rest = Expr(choice->when_false);
  }
  arms.push_back(rest);
  return arms;
}

/// One expression of the variable for many, which are what it comes to for each of its values; null where there is
/// none.
class Folding {
 public:
  explicit Folding(const VarRef& variable) : variable_(variable) {}

  Expr of(const std::vector<Expr>& arms) {
    const Expr& first = arms.front();
    if (std::all_of(arms.begin(), arms.end(), [&](const Expr& e) { return e == first || equal(e, first); }) &&
        !has_load(first))
      return uses_var(first, variable_.get()) ? nullptr : first;
    if (std::any_of(arms.begin(), arms.end(),
                    [&](const Expr& e) { return e->kind != first->kind && first->dtype != i64; }))
      return nullptr;
    if (first->dtype == i64) return place(arms);
    if (first.as<Load>()) return load(arms);
    if (const Unary* u = first.as<Unary>()) {
      const Expr a = of(parts(arms, [](const Expr& e) { return e.as<Unary>()->a; }));
      const bool same = all<Unary>(arms, [&](const Unary& other) { return other.op == u->op; });
      return same && a ? Unary::make(u->op, a) : nullptr;
    }
    if (const Cast* c = first.as<Cast>()) {
      const bool same = all<Cast>(
          arms, [&](const Cast& other) { return other.dtype == c->dtype && other.value->dtype == c->value->dtype; });
      const Expr value = same ? of(parts(arms, [](const Expr& e) { return e.as<Cast>()->value; })) : nullptr;
      return value ? Cast::make(c->dtype, value) : nullptr;
    }
    if (const Binary* b = first.as<Binary>()) {
      if (!all<Binary>(arms, [&](const Binary& other) { return other.op == b->op; })) return nullptr;
      const Expr x = of(parts(arms, [](const Expr& e) { return e.as<Binary>()->a; }));
      const Expr y = x ? of(parts(arms, [](const Expr& e) { return e.as<Binary>()->b; })) : nullptr;
      return y ? Binary::make(b->op, x, y) : nullptr;
    }
    return nullptr;
  }

 private:
  template <class Part>
  static std::vector<Expr> parts(const std::vector<Expr>& arms, Part part) {
    std::vector<Expr> found;
    found.reserve(arms.size());
    for (const Expr& arm : arms) found.push_back(part(arm));
    return found;
  }

  template <class Node, class Same>
  static bool all(const std::vector<Expr>& arms, Same same) {
    return std::all_of(arms.begin(), arms.end(), [&](const Expr& e) { return same(*e.as<Node>()); });
  }

  /// Places that go on by a step.
  Expr place(const std::vector<Expr>& arms) {
    const Affine first = to_affine(arms.front());
    std::int64_t step = 0;
    for (size_t i = 0; i < arms.size(); ++i) {
      if (uses_var(arms[i], variable_.get()) || has_load(arms[i])) return nullptr;
      Affine further = to_affine(arms[i]);
      if (!add_scaled(further, first, -1) || !further.is_constant()) return nullptr;
      if (i == 1) step = further.constant;
      if (further.constant != static_cast<std::int64_t>(i) * step) return nullptr;
    }
    return arms.front() + Expr(variable_) * index(step);
  }

  Expr load(const std::vector<Expr>& arms) {
    const Load& first = *arms.front().as<Load>();
    for (size_t i = 0; i < arms.size(); ++i) {
      const Load& load = *arms[i].as<Load>();
      if (load.buffer != first.buffer) return nullptr;
      // A mask of the arm itself, which holds where that is taken.
      const Expr mask = load.mask
                            ? simplify(substitute(load.mask, {{variable_.get(), index(static_cast<std::int64_t>(i))}}))
                            : nullptr;
      if (mask && !is_int(mask, 1)) return nullptr;
    }
    std::vector<Expr> indices;
    for (size_t d = 0; d < first.indices.size(); ++d) {
      const Expr folded = place(parts(arms, [d](const Expr& e) { return e.as<Load>()->indices[d]; }));
      if (!folded) return nullptr;
      indices.push_back(folded);
    }
    return Load::make(first.buffer, std::move(indices));
  }

  const VarRef variable_;
};

/// Folds the chains of choices by an iter.
class ChainFolding : public Mutator {
 public:
  ChainFolding(const VarRef& variable, std::int64_t count, const Bounds& bounds)
      : variable_(variable), count_(count), bounds_(bounds) {}
  bool changed = false;

 protected:
  Expr mutate_Select(const Expr& e, const Select* node) override {
    const std::vector<Expr> arms = arms_of(e, variable_, count_);
    Expr folded = arms.empty() ? nullptr : Folding(variable_).of(arms);
    if (!folded) return Mutator::mutate_Select(e, node);
    changed = true;
    return simplify(folded, bounds_);
  }

 private:
  const VarRef variable_;
  const std::int64_t count_;
  const Bounds& bounds_;
};

}  // namespace

void fold_choices(Schedule& schedule, const BlockRef& block, const LoopRef& loop) {
  const std::string application = fmt::format("fold_choices({}, {})", block.name, schedule.place(loop));
  const auto [path, own, place, count] = require_unordered_domain(schedule, application, block, loop);
  const Block& node = *path.back().as<Block>();
  Bounds bounds(schedule.func());
  for (const Iter& iter : node.f.iters) bounds.bind(iter.variable, iter.domain);
  ChainFolding folding(node.f.iters[place].variable, count, bounds);
  const Stmt body = count > 1 ? folding.mutate(node.f.body) : node.f.body;
  if (!folding.changed) {
    refuse(schedule, application, 3,
           "block chooses by that iter, with an arm for each of its values, all alike but for places that go on so",
           path.back(), "does not");
  }
  // Lets stay, of which a reduction's update is made.
  const Stmt changed = with_fields(node, [&](Block::Fields& f) { f.body = body; });
  schedule.commit(replace_last(path, with_inferred_regions(*changed.as<Block>())), application);
}

}  // namespace lathe
