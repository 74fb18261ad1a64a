#include "schedule/auto/short_squares.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>

#include "schedule/auto/block_model.h"
#include "schedule/auto/tile_operands.h"
#include "schedule/auto/turn_squares.h"
#include "schedule/primitives/join_iters.h"
#include "schedule/primitives/reindex.h"
#include "schedule/rewrite.h"

namespace lathe {
namespace {

/// The array to copy for an element-wise block.
std::optional<Buffer> crosses_short_rows(const Block& block, const Device& device) {
  const std::int64_t side = widest_square(block, device);
  if (side < 2 || !only_space(block) || block.f.writes.size() != 1) return std::nullopt;
  const Accesses accesses = block_accesses(block);
  const auto store = std::find_if(accesses.begin(), accesses.end(), [](const Access& access) { return access.store; });
  const auto iter_by = [&](const Access& access, std::int64_t stride) {
    std::optional<size_t> found;
    for (size_t i = 0; i < block.f.iters.size(); ++i) {
      if (access.strides[i] == stride && constant_extent(block, i) != 1) found = i;
    }
    return found;
  };
  const std::optional<size_t> row = store != accesses.end() ? iter_by(*store, 1) : std::nullopt;
  const std::int64_t length = row ? constant_extent(block, *row).value_or(side) : side;
  const std::optional<size_t> rows = length < side ? iter_by(*store, length) : std::nullopt;
  if (!rows) return std::nullopt;
  const auto goes_on = [&](const Access& access) {
    return access.strides[*row] && access.strides[*rows] == *access.strides[*row] * length;
  };
  if (std::all_of(accesses.begin(), accesses.end(), goes_on)) return std::nullopt;
  for (const Access& access : accesses) {
    const std::optional<size_t> along = access.store || access.masked ? std::nullopt : iter_by(access, 1);
    if (!along || !goes_on(access) || constant_extent(block, *along).value_or(0) < side) continue;
    const bool across = std::abs(access.strides[*row].value_or(0)) >= side,
               once = instance_count(block) <= estimated_elements(access.buffer);
    if (across && once) return access.buffer;
  }
  return std::nullopt;
}

}  // namespace

bool join_short_turned(RuleContext& context, const BlockRef& ref) {
  Schedule& schedule = context.schedule;
  const Block& block = schedule.node(ref);
  const std::int64_t side = widest_square(block, context.device);
  const std::vector<LoopRef> loops = own_loops(schedule, ref);
  for (size_t k = 0; side > 1 && k + 1 < loops.size(); ++k) {
    const auto outer = iter_moved_by(block, loops[k].variable), inner = iter_moved_by(block, loops[k + 1].variable);
    const std::int64_t* extent = as_int(schedule.node(loops[k + 1]).extent);
    if (!outer || !inner || !extent || *extent < 2 || *extent >= side || !goes_on(block, *outer, *inner)) continue;
    const Accesses accesses = block_accesses(block);
    const auto along = [&](bool store) {
      return std::any_of(accesses.begin(), accesses.end(),
                         [&](const Access& access) { return access.store == store && access.strides[*inner] == 1; });
    };
    const auto across = [&](bool store) {
      return std::any_of(accesses.begin(), accesses.end(), [&](const Access& access) {
        const auto& strides = access.strides;
        return access.store == store && strides[*inner] != 1 && strides[*inner] != 0 &&
               std::find(strides.begin(), strides.end(), 1) != strides.end();
      });
    };
    const auto masked = [](const Access& access) { return access.masked; };
    if (std::any_of(accesses.begin(), accesses.end(), masked) ||
        !((along(false) && across(true)) || (along(true) && across(false))))
      continue;
    return attempt(context, fmt::format("join the loops of {} that squares walk", ref.name),
                   [&] { join_iters(schedule, ref, loops[k], loops[k + 1]); });
  }
  return false;
}

void copy_into_short_rows(RuleContext& context) {
  Schedule& schedule = context.schedule;
  for (const BlockRef& ref : schedule.blocks()) {
    const Block& block = schedule.node(ref);
    if (context.scheduled.contains(ref.name) || is_sealed(block) || has_blocks(block) || block.f.predicate) continue;
    const std::optional<Buffer> array = crosses_short_rows(block, context.device);
    if (!array) continue;
    std::optional<BlockRef> copy;
    attempt(context, fmt::format("copy {} once in the short rows of {}", (*array)->name, ref.name),
            [&] { copy = reindex(schedule, ref, (*array)->name); });
    while (copy && join_short_turned(context, *copy)) {
    }
  }
}

}  // namespace lathe
