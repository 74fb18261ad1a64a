#include "schedule/primitives/end_masked.h"

#include <fmt/format.h>

#include <algorithm>

#include "ir/analysis/affine.h"
#include "ir/analysis/interval.h"
#include "ir/analysis/simplify.h"
#include "schedule/access.h"
#include "schedule/beforehand.h"
#include "schedule/carried.h"
#include "schedule/masked_iteration.h"

namespace lathe {
namespace {

/// By number, from 1 on.
constexpr const char* conditions[] = {
    "block is a reduction without an init; loop, serial or unrolled and from 0 on, is around it",
    "below loop stand only blocks, which write allocations that nothing outside of these reads, but for block, and "
    "assert what is true where masks are false",
    "below loop nothing is read of those that the iteration has not written before",
    "where every mask that bounds can be relaxed to is false, block's terms come out as its reducer's identities, "
    "whatever its operands are",
    "a mask that is false in an iteration is false in all later ones, as its bounds are affine in the loop",
    "masks load elements of inputs, within these, that nothing writes",
};

/// How many iterations of a loop, of all, a condition holds for, from the first on, or more; null where that is not
/// known. Where the condition holds, its greater side is at least what the lesser one is without the loop, which is not
/// negative: so that no difference below wraps.
Expr iterations(const Expr& condition, const For& loop, const Bounds& within) {
  const Binary* binary = condition.as<Binary>();
  if (!binary) return nullptr;
  if (binary->op == BinaryOp::logical_and || binary->op == BinaryOp::logical_or) {
    const Expr a = iterations(binary->a, loop, within), b = iterations(binary->b, loop, within);
    if (binary->op == BinaryOp::logical_or) return a && b ? max(a, b) : nullptr;
    return a && b ? min(a, b) : a ? a : b;
  }
  const bool rises = binary->op == BinaryOp::lt || binary->op == BinaryOp::le;
  const bool falls = binary->op == BinaryOp::gt || binary->op == BinaryOp::ge;
  if ((!rises && !falls) || binary->a->dtype != i64) return nullptr;
  const Expr &lesser = rises ? binary->a : binary->b, &greater = rises ? binary->b : binary->a;
  const Var* variable = loop.variable.get();
  Affine first = to_affine(lesser);
  const std::int64_t step = first.coefficient(loop.variable);
  if (step <= 0 || !add_term(first, loop.variable, -step) || uses_var(greater, variable)) return nullptr;
  const Expr begin = to_expr(first);
  if (uses_var(begin, variable) || !proves(within, ge(begin, index(0))) || may_wrap(within, lesser)) return nullptr;
  const bool strict = binary->op == BinaryOp::lt || binary->op == BinaryOp::gt;
  const Expr distance = greater - begin;
  if (strict && step == 1) return min(distance, loop.extent);
  const Expr last = floor_div(strict ? distance - 1 : distance, index(step));
  return min(last, loop.extent - 1) + 1;
}

/// Does the expression load only elements of inputs, which stay as they are?
bool loads_inputs(const Expr& e, const Func& func, const Bounds& bounds) {
  std::vector<Buffer> loaded;
  bool there = true;
  for_each_expr(e, [&](const Expr& part) {
    const Load* load = part.as<Load>();
    if (!load) return;
    loaded.push_back(load->buffer);
    there = there && !load->mask && load->dtype.is_scalar() && !is_allocated(func, load->buffer) &&
            lies_inside(*load, bounds);
  });
  for_each_stmt(func->body, [&](const Stmt& s) {
    const Block* block = s.as<Block>();
    there &= !block ||
             std::none_of(loaded.begin(), loaded.end(), [&](const Buffer& buffer) { return writes(*block, buffer); });
  });
  return there;
}

}  // namespace

void end_masked(Schedule& schedule, const BlockRef& block, const LoopRef& loop) {
  const Path path = path_to(schedule, block), loop_path = path_to(schedule, loop);
  const Block& node = *path.back().as<Block>();
  const For& ended = *loop_path.back().as<For>();
  const std::string application = fmt::format("end_masked({}, {})", block.name, schedule.place(loop));
  const auto refused = [&](int condition, const Stmt& culprit, const std::string& note) {
    refuse(schedule, application, condition, conditions[condition - 1], culprit, note);
  };
  const bool counts = ended.for_kind == ForKind::serial || ended.for_kind == ForKind::unrolled;
  if (!node.f.reducer || node.f.init || !counts || !is_int(ended.min, 0) ||
      std::find(path.begin(), path.end(), loop_path.back()) == path.end())
    refused(1, path.back(), "is no such reduction");
  refuse_what_stays(schedule, path.back(), loop_path, refused);
  const MaskedIteration masking =
      masked_iteration(schedule, path.back(), loop_path, loop_path.size() - 1, refused, MasksBy::loops_and_loads);
  const Bounds bounds = bounds_at(schedule.func(), loop_path);
  if (!masking.operands.empty()) {
    refused(4, path.back(), fmt::format("is NaN where {} is not finite", masking.operands.front().buffer->name));
  }
  Bounds within = bounds;
  within.bind(ended.variable, Range{ended.min, ended.extent});
  Expr count;
  for (const Expr& guard : masking.guards) {
    const Expr ends = iterations(guard, ended, within);
    if (!ends) refused(5, loop_path.back(), "may go on behind a false mask");
    count = count ? max(count, ends) : ends;
  }
  if (!loads_inputs(count, schedule.func(), bounds)) refused(6, loop_path.back(), "may load something else");
  const Expr extent = simplify(max(count, index(0)), bounds);
  schedule.commit(replace_last(loop_path, For::make(ended.variable, ended.min, extent, ForKind::serial, ended.body,
                                                    ended.annotations)),
                  application);
}

}  // namespace lathe
