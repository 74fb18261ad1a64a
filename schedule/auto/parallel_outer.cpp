#include "schedule/auto/parallel_outer.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "schedule/access.h"
#include "schedule/auto/block_model.h"
#include "schedule/primitives/fuse.h"
#include "schedule/primitives/parallel.h"
#include "schedule/rewrite.h"

namespace lathe {
namespace {

/// A loop shorter than this stays on one thread: workers that sleep before a call's first loop take ten microseconds or
/// more to come.
constexpr double shared_nanoseconds = 40'000;
/// The same beside a longer loop, which wakes the workers in any case.
constexpr double awake_shared_nanoseconds = 6'000;
/// A task takes at least this, where there are as many: some times what starting and ending a loop takes. Many tasks
/// let workers that come late, or are slower, do less.
constexpr double task_nanoseconds = 5'000, awake_task_nanoseconds = 3'000;
/// Fewer iterations than this are not shared out evenly.
constexpr std::int64_t enough_iterations = 64;
/// But shares enough for each core are, where an iteration of a fused loop would take less than ten times what tells
/// its place: a division by a constant, or by an extent that is known at run time.
constexpr std::int64_t shares_a_core = 8;
constexpr double cheap_nanoseconds = 10, cheap_symbolic_nanoseconds = 100;

/// Does the block read lanes that do not lie side by side, as one does that turns its operand around?
bool gathers(const Block& block, const Var* lane) {
  for (const Access& access : block_accesses(block)) {
    if (access.store) continue;
    for (size_t i = 0; i < block.f.iters.size(); ++i) {
      if (uses_var(block.f.bindings[i], lane) && access.strides[i].value_or(2) > 1) return true;
    }
  }
  return false;
}

/// Estimated time of a statement, loops multiplied out; within vectors, of one of their lanes.
double nanoseconds(const Stmt& s, const Var* lane, const std::vector<Fact>& facts) {
  switch (s->kind) {
    case StmtKind::For: {
      const For* loop = s.as<For>();
      return static_cast<double>(extent_estimate(loop->extent, facts)) *
             nanoseconds(loop->body, loop->for_kind == ForKind::vectorized ? loop->variable.get() : lane, facts);
    }
    case StmtKind::Seq: {
      double total = 0;
      for (const Stmt& child : s.as<Seq>()->stmts) total += nanoseconds(child, lane, facts);
      return total;
    }
    case StmtKind::Block: {
      const Block* block = s.as<Block>();
      if (has_blocks(*block)) return nanoseconds(block->f.body, lane, facts);
      // Lanes that are put together by shuffles take half of what they take one by one.
      if (lane && !block->f.reducer && gathers(*block, lane)) return 0.5 * instance_nanoseconds(*block, false);
      return instance_nanoseconds(*block, lane != nullptr);
    }
    case StmtKind::If: {
      const If* choice = s.as<If>();
      return std::max(nanoseconds(choice->then_case, lane, facts),
                      choice->else_case ? nanoseconds(choice->else_case, lane, facts) : 0.0);
    }
    default:
      return 1;
  }
}

bool shares_out(const Stmt& loop) {
  const For* node = loop.as<For>();
  if (!node || node->for_kind != ForKind::serial) return false;
  for (const Stmt& s : outer_blocks(node->body)) {
    const Block& block = *s.as<Block>();
    bool bound = false;
    for (size_t i = 0; i < block.f.iters.size(); ++i) {
      if (!uses_var(block.f.bindings[i], node->variable.get())) continue;
      if (block.f.iters[i].kind != IterKind::space) return false;
      bound = true;
    }
    if (!bound && node->body.as<For>()) return false;
  }
  return true;
}

/// A condition on a loop is decided for all but a few of its iterations; of a fused one it would not be.
bool in_a_predicate(const Stmt& nest, const VarRef& variable) {
  bool found = false;
  for (const Stmt& s : outer_blocks(nest)) {
    const Expr& predicate = s.as<Block>()->f.predicate;
    found |= predicate && uses_var(predicate, variable.get());
  }
  return found;
}

/// A loop that can be shared out, and what it takes.
struct Shared {
  Stmt loop;
  double nanoseconds;
};

}  // namespace

void parallel_outer(RuleContext& context) {
  Schedule& schedule = context.schedule;
  const std::vector<Fact> facts = schedule.func()->facts;
  const Block* root = root_block(schedule.func());
  const Stmt& body = root ? root->f.body : schedule.func()->body;
  const std::vector<Stmt> nests = body.as<Seq>() ? body.as<Seq>()->stmts : std::vector<Stmt>{body};
  std::vector<Shared> shared;
  double longest = 0;
  for (const Stmt& nest : nests) {
    // The outermost loop that can be shared out: one above it may drive only some of the blocks.
    Stmt candidate = nest;
    double time = nanoseconds(nest, nullptr, facts);
    while (candidate.as<For>() && candidate.as<For>()->for_kind == ForKind::serial && !shares_out(candidate)) {
      time /= static_cast<double>(std::max<std::int64_t>(1, extent_estimate(candidate.as<For>()->extent, facts)));
      candidate = candidate.as<For>()->body;
    }
    if (!shares_out(candidate)) continue;
    shared.push_back({candidate, time});
    longest = std::max(longest, time);
  }
  if (longest < shared_nanoseconds) return;
  for (const auto& [candidate, time] : shared) {
    if (time < awake_shared_nanoseconds) continue;
    const double task = time < shared_nanoseconds ? awake_task_nanoseconds : task_nanoseconds;
    const For* loop = candidate.as<For>();
    attempt(context, fmt::format("parallel over {}, about {:.0f} us", loop->variable->name, time / 1000), [&] {
      LoopRef outer{loop->variable};
      std::int64_t iterations = extent_estimate(loop->extent, facts);
      while (iterations < enough_iterations) {
        const Stmt inner = schedule.node(outer).body;
        if (!shares_out(inner)) break;
        const VarRef& variable = inner.as<For>()->variable;
        const std::int64_t fused = iterations * extent_estimate(inner.as<For>()->extent, facts);
        const double cheap = as_int(inner.as<For>()->extent) ? cheap_nanoseconds : cheap_symbolic_nanoseconds;
        if (iterations >= shares_a_core * context.device.cores &&
            time < cheap * static_cast<double>(std::max(iterations, fused)))
          break;
        const bool conditional = in_a_predicate(inner, outer.variable) || in_a_predicate(inner, variable);
        if (conditional && iterations > 1) break;
        // What is done once leaves the loop within to be shared out as it is.
        outer = conditional ? LoopRef{variable} : fuse(schedule, outer, {variable});
        iterations = fused;
        if (conditional) break;
      }
      const double each = time / static_cast<double>(std::max<std::int64_t>(1, iterations));
      const auto grain = static_cast<std::int64_t>(std::ceil(task / std::max(each, 1e-3)));
      parallel(schedule, outer, std::max<std::int64_t>(1, grain));
    });
  }
}

}  // namespace lathe
