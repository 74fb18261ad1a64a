#include "schedule/auto/pair_rows.h"

#include <fmt/format.h>

#include <algorithm>

#include "schedule/access.h"
#include "schedule/auto/block_model.h"
#include "schedule/auto/fuse_rows.h"
#include "schedule/primitives/distribute.h"
#include "schedule/primitives/reorder.h"
#include "schedule/primitives/set_space.h"
#include "schedule/primitives/split.h"
#include "schedule/primitives/unroll.h"
#include "schedule/rewrite.h"

namespace lathe {
namespace {

constexpr std::int64_t rows_at_once = 2;
/// Bytes of a row up to which two are faster, and the share of the last cache that all rows, read and written, take at
/// the most (measured on Zen 4: layer norms of rows of 3 KB 0.77 to 0.86 of the time in up to 6 MB, 0.96 in 12 MB
/// and 1.7 beyond, as two streams come more slowly from memory; of rows of 8 KB 0.81, of 16 KB 1.03).
constexpr std::int64_t longest_row = 8192;
constexpr double share_of_arrays = 3;
/// And of what they are no multiple of, as loads of one row would then meet stores of the other in their low 12 bits
/// (RMS norm of rows of 4 KB 1.07 of the time, of 8 KB 1.23; of 2 KB 0.97 and 0.92).
constexpr std::int64_t conflicting_bytes = 4096;
/// Of the vector registers, what the sums of two rows fill at the most.
constexpr double filled_registers = 0.75;
/// Pairs for each core, so that they divide among these.
constexpr std::int64_t pairs_a_core = 4;

/// What a loop over rows does one after another: a pass along a row, or something without loops.
struct Pass {
  BlockRef block;
  std::optional<LoopRef> steps;  ///< inside which rows can stand side by side
  bool once;                     ///< no loops
};

struct Rows {
  LoopRef loop;
  std::vector<Pass> passes;
};

/// Nothing where there are more loops than one of steps around those of vectors.
std::optional<Pass> pass_of(const Stmt& part) {
  std::optional<LoopRef> steps;
  Stmt at = part;
  for (; at.as<For>(); at = at.as<For>()->body) {
    if (at.as<For>()->for_kind != ForKind::serial) continue;
    if (steps) return std::nullopt;
    steps = LoopRef{at.as<For>()->variable};
  }
  const Block* block = at.as<Block>();
  if (!block || has_blocks(*block) || is_sealed(*block) || block->f.writes.size() != 1) return std::nullopt;
  return Pass{{block->f.name}, steps, part.as<Block>() != nullptr};
}

std::optional<Rows> rows_of(const Stmt& nest) {
  Stmt at = nest;
  while (at.as<For>() && at.as<For>()->body.as<For>()) at = at.as<For>()->body;
  const For* loop = at.as<For>();
  const Seq* body = loop && loop->for_kind == ForKind::serial ? loop->body.as<Seq>() : nullptr;
  if (!body || body->stmts.empty()) return std::nullopt;
  Rows rows{{loop->variable}, {}};
  for (const Stmt& part : body->stmts) {
    const std::optional<Pass> pass = pass_of(part);
    if (!pass) return std::nullopt;
    rows.passes.push_back(*pass);
  }
  return rows;
}

/// Bytes that a block writes for one row, each of its instances an element of its own.
std::int64_t bytes_of_row(const Schedule& schedule, const Rows& rows, const BlockRef& ref) {
  const Block& block = schedule.node(ref);
  const std::vector<Fact>& facts = schedule.func()->facts;
  double elements = instance_count(block, facts);
  for (const LoopRef& loop : schedule.loops(ref)) {
    elements /= static_cast<double>(extent_estimate(schedule.node(loop).extent, facts));
    if (loop == rows.loop) break;
  }
  return static_cast<std::int64_t>(elements) * block.f.writes[0].buffer->dtype.bytes();
}

/// Bytes of the vectors that a block writes, each of which fills a register.
double vector_bytes(const Schedule& schedule, const BlockRef& ref, const Device& device) {
  const double most = device.vector_bits / 8.0;
  const std::vector<LoopRef> loops = schedule.loops(ref);
  const For* last = loops.empty() ? nullptr : &schedule.node(loops.back());
  const std::int64_t* lanes = last && last->for_kind == ForKind::vectorized ? as_int(last->extent) : nullptr;
  return lanes ? std::min(most, static_cast<double>(*lanes * schedule.node(ref).f.writes[0].buffer->dtype.bytes()))
               : most;
}

bool asks_ahead(const For& loop) {
  return std::any_of(loop.annotations.begin(), loop.annotations.end(),
                     [](const auto& annotation) { return annotation.first.starts_with("prefetch_param_"); });
}

/// Are rows reduced, and then written by a last pass, and two at once faster?
bool pays(const RuleContext& context, const Rows& rows) {
  const Schedule& schedule = context.schedule;
  const Device& device = context.device;
  const std::int64_t* extent = as_int(schedule.node(rows.loop).extent);
  if (!extent || *extent % rows_at_once != 0 || *extent / rows_at_once < pairs_a_core * device.cores) return false;
  const Block& last = schedule.node(rows.passes.back().block);
  if (last.f.reducer || rows.passes.back().once || device.caches.empty()) return false;
  const std::int64_t row = bytes_of_row(schedule, rows, rows.passes.back().block);
  const double bytes = bytes_of_buffers({&last}, schedule.func()->facts);
  // What is left behind whole vectors has bodies of its own, and two of each take too long to compile.
  if (row > longest_row || row % conflicting_bytes == 0 || row % (device.vector_bits / 8) != 0 ||
      share_of_arrays * bytes > static_cast<double>(device.caches.back().bytes))
    return false;
  // One row is asked for half a page ahead there.
  if (device.stream_ahead_bytes > 0 && bytes > static_cast<double>(own_cache_bytes(device))) return false;
  bool reduces = false;
  for (const Pass& pass : rows.passes) {
    const Block& block = schedule.node(pass.block);
    if (pass.once) continue;
    // Tiles that ask for what the next one reads would ask for their own other half.
    if (body_cost(block) >= function_body || (pass.steps && asks_ahead(schedule.node(*pass.steps)))) return false;
    reduces |= block.f.reducer.has_value();
    if (block.f.writes[0].buffer->space == space::registers &&
        rows_at_once * live_bytes(schedule, block, rows.loop) >
            filled_registers * device.vector_registers * vector_bytes(schedule, pass.block, device))
      return false;
  }
  return reduces;
}

/// Is what the block writes the kernel's own, and read below the loop alone, where registers can hold it?
bool stays_under(const Schedule& schedule, const BlockRef& ref, const LoopRef& loop) {
  const std::vector<BlockRef> readers = schedule.consumers(ref);
  return is_allocated(schedule.func(), schedule.node(ref).f.writes[0].buffer) &&
         std::all_of(readers.begin(), readers.end(), [&](const BlockRef& reader) {
           const std::vector<LoopRef> loops = schedule.loops(reader);
           return std::find(loops.begin(), loops.end(), loop) != loops.end();
         });
}

}  // namespace

bool goes_in_pairs(const RuleContext& context, const BlockRef& ref) {
  const std::vector<LoopRef> loops = context.schedule.loops(ref);
  if (loops.empty()) return false;
  const std::optional<Rows> rows = rows_of(path_to(context.schedule, loops.front()).back());
  return rows &&
         std::any_of(rows->passes.begin(), rows->passes.end(), [&](const Pass& pass) { return pass.block == ref; }) &&
         pays(context, *rows);
}

void pair_rows(RuleContext& context) {
  Schedule& schedule = context.schedule;
  for (const Stmt& nest : outermost_statements(schedule.func())) {
    const std::optional<Rows> rows = rows_of(nest);
    if (!rows || !pays(context, *rows)) continue;
    attempt(context, fmt::format("walk {} rows of {} side by side", rows_at_once, rows->loop.variable->name), [&] {
      auto [some, side_by_side] = split(schedule, rows->loop, rows_at_once);
      for (size_t i = 0; i < rows->passes.size(); ++i) {
        const Pass& pass = rows->passes[i];
        LoopRef rest = side_by_side;
        if (i + 1 < rows->passes.size()) rest = distribute(schedule, side_by_side, rows->passes[i + 1].block);
        if (pass.once && stays_under(schedule, pass.block, some)) set_space(schedule, pass.block, space::registers);
        if (pass.steps) reorder(schedule, {*pass.steps, side_by_side});
        unroll(schedule, side_by_side);
        side_by_side = rest;
      }
    });
  }
}

}  // namespace lathe
