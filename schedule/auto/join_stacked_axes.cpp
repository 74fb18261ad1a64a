#include "schedule/auto/join_stacked_axes.h"

#include <fmt/format.h>

#include <algorithm>

#include "ir/error.h"
#include "ir/visitor.h"
#include "schedule/auto/block_model.h"
#include "schedule/primitives/join_iters.h"
#include "schedule/rewrite.h"

namespace lathe {
namespace {

/// Does a comparison hang on both variables?
bool chooses_by_both(const Block& block, const VarRef& a, const VarRef& b) {
  bool found = false;
  for_each_expr(block.f.body, [&](const Expr& e) {
    const Select* choice = e.as<Select>();
    if (!choice || found) return;
    for_each_expr(choice->condition, [&](const Expr& part) {
      const Binary* comparison = part.as<Binary>();
      found |= comparison && (comparison->op == BinaryOp::lt || comparison->op == BinaryOp::le) &&
               uses_var(part, a.get()) && uses_var(part, b.get());
    });
  });
  return found;
}

/// Is the variable's quotient or remainder asked for?
bool is_taken_apart(const Block& block, const VarRef& variable) {
  const auto apart = [&](const Expr& e) {
    const Binary* node = e.as<Binary>();
    return node && (node->op == BinaryOp::floor_div || node->op == BinaryOp::floor_mod) && uses_var(e, variable.get());
  };
  bool found = false;
  for_each_expr(block.f.body, [&](const Expr& e) {
    const Select* choice = e.as<Select>();
    const Load* load = e.as<Load>();
    const Expr& condition = choice ? choice->condition : load ? load->mask : Expr();
    if (condition) for_each_expr(condition, [&](const Expr& part) { found |= apart(part); });
  });
  return found;
}

/// The iters of the two innermost loops, where they are those of neighbouring axes that a choice hangs on.
bool may_join(const Schedule& schedule, const BlockRef& ref, const std::vector<LoopRef>& loops) {
  if (loops.size() < 2) return false;
  const Block& block = schedule.node(ref);
  const auto outer = iter_moved_by(block, loops[loops.size() - 2].variable),
             inner = iter_moved_by(block, loops.back().variable);
  return outer && inner && chooses_by_both(block, block.f.iters[*outer].variable, block.f.iters[*inner].variable);
}

/// Joins the two; refuses where the block then takes the joined axis apart.
void join(Schedule& schedule, const BlockRef& ref, const std::vector<LoopRef>& loops) {
  const LoopRef joined = join_iters(schedule, ref, loops[loops.size() - 2], loops.back());
  const Block& block = schedule.node(ref);
  const std::optional<size_t> iter = iter_moved_by(block, joined.variable);
  const Accesses accesses = block_accesses(block);
  const bool steps = iter && std::all_of(accesses.begin(), accesses.end(), [&](const Access& access) {
                       return access.store ? access.strides[*iter] == 1 : access.strides[*iter].has_value();
                     });
  if (!steps || is_taken_apart(block, block.f.iters[*iter].variable))
    throw Refusal("join_stacked_axes", 2, "the joined axis is taken apart");
}

}  // namespace

void join_stacked_axes(RuleContext& context) {
  Schedule& schedule = context.schedule;
  for (const BlockRef& ref : schedule.blocks()) {
    const Block& block = schedule.node(ref);
    if (context.scheduled.contains(ref.name) || block.f.reducer || block.f.init || block.f.predicate ||
        block.f.writes.size() != 1 || is_sealed(block))
      continue;
    for (std::vector<LoopRef> loops = own_loops(schedule, ref); may_join(schedule, ref, loops);
         loops = own_loops(schedule, ref)) {
      if (!attempt(context, fmt::format("join the axes of {} that are stacked along", ref.name),
                   [&] { join(schedule, ref, loops); }))
        break;
    }
  }
}

}  // namespace lathe
