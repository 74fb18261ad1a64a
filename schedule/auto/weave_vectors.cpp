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
#include "schedule/primitives/fuse.h"
#include "schedule/primitives/join_iters.h"
#include "schedule/primitives/reorder.h"
#include "schedule/primitives/split.h"
#include "schedule/primitives/unroll.h"
#include "schedule/primitives/vectorize.h"
#include "schedule/rewrite.h"

namespace lathe {
namespace {

/// The most iterations of the short loop where several may take one arm.
constexpr std::int64_t most_woven = 4;
constexpr std::int64_t fewest_lanes = 4;

/// Bits of vectors from which on weaving more elements than they have lanes takes longer than storing these one by one,
/// where they are copied as they lie, or all but that (measured on Zen 4, stacks of 9 to 16 doubles: 1.02 to 1.27 of
/// the time in 512 bits, with a multiplication 1.0 to 2.3, 0.7 to 0.9 in 256; of what is computed of elements of rows
/// 0.35 to 0.5, and 0.5 to 0.75).
constexpr int bits_of_costly_shuffles = 512;

/// Vectors of rows that are woven from which on each row fills them well.
constexpr std::int64_t short_row = 4;

/// The variables that a condition hangs on; nothing where it hangs on something else.
std::optional<std::vector<VarRef>> variables_of(const Expr& condition) {
  bool others = false;
  for_each_expr(condition, [&](const Expr& e) { others |= e.as<Load>() || e.as<Call>(); });
  return others ? std::nullopt : std::optional(used_vars(condition));
}

bool hangs_on(const Expr& condition, const VarRef& variable) {
  return variables_of(condition) == std::vector{variable};
}

/// Does the block choose by the iter, and load under no masks that hang on what vectors lie along, or on what is
/// loaded? Copies for each of its values choose nothing within a vector.
bool chooses_by(const Block& block, const VarRef& iter, const VarRef& vector) {
  bool chooses = false, others = false;
  for_each_expr(block.f.body, [&](const Expr& e) {
    const Select* choice = e.as<Select>();
    chooses |= choice && hangs_on(choice->condition, iter);
    const Load* load = e.as<Load>();
    if (!load || !load->mask) return;
    const auto variables = variables_of(load->mask);
    others |= !variables || std::find(variables->begin(), variables->end(), vector) != variables->end();
  });
  return chooses && !others;
}

/// The loop of a few iterations along which all stores are contiguous, inside of that of `vector`.
std::optional<size_t> woven_loop(const RuleContext& context, const Block& block, const std::vector<Access>& accesses,
                                 const std::vector<LoopRef>& loops, const std::vector<size_t>& iters, size_t vector) {
  const Schedule& schedule = context.schedule;
  const bool copies = body_cost(block) <= copy_body;
  for (size_t i = 0; i < loops.size(); ++i) {
    const std::int64_t* extent = as_int(schedule.node(loops[i]).extent);
    if (i == vector || !extent || *extent < 2 || *extent > most_stacked) continue;
    if (*extent > most_woven && !is_stacked_along(block, block.f.iters[iters[i]])) continue;
    // What goes on through memory as one is walked so.
    const bool one_walk = std::all_of(accesses.begin(), accesses.end(), [&](const Access& access) {
      return access.strides[iters[vector]] == *extent && access.strides[iters[i]] == 1 && !access.masked;
    });
    const bool chooses = chooses_by(block, block.f.iters[iters[i]].variable, block.f.iters[iters[vector]].variable);
    if (one_walk && !chooses) continue;
    // Rows that lie apart, and a result that has an element of each by turns.
    const bool apart = std::any_of(accesses.begin(), accesses.end(), [&](const Access& access) {
      return !access.store && access.strides[iters[vector]] == 1 && access.strides[iters[i]] > 1;
    });
    const bool woven = std::all_of(accesses.begin(), accesses.end(), [&](const Access& access) {
      const auto along = access.strides[iters[vector]], inside = access.strides[iters[i]];
      if (access.store) return along == *extent && inside == 1 && !access.masked;
      if (is_table(context, access, iters[vector])) return chooses;
      const bool shuffled = along && std::abs(*along) <= most_shuffled_stride && !access.masked;
      return inside && (shuffled || (chooses && along && *along >= 0));
    });
    if (woven && (copies || chooses || apart)) return i;
  }
  return std::nullopt;
}

/// Two short loops, one directly behind the other along memory, by which the block chooses inside of that of `vector`:
/// as four arms of stacks within a stack.
std::optional<std::pair<size_t, size_t>> woven_loops(const Schedule& schedule, const Block& block,
                                                     const std::vector<Access>& accesses,
                                                     const std::vector<LoopRef>& loops,
                                                     const std::vector<size_t>& iters, size_t vector) {
  const auto extent_of = [&](size_t i) {
    const std::int64_t* extent = as_int(schedule.node(loops[i]).extent);
    return extent ? *extent : 0;
  };
  const auto chooses = [&](size_t i) {
    return chooses_by(block, block.f.iters[iters[i]].variable, block.f.iters[iters[vector]].variable);
  };
  const size_t inner = loops.size() - 1;
  if (inner < 2 || vector >= inner - 1) return std::nullopt;
  const size_t outer = inner - 1;
  const std::int64_t many = extent_of(outer) * extent_of(inner);
  if (extent_of(outer) < 2 || extent_of(inner) < 2 || many > most_stacked || !chooses(outer)) return std::nullopt;
  // Rows that are stacked whole are picked out of vectors of them.
  const bool rows = !chooses(inner);
  const bool woven = std::all_of(accesses.begin(), accesses.end(), [&](const Access& access) {
    const auto along = access.strides[iters[vector]], behind = access.strides[iters[outer]],
               inside = access.strides[iters[inner]];
    if (access.store) return along == many && behind == extent_of(inner) && inside == 1 && !access.masked;
    if (rows && (inside != 1 || along.value_or(0) > most_shuffled_stride)) return false;
    return behind && inside && along && *along >= 0;
  });
  return woven ? std::optional(std::pair(outer, inner)) : std::nullopt;
}

/// Other short loops that the block chooses by, as rows of a stack within a stack: copies for each choose nothing.
std::vector<LoopRef> chosen_loops(const Schedule& schedule, const BlockRef& ref, const std::vector<LoopRef>& loops,
                                  const LoopRef& along) {
  const Block& block = schedule.node(ref);
  const auto vector = iter_moved_by(block, along.variable);
  std::vector<LoopRef> chosen;
  std::int64_t copies = 1;
  for (const LoopRef& loop : loops) {
    const std::int64_t* extent = as_int(schedule.node(loop).extent);
    const auto iter = iter_moved_by(block, loop.variable);
    if (!vector || !iter || !extent || *extent < 2 || copies * *extent > most_woven ||
        !chooses_by(block, block.f.iters[*iter].variable, block.f.iters[*vector].variable))
      continue;
    copies *= *extent;
    chosen.push_back(loop);
  }
  return chosen;
}

/// Lays vectors along a loop around short ones, which become one that is unrolled.
bool weave(RuleContext& context, const BlockRef& ref, const std::vector<LoopRef>& loops, const LoopRef& along,
           const std::vector<LoopRef>& inside) {
  Schedule& schedule = context.schedule;
  const std::int64_t extent = *as_int(schedule.node(along).extent);
  const std::int64_t widest = vector_lanes(schedule.node(ref), context.device);
  const std::int64_t lanes =
      std::min(widest, static_cast<std::int64_t>(std::bit_floor(static_cast<std::uint64_t>(extent))));
  const std::string name =
      fmt::format("weave {} over {} and {}", ref.name, along.variable->name, inside.back().variable->name);
  return attempt(context, name, [&] {
    std::vector<LoopRef> order = loops;
    std::erase(order, along);
    for (const LoopRef& loop : inside) std::erase(order, loop);
    const std::vector<LoopRef> chosen = chosen_loops(schedule, ref, order, along);
    for (const LoopRef& loop : chosen) std::erase(order, loop);
    const auto [vectors, lane] = split(schedule, along, lanes);
    if (extent % lanes != 0) annotate(schedule, vectors, shift_last_key, 1);
    order.push_back(vectors);
    order.insert(order.end(), chosen.begin(), chosen.end());
    order.push_back(lane);
    order.insert(order.end(), inside.begin(), inside.end());
    reorder(schedule, order);
    for (const LoopRef& loop : chosen) unroll(schedule, loop);
    vectorize(schedule, lane);
    unroll(schedule, inside.size() > 1 ? fuse(schedule, inside[0], inside[1]) : inside[0]);
  });
}

/// Is what is woven picked out of rows itself, or does each element take long to compute?
bool makes_up_for_shuffles(const Block& block, const std::vector<Access>& accesses, size_t vector, const Iter& iter,
                           std::int64_t count) {
  if (std::any_of(accesses.begin(), accesses.end(), [&](const Access& access) {
        return !access.store && std::abs(access.strides[vector].value_or(0)) > 1;
      }))
    return true;
  for (std::int64_t value = 0; value < count; ++value) {
    Bounds bounds;
    bounds.bind(iter.variable, Interval::point(value));
    if (body_cost(simplify(block.f.body, bounds)) > costly_body) return true;
  }
  return false;
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
    const Block& block = schedule.node(ref);
    if (const auto inside = woven_loop(context, block, accesses, loops, iters, i))
      return weave(context, ref, loops, loops[i], {loops[*inside]});
    if (const auto inside = woven_loops(schedule, block, accesses, loops, iters, i))
      return weave(context, ref, loops, loops[i], {loops[inside->first], loops[inside->second]});
  }
  return false;
}

bool join_woven_rows(RuleContext& context, const BlockRef& ref) {
  Schedule& schedule = context.schedule;
  const Block& block = schedule.node(ref);
  const std::vector<LoopRef> loops = own_loops(schedule, ref);
  if (loops.size() < 3) return false;
  const auto iter_of = [&](size_t k) { return iter_moved_by(block, loops[k].variable); };
  const auto inside = iter_of(loops.size() - 1);
  const std::int64_t* count = as_int(schedule.node(loops.back()).extent);
  if (!inside || !count || *count < 2 || *count > most_stacked || !is_stacked_along(block, block.f.iters[*inside]))
    return false;
  for (size_t k = loops.size() - 3; k + 1 > 0; --k) {
    const auto outer = iter_of(k), inner = iter_of(k + 1);
    const std::int64_t* row = as_int(schedule.node(loops[k + 1]).extent);
    if (!outer || !inner || !row || *row >= short_row * vector_lanes(block, context.device) ||
        !goes_on(block, *outer, *inner) ||
        !chooses_by(block, block.f.iters[*inside].variable, block.f.iters[*outer].variable) ||
        !chooses_by(block, block.f.iters[*inside].variable, block.f.iters[*inner].variable))
      continue;
    return attempt(context, fmt::format("join the rows of {} that are woven", ref.name),
                   [&] { join_iters(schedule, ref, loops[k], loops[k + 1]); });
  }
  return false;
}

bool weaves_rows(const RuleContext& context, const BlockRef& ref) {
  const Schedule& schedule = context.schedule;
  const Block& block = schedule.node(ref);
  const std::vector<LoopRef> loops = own_loops(schedule, ref);
  std::vector<size_t> iters;
  for (const LoopRef& loop : loops) {
    const auto iter = iter_moved_by(block, loop.variable);
    if (!iter) return false;
    iters.push_back(*iter);
  }
  const Accesses accesses = block_accesses(block);
  for (size_t i = 0; i < loops.size(); ++i) {
    const std::int64_t* extent = as_int(schedule.node(loops[i]).extent);
    if (!extent || *extent < fewest_lanes) continue;
    const auto inside = woven_loop(context, block, accesses, loops, iters, i);
    if (!inside || !is_stacked_along(block, block.f.iters[iters[*inside]])) continue;
    const std::int64_t count = *as_int(schedule.node(loops[*inside]).extent);
    return count <= vector_lanes(block, context.device) || context.device.vector_bits < bits_of_costly_shuffles ||
           makes_up_for_shuffles(block, accesses, iters[i], block.f.iters[iters[*inside]], count);
  }
  return false;
}

std::optional<double> woven_share(const Block& block, const Expr& mask) {
  const Store* store = block.f.body.as<Store>();
  if (!store || store->indices.empty()) return std::nullopt;
  const auto variables = variables_of(mask);
  if (!variables) return std::nullopt;
  std::vector<std::int64_t> cycles;
  std::int64_t values = 1;
  bool along = false;
  for (const VarRef& variable : *variables) {
    const auto iter = std::find_if(block.f.iters.begin(), block.f.iters.end(),
                                   [&](const Iter& candidate) { return candidate.variable == variable; });
    const std::int64_t* extent = iter == block.f.iters.end() ? nullptr : as_int(iter->domain.extent);
    if (!extent) return std::nullopt;
    const std::int64_t cycle = Cycle(variable).of(mask).value_or(*extent);
    if (cycle < 2 || cycle > most_stacked || *extent % cycle != 0) return std::nullopt;
    cycles.push_back(cycle);
    values *= cycle;
    along |= walks(store->indices.back(), variable);
  }
  if (!along || values > most_stacked) return std::nullopt;
  std::int64_t held = 0;
  for (std::int64_t at = 0; at < values; ++at) {
    Substitution here;
    std::int64_t rest = at;
    for (size_t i = 0; i < cycles.size(); ++i, rest /= cycles[i - 1])
      here[(*variables)[i].get()] = index(rest % cycles[i]);
    const Expr holds = simplify(substitute(mask, here), Bounds());
    if (!as_int(holds)) return std::nullopt;
    held += *as_int(holds);
  }
  if (values > most_woven && held != 1) return std::nullopt;
  return static_cast<double>(held) / static_cast<double>(values);
}

}  // namespace lathe
