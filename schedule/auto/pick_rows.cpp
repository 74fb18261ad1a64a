#include "schedule/auto/pick_rows.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "schedule/primitives/reorder.h"
#include "schedule/primitives/split.h"
#include "schedule/primitives/unroll.h"

namespace lathe {
namespace {

/// Rows for each index, the best first: beyond four, its load and its checks weigh little beside theirs.
constexpr std::int64_t rows_at_once[] = {4, 5, 3, 2};

/// A loop, as a position, and how many of its rows are taken at once.
struct Rows {
  size_t loop;
  std::int64_t count;
};

/// The innermost loop over rows that one index picks from alike.
std::optional<Rows> rows_alike(const Schedule& schedule, const Block& block, const std::vector<Access>& accesses,
                               const std::vector<LoopRef>& loops, const std::vector<size_t>& iters, size_t along) {
  const Store* store = block.f.body.as<Store>();
  const Load* picked = store && !store->mask ? store->value.as<Load>() : nullptr;
  if (!picked || picked->mask || block.f.predicate) return std::nullopt;
  const auto is_picked = [&](const Access& access) { return !access.store && access.buffer == picked->buffer; };
  const bool depends = std::any_of(accesses.begin(), accesses.end(), [&](const Access& access) {
    return is_picked(access) && !access.strides[iters[along]];
  });
  for (size_t i = loops.size(); depends && i-- > 0;) {
    const std::int64_t* extent = as_int(schedule.node(loops[i]).extent);
    if (i == along || !extent) continue;
    const auto count = std::find_if(std::begin(rows_at_once), std::end(rows_at_once),
                                    [&](std::int64_t rows) { return *extent % rows == 0; });
    if (count == std::end(rows_at_once)) continue;
    const bool alike = std::all_of(accesses.begin(), accesses.end(), [&](const Access& access) {
      const auto across = access.strides[iters[i]];
      return access.store || is_picked(access) ? across && *across != 0 : across == 0;
    });
    if (alike) return Rows{i, *count};
  }
  return std::nullopt;
}

}  // namespace

bool pick_rows(RuleContext& context, const BlockRef& ref, const std::vector<Access>& accesses,
               const std::vector<LoopRef>& loops, const std::vector<size_t>& iters, size_t along) {
  Schedule& schedule = context.schedule;
  const auto rows = rows_alike(schedule, schedule.node(ref), accesses, loops, iters, along);
  if (!rows) return false;
  return attempt(context, fmt::format("copy {} by {} rows for each index", ref.name, rows->count), [&] {
    const auto [groups, row] = split(schedule, loops[rows->loop], rows->count);
    std::vector<LoopRef> order;
    for (size_t i = 0; i < loops.size(); ++i) {
      if (i != along) order.push_back(i == rows->loop ? groups : loops[i]);
    }
    order.insert(order.end(), {loops[along], row});
    reorder(schedule, order);
    unroll(schedule, row);
  });
}

}  // namespace lathe
