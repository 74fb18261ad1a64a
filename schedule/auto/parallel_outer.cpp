#include "schedule/auto/parallel_outer.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "schedule/access.h"
#include "schedule/auto/block_model.h"
#include "schedule/primitives/distribute.h"
#include "schedule/primitives/fuse.h"
#include "schedule/primitives/join_loops.h"
#include "schedule/primitives/parallel.h"
#include "schedule/rewrite.h"

namespace lathe {
namespace {

/// Beside a longer loop, which wakes the workers in any case, shorter ones than `shared_nanoseconds` are shared out
/// too.
constexpr double awake_shared_nanoseconds = 6'000;
/// But a loop that takes so small a share of what each core has of that is not worth being compiled as a function of
/// its own. Tiles take a half to a third of what is estimated. Measured on Zen 4, two threads: padded copies beside 3x3
/// at 33 with dilation 6 0.8 of the time, beside 128 channels at 28 0.97, on two chiplets, where half as many lines
/// then go across, 0.9; rows of 512x512x512 that are turned around 0.95 and 0.85.
constexpr double least_share = 0.004;
/// A task takes at least this, where there are as many: some times what starting and ending a loop takes. Many tasks
/// let workers that come late, or are slower, do less.
constexpr double task_nanoseconds = 3'000;
/// Fewer iterations than this, or so many a core, are not shared out evenly.
constexpr std::int64_t enough_iterations = 64, iterations_a_core = 4;
/// But shares enough for each core are, where an iteration of a fused loop would take less than ten times what tells
/// its place: a division by a constant, or by an extent that is known at run time.
constexpr std::int64_t shares_a_core = 8;
constexpr double cheap_nanoseconds = 10, cheap_symbolic_nanoseconds = 100;
/// A loop is parted where the parts, each of which waits so long for all cores, then take at most this share of its
/// time.
constexpr double waiting_nanoseconds = 5'000, worth_parts = 0.85;
/// The share of a nest's time on which conditions may stay where that gives all cores something to do.
constexpr double most_conditional = 0.15;

/// Of what is bound to a loop that took the place of several, a digit that changes after a whole row of the others.
bool is_slow_digit(const Expr& binding) {
  const Binary* digit = binding.as<Binary>();
  if (digit && digit->op == BinaryOp::floor_mod) digit = digit->a.as<Binary>();
  return digit && digit->op == BinaryOp::floor_div;
}

/// Does the block read lanes that do not lie side by side, as one does that turns its operand around?
bool gathers(const Block& block, const Var* lane) {
  for (const Access& access : block_accesses(block)) {
    if (access.store) continue;
    for (size_t i = 0; i < block.f.iters.size(); ++i) {
      if (!uses_var(block.f.bindings[i], lane) || is_slow_digit(block.f.bindings[i])) continue;
      if (access.strides[i].value_or(2) > 1) return true;
    }
  }
  return false;
}

/// Estimated time of a statement, loops multiplied out; within vectors, of one of their lanes. With `condition_on` that
/// of blocks alone whose predicates use the variable: such a condition is decided for all but a few of a loop's
/// iterations; of a fused loop's it would not be.
double nanoseconds(const Stmt& s, const Var* lane, const std::vector<Fact>& facts, const Var* condition_on = nullptr) {
  switch (s->kind) {
    case StmtKind::For: {
      const For* loop = s.as<For>();
      const Var* inner = loop->for_kind == ForKind::vectorized ? loop->variable.get() : lane;
      return static_cast<double>(extent_estimate(loop->extent, facts)) *
             nanoseconds(loop->body, inner, facts, condition_on);
    }
    case StmtKind::Seq: {
      double total = 0;
      for (const Stmt& child : s.as<Seq>()->stmts) total += nanoseconds(child, lane, facts, condition_on);
      return total;
    }
    case StmtKind::Block: {
      const Block* block = s.as<Block>();
      if (condition_on && (!block->f.predicate || !uses_var(block->f.predicate, condition_on))) return 0;
      if (has_blocks(*block)) return nanoseconds(block->f.body, lane, facts);
      if (lane && !block->f.reducer && gathers(*block, lane)) return shuffled_nanoseconds(*block, facts);
      return instance_nanoseconds(*block, lane != nullptr, facts);
    }
    case StmtKind::If: {
      const If* choice = s.as<If>();
      return std::max(nanoseconds(choice->then_case, lane, facts, condition_on),
                      choice->else_case ? nanoseconds(choice->else_case, lane, facts, condition_on) : 0.0);
    }
    default:
      return condition_on ? 0 : 1;
  }
}

/// May iterations of the loop run at once? Some below a loop of its own body may be there for several of them
/// (`repeats`), each of which then does it for itself.
bool shares_out(const Stmt& loop, bool repeats = false) {
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
    if (!bound && !repeats && node->body.as<For>()) return false;
  }
  return true;
}

/// A loop that can be shared out, and what it takes; `repeating`: one around it whose iterations do some of it again
/// each, which divides more evenly.
struct Shared {
  Stmt loop;
  double nanoseconds;
  Stmt repeating = {};
};

/// Loops that become one loop to be shared out, from one inward: its iterations, and what it holds.
struct Chain {
  std::vector<LoopRef> loops;
  std::int64_t iterations;
  Stmt body;
};

/// Shares the loops of a Func out among the cores.
class Sharer {
 public:
  explicit Sharer(RuleContext& context)
      : context_(context), schedule_(context.schedule), facts_(schedule_.func()->facts), cores_(context.device.cores) {}

