#include "schedule/auto/one_walk.h"

#include <algorithm>

#include "ir/analysis/simplify.h"
#include "ir/visitor.h"
#include "schedule/access.h"
#include "schedule/auto/vector_loop.h"

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
  void visit_Load(const Load* node) override {
    walk(node->buffer, node->indices);
    visit(node->mask);
  }
  void visit_Store(const Store* node) override {
    walk(node->buffer, node->indices);
    visit(node->value);
    visit(node->mask);
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

/// Do all accesses go on along `inner`, of so many elements, where `outer` takes a step?
bool walks_as_one(const RuleContext& context, const std::vector<Access>& accesses, size_t outer, size_t inner,
                  std::int64_t inner_extent) {
  return std::all_of(accesses.begin(), accesses.end(), [&](const Access& access) {
    if (!access.masked && is_table(context, access, inner) && is_table(context, access, outer)) return true;
    const auto a = access.strides[outer], b = access.strides[inner];
    return a && b && *a == *b * inner_extent;
  });
}

/// Does a condition that hangs on the rows end them within tiles of tiles? It is cut off the last one of a loop alone;
/// elsewhere each lane would ask for the row that it is in.
bool ends_within_tiles(const Block& block, const VarRef& rows) {
  if (!block.f.predicate) return false;
  const std::vector<VarRef> used = used_vars(block.f.predicate);
  return used.size() > 2 && std::find(used.begin(), used.end(), rows) != used.end();
}

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

OneWalk find_one_walk(const RuleContext& context, const Block& block, const std::vector<Access>& accesses,
                      const std::vector<LoopRef>& loops, const std::vector<size_t>& iters) {
  const auto extent_of = [&](const LoopRef& loop) {
    const std::int64_t* extent = as_int(context.schedule.node(loop).extent);
    return extent ? *extent : 0;
  };
  std::int64_t extent = extent_of(loops.back());
  OneWalk found{0, extent};
  std::vector<size_t> walked{iters.back()};
  std::vector<std::int64_t> extents;
  for (size_t inner = loops.size() - 1; inner > 0 && found.extent > 0; --inner) {
    if (!walks_as_one(context, accesses, iters[inner - 1], iters.back(), found.extent)) break;
    if (ends_within_tiles(block, loops[inner - 1].variable)) break;
    walked.insert(walked.begin(), iters[inner - 1]);
    extents.insert(extents.begin(), extent);
    if (!may_be_one_walk(block, walked, extents)) break;
    extent = extent_of(loops[inner - 1]);
    found.extent *= extent;
    ++found.outer;
  }
  return found;
}

}  // namespace lathe
