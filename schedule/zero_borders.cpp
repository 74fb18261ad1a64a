#include "schedule/zero_borders.h"

#include <algorithm>

#include "ir/conjuncts.h"
#include "ir/visitor.h"
#include "schedule/carried.h"
#include "schedule/rewrite.h"

namespace lathe {
namespace {

bool is_zero(const Expr& e) {
  const FloatImm* real = e.as<FloatImm>();
  return is_int(e, 0) || (real && real->value == 0);
}

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
    if (!block || !outer_blocks(block->f.body).empty()) return;
    for (const Region& region : block->f.writes) {
      plain &= !region.buffer->view_of || region.buffer->view_of->buffer != buffer;
      if (region.buffer != buffer) continue;
      const Store* store = block->f.init ? nullptr : only_store(block->f.body);
      plain &= store && store->buffer == buffer && store->value->dtype.is_scalar();
      if (!plain || is_zero(store->value)) continue;
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
    if (const Var* iter = stored->indices[d].as<Var>()) places[iter] = at[d];
    const Interval interval = bounds.interval(substitute(stored->indices[d], bindings));
    const std::int64_t* extent = as_int(buffer->shape[d]);
    if (interval.min && *interval.min > 0) conditions.push_back(le(index(*interval.min), at[d]));
    if (interval.max && (!extent || *interval.max + 1 < *extent))
      conditions.push_back(lt(at[d], index(*interval.max + 1)));
  }
  const Select* choice = stored->value.as<Select>();
  if (!choice || !is_zero(choice->when_false)) return conditions;
  for (const Expr& condition : conjuncts_of(choice->condition)) {
    const std::vector<VarRef> used = used_vars(condition);
    const bool placed = std::all_of(used.begin(), used.end(),
                                    [&](const VarRef& variable) { return places.count(variable.get()) != 0; });
    if (placed && !has_load(condition)) conditions.push_back(substitute(condition, places));
  }
  return conditions;
}

}  // namespace lathe
