#include "schedule/zero_borders.h"

#include <algorithm>

#include "ir/analysis/affine.h"
#include "ir/conjuncts.h"
#include "ir/structural.h"
#include "ir/visitor.h"
#include "schedule/access.h"
#include "schedule/carried.h"
#include "schedule/rewrite.h"

namespace lathe {
namespace {

/// The only statement that is no Let.
const Store* only_store(Stmt s) {
  while (const Let* let = s.as<Let>()) s = let->body;
  return s.as<Store>();
}

}  // namespace

std::vector<Expr> nonzero_conditions(const Schedule& schedule, const Buffer& buffer, const std::vector<Expr>& at) {
  if (!is_allocated(schedule.func(), buffer) || buffer->view_of) return {};
  const Block* copy = nullptr;
  const Store* stored = nullptr;
  bool plain = true;
  for_each_stmt(schedule.func()->body, [&](const Stmt& s) {
    const Block* block = s.as<Block>();
    if (!block || has_blocks(*block)) return;
    for (const Region& region : block->f.writes) {
      plain &= !region.buffer->view_of || region.buffer->view_of->buffer != buffer;
      if (region.buffer != buffer) continue;
      const Store* store = block->f.init ? nullptr : only_store(block->f.body);
      plain &= store && store->buffer == buffer && store->value->dtype.is_scalar();
      if (!plain || is_constant_zero(store->value)) continue;
      plain &= !copy;
      copy = block;
      stored = store;
    }
  });
  if (!plain || !copy) return {};
  const Path path = path_to(schedule, BlockRef{copy->f.name});
  const Bounds bounds = bounds_at(schedule.func(), path);
  Substitution bindings, places;
  for (size_t i = 0; i < copy->f.iters.size(); ++i) bindings[copy->f.iters[i].variable.get()] = copy->f.bindings[i];
  std::vector<Expr> conditions;
  for (size_t d = 0; d < at.size(); ++d) {
    if (const Var* iter = stored->indices[d].as<Var>()) {
      places[iter] = at[d];
      // A loop that drives the iter goes with it.
      const Affine driven = to_affine(bindings[iter]);
      const Var* loop = driven.terms.size() == 1 ? driven.terms[0].atom.as<Var>() : nullptr;
      if (loop && driven.terms[0].coefficient == 1) places[loop] = at[d] - driven.constant;
    }
    const Interval interval = bounds.interval(substitute(stored->indices[d], bindings));
    const std::int64_t* extent = as_int(buffer->shape[d]);
    if (interval.min && *interval.min > 0) conditions.push_back(le(index(*interval.min), at[d]));
    if (interval.max && (!extent || *interval.max + 1 < *extent))
      conditions.push_back(lt(at[d], index(*interval.max + 1)));
  }
  std::vector<Expr> asked = conjuncts_of(copy->f.predicate);
  const Select* choice = stored->value.as<Select>();
  const Load* load = stored->value.as<Load>();
  for (const Expr& condition :
       {choice && is_constant_zero(choice->when_false) ? choice->condition : Expr(), load ? load->mask : Expr()}) {
    const std::vector<Expr> parts = conjuncts_of(condition);
    asked.insert(asked.end(), parts.begin(), parts.end());
  }
  for (const Expr& condition : asked) {
    const std::vector<VarRef> used = used_vars(condition);
    const bool placed = std::all_of(used.begin(), used.end(),
                                    [&](const VarRef& variable) { return places.count(variable.get()) != 0; });
    if (!placed || has_load(condition)) continue;
    const Expr at_place = substitute(condition, places);
    const bool known =
        std::any_of(conditions.begin(), conditions.end(), [&](const Expr& other) { return equal(other, at_place); });
    if (!known) conditions.push_back(at_place);
  }
  return conditions;
}

}  // namespace lathe
