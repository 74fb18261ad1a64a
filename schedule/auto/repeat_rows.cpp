#include "schedule/auto/repeat_rows.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "ir/buffer.h"
#include "ir/passes/permute_windows.h"
#include "schedule/access.h"
#include "schedule/auto/one_walk.h"
#include "schedule/primitives/fuse.h"
#include "schedule/primitives/split.h"
#include "schedule/primitives/unroll.h"
#include "schedule/primitives/vectorize.h"
#include "schedule/rewrite.h"

namespace lathe {
namespace {

/// The share of lanes that rows of their own may fill at the most, the vectors that begin a row again, what these may
/// hold of repeated inputs in registers, and what their bodies may cost to compile.
constexpr double well_filled = 0.8;
constexpr std::int64_t most_copies = 8, most_held = 12, fewest_iterations = 4, fewest_vectors = 2;
constexpr double longest_bodies = 64;

/// What begins anew in each row, and what is one element for each; the rest walks on from row to row in one piece.
struct RowAccesses {
  bool fine = true;
  std::int64_t repeated = 0, spread = 0;
  bool own = false;  ///< one of these is memory of the kernel's own
};

constexpr size_t none = static_cast<size_t>(-1);

/// `inner` walks along the row, `rows` from row to row, `count` of them within `outer`; `outer` itself does where that
/// is none.
RowAccesses row_accesses(const Device& device, const Func& func, const std::vector<Access>& accesses, size_t outer,
                         size_t inner, std::int64_t row, std::int64_t count, size_t rows) {
  RowAccesses found;
  for (const Access& access : accesses) {
    const auto across = access.strides[outer], along = access.strides[inner];
    if (access.masked || !across || !along) return {.fine = false};
    // Lanes are picked from memory where no instruction picks them.
    const bool picks = !access.store && longest_table(device, access.buffer->dtype.bits) > 0;
    found.own |= (*across == 0) != (*along == 0) && is_allocated(func, access.buffer);
    if (*across == 0 && *along != 0) {
      found.fine &= picks;
      ++found.repeated;
    } else if (*along == 0 && *across != 0) {
      found.fine &= picks && *across == (rows != none ? access.strides[rows].value_or(0) * count : 1);
      ++found.spread;
    } else {
      found.fine &= *along == 0 ? rows == none || access.strides[rows] == 0 : *across == *along * row * count;
    }
  }
  return found;
}

struct RowPlan {
  size_t outermost;  ///< position of the first loop that one takes the place of
  std::int64_t lanes, copies;
};

std::optional<RowPlan> plan_rows(const RuleContext& context, const BlockRef& ref, const std::vector<Access>& accesses,
                                 const std::vector<LoopRef>& loops, const std::vector<size_t>& iters) {
  const Schedule& schedule = context.schedule;
  const Block& block = schedule.node(ref);
  const auto extent_of = [&](size_t i) {
    const std::int64_t* extent = as_int(schedule.node(loops[i]).extent);
    return extent ? *extent : 0;
  };
  const size_t last = loops.size() - 1;
  const std::int64_t row = extent_of(last), lanes = vector_lanes(block, context.device);
  if (row < 2 || lanes < 2 || row % lanes == 0) return std::nullopt;
  const std::int64_t vectors = (row + lanes - 1) / lanes, copies = row / std::gcd(row, lanes);
  if (static_cast<double>(row) > well_filled * static_cast<double>(vectors * lanes) || copies > most_copies ||
      body_cost(block) * static_cast<double>(copies) > longest_bodies)
    return std::nullopt;
  RowPlan plan{last, lanes, copies};
  std::vector<size_t> walked{iters[last]};
  std::vector<std::int64_t> extents;
  std::int64_t run = row, extent = row;
  bool own = false;
  while (plan.outermost > 0) {
    const size_t outer = iters[plan.outermost - 1];
    const RowAccesses found = row_accesses(context.device, schedule.func(), accesses, outer, iters[last], row,
                                           run / row, plan.outermost < last ? iters[last - 1] : none);
    // A row that fills a vector has its one element in all lanes.
    if (!found.fine || found.repeated + found.spread == 0 || (found.spread > 0 && row > lanes) ||
        found.repeated * copies > most_held)
      break;
    own |= found.own;
    walked.insert(walked.begin(), outer);
    extents.insert(extents.begin(), extent);
    if (!may_be_one_walk(block, walked, extents)) break;
    extent = extent_of(--plan.outermost);
    run *= extent;
  }
  // Lanes are picked at places that change from vector to vector where those of an input are looked up in registers
  // (permute_windows), which are not filled from what may not have been written yet.
  if (!own && run < fewest_iterations * copies * lanes) plan.copies = 1;
  return run < fewest_vectors * plan.copies * lanes ? std::nullopt : std::optional(plan);
}

}  // namespace

bool repeat_rows(RuleContext& context, const BlockRef& ref, const std::vector<Access>& accesses,
                 const std::vector<LoopRef>& loops, const std::vector<size_t>& iters) {
  // Lanes of what is repeated are picked in registers (permute_windows).
  if (loops.size() < 2 || !picks_in_registers(context.device)) return false;
  const auto plan = plan_rows(context, ref, accesses, loops, iters);
  if (!plan || plan->outermost + 1 == loops.size()) return false;
  Schedule& schedule = context.schedule;
  return attempt(context, fmt::format("vectorize {} across rows, {} vectors at once", ref.name, plan->copies), [&] {
    LoopRef walk = loops.back();
    for (size_t i = loops.size() - 1; i-- > plan->outermost;) walk = fuse(schedule, loops[i], walk);
    const LoopRef vectors = split(schedule, walk, plan->lanes * plan->copies).second;
    if (plan->copies == 1) return vectorize(schedule, vectors);
    const auto [copy, lane] = split(schedule, vectors, plan->lanes);
    unroll(schedule, copy);
    vectorize(schedule, lane);
  });
}

}  // namespace lathe
