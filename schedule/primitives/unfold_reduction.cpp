#include "schedule/primitives/unfold_reduction.h"

#include <fmt/format.h>

#include <algorithm>

#include "ir/analysis/simplify.h"
#include "ir/reduction.h"
#include "schedule/access.h"
#include "schedule/complete.h"
#include "schedule/rewrite.h"

namespace lathe {
namespace {

/// What the steps of the iter come to, from the first on.
Expr folded(const Reducer& reducer, const Expr& term, const Iter& iter, std::int64_t steps, const Bounds& bounds) {
  Expr value;
  for (std::int64_t step = 0; step < steps; ++step) {
    const Expr next = simplify(substitute(term, {{iter.variable.get(), index(step)}}), bounds);
    value = step == 0 ? next : combine(reducer, {value}, {next})[0];
  }
  return value;
}

}  // namespace

void unfold_reduction(Schedule& schedule, const BlockRef& block, const LoopRef& loop) {
  const std::string application = fmt::format("unfold_reduction({}, {})", block.name, schedule.place(loop));
  const auto [path, own, place, steps] = require_unordered_domain(schedule, application, block, loop);
  const Block& node = *path.back().as<Block>();
  const Iter& iter = node.f.iters[place];
  if (iter.kind != IterKind::reduce || steps < 1 || steps > most_unfolded) {
    refuse(schedule, application, 3, fmt::format("that is a reduce iter of 1 to {} steps", most_unfolded), path.back(),
           fmt::format("has the {} iter {} of {}", to_string(iter.kind), iter.variable->name, steps));
  }
  const std::optional<ReductionParts> parts = one_value_parts(node);
  const std::optional<Reducer>& reducer = node.f.reducer;
  if (!parts || !reducer || passes_over_nan(*reducer)) {
    refuse(schedule, application, 4,
           "block begins with its reducer's identity, and combines one value by one operator, whose term has no Let "
           "around it",
           path.back(), "does not");
  }
  Bounds bounds(schedule.func());
  for (const Iter& other : node.f.iters) bounds.bind(other.variable, other.domain);
  const Expr value = folded(*reducer, parts->terms[0], iter, steps, bounds);
  const Stmt changed = with_fields(node, [&, at = static_cast<std::ptrdiff_t>(place)](Block::Fields& f) {
    f.iters.erase(f.iters.begin() + at);
    f.bindings.erase(f.bindings.begin() + at);
    if (std::any_of(f.iters.begin(), f.iters.end(), [](const Iter& i) { return i.kind == IterKind::reduce; })) {
      f.body = make_update(*reducer, parts->outputs, {value});
      return;
    }
    f.body = Store::make(parts->outputs[0].buffer, parts->outputs[0].indices, value);
    f.reducer.reset();
    f.init = nullptr;
  });
  const Path loop_path = path_to(schedule, loop);
  const Path inside(path.begin() + static_cast<std::ptrdiff_t>(loop_path.size()), path.end());
  const Stmt nest = replace_last(inside, with_inferred_regions(*changed.as<Block>()));
  schedule.commit(replace_last(loop_path, nest), application);
}

}  // namespace lathe
