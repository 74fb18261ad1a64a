#include "schedule/auto/prefetch_rows.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "ir/analysis/simplify.h"
#include "ir/passes/mark_shiftable_tiles.h"
#include "schedule/access.h"
#include "schedule/auto/block_model.h"
#include "schedule/auto/memory_walk.h"
#include "schedule/primitives/annotate.h"
#include "schedule/rewrite.h"

namespace lathe {
namespace {

constexpr std::int64_t page_bytes = 4096;
/// The cache that the next row waits in: the first one has this row, and of rows up to a page the next one, too.
constexpr std::int64_t second_cache = 2, first_cache = 1;
/// The share of the first cache that a row takes then at the most, and of the last one its array (measured on Zen 4:
/// layer norms of rows of 3 KB in 1.5 MB 0.89 of the time, in 12 MB 1.04); the lines that it has at the least; and what
/// rows are no multiples of, as the next one would come into the sets of this one (of 2 KB and 4 KB in 8 MB 1.07).
constexpr std::int64_t share_of_row = 4, share_of_array = 4, least_lines = 24, conflicting_bytes = 2048;
/// Steps of a walk from which on hardware does not follow it (measured on Zen 4, sums of rows of 4 to 64 KiB).
constexpr std::int64_t least_jump = 1024;
/// What is asked for ahead takes this share of a core's own caches at the most, of arrays from memory: rows of those
/// that the last cache keeps come in time as they stream by (measured on Zen 4, sums down columns of 2 to 8 MB 0.82 to
/// 0.95 of the time without, of 64 MB 1.06; softmax down columns of 24 MB 1.06, of 64 MB 1.3).
constexpr std::int64_t share_of_streams = 4;

/// A pass over rows: the loop over rows, and within it the innermost one over vectors.
struct Pass {
  LoopRef rows, steps;
};

std::optional<Pass> vector_pass(const Schedule& schedule, const BlockRef& ref) {
  const std::vector<LoopRef> loops = schedule.loops(ref);
  bool vectors = false;
  for (size_t depth = loops.size(); depth-- > 1;) {
    const For& loop = schedule.node(loops[depth]);
    vectors |= loop.for_kind == ForKind::vectorized;
    if (loop.for_kind != ForKind::serial) continue;
    const bool asks = std::any_of(loop.annotations.begin(), loop.annotations.end(),
                                  [](const auto& annotation) { return annotation.first != shift_last_key; });
    return vectors && !asks ? std::optional(Pass{loops[depth - 1], loops[depth]}) : std::nullopt;
  }
  return std::nullopt;
}

/// Elements that an access whose walk_of this is moves when `loop` advances; nothing where that is no constant.
std::optional<std::int64_t> advance(const Expr& walk, const LoopRef& loop) {
  if (!walk) return std::nullopt;
  const auto linear = split_linear(walk, loop.variable);
  return linear ? std::optional(linear->first) : std::nullopt;
}

/// Rows that a pass walks side by side, in an unrolled loop within its steps.
std::int64_t rows_at_once(const Schedule& schedule, const BlockRef& ref, const Expr& walk, const Pass& pass) {
  const auto row = advance(walk, pass.rows);
  const std::vector<LoopRef> loops = schedule.loops(ref);
  for (auto loop = std::find(loops.begin(), loops.end(), pass.steps); loop != loops.end(); ++loop) {
    const std::int64_t* extent = as_int(schedule.node(*loop).extent);
    const auto moves = advance(walk, *loop);
    if (schedule.node(*loop).for_kind == ForKind::unrolled && extent && row && moves && *extent * *moves == *row)
      return *extent;
  }
  return 1;
}

/// The bytes of an access that one iteration of each loop covers, outermost first; nothing where a loop comes back to
/// what it has read, or goes on in steps that are not known.
std::optional<std::vector<std::int64_t>> bytes_within(const Schedule& schedule, const Expr& walk, std::int64_t element,
                                                      const std::vector<LoopRef>& loops) {
  std::vector<std::int64_t> bytes(loops.size());
  std::int64_t run = element;
  for (size_t depth = loops.size(); depth-- > 0;) {
    const Expr& extent = schedule.node(loops[depth]).extent;
    const auto moves = advance(walk, loops[depth]);
    bytes[depth] = run;
    if (is_int(extent, 1)) continue;
    if (!moves || *moves <= 0) return std::nullopt;
    run *= extent_estimate(extent);
  }
  return bytes;
}

/// Does the pass read something for every row anew that moves along a row?
bool reads_for_each_row(const Block& block, const std::vector<Access>& accesses, const LoopRef& row,
                        const LoopRef& steps) {
  return std::any_of(accesses.begin(), accesses.end(), [&](const Access& access) {
    if (access.store) return false;
    const Expr walk = walk_of(block, access);
    return advance(walk, row) == 0 && advance(walk, steps).value_or(0) != 0;
  });
}

/// Elements from what an iteration of `steps` reads to what it reads one iteration of an outer loop later: of the
/// outermost loop whose iterations leave room in `near` for what else is there. Nothing where hardware follows, as it
/// does pieces of rows of `piece` bytes, where that is not 0, and any that go on where the array `comes` from the last
/// cache.
std::optional<std::int64_t> streamed_ahead(const Schedule& schedule, const BlockRef& ref,
                                           const std::vector<Access>& accesses, const Expr& walk, std::int64_t element,
                                           const LoopRef& steps, std::int64_t near, std::int64_t piece, bool comes) {
  const Block& block = schedule.node(ref);
  const std::vector<LoopRef> loops = schedule.loops(ref);
  const auto bytes = bytes_within(schedule, walk, element, loops);
  if (!bytes) return std::nullopt;
  const size_t innermost = static_cast<size_t>(std::find(loops.begin(), loops.end(), steps) - loops.begin());
  size_t depth = 0;
  while (depth < innermost &&
         ((*bytes)[depth] > near / share_of_streams || is_int(schedule.node(loops[depth]).extent, 1)))
    ++depth;
  if (depth == innermost || (*bytes)[depth] <= page_bytes) return std::nullopt;
  const std::int64_t step = advance(walk, steps).value_or(0) * element;
  const bool followed = piece > 0 && (*bytes)[innermost] >= piece;
  const bool jumps = block.f.reducer && step >= least_jump && step > (*bytes)[innermost] && !followed;
  // Down a whole column no row goes on.
  const bool goes_on = depth + 1 < innermost;
  if (jumps) return comes && goes_on ? std::nullopt : advance(walk, loops[depth]);
  if (comes) return std::nullopt;
  // A block of rows that follow each other is more of the same.
  const auto is_block = [&](size_t outer) {
    const std::int64_t* extent = as_int(schedule.node(loops[outer + 1]).extent);
    const auto row = advance(walk, loops[outer + 1]);
    return extent && row && advance(walk, loops[outer]) == *extent * *row;
  };
  while (depth + 1 < innermost && is_block(depth)) ++depth;
  if ((*bytes)[depth] <= page_bytes) return std::nullopt;
  const bool costly = body_cost(block) >= costly_body;
  return costly && reads_for_each_row(block, accesses, loops[depth], steps) ? advance(walk, loops[depth])
                                                                            : std::nullopt;
}

/// Where the next rows are to wait, so far away, for a pass that reads as many again side by side; nothing where
/// hardware has it there in time.
std::optional<std::int64_t> cache_of_next_row(const RuleContext& context, const Block& block, const Access& access,
                                              std::int64_t ahead, std::int64_t rows) {
  const std::vector<CacheLevel>& caches = context.device.caches;
  const std::int64_t together = ahead * access.buffer->dtype.bytes(), bytes = together / rows;
  const bool costly = body_cost(block) >= costly_body;
  if (bytes > page_bytes)
    return costly && 2 * bytes <= own_cache_bytes(context.device) ? std::optional(second_cache) : std::nullopt;
  const double array = static_cast<double>(access.buffer->dtype.bytes()) *
                       estimated_elements(access.buffer, context.schedule.func()->facts);
  const bool waits = (costly || block.f.reducer) && caches.size() > 2 &&
                     bytes >= least_lines * caches.front().line_bytes && bytes % conflicting_bytes != 0 &&
                     share_of_row * together <= caches.front().bytes &&
                     share_of_array * array <= static_cast<double>(caches.back().bytes);
  return waits ? std::optional(first_cache) : std::nullopt;
}

}  // namespace

void prefetch_rows(RuleContext& context) {
  Schedule& schedule = context.schedule;
  const std::int64_t near = own_cache_bytes(context.device);
  if (near == 0) return;
  std::set<std::pair<const Var*, const BufferNode*>> asked;  // of rows that an earlier pass has brought near
  for (const BlockRef& ref : schedule.blocks()) {
    const Block& block = schedule.node(ref);
    if (has_blocks(block) || is_sealed(block)) continue;
    const auto bytes_of = [&](const Buffer& buffer) {
      return static_cast<double>(buffer->dtype.bytes()) * estimated_elements(buffer, schedule.func()->facts);
    };
    const auto is_far = [&](const Buffer& buffer) {
      return buffer->space != space::registers && bytes_of(buffer) > static_cast<double>(near);
    };
    if (std::none_of(block.f.reads.begin(), block.f.reads.end(),
                     [&](const Region& region) { return is_far(region.buffer); }))
      continue;
    const std::optional<Pass> pass = vector_pass(schedule, ref);
    if (!pass) continue;
    const Accesses accesses = block_accesses(block);
    for (const Access& access : accesses) {
      if (access.store || access.masked || !is_far(access.buffer)) continue;
      const Expr walk = walk_of(block, access);
      const auto row = advance(walk, pass->rows), step = advance(walk, pass->steps);
      if (!row || !step || *step <= 0) continue;
      std::optional<std::int64_t> ahead;
      std::int64_t cache = second_cache;
      // What the same step reads is no earlier pass.
      if (read_before(schedule, ref, pass->steps, access.buffer)) continue;
      if (read_before(schedule, ref, pass->rows, access.buffer)) {
        const std::optional<std::int64_t> waits =
            cache_of_next_row(context, block, access, *row, rows_at_once(schedule, ref, walk, *pass));
        if (!waits || !asked.emplace(pass->rows.variable.get(), access.buffer.get()).second) continue;
        ahead = row;
        cache = *waits;
      } else {
        ahead = streamed_ahead(schedule, ref, accesses, walk, access.buffer->dtype.bytes(), pass->steps, near,
                               context.device.stream_piece_bytes,
                               !comes_from_memory(context.device, bytes_of(access.buffer)));
      }
      if (!ahead) continue;
      attempt(context, fmt::format("have {} ask for {} {} elements ahead", ref.name, access.buffer->name, *ahead), [&] {
        annotate(schedule, pass->steps, "prefetch_offset", *ahead);
        annotate(schedule, pass->steps, "prefetch_cache", cache);
      });
      break;
    }
  }
}

}  // namespace lathe
