#include "schedule/auto/ask_ahead.h"

#include <fmt/format.h>

#include <algorithm>

#include "ir/analysis/simplify.h"
#include "schedule/access.h"
#include "schedule/auto/block_model.h"
#include "schedule/auto/memory_walk.h"
#include "schedule/auto/stream_outputs.h"
#include "schedule/primitives/annotate.h"
#include "schedule/rewrite.h"

namespace lathe {
namespace {

/// A run is so many times as long as what is asked for ahead of it, of which the last of it asks for nothing of use.
constexpr std::int64_t least_run = 8;

/// A parameter that a pass streams from or to.
struct Stream {
  LoopRef steps;
  size_t param;
  std::int64_t elements;  ///< ahead
};

/// What the passes of a loop nest stream.
struct Nest {
  LoopRef outermost;
  double bytes = 0;  ///< of all parameters that they stream, each once
  bool writes = false;
  std::vector<Buffer> seen = {};
  std::vector<Stream> streams = {};
};

/// The place in `loops` of the innermost one around vectors and copies of them; nothing where there are none.
std::optional<size_t> loop_of_steps(const Schedule& schedule, const std::vector<LoopRef>& loops) {
  bool vectors = false;
  for (size_t depth = loops.size(); depth-- > 0;) {
    const ForKind kind = schedule.node(loops[depth]).for_kind;
    vectors |= kind == ForKind::vectorized;
    if (kind != ForKind::serial && kind != ForKind::parallel) continue;
    return vectors ? std::optional(depth) : std::nullopt;
  }
  return std::nullopt;
}

/// Adds to the nest around a block what that streams.
void add_streams(const Schedule& schedule, const BlockRef& ref, std::int64_t ahead, const std::vector<Buffer>& params,
                 const std::vector<LoopRef>& loops, size_t depth, Nest& nest) {
  const Block& block = schedule.node(ref);
  const LoopRef& steps = loops[depth];
  for (const Access& access : block_accesses(block)) {
    const auto param = std::find(params.begin(), params.end(), access.buffer);
    if (param == params.end() || access.masked) continue;
    if (bytes_row_by_row(schedule, ref, access) < least_run * ahead) continue;
    if (!access.store && depth > 0 && read_before(schedule, ref, loops[depth - 1], access.buffer)) continue;
    const std::int64_t bytes = access.buffer->dtype.bytes();
    nest.writes |= access.store;
    if (std::find(nest.seen.begin(), nest.seen.end(), access.buffer) == nest.seen.end()) {
      nest.seen.push_back(access.buffer);
      nest.bytes += static_cast<double>(bytes) * estimated_elements(access.buffer, schedule.func()->facts);
    }
    nest.streams.push_back({steps, static_cast<size_t>(param - params.begin()), ahead / bytes});
  }
}

/// The annotation that asks for a parameter, by its place.
std::string asks_for(size_t param) {
  return fmt::format("prefetch_param_{}", param);
}

}  // namespace

void ask_for_rows(RuleContext& context, const LoopRef& loop, const std::vector<Access>& accesses, size_t across,
                  size_t along, std::int64_t rows) {
  if (context.device.stream_ahead_bytes == 0) return;
  const Func& func = context.schedule.func();
  const std::vector<Buffer> params = buffer_params(func);
  const auto near = static_cast<double>(own_cache_bytes(context.device));
  for (const Access& access : accesses) {
    const auto param = std::find(params.begin(), params.end(), access.buffer);
    const std::int64_t row = access.strides[along].value_or(0);
    // Stores past the caches read no lines.
    if (param == params.end() || access.masked || access.strides[across] != 1 || row <= 0 ||
        (access.store && may_stream(access.buffer, context.device)) ||
        estimated_elements(access.buffer, func->facts) * access.buffer->dtype.bytes() <= near)
      continue;
    annotate(context.schedule, loop, asks_for(static_cast<size_t>(param - params.begin())), rows * row);
  }
}

void ask_ahead(RuleContext& context) {
  Schedule& schedule = context.schedule;
  const std::int64_t ahead = context.device.stream_ahead_bytes;
  if (ahead == 0) return;
  const std::vector<Buffer> params = buffer_params(schedule.func());
  std::vector<Nest> nests;
  for (const BlockRef& ref : schedule.blocks()) {
    const Block& block = schedule.node(ref);
    if (has_blocks(block) || is_sealed(block)) continue;
    const std::vector<LoopRef> loops = schedule.loops(ref);
    const std::optional<size_t> depth = loop_of_steps(schedule, loops);
    // One loop asks for one thing: rows ahead, or this; and stores past the caches read no lines.
    if (!depth || schedule.node(loops[*depth]).annotations.contains("prefetch_offset") ||
        schedule.node(loops.front()).annotations.contains("streaming_stores"))
      continue;
    if (nests.empty() || !(nests.back().outermost == loops.front())) nests.push_back({.outermost = loops.front()});
    add_streams(schedule, ref, ahead, params, loops, *depth, nests.back());
  }
  const auto near = static_cast<double>(own_cache_bytes(context.device));
  for (const Nest& nest : nests) {
    if (!nest.writes || nest.bytes <= near) continue;
    attempt(context, fmt::format("ask {} bytes ahead under {}", ahead, nest.outermost.variable->name), [&] {
      for (const Stream& stream : nest.streams)
        annotate(schedule, stream.steps, asks_for(stream.param), stream.elements);
    });
  }
}

}  // namespace lathe
