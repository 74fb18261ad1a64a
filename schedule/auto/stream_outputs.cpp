#include "schedule/auto/stream_outputs.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "schedule/access.h"
#include "schedule/auto/block_model.h"
#include "schedule/auto/memory_walk.h"
#include "schedule/auto/tile_operands.h"
#include "schedule/primitives/annotate.h"
#include "schedule/rewrite.h"

namespace lathe {
namespace {

constexpr const char* streams = "streaming_stores";

std::optional<std::int64_t> constant_bytes(const Buffer& buffer) {
  const std::optional<std::int64_t> elements = constant_elements(buffer);
  return elements ? std::optional(*elements * buffer->dtype.bytes()) : std::nullopt;
}

/// The blocks that write the buffer, each element once; none where it is read, or written in another way.
std::vector<BlockRef> writers_of(const Schedule& schedule, const Buffer& buffer) {
  std::vector<BlockRef> writers;
  std::int64_t written = 0;
  for (const BlockRef& ref : schedule.blocks()) {
    const Block& block = schedule.node(ref);
    if (has_blocks(block)) continue;
    if (reads(block, buffer)) return {};
    if (!writes(block, buffer)) continue;
    const bool once = std::all_of(block.f.iters.begin(), block.f.iters.end(),
                                  [](const Iter& iter) { return iter.kind == IterKind::space; });
    if (!once || is_sealed(block)) return {};
    std::int64_t instances = 1;
    for (size_t i = 0; i < block.f.iters.size(); ++i) instances *= constant_extent(block, i).value_or(0);
    writers.push_back(ref);
    written += instances;
  }
  // Parts of a whole, as of what was joined, not one result over another.
  if (writers.size() > 1 && written != constant_elements(buffer)) return {};
  return writers;
}

void stream(RuleContext& context, const Buffer& buffer, std::int64_t bytes) {
  Schedule& schedule = context.schedule;
  const int line = context.device.caches.back().line_bytes;
  const std::vector<BlockRef> writers = writers_of(schedule, buffer);
  const auto fills_lines = [&](const BlockRef& writer) {
    const Accesses accesses = block_accesses(schedule.node(writer));
    return std::all_of(accesses.begin(), accesses.end(), [&](const Access& access) {
      return access.buffer != buffer || bytes_side_by_side(schedule, writer, access) >= line;
    });
  };
  for (const BlockRef& writer : writers) {
    const std::vector<LoopRef> loops = schedule.loops(writer);
    if (loops.empty() || schedule.node(loops.front()).annotations.contains(streams)) continue;
    // All that is stored below the loop goes the same way.
    const bool lines = std::all_of(writers.begin(), writers.end(), [&](const BlockRef& other) {
      const std::vector<LoopRef> around = schedule.loops(other);
      return around.empty() || !(around.front() == loops.front()) || fills_lines(other);
    });
    if (!lines) continue;
    attempt(context,
            fmt::format("stream {} past the caches, {} MB written by {}", buffer->name, bytes >> 20, writer.name),
            [&] { annotate(schedule, loops.front(), streams, 1); });
  }
}

}  // namespace

std::int64_t least_streamed_bytes(const Device& device) {
  const bool pays = !device.caches.empty() && device.cores >= device.streaming_cores;
  return pays ? device.caches.back().bytes / 2 : std::numeric_limits<std::int64_t>::max();
}

bool may_stream(const Buffer& buffer, const Device& device) {
  const std::optional<std::int64_t> bytes = constant_bytes(buffer);
  return bytes && *bytes >= least_streamed_bytes(device) && buffer->strides.empty() && buffer->alignment > 0 &&
         buffer->alignment % device.caches.back().line_bytes == 0;
}

void stream_outputs(RuleContext& context) {
  for (const Buffer& buffer : buffer_params(context.schedule.func())) {
    const std::optional<std::int64_t> bytes = constant_bytes(buffer);
    if (bytes && may_stream(buffer, context.device)) stream(context, buffer, *bytes);
  }
}

}  // namespace lathe
