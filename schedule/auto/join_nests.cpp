#include "schedule/auto/join_nests.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "schedule/access.h"
#include "schedule/auto/block_model.h"
#include "schedule/auto/choice_points.h"
#include "schedule/auto/contraction.h"
#include "schedule/complete.h"
#include "schedule/primitives/join_blocks.h"
#include "schedule/primitives/join_loops.h"
#include "schedule/rewrite.h"

namespace lathe {
namespace {

/// More streams of stores at once than this are no longer combined into whole lines (write-combining buffers of recent
/// x86 cores: 8 to 12).
constexpr size_t most_stores = 6;

/// A loop beside others, and the blocks below it, which no rule has placed.
struct Nest {
  Stmt loop;
  std::vector<Stmt> blocks;
  const For& node() const { return *loop.as<For>(); }
};

/// The nests among these statements that may be joined.
std::vector<Nest> nests_of(const RuleContext& context, const std::vector<Stmt>& stmts) {
  std::vector<Nest> nests;
  for (const Stmt& s : stmts) {
    if (!s.as<For>() || s.as<For>()->for_kind != ForKind::serial || !bare_statements(s).empty()) continue;
    Nest nest{s, outer_blocks(s)};
    const bool joins = std::all_of(nest.blocks.begin(), nest.blocks.end(),
                                   [&](const Stmt& at) { return may_join(context, *at.as<Block>()); });
    if (joins) nests.push_back(std::move(nest));
  }
  return nests;
}

/// The same of those outermost, in program order.
std::vector<Nest> nests_of(const RuleContext& context) {
  return nests_of(context, outermost_statements(context.schedule.func()));
}

/// The loops around the only block of a nest, when each drives one of its iters, in order.
std::vector<LoopRef> plain_loops(const Nest& nest) {
  if (nest.blocks.size() != 1) return {};
  const Block& block = *nest.blocks[0].as<Block>();
  if (block.f.reducer || block.f.predicate) return {};
  std::vector<LoopRef> loops;
  Stmt at = nest.loop;
  size_t iter = 0;
  for (; at.as<For>(); at = at.as<For>()->body) {
    const For& loop = *at.as<For>();
    while (iter < block.f.iters.size() && is_int(block.f.iters[iter].domain.extent, 1)) ++iter;
    if (iter == block.f.iters.size() || block.f.iters[iter].kind != IterKind::space ||
        block.f.bindings[iter] != Expr(loop.variable) || loop.for_kind != ForKind::serial)
      return {};
    loops.push_back({loop.variable});
    ++iter;
  }
  return at == nest.blocks[0] ? loops : std::vector<LoopRef>{};
}

/// Does every access walk along the innermost loop's iter or stand still?
bool streams(const Block& block, const std::vector<Access>& accesses) {
  size_t last = block.f.iters.size();
  while (last > 0 && is_int(block.f.iters[last - 1].domain.extent, 1)) --last;
  if (last == 0) return false;
  return std::all_of(accesses.begin(), accesses.end(), [&](const Access& access) {
    const std::optional<std::int64_t>& stride = access.strides[last - 1];
    return !access.masked && (stride == 1 || (stride == 0 && !access.store));
  });
}

/// Do the blocks load an element that both want, or the second what the first stores, for every place of the domain?
bool share_elements(const std::vector<Access>& first, const std::vector<Access>& second, const Block& block) {
  for (const Access& a : first) {
    for (const Access& b : second) {
      if (a.buffer != b.buffer || b.store || a.strides != b.strides) continue;
      bool moves = true;
      for (size_t i = 0; i < block.f.iters.size(); ++i)
        moves &= is_int(block.f.iters[i].domain.extent, 1) || a.strides[i].value_or(0) != 0;
      if (moves) return true;
    }
  }
  return false;
}

size_t stores_of(const std::vector<Access>& accesses) {
  return static_cast<size_t>(
      std::count_if(accesses.begin(), accesses.end(), [](const Access& access) { return access.store; }));
}

/// Joins two element-wise nests into one block.
bool join_elementwise(RuleContext& context, const Nest& first, const Nest& second) {
  const std::vector<LoopRef> loops = plain_loops(first), others = plain_loops(second);
  if (loops.empty() || loops.size() != others.size()) return false;
  Schedule& schedule = context.schedule;
  for (size_t i = 0; i < loops.size(); ++i) {
    if (constant_difference(schedule.node(loops[i]).extent, schedule.node(others[i]).extent) != 0) return false;
  }
  const Block &a = *first.blocks[0].as<Block>(), &b = *second.blocks[0].as<Block>();
  if (a.f.iters.size() != b.f.iters.size()) return false;
  const Accesses mine = block_accesses(a), theirs = block_accesses(b);
  if (!streams(a, mine) || !streams(b, theirs) || stores_of(mine) + stores_of(theirs) > most_stores ||
      !share_elements(mine, theirs, a))
    return false;
  return attempt(context, fmt::format("compute {} and {} together", a.f.name, b.f.name), [&] {
    for (size_t i = 0; i < loops.size(); ++i) join_loops(schedule, loops[i], others[i]);
    join_blocks(schedule, {a.f.name}, {b.f.name});
  });
}

/// How a nest touches a buffer by its outermost loop.
struct Rows {
  std::optional<size_t> dimension;  ///< which the loop walks; nothing where an iteration touches all of it
  double bytes = 0;                 ///< of an iteration
};

/// The space iter that the outermost loop of a nest moves.
std::optional<size_t> row_iter(const Block& block, const VarRef& loop) {
  const std::optional<size_t> outer = iter_moved_by(block, loop);
  return outer && block.f.iters[*outer].kind == IterKind::space ? outer : std::nullopt;
}

/// How a region is touched by rows of the iter; nothing where they lie across memory, or are short.
std::optional<Rows> rows_of(const RuleContext& context, const Region& region, const VarRef& row) {
  const std::vector<Fact>& facts = context.schedule.func()->facts;
  const auto element = static_cast<double>(region.buffer->dtype.bytes());
  Rows rows;
  rows.bytes = estimated_elements(region.buffer, facts) * element;
  for (size_t d = 0; d < region.ranges.size(); ++d) {
    if (!uses_var(region.ranges[d].min, row.get()) && !uses_var(region.ranges[d].extent, row.get())) continue;
    if (rows.dimension || region.ranges[d].min != Expr(row) || !is_int(region.ranges[d].extent, 1)) return std::nullopt;
    rows.dimension = d;
    std::int64_t within = 1;
    for (size_t inner = d + 1; inner < region.ranges.size(); ++inner)
      within *= extent_estimate(region.buffer->shape[inner], facts);
    rows.bytes /= static_cast<double>(extent_estimate(region.buffer->shape[d], facts));
    // One value a row is no row.
    if (rows.bytes > element && within < least_row_vectors * context.device.lanes(region.buffer->dtype.bits))
      return std::nullopt;
  }
  return rows;
}

/// The same of every buffer that a nest touches.
std::optional<std::map<const BufferNode*, Rows>> rows_of(const RuleContext& context, const Nest& nest) {
  std::map<const BufferNode*, Rows> rows;
  for (const Stmt& s : nest.blocks) {
    const Block& block = *s.as<Block>();
    const std::optional<size_t> outer = row_iter(block, nest.node().variable);
    if (!outer) return std::nullopt;
    for (const std::vector<Region>* regions : {&block.f.reads, &block.f.writes}) {
      for (const Region& region : *regions) {
        const std::optional<Rows> here = rows_of(context, region, block.f.iters[*outer].variable);
        if (!here) return std::nullopt;
        const auto [known, fresh] = rows.emplace(region.buffer.get(), *here);
        if (!fresh && known->second.dimension != here->dimension) return std::nullopt;
      }
    }
  }
  return rows;
}

/// Does the nest's loop walk along what a block of it joins of many operands? It is cut into parts (cut_choices).
bool walks_operands(const Nest& nest) {
  return std::any_of(nest.blocks.begin(), nest.blocks.end(), [&](const Stmt& s) {
    const Block& block = *s.as<Block>();
    const std::optional<JoinedAxis> joined = joined_axis(block);
    return joined && uses_var(block.f.bindings[joined->iter], nest.node().variable.get());
  });
}

/// Gives two nests that share rows one loop over them.
bool join_over_rows(RuleContext& context, const Nest& first, const Nest& second) {
  Schedule& schedule = context.schedule;
  if (walks_operands(first) || walks_operands(second)) return false;
  if (constant_difference(first.node().extent, second.node().extent) != 0 || context.device.caches.empty())
    return false;
  const auto mine = rows_of(context, first), theirs = rows_of(context, second);
  if (!mine || !theirs) return false;
  const auto rows = static_cast<double>(extent_estimate(first.node().extent, schedule.func()->facts));
  double shared = 0, bytes = 0;
  for (const auto& [buffer, row] : *mine) {
    bytes += row.bytes;
    const auto other = theirs->find(buffer);
    if (other == theirs->end() || !row.dimension) continue;
    if (other->second.dimension != row.dimension) return false;
    const bool is_row = row.bytes > static_cast<double>(buffer->dtype.bytes());
    shared += is_row ? row.bytes * rows : 0;
  }
  for (const auto& [buffer, row] : *theirs) bytes += mine->contains(buffer) ? 0 : row.bytes;
  if (shared <= static_cast<double>(context.device.caches[0].bytes) ||
      2 * bytes > static_cast<double>(own_cache_bytes(context.device)))
    return false;
  const std::string names =
      fmt::format("{} and {}", schedule.place({first.node().variable}), schedule.place({second.node().variable}));
  return attempt(context, fmt::format("join {}, which share {:.0f} bytes of rows", names, shared),
                 [&] { join_loops(schedule, {first.node().variable}, {second.node().variable}); });
}

/// Do two reductions over the same domains, along memory, load an element that both want at every place, of an array
/// that the first cache does not hold, and does the second not wait for the first?
bool share_terms(const RuleContext& context, const Block& a, const Block& b) {
  if (!a.f.reducer || !b.f.reducer || a.f.iters.size() != b.f.iters.size() || reads(b, a.f.writes[0].buffer))
    return false;
  for (size_t i = 0; i < a.f.iters.size(); ++i) {
    const Iter &mine = a.f.iters[i], &other = b.f.iters[i];
    if (mine.kind != other.kind || constant_difference(mine.domain.extent, other.domain.extent) != 0) return false;
  }
  const bool near = std::none_of(a.f.reads.begin(), a.f.reads.end(), [&](const Region& region) {
    return reads(b, region.buffer) && static_cast<double>(region.buffer->dtype.bytes()) *
                                              estimated_elements(region.buffer, context.schedule.func()->facts) >
                                          static_cast<double>(context.device.caches[0].bytes);
  });
  if (near) return false;
  const std::optional<ReductionShape> first = reduction_shape(a), second = reduction_shape(b);
  const Accesses mine = block_accesses(a), theirs = block_accesses(b);
  return first && second && first->vector_reduce && first->vector_reduce == second->vector_reduce &&
         share_elements(mine, theirs, a);
}

/// Gives two nests one loop for each dimension of results of reductions that share their terms: join_reductions joins
/// the walks.
bool join_over_terms(RuleContext& context, const Nest& first, const Nest& second) {
  Schedule& schedule = context.schedule;
  if (context.device.caches.empty()) return false;
  for (const Stmt& a : first.blocks) {
    for (const Stmt& b : second.blocks) {
      const Block &mine = *a.as<Block>(), &other = *b.as<Block>();
      if (!share_terms(context, mine, other)) continue;
      // From the nests' own loops on, as those around both are one already.
      std::vector<std::pair<LoopRef, LoopRef>> pairs;
      const std::vector<LoopRef> loops = schedule.loops({mine.f.name}), others = schedule.loops({other.f.name});
      auto one = std::find(loops.begin(), loops.end(), LoopRef{first.node().variable}),
           two = std::find(others.begin(), others.end(), LoopRef{second.node().variable});
      for (; one != loops.end() && two != others.end(); ++one, ++two) {
        if (drives(mine, IterKind::reduce, schedule.node(*one)) || drives(other, IterKind::reduce, schedule.node(*two)))
          break;
        pairs.emplace_back(*one, *two);
      }
      if (pairs.empty()) continue;
      return attempt(context, fmt::format("join {} and {}, which share terms", mine.f.name, other.f.name), [&] {
        for (const auto& [before, behind] : pairs) join_loops(schedule, before, behind);
      });
    }
  }
  return false;
}

bool share_a_buffer(const Nest& first, const Nest& second) {
  const auto touched = [&](const Region& region) {
    return std::any_of(second.blocks.begin(), second.blocks.end(), [&](const Stmt& s) {
      return reads(*s.as<Block>(), region.buffer) || writes(*s.as<Block>(), region.buffer);
    });
  };
  return std::any_of(first.blocks.begin(), first.blocks.end(), [&](const Stmt& s) {
    const Block::Fields& f = s.as<Block>()->f;
    return std::any_of(f.reads.begin(), f.reads.end(), touched) ||
           std::any_of(f.writes.begin(), f.writes.end(), touched);
  });
}

using Pairs = std::set<std::pair<const Var*, const Var*>>;

/// Joins nests that stand beside each other under loops, and share their terms; says whether it joined some. Pairs that
/// were looked at stay apart.
bool join_within(RuleContext& context, const Stmt& s, Pairs& apart) {
  if (const For* loop = s.as<For>()) return join_within(context, loop->body, apart);
  const Seq* seq = s.as<Seq>();
  if (!seq) return false;
  const std::vector<Nest> nests = nests_of(context, seq->stmts);
  for (size_t b = 1; b < nests.size(); ++b) {
    for (size_t a = 0; a < b; ++a) {
      if (apart.emplace(nests[a].node().variable.get(), nests[b].node().variable.get()).second &&
          join_over_terms(context, nests[a], nests[b]))
        return true;
    }
  }
  return std::any_of(seq->stmts.begin(), seq->stmts.end(),
                     [&](const Stmt& at) { return join_within(context, at, apart); });
}

}  // namespace

void join_nests(RuleContext& context) {
  // By the variables of their loops; a joined one keeps that of the first.
  Pairs apart;
  std::vector<Nest> nests = nests_of(context);
  for (size_t b = 1; b < nests.size();) {
    const Var* const behind = nests[b].node().variable.get();
    const Var* joined = nullptr;
    for (size_t a = b; a-- > 0 && !joined;) {
      const Var* const before = nests[a].node().variable.get();
      if (!apart.emplace(before, behind).second || !share_a_buffer(nests[a], nests[b])) continue;
      if (join_elementwise(context, nests[a], nests[b]) || join_over_rows(context, nests[a], nests[b]) ||
          join_over_terms(context, nests[a], nests[b]))
        joined = before;
    }
    if (!joined) {
      ++b;
      continue;
    }
    std::erase_if(apart, [&](const auto& pair) { return pair.first == joined || pair.second == joined; });
    nests = nests_of(context);
    b = 1;
  }
  Pairs looked_at;
  const auto joins_one = [&] {
    const std::vector<Stmt> all = outermost_statements(context.schedule.func());
    return std::any_of(all.begin(), all.end(), [&](const Stmt& s) {
      return s.as<For>() && join_within(context, s.as<For>()->body, looked_at);
    });
  };
  while (joins_one()) {
  }
}

}  // namespace lathe
