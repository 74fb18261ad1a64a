#include "schedule/auto/weave_vectors.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>

#include "ir/analysis/simplify.h"
#include "ir/passes/mark_shiftable_tiles.h"
#include "ir/visitor.h"
#include "schedule/auto/block_model.h"
#include "schedule/auto/stacked_axis.h"
#include "schedule/auto/vector_loop.h"
#include "schedule/primitives/annotate.h"
#include "schedule/primitives/reorder.h"
#include "schedule/primitives/split.h"
#include "schedule/primitives/unroll.h"
#include "schedule/primitives/vectorize.h"
#include "schedule/rewrite.h"

namespace lathe {
namespace {

/// The most iterations of the short loop: where each of them takes another arm, and where several may take one.
constexpr std::int64_t most_stacked = 16, most_woven = 4;
constexpr std::int64_t fewest_lanes = 4;

/// Does the condition hang on the variable and nothing else?
bool hangs_on(const Expr& condition, const VarRef& variable) {
  bool found = false, others = false;
  for_each_expr(condition, [&](const Expr& e) {
    found |= e == Expr(variable);
    others |= e.as<Load>() || e.as<Call>() || (e.as<Var>() && e != Expr(variable));
  });
  return found && !others;
}

/// Does the block choose by the iter, and load under no masks of others? Copies for each of its values choose nothing.
bool chooses_by(const Block& block, const VarRef& iter) {
  bool chooses = false, others = false;
  for_each_expr(block.f.body, [&](const Expr& e) {
    const Select* choice = e.as<Select>();
    chooses |= choice && hangs_on(choice->condition, iter);
    const Load* load = e.as<Load>();
    others |= load && load->mask && !hangs_on(load->mask, iter);
  });
  return chooses && !others;
}

/// The loop of a few iterations along which all stores are contiguous, inside of that of `vector`.
std::optional<size_t> woven_loop(const Schedule& schedule, const Block& block, const std::vector<Access>& accesses,
                                 const std::vector<LoopRef>& loops, const std::vector<size_t>& iters, size_t vector) {
  const bool copies = body_cost(block.f.body) <= copy_body;
  for (size_t i = 0; i < loops.size(); ++i) {
    const std::int64_t* extent = as_int(schedule.node(loops[i]).extent);
    if (i == vector || !extent || *extent < 2 || *extent > most_stacked) continue;
    if (*extent > most_woven && !is_stacked_along(block, block.f.iters[iters[i]])) continue;
    // What goes on through memory as one is walked so.
    const bool one_walk = std::all_of(accesses.begin(), accesses.end(), [&](const Access& access) {
      return access.strides[iters[vector]] == *extent && access.strides[iters[i]] == 1 && !access.masked;
    });
    const bool chooses = chooses_by(block, block.f.iters[iters[i]].variable);
    if (one_walk && !chooses) continue;
    // Rows that lie apart, and a result that has an element of each by turns.
    const bool apart = std::any_of(accesses.begin(), accesses.end(), [&](const Access& access) {
      return !access.store && access.strides[iters[vector]] == 1 && access.strides[iters[i]] > 1;
    });
    const bool woven = std::all_of(accesses.begin(), accesses.end(), [&](const Access& access) {
      const auto along = access.strides[iters[vector]], inside = access.strides[iters[i]];
      if (access.store) return along == *extent && inside == 1 && !access.masked;
      const bool shuffled = along && std::abs(*along) <= most_shuffled_stride && !access.masked;
      return inside && (shuffled || (chooses && along && *along >= 0));
    });
    if (woven && (copies || chooses || apart)) return i;
  }
  return std::nullopt;
}

/// Is the place the variable, or what remains of it in a row?
bool walks(const Expr& place, const VarRef& variable) {
  const Binary* remainder = place.as<Binary>();
  return place == Expr(variable) ||
         (remainder && remainder->op == BinaryOp::floor_mod && remainder->a == Expr(variable) && as_int(remainder->b));
}

/// The divisor, where a condition knows the variable by remainders alone, all of one divisor.
class Cycle : public Visitor {
 public:
  explicit Cycle(const VarRef& variable) : variable_(variable) {}
  std::optional<std::int64_t> of(const Expr& condition) {
    visit(condition);
    return only_ ? divisor_ : std::nullopt;
  }

 protected:
  void visit_Binary(const Binary* node) override {
    const std::int64_t* divisor = node->op == BinaryOp::floor_mod ? as_int(node->b) : nullptr;
    if (!divisor || node->a != Expr(variable_)) return Visitor::visit_Binary(node);
    only_ &= !divisor_ || *divisor_ == *divisor;
    divisor_ = *divisor;
  }
  void visit_Var(const Var* node) override { only_ &= node != variable_.get(); }

 private:
  const VarRef variable_;
  std::optional<std::int64_t> divisor_;
  bool only_ = true;
};

}  // namespace

bool weave_vectors(RuleContext& context, const BlockRef& ref, const std::vector<Access>& accesses,
                   const std::vector<LoopRef>& loops, const std::vector<size_t>& iters) {
  Schedule& schedule = context.schedule;
  for (size_t i = 0; i < loops.size(); ++i) {
    const std::int64_t* extent = as_int(schedule.node(loops[i]).extent);
    if (!extent || *extent < fewest_lanes) continue;
    const auto inside = woven_loop(schedule, schedule.node(ref), accesses, loops, iters, i);
    if (!inside) continue;
    const std::int64_t widest = vector_lanes(schedule.node(ref), context.device);
    const auto filled = static_cast<std::int64_t>(std::bit_floor(static_cast<std::uint64_t>(*extent)));
    const std::int64_t lanes = std::min(widest, filled);
    const std::int64_t rest = *extent % lanes;
    return attempt(
        context,
        fmt::format("weave {} over {} and {}", ref.name, loops[i].variable->name, loops[*inside].variable->name), [&] {
          std::vector<LoopRef> order = loops;
          std::erase(order, loops[i]);
          std::erase(order, loops[*inside]);
          const auto [vectors, lane] = split(schedule, loops[i], lanes);
          if (rest != 0) annotate(schedule, vectors, shift_last_key, 1);
          order.insert(order.end(), {vectors, lane, loops[*inside]});
          reorder(schedule, order);
          vectorize(schedule, lane);
          unroll(schedule, loops[*inside]);
        });
  }
  return false;
}

std::optional<double> woven_share(const Block& block, const Expr& mask) {
  const Store* store = block.f.body.as<Store>();
  if (!store || store->indices.empty()) return std::nullopt;
  for (const Iter& iter : block.f.iters) {
    const std::int64_t* extent = as_int(iter.domain.extent);
    if (!extent || !walks(store->indices.back(), iter.variable) || !hangs_on(mask, iter.variable)) continue;
    const std::int64_t cycle = Cycle(iter.variable).of(mask).value_or(*extent);
    if (cycle < 2 || cycle > most_stacked || *extent % cycle != 0) return std::nullopt;
    std::int64_t held = 0;
    for (std::int64_t value = 0; value < cycle; ++value) {
      const Expr holds = simplify(substitute(mask, {{iter.variable.get(), index(value)}}), Bounds());
      if (!as_int(holds)) return std::nullopt;
      held += *as_int(holds);
    }
    if (cycle > most_woven && held != 1) return std::nullopt;
    return static_cast<double>(held) / static_cast<double>(cycle);
  }
  return std::nullopt;
}

}  // namespace lathe
