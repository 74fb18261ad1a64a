#include "schedule/auto/turn_repeated.h"

#include <fmt/format.h>

#include <algorithm>

#include "schedule/auto/block_model.h"
#include "schedule/auto/reduction_chain.h"
#include "schedule/auto/vector_loop.h"
#include "schedule/layout_map.h"
#include "schedule/primitives/reindex.h"
#include "schedule/primitives/transform_layout.h"
#include "schedule/rewrite.h"

namespace lathe {
namespace {

/// How often an element is read for which its copy pays: turning it around costs about as much as copying it, and the
/// copy is read besides.
constexpr std::int64_t least_repeats = 4;
/// The same of short runs, which cost more to copy and less to read.
constexpr std::int64_t least_repeats_of_runs = 5;
/// Bytes of neighbours behind which a jump counts: longer runs are loaded in whole vectors; and behind which it does
/// where what lies so far apart shares too few sets of the nearest cache (measured on Zen 4: runs of 64 bytes 4 KB
/// apart 0.27 of the time, of 128 bytes 8 KB apart 0.57, of 256 bytes 1.0).
constexpr std::int64_t short_run = 64, conflicting_run = 256;

/// The iter along which all that the block writes is contiguous; the last of several.
std::optional<size_t> written_iter(const Block& block, const std::vector<Access>& accesses) {
  for (size_t i = block.f.iters.size(); i-- > 0;) {
    if (is_int(block.f.iters[i].domain.extent, 1)) continue;
    if (stores_in_a_row(accesses, i)) return i;
  }
  return std::nullopt;
}

/// Does the array, whose neighbours follow each other, jump behind a few of them, where the result goes on? Then each
/// vector would be a few lanes, or rows that lie far apart push each other out of the nearest cache.
bool jumps_behind(const Device& device, const Block& block, const Access& access, size_t written) {
  const std::int64_t neighbours = *as_int(block.f.iters[written].domain.extent), element = access.buffer->dtype.bytes(),
                     run = neighbours * element;
  if (access.strides[written] != 0 && access.strides[written] != 1) return false;
  const std::int64_t follows = access.strides[written] == 0 ? 1 : neighbours;
  for (size_t i = written; i-- > 0;) {
    const std::int64_t* extent = as_int(block.f.iters[i].domain.extent);
    if (!extent || !access.strides[i]) return false;
    if (*extent == 1 || access.strides[i] == 0) continue;
    if (*access.strides[i] == follows) return false;
    const bool conflicts = run < conflicting_run && access.strides[written] == 1 && !device.caches.empty() &&
                           lines_held(device.caches.front(), std::abs(*access.strides[i]) * element) < *extent;
    return run < short_run || conflicts;
  }
  return false;
}

/// Is the array read in another order than what is written, and each element of it often enough?
bool is_repeated_across(const Device& device, const Block& block, const Access& access, size_t written) {
  const std::optional<std::int64_t>& stride = access.strides[written];
  if (access.store || access.masked || !stride) return false;
  const bool across = std::abs(*stride) > 1;
  if (!across && !jumps_behind(device, block, access, written)) return false;
  std::int64_t repeats = 1;
  for (size_t i = 0; i < block.f.iters.size(); ++i) {
    const std::int64_t* extent = as_int(block.f.iters[i].domain.extent);
    if (!extent || !access.strides[i]) return false;
    if (access.strides[i] == 0) repeats *= *extent;
  }
  return repeats >= (across ? least_repeats : least_repeats_of_runs);
}

/// The arrays to copy for the block.
std::vector<Buffer> repeated_arrays(const Device& device, const Block& block) {
  if (!only_space(block) || has_blocks(block) || is_sealed(block)) return {};
  const Accesses accesses = block_accesses(block);
  const std::optional<size_t> written = written_iter(block, accesses);
  if (!written || !as_int(block.f.iters[*written].domain.extent)) return {};
  std::vector<Buffer> found;
  for (const Access& access : accesses) {
    if (load_count(accesses, access.buffer) == 1 && is_repeated_across(device, block, access, *written))
      found.push_back(access.buffer);
  }
  return found;
}

void copy_turned(Schedule& schedule, const BlockRef& ref, const Buffer& array) {
  const BlockRef copy = reindex(schedule, ref, array->name);
  const Buffer copied = schedule.node(copy).f.writes[0].buffer;
  const Block& reader = schedule.node(ref);
  const Accesses accesses = block_accesses(reader);
  const std::optional<size_t> written = written_iter(reader, accesses);
  const std::vector<Expr>& indices = load_of(reader, copied)->indices;
  const auto place = std::find(indices.begin(), indices.end(), Expr(reader.f.iters[*written].variable));
  if (place == indices.end() || place + 1 == indices.end()) return;
  transform_layout(schedule, ref, copied->name,
                   moved_last(copied->rank(), static_cast<size_t>(place - indices.begin())));
}

}  // namespace

void turn_repeated(RuleContext& context) {
  for (const BlockRef& ref : context.schedule.blocks()) {
    if (context.scheduled.contains(ref.name)) continue;
    for (const Buffer& array : repeated_arrays(context.device, context.schedule.node(ref)))
      attempt(context, fmt::format("turn {} around once for {}", array->name, ref.name),
              [&] { copy_turned(context.schedule, ref, array); });
  }
}

}  // namespace lathe
