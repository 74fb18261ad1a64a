#include "schedule/auto/split_joined_sums.h"

#include <fmt/format.h>

#include <algorithm>

#include "ir/error.h"
#include "ir/reduction.h"
#include "schedule/auto/block_model.h"
#include "schedule/auto/split_digits.h"
#include "schedule/auto/unfold_digits.h"
#include "schedule/rewrite.h"

namespace lathe {
namespace {

bool moves_by_constant_steps(const Access& access) {
  return std::all_of(access.strides.begin(), access.strides.end(), [](const auto& stride) { return stride; });
}

bool moves_by_constant_steps(const Block& block) {
  const Accesses accesses = block_accesses(block);
  return std::all_of(accesses.begin(), accesses.end(),
                     [](const Access& access) { return moves_by_constant_steps(access); });
}

/// Is an element of it that is reduced read for several results?
bool is_shared(const Block& block, const Access& access) {
  bool walks = false, stands = false;
  for (size_t i = 0; i < block.f.iters.size(); ++i) {
    const bool reduced = block.f.iters[i].kind == IterKind::reduce,
               several = extent_estimate(block.f.iters[i].domain.extent) > 1;
    walks |= reduced && several && access.strides[i] != 0;
    stands |= !reduced && several && access.strides[i] == 0;
  }
  return !access.store && walks && stands;
}

bool shares_operands(const Block& block) {
  const Accesses accesses = block_accesses(block);
  return std::any_of(accesses.begin(), accesses.end(), [&](const Access& access) { return is_shared(block, access); });
}

/// Is a load of it at another place in every instance?
bool is_read_once(const Block& block, const Access& access) {
  for (size_t i = 0; i < block.f.iters.size(); ++i) {
    if (extent_estimate(block.f.iters[i].domain.extent) > 1 && access.strides[i] == 0) return false;
  }
  return !access.store;
}

/// Does it stay for most of a vector or more along what is reduced, as a scale for each channel does? Not where a
/// vector of fewer lanes lies in one such run and stays as it is.
bool stays_for_vectors(const RuleContext& context, const Block& block, const Access& access) {
  constexpr std::int64_t narrow_lanes = 4;
  const std::int64_t lanes = vector_lanes(block, context.device);
  for (size_t i = 0; i < block.f.iters.size(); ++i) {
    const std::int64_t run = access.runs[i];
    if (block.f.iters[i].kind != IterKind::space && access.strides[i] != 0 &&
        (2 * run < lanes || (run < lanes && run % narrow_lanes == 0)))
      return false;
  }
  return true;
}

/// Is an operand that is taken apart read for several results? But for what stays beside one that is read once: of that
/// there is more to load, and tiles gain nothing.
bool shares_joined(const RuleContext& context, const Block& block) {
  const Accesses accesses = block_accesses(block);
  const bool streams =
      std::any_of(accesses.begin(), accesses.end(), [&](const Access& access) { return is_read_once(block, access); });
  return std::any_of(accesses.begin(), accesses.end(), [&](const Access& access) {
    return !moves_by_constant_steps(access) && is_shared(block, access) &&
           !(streams && stays_for_vectors(context, block, access));
  });
}

}  // namespace

bool is_free_reduction(const RuleContext& context, const BlockRef& ref) {
  const Block& block = context.schedule.node(ref);
  return !context.scheduled.contains(ref.name) && block.f.reducer && block.f.init && !block.f.predicate &&
         !is_sealed(block);
}

bool is_plain_reduction(const RuleContext& context, const BlockRef& ref) {
  return is_free_reduction(context, ref) && !shares_operands(context.schedule.node(ref));
}

bool is_free_sum(const RuleContext& context, const BlockRef& ref) {
  const Block& block = context.schedule.node(ref);
  return is_free_reduction(context, ref) && block.f.writes.size() == 1 && simple_op(*block.f.reducer);
}

bool is_plain_sum(const RuleContext& context, const BlockRef& ref) {
  return is_free_sum(context, ref) && is_plain_reduction(context, ref);
}

void split_joined_sums(RuleContext& context) {
  Schedule& schedule = context.schedule;
  for (const BlockRef& ref : schedule.blocks()) {
    if (!is_free_reduction(context, ref) || moves_by_constant_steps(schedule.node(ref)) ||
        (shares_joined(context, schedule.node(ref)) && !shifts_words(schedule.node(ref))))
      continue;
    std::vector<LoopRef> joined;
    for (const LoopRef& loop : own_loops(schedule, ref)) {
      const bool reduced = drives(schedule.node(ref), IterKind::reduce, schedule.node(loop));
      if (reduced && !digits_of(schedule, ref, loop).empty()) joined.push_back(loop);
    }
    if (joined.empty()) continue;
    attempt(context, fmt::format("split the axes that {} joins", ref.name), [&] {
      for (const LoopRef& loop : joined) split_by_digits(schedule, ref, loop);
      if (!moves_by_constant_steps(schedule.node(ref)))
        throw Refusal("split_joined_sums", 3, "a load moves by no constant step still");
    });
  }
}

}  // namespace lathe
