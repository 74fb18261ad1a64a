#include "schedule/auto/join_reductions.h"

#include <fmt/format.h>

#include <algorithm>

#include "ir/structural.h"
#include "schedule/auto/block_model.h"
#include "schedule/primitives/join_loops.h"
#include "schedule/rewrite.h"

namespace lathe {
namespace {

/// Loops around one vectorized reduction alone, beside other statements; the outermost may have what folds a part of it
/// behind it (share_reductions).
struct Pass {
  size_t place;  ///< in the sequence
  std::vector<const For*> loops;
  Stmt at;
  std::int64_t partials = 1;  ///< vectors that it adds up in; 0 once it is joined to another
  const Block& block() const { return *at.as<Block>(); }
};

std::optional<Pass> pass_of(const Stmt& s, size_t place) {
  Pass pass{place, {}, s, 1};
  for (; pass.at.as<For>(); pass.at = pass.at.as<For>()->body) {
    const For* loop = pass.at.as<For>();
    const Seq* parts = pass.loops.empty() ? loop->body.as<Seq>() : nullptr;
    if (parts && parts->stmts.front().as<For>() && loop->for_kind == ForKind::serial) {
      pass.loops.push_back(loop);
      loop = parts->stmts.front().as<For>();
      pass.at = parts->stmts.front();
    }
    const std::int64_t* extent = as_int(loop->extent);
    if (loop->for_kind == ForKind::unrolled && extent) pass.partials *= *extent;
    pass.loops.push_back(loop);
  }
  if (pass.loops.size() < 2 || pass.loops.front()->for_kind != ForKind::serial ||
      pass.loops.back()->for_kind != ForKind::vectorized || !pass.at.as<Block>() || !pass.block().f.reducer)
    return std::nullopt;
  return pass;
}

/// Do their loops and iters agree one by one, and is there an element that both load at each place?
bool walk_alike(const Pass& first, const Pass& second) {
  const Block::Fields &a = first.block().f, &b = second.block().f;
  if (first.loops.size() != second.loops.size() || a.iters.size() != b.iters.size()) return false;
  Substitution variables;
  for (size_t i = 0; i < first.loops.size(); ++i) {
    const For &x = *first.loops[i], &y = *second.loops[i];
    if (x.for_kind != y.for_kind || !equal(x.min, y.min) || !equal(x.extent, y.extent)) return false;
    variables[y.variable.get()] = x.variable;
  }
  for (size_t i = 0; i < a.iters.size(); ++i) {
    if (a.iters[i].kind != b.iters[i].kind || !equal(a.iters[i].domain.extent, b.iters[i].domain.extent) ||
        !equal(a.bindings[i], substitute(b.bindings[i], variables)))
      return false;
  }
  const Accesses mine = block_accesses(first.block()), theirs = block_accesses(second.block());
  return std::any_of(mine.begin(), mine.end(), [&](const Access& access) {
    return !access.store && !writes(first.block(), access.buffer) &&
           std::any_of(theirs.begin(), theirs.end(), [&](const Access& other) {
             return !other.store && other.buffer == access.buffer && other.strides == access.strides;
           });
  });
}

/// Does what the second reads come from the first, through the statements between them?
bool waits_for(const std::vector<Stmt>& stmts, const Pass& first, const Pass& second) {
  std::vector<Buffer> results;
  for (const Region& region : first.block().f.writes) results.push_back(region.buffer);
  const auto reads_result = [&](const Block& block) {
    return std::any_of(results.begin(), results.end(), [&](const Buffer& buffer) { return reads(block, buffer); });
  };
  for (size_t i = first.place; i < second.place; ++i) {
    for (const Stmt& s : outer_blocks(stmts[i])) {
      if (!reads_result(*s.as<Block>())) continue;
      for (const Region& region : s.as<Block>()->f.writes) results.push_back(region.buffer);
    }
  }
  const std::vector<Stmt> waiting = outer_blocks(stmts[second.place]);
  return std::any_of(waiting.begin(), waiting.end(), [&](const Stmt& s) { return reads_result(*s.as<Block>()); });
}

bool join_passes(RuleContext& context, const Pass& first, const Pass& second) {
  Schedule& schedule = context.schedule;
  const std::string &mine = first.block().f.name, &theirs = second.block().f.name;
  return attempt(context, fmt::format("reduce {} and {} in one pass", mine, theirs), [&] {
    for (size_t i = 0; i < first.loops.size() && first.loops[i]->for_kind == ForKind::serial; ++i)
      join_loops(schedule, {first.loops[i]->variable}, {second.loops[i]->variable});
  });
}

/// Joins passes of one sequence; were there any?
bool join_in(RuleContext& context, const std::vector<Stmt>& stmts) {
  std::vector<Pass> passes;
  for (size_t i = 0; i < stmts.size(); ++i) {
    if (const auto pass = pass_of(stmts[i], i)) passes.push_back(*pass);
  }
  const std::int64_t room = context.device.vector_registers / 2;
  bool joined = false;
  for (size_t a = 0; a < passes.size(); ++a) {
    for (size_t b = a + 1; b < passes.size(); ++b) {
      Pass &first = passes[a], &second = passes[b];
      if (first.partials == 0 || second.partials == 0 || first.partials + second.partials > room ||
          !walk_alike(first, second) || waits_for(stmts, first, second) || !join_passes(context, first, second))
        continue;
      first.partials += second.partials;
      second.partials = 0;
      joined = true;
    }
  }
  return joined;
}

/// The statements that stand beside each other anywhere above blocks.
void find_sequences(const Stmt& s, std::vector<std::vector<Stmt>>& found) {
  if (const For* loop = s.as<For>()) return find_sequences(loop->body, found);
  if (const Block* block = s.as<Block>()) {
    if (has_blocks(*block)) find_sequences(block->f.body, found);
    return;
  }
  const Seq* seq = s.as<Seq>();
  if (!seq) return;
  found.push_back(seq->stmts);
  for (const Stmt& child : seq->stmts) find_sequences(child, found);
}

}  // namespace

void join_reductions(RuleContext& context) {
  // What is joined takes loops of other sequences along, those within its parts.
  for (bool joined = true; joined;) {
    std::vector<std::vector<Stmt>> sequences;
    find_sequences(context.schedule.func()->body, sequences);
    joined = std::any_of(sequences.begin(), sequences.end(),
                         [&](const std::vector<Stmt>& stmts) { return join_in(context, stmts); });
  }
}

}  // namespace lathe
