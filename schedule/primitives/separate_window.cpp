#include "schedule/primitives/separate_window.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <optional>

#include "ir/analysis/affine.h"
#include "ir/analysis/simplify.h"
#include "ir/reduction.h"
#include "ir/visitor.h"
#include "schedule/access.h"
#include "schedule/complete.h"
#include "schedule/hints.h"
#include "schedule/rewrite.h"

namespace lathe {
namespace {

/// The place in a window's row: stride * across + step * along - least, from 0 to count - 1.
struct WindowPlace {
  std::int64_t stride = 1, step = 1, least = 0, count = 0;
};

/// A window's two iters, of `results` and `steps` values.
struct WindowIters {
  const Iter& across;
  const Iter& along;
  std::int64_t results, steps;
};

/// The first sum of both iters in the term, without what they share as a factor.
std::optional<WindowPlace> place_in(const Expr& term, const WindowIters& iters) {
  std::optional<WindowPlace> found;
  for_each_expr(term, [&](const Expr& e) {
    if (found || e->dtype != i64 || !uses_var(e, iters.across.variable.get())) return;
    const Affine form = to_affine(e);
    const std::int64_t stride = form.coefficient(iters.across.variable), step = form.coefficient(iters.along.variable);
    if (stride == 0 || step == 0) return;
    const std::int64_t shared = std::gcd(stride, step) * (stride < 0 ? -1 : 1);
    found = {stride / shared, step / shared};
  });
  if (!found) return found;
  const std::int64_t last_step = found->step * (iters.steps - 1);
  found->least = std::min<std::int64_t>(last_step, 0);
  found->count = found->stride * (iters.results - 1) + std::abs(last_step) + 1;
  return found;
}

/// Does each place lie in some window?
bool leaves_no_gap(const WindowPlace& place, const WindowIters& iters) {
  const bool by_steps = std::abs(place.step) == 1 && (place.stride <= iters.steps || iters.results == 1);
  const bool by_results = place.stride == 1 && (std::abs(place.step) <= iters.results || iters.steps == 1);
  return by_steps || by_results;
}

/// The term at a place of the row; null when it depends on more than the place.
Expr term_at(const Expr& term, const WindowPlace& place, const WindowIters& iters, const VarRef& at,
             const Bounds& bounds) {
  const Expr sum = Expr(at) + place.least;
  Substitution map;
  if (std::abs(place.step) == 1) {
    map[iters.along.variable.get()] = (sum - iters.across.variable * place.stride) * place.step;
  } else {
    map[iters.across.variable.get()] = sum - iters.along.variable * place.step;
  }
  const Expr moved = simplify(substitute(term, map), bounds);
  const bool depends = uses_var(moved, iters.across.variable.get()) || uses_var(moved, iters.along.variable.get());
  return depends ? nullptr : moved;
}

/// The block of what windows share: the block's iters, but for the window's two, which `at` stands for.
Stmt shared_block(const Block& block, const WindowIters& iters, const Expr& term, const VarRef& at,
                  const ReductionOutput& output, std::int64_t count, const Reducer& reducer) {
  Block::Fields f;
  f.name = output.buffer->name;
  Substitution names;
  std::vector<Range> ranges;
  for (const Iter& iter : block.f.iters) {
    if (iter.variable == iters.along.variable) continue;
    const bool moves = iter.variable == iters.across.variable;
    const VarRef variable = moves ? at : Var::make(iter.variable->name);
    if (!moves) names[iter.variable.get()] = variable;
    f.iters.push_back({variable, moves ? Range{index(0), index(count)} : iter.domain, iter.kind});
    f.bindings.push_back(f.iters.back().domain.min);
    ranges.push_back(f.iters.back().domain);
  }
  ReductionOutput renamed{output.buffer, {}};
  for (const Expr& e : output.indices) renamed.indices.push_back(substitute(e, names));
  f.init = make_init(reducer, {renamed});
  f.body = make_update(reducer, {renamed}, {substitute(term, names)});
  f.reducer = reducer;
  const Stmt made = Block::make(std::move(f));
  return make_nest(*with_inferred_regions(*made.as<Block>()).as<Block>(), ranges);
}

}  // namespace

BlockRef separate_window(Schedule& schedule, const BlockRef& block, const LoopRef& across, const LoopRef& along,
                         std::int64_t lead) {
  const std::string application = fmt::format("separate_window({}, {}, {}{})", block.name, schedule.place(across),
                                              schedule.place(along), lead == 0 ? "" : fmt::format(", {}", lead));
  const IterDomain moved = require_unordered_domain(schedule, application, block, across);
  const IterDomain walked = require_unordered_domain(schedule, application, block, along);
  const Path& path = moved.path;
  const Block& node = *path.back().as<Block>();
  size_t own = moved.own;
  std::string reason = why_not_alone(path, own);
  if (reason.empty() && has_hints(node)) reason = "has a region hint";
  if (!reason.empty()) {
    refuse(schedule, application, 1,
           "block has only space and reduce iters, and runs over its whole domain, each iter by a serial loop of its "
           "own, with no other block in these loops, and no region hint",
           path.back(), reason);
  }
  const WindowIters iters{node.f.iters[moved.iter], node.f.iters[walked.iter], moved.extent, walked.extent};
  const auto reduced = [](const Iter& iter) { return iter.kind == IterKind::reduce; };
  if (reduced(iters.across) || !reduced(iters.along) ||
      std::count_if(node.f.iters.begin(), node.f.iters.end(), reduced) < 2) {
    refuse(schedule, application, 3, "the first is a space iter, the second a reduce iter and not the only one",
           path.back(), "has others there");
  }
  const std::optional<ReductionParts> parts = one_value_parts(node);
  if (!parts || !node.f.reducer) {
    refuse(schedule, application, 4,
           "block begins with its reducer's identity, and combines one value by one operator, whose term has no Let "
           "around it",
           path.back(), "does not");
  }
  const ReductionOutput& output = parts->outputs[0];
  const std::optional<size_t> dimension = dimension_of(output.indices, iters.across.variable);
  if (!dimension) {
    refuse(schedule, application, 5, "one index of the result is the space iter, and no other depends on it",
           path.back(), "has other indices");
  }
  WindowPlace place = place_in(parts->terms[0], iters).value_or(WindowPlace{});
  const VarRef at = Var::make(iters.across.variable->name);
  const auto term_within = [&](std::int64_t count) {
    Bounds bounds(schedule.func());
    for (const Iter& iter : node.f.iters) bounds.bind(iter.variable, iter.domain);
    bounds.bind(at, {index(0), index(count)});
    return term_at(parts->terms[0], place, iters, at, bounds);
  };
  Expr term;
  if (place.count > 0 && leaves_no_gap(place, iters)) {
    place.least -= lead;
    place.count += lead;
    term = term_within(place.count);
  }
  if (!term) {
    refuse(schedule, application, 6,
           "the term depends on both iters by one sum of them alone, a * across + b * along with a or b of 1 or -1 "
           "once their common divisor is taken out, each value of which some window takes",
           path.back(), "has no such term");
  }
  if (lead < 0 || (lead > 0 && has_load(term_within(lead)))) {
    refuse(schedule, application, 7, "lead is at least 0, and nothing is read for elements of it", path.back(),
           "reads them");
  }

  std::vector<Expr> shape = output.buffer->shape, shared = output.indices, read = output.indices;
  shape[*dimension] = index(place.count);
  shared[*dimension] = at;
  read[*dimension] = iters.across.variable * place.stride + iters.along.variable * place.step - place.least;
  const Buffer window = BufferNode::make(schedule.unique_name(block.name + "_window"), output.buffer->dtype, shape);
  const Stmt shared_nest =
      shared_block(node, iters, term, at, {window, shared}, place.count, with_new_variables(*node.f.reducer));

  const Stmt changed = with_fields(node, [&](Block::Fields& f) {
    f.iters.clear();
    f.bindings.clear();
    for (size_t i = 0; i < node.f.iters.size(); ++i) {
      if (reduced(node.f.iters[i]) && i != walked.iter) continue;
      f.iters.push_back(node.f.iters[i]);
      f.bindings.push_back(node.f.bindings[i]);
    }
    f.body = make_update(*node.f.reducer, {output}, {simplify(load(window, read))});
  });
  Stmt nest = with_inferred_regions(*changed.as<Block>());
  const std::vector<Expr>& bindings = changed.as<Block>()->f.bindings;
  for (size_t level = path.size() - 1; level-- > own;) {
    const For& loop = *path[level].as<For>();
    const bool drives =
        std::any_of(bindings.begin(), bindings.end(), [&](const Expr& e) { return uses_var(e, loop.variable.get()); });
    if (drives) nest = with_body(loop, nest);
  }
  const Path outer(path.begin(), path.begin() + static_cast<std::ptrdiff_t>(own) + 1);
  const Stmt body = replace_last(outer, Seq::make({shared_nest, nest}));
  schedule.commit(add_allocation(body, window), application);
  return {window->name};
}

}  // namespace lathe