  void run() {
    join_shares();
    std::vector<Shared> shared;
    double longest = 0;
    for (const Stmt& nest : outermost_statements(schedule_.func())) {
      if (const auto found = find_shared(nest)) {
        longest = std::max(longest, found->nanoseconds);
        shared.push_back(*found);
      }
    }
    if (longest < shared_nanoseconds) return;
    for (const Shared& one : shared) {
      if (one.nanoseconds < std::max(awake_shared_nanoseconds, least_share * longest / static_cast<double>(cores_)) ||
          (one.repeating && share_repeating(one)))
        continue;
      if (!share_parts(one)) share(one);
    }
  }

 private:
  /// Nests of an iteration for each core at the most, as the passes of a softmax over blocks of columns are, become
  /// one: a function less to compile, and a wait less for the others.
  void join_shares() {
    if (cores_ == 1) return;
    std::vector<Stmt> nests = outermost_statements(schedule_.func());
    for (size_t i = 0; i + 1 < nests.size();) {
      if (join_share(nests[i], nests[i + 1])) {
        nests = outermost_statements(schedule_.func());
      } else {
        ++i;
      }
    }
  }

  bool join_share(const Stmt& nest, const Stmt& next) {
    if (!is_share(nest) || !is_share(next) || iterations_of(nest) != iterations_of(next) ||
        nanoseconds(nest, nullptr, facts_) + nanoseconds(next, nullptr, facts_) < shared_nanoseconds)
      return false;
    const VarRef first = nest.as<For>()->variable, second = next.as<For>()->variable;
    return attempt(context_, fmt::format("share {} out with {}", second->name, first->name),
                   [&] { join_loops(schedule_, {first}, {second}); });
  }

  /// A loop of an iteration for each core at the most.
  bool is_share(const Stmt& nest) const {
    return shares_out(nest) && iterations_of(nest) > 1 && iterations_of(nest) <= cores_;
  }

  /// The outermost loop that can be shared out: one above it may drive only some of the blocks.
  std::optional<Shared> find_shared(const Stmt& nest) const {
    Stmt candidate = nest;
    double time = nanoseconds(nest, nullptr, facts_);
    Stmt around;
    while (candidate.as<For>() && candidate.as<For>()->for_kind == ForKind::serial && !shares_out(candidate)) {
      around = candidate;
      time /= static_cast<double>(std::max<std::int64_t>(1, iterations_of(candidate)));
      candidate = candidate.as<For>()->body;
    }
    if (!shares_out(candidate)) return std::nullopt;
    Shared shared{candidate, time};
    if (around && shares_out(around, true) &&
        longest_share(context_.device, iterations_of(around)) <
            worth_parts * longest_share(context_.device, chain_of(candidate, time).iterations))
      shared.repeating = around;
    return shared;
  }

  std::int64_t iterations_of(const Stmt& loop) const { return extent_estimate(loop.as<For>()->extent, facts_); }

  /// Do conditions on the variable keep its loop from becoming one with another, which alone has so many iterations?
  /// Cores that have nothing to do cost more than conditions on a little of the work.
  bool is_conditional(const Stmt& nest, const VarRef& variable, std::int64_t iterations) const {
    const double conditional = nanoseconds(nest, nullptr, facts_, variable.get());
    return conditional > 0 &&
           (iterations >= cores_ || conditional > most_conditional * nanoseconds(nest, nullptr, facts_));
  }

