#include "schedule/complete.h"

#include <fmt/format.h>

#include <algorithm>

#include "ir/analysis/simplify.h"
#include "ir/reduction.h"
#include "ir/structural.h"
#include "schedule/access.h"

namespace lathe {
size_t own_level(const Path& path) {
  size_t own = path.size() - 1;
  while (own > 0 && path[own - 1].as<For>()) --own;
  return own;
}

std::string why_incomplete(const Path& path) {
  if (path.back().as<Block>()->f.predicate) return "has a predicate";
  return why_incomplete_unless_left_out(path);
}

std::string why_results_incomplete(const Path& path) {
  const Block& block = *path.back().as<Block>();
  if (!block.f.predicate) return why_incomplete_unless_left_out(path);
  Bounds bounds;
  Substitution first;
  for (const For* loop : loops_of(path)) bounds.bind(loop->variable, Range{loop->min, loop->extent});
  for (size_t i = 0; i < block.f.iters.size(); ++i) {
    const Var* variable = block.f.bindings[i].as<Var>();
    if (block.f.iters[i].kind == IterKind::reduce && variable) first[variable] = block.f.iters[i].domain.min;
  }
  if (!proves(bounds, substitute(block.f.predicate, first))) return "has a predicate";
  return why_incomplete_unless_left_out(path);
}

std::string why_incomplete_unless_left_out(const Path& path) {
  const Block& block = *path.back().as<Block>();
  const std::vector<const For*> loops = loops_of(path);
  std::vector<const Var*> used;
  for (size_t i = 0; i < block.f.iters.size(); ++i) {
    const Iter& iter = block.f.iters[i];
    if (is_int(iter.domain.extent, 1) && constant_difference(block.f.bindings[i], iter.domain.min) == 0) continue;
    const Var* variable = block.f.bindings[i].as<Var>();
    const auto loop =
        std::find_if(loops.begin(), loops.end(), [&](const For* l) { return l->variable.get() == variable; });
    if (!variable || loop == loops.end() || std::count(used.begin(), used.end(), variable) > 0) {
      return fmt::format("binds iter {} to no loop of its own", iter.variable->name);
    }
    used.push_back(variable);
    if ((*loop)->for_kind != ForKind::serial)
      return fmt::format("lies in the {} loop {}", to_string((*loop)->for_kind), variable->name);
    if (constant_difference((*loop)->min, iter.domain.min) != 0 ||
        constant_difference((*loop)->extent, iter.domain.extent) != 0) {
      return fmt::format("runs over a part of the domain of iter {}", iter.variable->name);
    }
  }
  return "";
}

std::string why_not_alone(const Path& path, size_t& own) {
  if (std::string reason = why_incomplete(path); !reason.empty()) return reason;
  const Block& block = *path.back().as<Block>();
  own = own_level(path);
  for (const Expr& binding : block.f.bindings) {
    const bool found = !binding.as<Var>() ||
                       std::any_of(path.begin() + static_cast<std::ptrdiff_t>(own), path.end(), [&](const Stmt& s) {
                         return s.as<For>() && Expr(s.as<For>()->variable) == binding;
                       });
    if (!found) return "holds a part of its loops, beside other blocks";
  }
  return "";
}

namespace {

std::string why_not_space(const Block& block) {
  for (const Iter& iter : block.f.iters) {
    if (iter.kind != IterKind::space)
      return fmt::format("has the {} iter {}", to_string(iter.kind), iter.variable->name);
  }
  if (block.f.init) return "has an init";
  return has_blocks(block) ? "holds other blocks" : "";
}

}  // namespace

std::string why_not_space_alone(const Path& path, size_t& own) {
  const std::string reason = why_not_space(*path.back().as<Block>());
  return reason.empty() ? why_not_alone(path, own) : reason;
}

namespace {

std::string why_ordered(const Block& block) {
  for (const Iter& iter : block.f.iters) {
    if (iter.kind != IterKind::space && iter.kind != IterKind::reduce)
      return fmt::format("has the {} iter {}", to_string(iter.kind), iter.variable->name);
  }
  return has_blocks(block) ? "holds other blocks" : "";
}

std::string why_not_unordered(const Path& path) {
  const std::string reason = why_ordered(*path.back().as<Block>());
  return reason.empty() ? why_incomplete(path) : reason;
}

/// What the loop does besides driving one iter, over its whole domain.
std::string why_not_driven(const Path& path, const For& loop) {
  const Block::Fields& f = path.back().as<Block>()->f;
  if (loop.for_kind != ForKind::serial)
    return fmt::format("lies in the {} loop {}", to_string(loop.for_kind), loop.variable->name);
  if (f.predicate && uses_var(f.predicate, loop.variable.get()))
    return fmt::format("has a predicate on {}", loop.variable->name);
  for (size_t i = 0; i < f.iters.size(); ++i) {
    const Range& domain = f.iters[i].domain;
    const bool driven = f.bindings[i] == Expr(loop.variable);
    if (!driven && uses_var(f.bindings[i], loop.variable.get()))
      return fmt::format("binds iter {} to no loop of its own", f.iters[i].variable->name);
    if (driven &&
        (constant_difference(loop.min, domain.min) != 0 || constant_difference(loop.extent, domain.extent) != 0))
      return fmt::format("runs over a part of the domain of iter {}", f.iters[i].variable->name);
  }
  for (const Stmt& level : path) {
    const For* around = level.as<For>();
    if (around && (uses_var(around->min, loop.variable.get()) || uses_var(around->extent, loop.variable.get())))
      return fmt::format("lies in the loop {}, whose bounds use it", around->variable->name);
  }
  return "";
}

/// Is the loop one of those at these levels of the path?
bool holds_loop(const Path& path, size_t first, size_t end, const LoopRef& loop) {
  return std::any_of(path.begin() + static_cast<std::ptrdiff_t>(first), path.begin() + static_cast<std::ptrdiff_t>(end),
                     [&](const Stmt& s) { return s.as<For>() && s.as<For>()->variable == loop.variable; });
}

/// Why the loop does not hold the block alone; "" where it does, or is not around it.
std::string why_beside_others(const IterDomain& domain, const LoopRef& loop) {
  return holds_loop(domain.path, 0, domain.own, loop) ? "has other blocks beside it in the loop" : "";
}

/// Fills in the loop's iter.
IterDomain require_loop(const Schedule& schedule, const std::string& application, IterDomain domain,
                        const LoopRef& loop) {
  const Path& path = domain.path;
  const Block::Fields& f = path.back().as<Block>()->f;
  const std::string whole = "loop drives an iter of block, whose domain is [0, n) with n constant";
  const auto found = std::find(f.bindings.begin(), f.bindings.end(), Expr(loop.variable));
  if (found == f.bindings.end())
    refuse(schedule, application, 2, whole, path_to(schedule, loop).back(), "drives none of it");
  domain.iter = static_cast<size_t>(found - f.bindings.begin());
  const Iter& iter = f.iters[domain.iter];
  const std::int64_t* extent = as_int(iter.domain.extent);
  if (!extent || !is_int(iter.domain.min, 0)) {
    refuse(schedule, application, 2, whole, path.back(),
           fmt::format("has the iter {} over another domain", iter.variable->name));
  }
  domain.extent = *extent;
  return domain;
}

/// Refuses by condition 1, `whole`, a block that has other iters, or a loop that does more than drive one of them.
IterDomain require_driven(const Schedule& schedule, const std::string& application, const BlockRef& block,
                          const LoopRef& loop, std::string (*why_not)(const Block& block), const std::string& whole) {
  IterDomain domain{.path = path_to(schedule, block)};
  domain.own = own_level(domain.path);
  std::string reason = why_not(*domain.path.back().as<Block>());
  if (reason.empty()) reason = why_beside_others(domain, loop);
  if (reason.empty() && holds_loop(domain.path, domain.own, domain.path.size(), loop))
    reason = why_not_driven(domain.path, schedule.node(loop));
  if (!reason.empty()) refuse(schedule, application, 1, whole, domain.path.back(), reason);
  return require_loop(schedule, application, std::move(domain), loop);
}

}  // namespace

IterDomain require_space_domain(const Schedule& schedule, const std::string& application, const BlockRef& block,
                                const LoopRef& loop) {
  return require_driven(schedule, application, block, loop, why_not_space,
                        "block has only space iters and no init; loop drives one of them over its whole domain, is "
                        "serial, and holds no other block");
}

IterDomain require_unordered_domain(const Schedule& schedule, const std::string& application, const BlockRef& block,
                                    const LoopRef& loop) {
  IterDomain domain{.path = path_to(schedule, block)};
  domain.own = own_level(domain.path);
  std::string reason = why_not_unordered(domain.path);
  if (reason.empty()) reason = why_beside_others(domain, loop);
  if (!reason.empty()) {
    refuse(schedule, application, 1,
           "block has only space and reduce iters, and runs over its whole domain, each iter by a serial loop of its "
           "own, with no other block in the one that is split",
           domain.path.back(), reason);
  }
  return require_loop(schedule, application, std::move(domain), loop);
}

IterDomain require_driven_iter(const Schedule& schedule, const std::string& application, const BlockRef& block,
                               const LoopRef& loop) {
  return require_driven(schedule, application, block, loop, why_ordered,
                        "block has only space and reduce iters, one of which loop drives over its whole domain, which "
                        "is serial, and holds no other block");
}

std::string why_not_pointwise(const Block& block, bool ordered_too) {
  const auto may_index = [&](const Iter& iter) {
    return iter.kind == IterKind::space || (ordered_too && iter.kind == IterKind::ordered);
  };
  std::string found;
  for_each_stmt(block.f.body, [&](const Stmt& s) {
    const Store* store = s.as<Store>();
    if (!store) return;
    if (store->mask) found = "has a masked Store";
    std::vector<const Var*> used;
    for (size_t d = 0; d < store->indices.size(); ++d) {
      const Var* variable = store->indices[d].as<Var>();
      const Expr& extent = store->buffer->shape[d];
      if (is_int(store->indices[d], 0) && is_int(extent, 1)) continue;
      const auto iter = std::find_if(block.f.iters.begin(), block.f.iters.end(),
                                     [&](const Iter& i) { return i.variable.get() == variable; });
      if (!variable || iter == block.f.iters.end() || !may_index(*iter) ||
          std::count(used.begin(), used.end(), variable) > 0 || !is_int(iter->domain.min, 0) ||
          constant_difference(iter->domain.extent, extent) != 0) {
        found =
            fmt::format("does not store to {} at its space iters, each over a whole dimension", store->buffer->name);
        return;
      }
      used.push_back(variable);
    }
    for (const Iter& iter : block.f.iters) {
      const bool used_here = std::count(used.begin(), used.end(), iter.variable.get()) > 0;
      if (may_index(iter) && !used_here && !is_int(iter.domain.extent, 1)) {
        found = fmt::format("stores to {} without iter {}", store->buffer->name, iter.variable->name);
      }
    }
  });
  return found;
}

bool starts_at_identity(const Block& block) {
  const std::optional<ReductionParts> parts = match_update(block);
  return parts && block.f.reducer && block.f.init && equal(block.f.init, make_init(*block.f.reducer, parts->outputs));
}

std::optional<ReductionParts> one_value_parts(const Block& block) {
  std::optional<ReductionParts> parts = match_update(block);
  const bool found = block.f.reducer && parts && starts_at_identity(block) && parts->outputs.size() == 1 &&
                     parts->lets.empty() && simple_op(*block.f.reducer);
  return found ? std::move(parts) : std::nullopt;
}

Expr term_without_lets(const ReductionParts& parts) {
  Substitution lets;
  for (const Stmt& s : parts.lets) lets[s.as<Let>()->variable.get()] = substitute(s.as<Let>()->value, lets);
  return substitute(parts.terms[0], lets);
}

Substitution iters_at(const Block& block, const std::vector<Expr>& stored, const std::vector<Expr>& indices) {
  Substitution iters;
  for (size_t d = 0; d < stored.size(); ++d) {
    if (const Var* iter = stored[d].as<Var>()) iters[iter] = indices[d];
  }
  for (const Iter& iter : block.f.iters) iters.try_emplace(iter.variable.get(), iter.domain.min);
  return iters;
}

Stmt with_iters(const Block& block, const std::function<void(Block::Fields&)>& change, const Substitution& places,
                const Bounds& around) {
  const Stmt made = with_fields(block, [&](Block::Fields& f) {
    change(f);
    Bounds bounds = around;
    for (const Iter& iter : f.iters) bounds.bind(iter.variable, iter.domain);
    const auto in_place = [&](const Stmt& s) { return simplify(substitute(s, places), bounds); };
    for (Region& region : f.reads) region = substitute(region, places);
    for (Region& region : f.writes) region = substitute(region, places);
    if (const auto parts = f.reducer ? match_update(block) : std::nullopt) {
      const auto place = [&](const Expr& e) { return simplify(substitute(e, places), bounds); };
      std::vector<ReductionOutput> outputs = parts->outputs;
      for (ReductionOutput& output : outputs) {
        for (Expr& e : output.indices) e = place(e);
      }
      std::vector<Stmt> lets;
      for (const Stmt& let : parts->lets)
        lets.push_back(Let::make(let.as<Let>()->variable, place(let.as<Let>()->value), Seq::make({})));
      std::vector<Expr> terms;
      for (const Expr& term : parts->terms) terms.push_back(place(term));
      // Simplified as a whole a term that is a place would take its name's place, and the update be none.
      f.body = make_update(*f.reducer, outputs, terms, lets);
    } else {
      f.body = in_place(f.body);
    }
    if (f.init) f.init = in_place(f.init);
  });
  return with_inferred_regions(*made.as<Block>());
}

std::string loop_name(const Block& block, size_t i) {
  if (const Var* variable = block.f.bindings[i].as<Var>()) return variable->name;
  const std::string& name = block.f.iters[i].variable->name;
  return name.size() > 1 && name[0] == 'v' ? name.substr(1) : name;
}

Stmt make_nest(const Block& block, const std::vector<Range>& ranges) {
  std::vector<VarRef> variables;
  variables.reserve(ranges.size());
  for (size_t i = 0; i < ranges.size(); ++i) variables.push_back(Var::make(loop_name(block, i)));
  Stmt nest = with_fields(block, [&](Block::Fields& f) {
    for (size_t i = 0; i < ranges.size(); ++i) {
      f.bindings[i] = is_int(ranges[i].extent, 1) ? ranges[i].min : ranges[i].min + Expr(variables[i]);
    }
  });
  for (size_t i = ranges.size(); i-- > 0;) {
    if (is_int(ranges[i].extent, 1)) continue;
    nest = For::make(variables[i], index(0), ranges[i].extent, ForKind::serial, std::move(nest));
  }
  return nest;
}

}  // namespace lathe
