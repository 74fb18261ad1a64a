#include "schedule/primitives/reorder.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "ir/analysis/regions.h"
#include "schedule/carried.h"
#include "schedule/commutes.h"
#include "schedule/rewrite.h"

namespace lathe {
namespace {

bool binds_in_order(const Block& block, const Var* variable) {
  for (size_t i = 0; i < block.f.iters.size(); ++i) {
    const IterKind kind = block.f.iters[i].kind;
    if ((kind == IterKind::ordered || kind == IterKind::opaque) && uses_var(block.f.bindings[i], variable)) return true;
  }
  return false;
}

/// Is the block a reduction that takes its terms in the order of its loops?
bool folds_in_order(const Block& block) {
  return block.f.reducer && !folds_in_any_order(*block.f.reducer);
}

/// Do instances meet in the elements alone that they add to, by what the block declares: no iter runs in order, each
/// space iter is an index of whatever is written, and nothing else is read of that?
bool runs_in_any_order(const Block& block) {
  if (folds_in_order(block)) return false;
  const auto is_index = [](const Iter& iter, const Region& region) {
    return is_int(iter.domain.extent, 1) ||
           std::any_of(region.ranges.begin(), region.ranges.end(),
                       [&](const Range& range) { return range.min == Expr(iter.variable) && is_int(range.extent, 1); });
  };
  for (const Region& written : block.f.writes) {
    if (is_hint(written) || written.buffer->view_of) return false;
    for (const Iter& iter : block.f.iters) {
      if (iter.kind != IterKind::reduce && (iter.kind != IterKind::space || !is_index(iter, written))) return false;
    }
    for (const Region& read : block.f.reads) {
      if (read.buffer->view_of || (read.buffer == written.buffer && !identical(read, written))) return false;
    }
  }
  return true;
}

/// An order is broken where a loop q runs on and a loop p inside it runs back, p comes to stand around q, and nothing
/// around q before, or around p after, runs at all: so it is enough to look at the pairs of loops that change places.
void check_order_of_accesses(const Schedule& schedule, const std::string& application, const Path& outermost,
                             const std::vector<const For*>& chain, const std::vector<const For*>& target,
                             bool with_reductions) {
  const NestDependences nest(chain, bounds_at(schedule.func(), outermost));
  const auto new_place = [&](const For* loop) {
    return std::find(target.begin(), target.end(), loop) - target.begin();
  };
  for (size_t q = 0; q < chain.size(); ++q) {
    for (size_t p = q + 1; p < chain.size(); ++p) {
      const auto q_after = new_place(chain[q]), p_after = new_place(chain[p]);
      if (q_after < p_after) continue;
      std::vector<Direction> directions(chain.size(), Direction::any);
      for (size_t i = 0; i < q; ++i) directions[i] = Direction::equal;
      for (size_t i = 0; i < chain.size(); ++i) {
        if (new_place(chain[i]) < p_after) directions[i] = Direction::equal;
      }
      directions[q] = Direction::later;
      directions[p] = Direction::earlier;
      const auto found = nest.find(directions, 1, with_reductions);
      if (found.empty()) continue;
      refuse_carried(schedule, application, 6,
                     "no two instances of the block that meet in an element, which one of them writes, change their "
                     "order",
                     found.front(), chain);
    }
  }
}

}  // namespace

void reorder(Schedule& schedule, const std::vector<LoopRef>& order) {
  if (order.size() < 2) return;
  std::vector<std::string> places;
  places.reserve(order.size());
  for (const LoopRef& loop : order) places.push_back(schedule.place(loop));
  const std::string application = fmt::format("reorder({})", fmt::join(places, ", "));

  Path outermost, innermost;
  for (const LoopRef& loop : order) {
    Path path = path_to(schedule, loop);
    if (outermost.empty() || path.size() < outermost.size()) outermost = path;
    if (path.size() > innermost.size()) innermost = std::move(path);
  }
  const std::string nested = "the loops are distinct and nest in each other, with nothing beside them";
  std::vector<const For*> chain;
  for (size_t level = outermost.size() - 1; level < innermost.size(); ++level) {
    const For* loop = innermost[level].as<For>();
    if (!loop || innermost[outermost.size() - 1] != outermost.back()) {
      refuse(schedule, application, 1, nested, innermost[level], "lies beside or between them");
    }
    chain.push_back(loop);
  }
  const auto position = [&](const LoopRef& loop) {
    return std::find_if(chain.begin(), chain.end(), [&](const For* node) { return node->variable == loop.variable; });
  };
  for (size_t i = 0; i < order.size(); ++i) {
    if (position(order[i]) == chain.end() || std::count(order.begin(), order.end(), order[i]) > 1) {
      refuse(schedule, application, 1, nested, path_to(schedule, order[i]).back(),
             "is not in the nest, or given twice");
    }
  }

  std::vector<const For*> target = chain;
  size_t next = 0;
  for (const For*& slot : target) {
    const bool named =
        std::any_of(order.begin(), order.end(), [&](const LoopRef& l) { return l.variable == slot->variable; });
    if (named) slot = *position(order[next++]);
  }
  for (size_t i = 0; i < target.size(); ++i) {
    for (size_t j = i + 1; j < target.size(); ++j) {
      const Var* inner = target[j]->variable.get();
      if (uses_var(target[i]->min, inner) || uses_var(target[i]->extent, inner)) {
        refuse(schedule, application, 2,
               "no loop's bounds use the variable of a loop that would come to stand inside it", Stmt(target[i]),
               "has bounds that use " + inner->name);
      }
    }
  }
  const Stmt& below = chain.back()->body;
  const std::vector<Stmt> blocks = outer_blocks(below), bare = bare_statements(below);
  if (blocks.size() != 1 || !bare.empty()) {
    refuse(schedule, application, 3, "one block lies below them", below,
           fmt::format("holds {} blocks and {} other statements", blocks.size(), bare.size()));
  }
  const Block& block = *blocks.front().as<Block>();
  std::vector<const For*> before, after;
  for (const For* loop : chain) {
    if (binds_in_order(block, loop->variable.get())) before.push_back(loop);
  }
  for (const For* loop : target) {
    if (binds_in_order(block, loop->variable.get())) after.push_back(loop);
  }
  if (before != after) {
    refuse(schedule, application, 4, "loops that bind ordered or opaque iters keep their order among each other",
           blocks.front(), "runs its instances in order");
  }
  for (size_t i = 0; i < chain.size(); ++i) {
    if (chain[i] != target[i] && chain[i]->for_kind == ForKind::vectorized) {
      refuse(schedule, application, 5, "no loop that moves is vectorized", Stmt(chain[i]), "is vectorized");
    }
  }
  for (size_t i = 0; block.f.init && i < chain.size(); ++i) {
    if (chain[i] == target[i] || !drives(block, IterKind::space, *chain[i]) ||
        !drives(block, IterKind::reduce, *chain[i]))
      continue;
    refuse(schedule, application, 7,
           "no loop that moves drives both a space and a reduce iter of a block with an init, which comes first",
           Stmt(chain[i]), fmt::format("drives both in block {}", block.f.name));
  }
  if (!runs_in_any_order(block))
    check_order_of_accesses(schedule, application, outermost, chain, target, folds_in_order(block));
  Stmt body = below;
  for (size_t i = target.size(); i-- > 0;) body = with_body(*target[i], std::move(body));
  schedule.commit(replace_last(outermost, body), application);
}

}  // namespace lathe