  /// The loops that are to become one with `loop`, which takes so long.
  Chain chain_of(const Stmt& loop, double time) const {
    Chain chain{{{loop.as<For>()->variable}}, iterations_of(loop), loop.as<For>()->body};
    while (chain.iterations < std::max<std::int64_t>(enough_iterations, iterations_a_core * cores_)) {
      if (!shares_out(chain.body)) break;
      const For& inner = *chain.body.as<For>();
      const std::int64_t fused = chain.iterations * iterations_of(chain.body);
      const double cheap = as_int(inner.extent) ? cheap_nanoseconds : cheap_symbolic_nanoseconds;
      if (chain.iterations >= shares_a_core * cores_ &&
          time < cheap * static_cast<double>(std::max(chain.iterations, fused)))
        break;
      const bool conditional = is_conditional(chain.body, chain.loops.back().variable, chain.iterations) ||
                               is_conditional(chain.body, inner.variable, chain.iterations);
      if (conditional && chain.iterations > 1) break;
      // What is done once leaves the loop within to be shared out as it is.
      if (conditional) chain.loops.clear();
      chain.loops.push_back({inner.variable});
      chain.iterations = fused;
      chain.body = inner.body;
      if (conditional) break;
    }
    return chain;
  }

  LoopRef fuse_chain(const Chain& chain) {
    LoopRef outer = chain.loops.front();
    for (size_t i = 1; i < chain.loops.size(); ++i) outer = fuse(schedule_, outer, chain.loops[i]);
    return outer;
  }

  void share(const Shared& shared) {
    const double time = shared.nanoseconds;
    const std::string& name = shared.loop.as<For>()->variable->name;
    attempt(context_, fmt::format("parallel over {}, about {:.0f} us", name, time / 1000), [&] {
      const Chain chain = chain_of(shared.loop, time);
      const double each = time / static_cast<double>(std::max<std::int64_t>(1, chain.iterations));
      const auto grain = static_cast<std::int64_t>(std::ceil(task_nanoseconds / std::max(each, 1e-3)));
      parallel(schedule_, fuse_chain(chain), std::max<std::int64_t>(1, grain));
    });
  }

  bool share_repeating(const Shared& shared) {
    const VarRef& variable = shared.repeating.as<For>()->variable;
    return attempt(context_, fmt::format("parallel over {}, whose iterations repeat some work", variable->name),
                   [&] { parallel(schedule_, {variable}, 1); });
  }

  /// What equal tasks take on all cores that take `time` on one.
  double shared_time(double time, std::int64_t tasks) const {
    return time * longest_share(context_.device, tasks) / static_cast<double>(cores_);
  }

  /// Where a loop has too few iterations for the cores, and the loops that it holds have more: shares out each of these
  /// by itself, one behind the other.
  bool share_parts(const Shared& shared) {
    const Chain chain = chain_of(shared.loop, shared.nanoseconds);
    const Seq* body = chain.body.as<Seq>();
    if (cores_ == 1 || !body) return false;
    const double whole = shared_time(shared.nanoseconds, chain.iterations);
    double apart = waiting_nanoseconds * static_cast<double>(body->stmts.size() - 1);
    for (const Stmt& part : body->stmts) {
      const double time = static_cast<double>(chain.iterations) * nanoseconds(part, nullptr, facts_);
      // A loop of one iteration is left outside of those within, each of which is shared out alone, whatever conditions
      // on either say: they keep loops from becoming one.
      const bool joins = shares_out(part) && (chain.iterations == 1 ||
                                              (!is_conditional(part, chain.loops.back().variable, chain.iterations) &&
                                               !is_conditional(part, part.as<For>()->variable, chain.iterations)));
      apart += shared_time(time, chain.iterations * (joins ? chain_of(part, time).iterations : 1));
    }
    if (apart > worth_parts * whole) return false;
    std::vector<BlockRef> first_blocks;
    for (const Stmt& part : body->stmts) {
      const std::vector<Stmt> blocks = outer_blocks(part);
      if (blocks.empty()) return false;
      first_blocks.push_back({blocks.front().as<Block>()->f.name});
    }
    return attempt(context_, fmt::format("part what the loop over {} holds", shared.loop.as<For>()->variable->name),
                   [&] {
                     LoopRef rest = fuse_chain(chain);
                     std::vector<LoopRef> parts{rest};
                     for (size_t i = 1; i < first_blocks.size(); ++i)
                       parts.push_back(rest = distribute(schedule_, rest, first_blocks[i]));
                     for (const LoopRef& part : parts) {
                       const Stmt loop = schedule_.find(part).back();
                       share({loop, nanoseconds(loop, nullptr, facts_)});
                     }
                   });
  }

  RuleContext& context_;
  Schedule& schedule_;
  const std::vector<Fact> facts_;
  const std::int64_t cores_;
};

}  // namespace

void parallel_outer(RuleContext& context) {
  Sharer(context).run();
}

}  // namespace lathe
