#include "schedule/auto/ask_next_tile.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <iterator>
#include <utility>
#include <vector>

#include "ir/analysis/affine.h"
#include "ir/buffer.h"
#include "schedule/auto/block_model.h"
#include "schedule/primitives/annotate.h"
#include "schedule/rewrite.h"

namespace lathe {
namespace {

/// The distance of steps in bytes from which on hardware loses them.
constexpr std::int64_t least_jump = 512;
/// Bytes of neighbouring steps at whose end hardware has hardly begun to follow.
constexpr std::int64_t longest_run = 1024;
/// Sums of a tile for each line that a step asks for: fewer, and asking would take their slots, of which multiply-adds
/// leave few where two of whole lines start each cycle.
std::int64_t sums_of_line(const Device& device) {
  return multiplies_lines(device) ? 6 : 1;
}
/// Of rows that are read side by side, each a run along the steps that hardware follows no sooner than it ends: tiles
/// of them that a core's own caches have room for, and by what part a row may be longer than its run where one walk
/// asks for all (measured on Zen 4, rows of a matrix of 24 MB by four columns, dot products: rows of 64 floats 0.63 of
/// the time, of 128 to 850 0.25 to 0.38, of 2,000 to 8,192 0.65 to 0.8; where two multiply-adds of whole lines start
/// each cycle hardware keeps up, and asking took 1.05 to 1.2).
constexpr std::int64_t least_room = 2, longer_row = 4;
/// The bytes of a run that is worth it; and how many times the sums for each line where the array stays in the last
/// cache (the same: rows of 48 bytes from there 1.06 of the time; in 3 to 8 MB one to three columns 1.1 to 1.2, four
/// and more 0.92 to 1).
constexpr std::int64_t shortest_run_asked = 256, near_sums = 5;
/// Iterations of loops in which the operand stands still, each of which asks for the same again.
constexpr std::int64_t most_repeated = 4;

/// Cycles that a line takes from memory, and what is asked for after fewer comes late (measured on Zen 4: tiles of 7 x
/// 2 that take 12 steps, which ask for those of the next row of tiles, 0.66 of the time).
constexpr double late_cycles = 512;

/// How far an access goes with an iteration of a loop around its block, in elements.
std::int64_t moved_by(const Block& block, const Access& access, const LoopRef& loop) {
  std::int64_t elements = 0;
  for (size_t i = 0; i < block.f.iters.size(); ++i)
    elements += to_affine(block.f.bindings[i]).coefficient(Expr(loop.variable)) * access.strides[i].value_or(0);
  return elements;
}

/// The same either way, in bytes.
std::int64_t bytes_moved(const Block& block, const Access& access, const LoopRef& loop) {
  return std::abs(moved_by(block, access, loop)) * access.buffer->dtype.bytes();
}

/// A tile as what it asks for sees it.
struct TileWork {
  double cycles;      ///< of its sums
  std::int64_t room;  ///< of such tiles in a core's own caches
};

/// How far it goes to the next tile, or to one behind that where that one is so soon that lines would come late: of the
/// loop around as many tiles as take as long, which is where they are even where inner loops begin anew, or so many
/// tiles on. 0 where that is not soon, or the same.
std::int64_t next_tile(const Schedule& schedule, const Block& block, const Access& access,
                       const std::vector<LoopRef>& around, const TileWork& tile) {
  std::int64_t repeated = 1, tiles = 1, parts = 1, next = 0;  // parts: tiles that read others of the array
  for (auto loop = around.rbegin(); loop != around.rend() && parts <= tile.room; ++loop) {
    const std::int64_t* extent = as_int(schedule.node(*loop).extent);
    if (!extent) break;
    if (*extent == 1) continue;
    if (const std::int64_t moved = moved_by(block, access, *loop)) {
      if (static_cast<double>(tiles) * tile.cycles >= late_cycles) return moved;
      if (next == 0) next = moved * static_cast<std::int64_t>(std::ceil(late_cycles / tile.cycles));
      parts *= *extent;
    } else {
      repeated *= *extent;
      if (repeated > most_repeated) break;
    }
    tiles *= *extent;
  }
  return next;
}

/// What a step of a tile reads, by the loops within the tile.
struct StepLines {
  std::int64_t lines;
  bool whole;  ///< does it read all of them?
};
StepLines lines_of_step(const Schedule& schedule, const Block& block, const Access& access,
                        const std::vector<LoopRef>& within, std::int64_t line) {
  const std::int64_t elements = line / access.buffer->dtype.bytes();
  std::int64_t reach = 0, lines = 1;
  for (const LoopRef& loop : within) {
    const std::int64_t moved = std::abs(moved_by(block, access, loop)),
                       extent = as_int(schedule.node(loop).extent) ? *as_int(schedule.node(loop).extent) : 1;
    if (moved >= elements) {
      lines *= extent;
    } else {
      reach += moved * (extent - 1);
    }
  }
  return {lines * (1 + reach / elements), reach + 1 >= elements};
}

/// Rows of a tile, each of which reads one run along the steps.
struct RowRuns {
  std::int64_t pitch, run;  ///< elements from row to row, and of each
  std::int64_t step;        ///< those that a step goes on by
  std::int64_t walk;        ///< those of all rows for each step
};
std::optional<RowRuns> row_runs(const Schedule& schedule, const Block& block, const Access& access,
                                const LoopRef& steps, const std::vector<LoopRef>& within, std::int64_t line) {
  const std::int64_t elements = line / access.buffer->dtype.bytes(), step = moved_by(block, access, steps);
  const std::int64_t* extent = as_int(schedule.node(steps).extent);
  if (!extent || *extent < 1 || step <= 0 || step > elements) return std::nullopt;
  std::vector<std::pair<std::int64_t, std::int64_t>> rows;  // how far, how often
  for (const LoopRef& loop : within) {
    const std::int64_t pitch = moved_by(block, access, loop);
    const std::int64_t* count = as_int(schedule.node(loop).extent);
    if (pitch == 0 || (pitch > 0 && pitch < step)) continue;
    if (!count || pitch <= step * (*extent - 1)) return std::nullopt;
    if (*count > 1) rows.emplace_back(pitch, *count);
  }
  if (rows.empty()) return std::nullopt;
  std::sort(rows.begin(), rows.end());
  const std::int64_t pitch = rows.front().first;
  std::int64_t count = 1;
  for (const auto& [moved, times] : rows) {
    if (moved != pitch * count) return std::nullopt;
    count *= times;
  }
  return RowRuns{pitch, step * *extent, step, (count * pitch + *extent - 1) / *extent};
}

/// The loops of a tile, those over parts of its steps first.
struct TileLoops {
  std::int64_t steps = 1, parts = 1, sums = 1;  ///< all of its steps; how many parts; vectors that each step adds to
  std::vector<LoopRef> within;                  ///< over what it holds
};
std::optional<TileLoops> tile_loops(const Schedule& schedule, const Block& block, const std::vector<LoopRef>& loops,
                                    std::int64_t lanes, size_t part_loops) {
  TileLoops tile;
  for (size_t k = 0; k < loops.size(); ++k) {
    const std::int64_t* extent = as_int(schedule.node(loops[k]).extent);
    if (!extent) return std::nullopt;
    if (k < part_loops) tile.parts *= *extent;
    if (k < part_loops || drives(block, IterKind::reduce, schedule.node(loops[k]))) {
      tile.steps *= *extent;
    } else {
      tile.sums *= *extent;
      tile.within.push_back(loops[k]);
    }
  }
  tile.sums /= lanes;
  return tile;
}

/// What is asked for of a parameter: how far ahead; and where loads of neighbouring steps share lines, elements that
/// the walk over all that the tile reads goes on by with each.
struct Asked {
  size_t param;
  std::int64_t ahead, walk = 0;
};

/// `jumps`: does an access go on elsewhere with each step, or run of them?
void ask_next(RuleContext& context, const BlockRef& ref, const LoopRef& steps, size_t outside, size_t part_loops,
              std::int64_t least_run, const std::function<bool(const Access&)>& jumps) {
  const Device& device = context.device;
  if (device.caches.empty()) return;
  Schedule& schedule = context.schedule;
  const Block& block = schedule.node(ref);
  const std::int64_t line = device.caches.front().line_bytes, own = own_cache_bytes(device);
  const std::vector<LoopRef> loops = schedule.loops(ref);
  const auto tile_at = loops.begin() + static_cast<std::ptrdiff_t>(outside),
             part_at = tile_at + static_cast<std::ptrdiff_t>(part_loops);
  const auto tile = tile_loops(schedule, block, {tile_at, loops.end()}, vector_lanes(block, device), part_loops);
  if (!tile || tile->steps == 0) return;
  const auto work = [&](std::int64_t count, std::int64_t bytes) {
    const auto updates = static_cast<double>(std::max<std::int64_t>(count * tile->sums, 1));
    return TileWork{updates / static_cast<double>(device.fma_per_cycle), own / std::max<std::int64_t>(2 * bytes, 1)};
  };
  const std::vector<LoopRef> around(loops.begin(), tile_at);
  const auto next_of = [&](const Access& access, const StepLines& read) {
    const std::int64_t next =
        next_tile(schedule, block, access, around, work(tile->steps, tile->steps * read.lines * line));
    // Where a tile reads more than stays until the next one, the next part of its own: of whole lines, as others serve
    // the tile beside it too.
    if (next != 0 || part_loops == 0 || !read.whole) return next;
    const std::int64_t steps_of_part = tile->steps / tile->parts;
    return next_tile(schedule, block, access, {loops.begin(), part_at},
                     work(steps_of_part, steps_of_part * read.lines * line));
  };
  const std::vector<Buffer> params = buffer_params(schedule.func());
  std::vector<Asked> asked;
  for (const Access& access : block_accesses(block)) {
    const auto param = std::find(params.begin(), params.end(), access.buffer);
    const std::int64_t bytes = access.buffer->dtype.bytes();
    const double array = estimated_elements(access.buffer) * static_cast<double>(bytes);
    if (access.store || access.masked || param == params.end() || array <= static_cast<double>(own)) continue;
    const StepLines read = lines_of_step(schedule, block, access, tile->within, line);
    Asked ask{static_cast<size_t>(param - params.begin()), 0};
    std::int64_t lines = read.lines, sums = sums_of_line(device);
    if (jumps(access)) {
      ask.ahead = next_of(access, read);
    } else if (const auto runs = row_runs(schedule, block, access, steps, tile->within, line)) {
      if (multiplies_lines(device) || runs->run * bytes < std::max(least_run, shortest_run_asked)) continue;
      if (runs->step * bytes < line) {
        // Of rows that lie far apart a walk would ask for what is between them.
        if (longer_row * (runs->pitch - runs->run) > runs->run) continue;
        ask.walk = runs->walk;
        lines = (runs->walk * bytes + line - 1) / line;
      }
      const TileWork rows = work(tile->steps, tile->steps * runs->walk * bytes);
      if (rows.room >= least_room) ask.ahead = next_tile(schedule, block, access, around, rows);
      if (!comes_from_memory(device, array)) sums *= near_sums;
    }
    if (ask.ahead == 0 || lines * sums > tile->sums) continue;
    // What the next tile reads of the same lines is there already.
    const std::int64_t next = std::abs(ask.ahead) * bytes;
    ask.ahead *= (line + next - 1) / next;
    asked.push_back(ask);
  }
  for (const Asked& ask : asked) {
    context.note(fmt::format("ask for what the next tile of {} reads of {}", ref.name, params[ask.param]->name));
    annotate(schedule, steps, fmt::format("prefetch_param_{}", ask.param), ask.ahead);
    if (ask.walk > 0) annotate(schedule, steps, fmt::format("prefetch_walk_{}", ask.param), ask.walk);
    annotate(schedule, steps, "prefetch_cache", 2);
  }
}

}  // namespace

void ask_next_tile(RuleContext& context, const BlockRef& ref, const LoopRef& steps, size_t outside, size_t part_loops,
                   std::int64_t least_run) {
  const Block& block = context.schedule.node(ref);
  ask_next(context, ref, steps, outside, part_loops, least_run,
           [&](const Access& access) { return bytes_moved(block, access, steps) >= least_jump; });
}

void ask_next_runs(RuleContext& context, const BlockRef& ref, const LoopRef& tile) {
  const Schedule& schedule = context.schedule;
  const Block& block = schedule.node(ref);
  const std::vector<LoopRef> loops = schedule.loops(ref);
  // A block below its reader has loops over tiles there, too.
  const auto begin = std::find_if(std::find(loops.begin(), loops.end(), tile), loops.end(), [&](const LoopRef& loop) {
    return drives(block, IterKind::reduce, schedule.node(loop));
  });
  std::vector<LoopRef> steps;  // outermost first
  std::copy_if(begin, loops.end(), std::back_inserter(steps), [&](const LoopRef& loop) {
    const For& node = schedule.node(loop);
    return drives(block, IterKind::reduce, node) && !is_int(node.extent, 1);
  });
  if (steps.empty()) return;
  const auto jumps = [&](const Access& access) {
    std::int64_t run = 0;
    for (auto loop = steps.rbegin(); loop != steps.rend(); ++loop) {
      const std::int64_t bytes = bytes_moved(block, access, *loop);
      if (bytes >= least_jump) return run <= longest_run;
      run = std::max(run, bytes * extent_estimate(schedule.node(*loop).extent));
    }
    return false;
  };
  ask_next(context, ref, steps.back(), static_cast<size_t>(begin - loops.begin()), 0, 0, jumps);
}

}  // namespace lathe
