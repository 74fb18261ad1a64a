#include "schedule/auto/one_walk.h"

#include <algorithm>

#include "ir/analysis/simplify.h"
#include "ir/visitor.h"
#include "schedule/access.h"

namespace lathe {
namespace {

/// Looks at values, and at places apart from them.
class Uses : public Visitor {
 public:
  Uses(const Substitution& places, const VarRef& walk, const Bounds& bounds)
      : places_(places), walk_(walk), bounds_(bounds) {}
  using Visitor::visit;
  void visit(const Expr& e) override {
    if (e && seen_.insert(e.get())) Visitor::visit(e);
  }
  bool fine = true;

 protected:
  void visit_Var(const Var* node) override { fine &= !places_.contains(node); }
  void visit_Load(const Load* node) override { walk(node->buffer, node->indices); }
  void visit_Store(const Store* node) override {
    walk(node->buffer, node->indices);
    visit(node->value);
  }

 private:
  void walk(const Buffer& buffer, const std::vector<Expr>& indices) {
    const bool plain =
        std::all_of(indices.begin(), indices.end(), [](const Expr& e) { return e.as<Var>() || as_int(e); });
    if (plain) return;
    const Expr place = simplify(substitute(flat_index(buffer, indices), places_), bounds_);
    if (split_linear(place, walk_)) return;
    // What is looked up hangs on what is loaded there, if not on places.
    for (const Expr& index : indices) visit(index);
  }

  const Substitution& places_;
  const VarRef& walk_;
  const Bounds& bounds_;
  NodeSet<const ExprNode*> seen_;
};

}  // namespace

bool may_be_one_walk(const Block& block, const std::vector<size_t>& iters, const std::vector<std::int64_t>& extents) {
  const VarRef walk = Var::make("walk");
  Bounds bounds;
  for (const Iter& iter : block.f.iters) bounds.bind(iter.variable, iter.domain);
  Expr length = block.f.iters[iters[0]].domain.extent, rest = walk;
  for (const std::int64_t extent : extents) length = length * extent;
  bounds.bind(walk, Range{index(0), length});
  Substitution places;
  for (size_t i = iters.size(); --i > 0;) {
    places[block.f.iters[iters[i]].variable.get()] = floor_mod(rest, extents[i - 1]);
    rest = floor_div(rest, extents[i - 1]);
  }
  places[block.f.iters[iters[0]].variable.get()] = rest;
  Uses uses(places, walk, bounds);
  uses.visit(block.f.body);
  return uses.fine;
}

}  // namespace lathe
