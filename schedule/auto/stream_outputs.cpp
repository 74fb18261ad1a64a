#include "schedule/auto/stream_outputs.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "ir/analysis/simplify.h"
#include "schedule/access.h"
#include "schedule/auto/block_model.h"
#include "schedule/primitives/annotate.h"
#include "schedule/rewrite.h"

namespace lathe {
namespace {

constexpr const char* streams = "streaming_stores";

/// The element that an access names, over the loops around the block, but for a constant; null where it is not affine
/// in the iters. Fused loops, which are bound by quotient and remainder, are one walk again.
Expr walk_of(const Block& block, const Access& access) {
  Expr element = index(0);
  for (size_t i = 0; i < block.f.iters.size(); ++i) {
    const std::optional<std::int64_t>& stride = access.strides[i];
    if (!stride) return {};
    if (*stride != 0) element = element + block.f.bindings[i] * *stride;
  }
  return simplify(element);
}

/// Bytes that vectors write side by side in the innermost loops, before these go elsewhere; 0 for scalars.
std::int64_t bytes_side_by_side(const Schedule& schedule, const BlockRef& ref, const Access& access) {
  const std::vector<LoopRef> loops = schedule.loops(ref);
  const Expr walk = walk_of(schedule.node(ref), access);
  if (!walk) return 0;
  std::int64_t run = 1;
  bool vectors = false;
  for (auto loop = loops.rbegin(); loop != loops.rend(); ++loop) {
    const For& node = schedule.node(*loop);
    const std::int64_t* extent = as_int(node.extent);
    const auto linear = split_linear(walk, loop->variable);
    if (!extent || !linear || linear->first != run) break;
    run *= *extent;
    vectors |= node.for_kind == ForKind::vectorized;
  }
  return vectors ? run * access.buffer->dtype.bytes() : 0;
}

std::optional<std::int64_t> constant_bytes(const Buffer& buffer) {
  std::int64_t bytes = buffer->dtype.bytes();
  for (const Expr& extent : buffer->shape) {
    if (!as_int(extent)) return std::nullopt;
    bytes *= *as_int(extent);
  }
  return bytes;
}

/// The one block that writes the buffer, each element once; nothing where it is read, or written in another way.
std::optional<BlockRef> only_writer(const Schedule& schedule, const Buffer& buffer) {
  std::optional<BlockRef> writer;
  for (const BlockRef& ref : schedule.blocks()) {
    const Block& block = schedule.node(ref);
    if (has_blocks(block)) continue;
    if (reads(block, buffer)) return std::nullopt;
    if (!writes(block, buffer)) continue;
    const bool once = std::all_of(block.f.iters.begin(), block.f.iters.end(),
                                  [](const Iter& iter) { return iter.kind == IterKind::space; });
    if (writer || !once || is_sealed(block)) return std::nullopt;
    writer = ref;
  }
  return writer;
}

void stream(RuleContext& context, const Buffer& buffer, std::int64_t bytes) {
  Schedule& schedule = context.schedule;
  const std::optional<BlockRef> writer = only_writer(schedule, buffer);
  if (!writer) return;
  const int line = context.device.caches.back().line_bytes;
  const std::vector<Access> accesses = block_accesses(schedule.node(*writer));
  const bool lines = std::all_of(accesses.begin(), accesses.end(), [&](const Access& access) {
    return access.buffer != buffer || bytes_side_by_side(schedule, *writer, access) >= line;
  });
  const std::vector<LoopRef> loops = schedule.loops(*writer);
  if (!lines || loops.empty()) return;
  attempt(context,
          fmt::format("stream {} past the caches, {} MB written by {}", buffer->name, bytes >> 20, writer->name),
          [&] { annotate(schedule, loops.front(), streams, 1); });
}

}  // namespace

std::int64_t least_streamed_bytes(const Device& device) {
  return device.caches.empty() ? std::numeric_limits<std::int64_t>::max() : device.caches.back().bytes / 2;
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
