#include "schedule/auto/part_copies.h"

#include <fmt/format.h>

#include <algorithm>

#include "ir/analysis/affine.h"
#include "ir/buffer.h"
#include "ir/error.h"
#include "ir/visitor.h"
#include "schedule/access.h"
#include "schedule/auto/block_model.h"
#include "schedule/auto/fuse_rows.h"
#include "schedule/auto/reduction_chain.h"
#include "schedule/auto/vectorize_elementwise.h"
#include "schedule/primitives/compute_at.h"
#include "schedule/primitives/compute_inline.h"
#include "schedule/primitives/reindex.h"
#include "schedule/primitives/reorder.h"
#include "schedule/primitives/transform_layout.h"
#include "schedule/rewrite.h"

namespace lathe {
namespace {

/// A copy of less than this share of a core's own caches stays there as a whole; a part takes as much at the most, and
/// so many make up the whole.
constexpr double own_share = 0.5, least_parts = 4;
/// How much more than the whole all parts may be, as tiles at an end are shifted inwards.
constexpr double most_repeated = 1.15;
/// Bytes in one piece of the array that a part is copied from: of shorter ones lines would be read for several parts.
constexpr std::int64_t least_piece = 64;
/// Of axes that were joined: longer than any.
constexpr std::int64_t unknown_stride = std::int64_t{1} << 40;

double room_of(const Device& device) {
  return own_share * static_cast<double>(own_cache_bytes(device));
}

double bytes_of(const Buffer& copied) {
  return estimated_elements(copied) * copied->dtype.bytes();
}

/// What a block copies for one reader, element by element, and nothing else; nothing where it does more.
Buffer copied_by(const Schedule& schedule, const BlockRef& ref) {
  const Block& block = schedule.node(ref);
  if (block.f.reducer || block.f.init || has_blocks(block) || is_sealed(block) || block.f.writes.size() != 1 ||
      fusion_wish(block) == FusionWish::apart || schedule.consumers(ref).size() != 1)
    return nullptr;
  const Store* store = block.f.body.as<Store>();
  const Load* load = store && !store->mask ? store->value.as<Load>() : nullptr;
  return load && !load->mask && is_allocated(schedule.func(), store->buffer) ? load->buffer : nullptr;
}

/// An array of the caller's, and what copies it one after another, the last first.
struct Copies {
  Buffer array;
  std::vector<BlockRef> blocks;
};
std::optional<Copies> copies_behind(const Schedule& schedule, const BlockRef& last) {
  Copies copies{copied_by(schedule, last), {last}};
  const std::vector<Buffer> params = buffer_params(schedule.func());
  while (copies.array && std::find(params.begin(), params.end(), copies.array) == params.end()) {
    const std::vector<BlockRef> makers = schedule.producers(copies.blocks.back());
    if (makers.size() != 1) return std::nullopt;
    copies.array = copied_by(schedule, makers[0]);
    copies.blocks.push_back(makers[0]);
  }
  return copies.array ? std::optional(copies) : std::nullopt;
}

/// Lays out what the block writes by its iters alone, where several of them count a dimension.
void take_apart(Schedule& schedule, const BlockRef& copy) {
  const Block& block = schedule.node(copy);
  const Buffer buffer = block.f.writes[0].buffer;
  LayoutMap map = same_layout(buffer->rank());
  map.to.clear();
  for (size_t d = 0; d < buffer->rank(); ++d) {
    const Affine place = to_affine(block.f.writes[0].ranges[d].min);
    std::vector<std::pair<std::int64_t, std::int64_t>> digits;  // how far a step of an iter goes, and how often
    for (const Iter& iter : block.f.iters) {
      const std::int64_t step = place.coefficient(Expr(iter.variable)), *extent = as_int(iter.domain.extent);
      if (step != 0 && extent) digits.emplace_back(step, *extent);
    }
    std::sort(digits.rbegin(), digits.rend());
    for (const auto& [step, extent] : digits) {
      Expr digit = step == 1 ? Expr(map.from[d]) : floor_div(Expr(map.from[d]), step);
      map.to.push_back(step == digits.front().first ? digit : floor_mod(digit, extent));
    }
    if (digits.empty()) map.to.push_back(Expr(map.from[d]));
  }
  if (map.to.size() > map.from.size()) transform_layout(schedule, copy, buffer->name, map);
}

/// Lays the copy out by `indices` of the reduction's iters.
void lay_out(Schedule& schedule, const BlockRef& reduction, const BlockRef& made, const std::vector<Expr>& indices) {
  const Buffer copied = schedule.node(made).f.writes[0].buffer;
  const Block& reader = schedule.node(reduction);
  LayoutMap map = same_layout(copied->rank());
  Substitution places;
  const Load* load = load_of(reader, copied);
  for (size_t d = 0; d < load->indices.size(); ++d) {
    const Var* iter = load->indices[d].as<Var>();
    if (!iter) throw Refusal("part_copies", 0, "an index of the copy is no iter");
    places[iter] = Expr(map.from[d]);
  }
  map.to.clear();
  for (const Expr& e : indices) map.to.push_back(substitute(e, places));
  transform_layout(schedule, reduction, copied->name, map);
}

/// Has the copy walk the array in its order; returns the bytes of a piece that it reads.
std::int64_t walk_array(Schedule& schedule, const BlockRef& copy) {
  struct Walk {
    std::int64_t stride, extent;
    LoopRef loop;
  };
  std::vector<Walk> walks;
  const Block& block = schedule.node(copy);
  std::int64_t element = 0;
  for (const Access& access : block_accesses(block)) {
    if (access.store) continue;
    element = access.buffer->dtype.bytes();
    for (size_t i = 0; i < block.f.iters.size(); ++i) {
      const std::optional<LoopRef> loop = driving_loop(schedule, copy, i);
      if (!loop) continue;
      const std::int64_t* extent = as_int(schedule.node(*loop).extent);
      if (!extent) throw Refusal("part_copies", 0, "a part has no known size");
      walks.push_back({std::abs(access.strides[i].value_or(unknown_stride)), *extent, *loop});
    }
  }
  std::stable_sort(walks.begin(), walks.end(), [](const Walk& a, const Walk& b) { return a.stride > b.stride; });
  std::vector<LoopRef> order;
  order.reserve(walks.size());
  for (const Walk& walk : walks) order.push_back(walk.loop);
  if (order.size() > 1) reorder(schedule, order);
  std::int64_t span = 1;
  for (auto walk = walks.rbegin(); walk != walks.rend() && walk->stride <= 2 * span; ++walk)
    span += walk->stride * (walk->extent - 1);
  return span * element;
}

bool is_vectorized(const Schedule& schedule, const BlockRef& block) {
  const std::vector<LoopRef> loops = own_loops(schedule, block);
  return std::any_of(loops.begin(), loops.end(),
                     [&](const LoopRef& loop) { return schedule.node(loop).for_kind == ForKind::vectorized; });
}

/// Is the copy made as a whole, in a nest that a rule has laid out?
bool is_whole(const RuleContext& context, const BlockRef& copy, const BlockRef& reduction) {
  const std::vector<LoopRef> loops = context.schedule.loops(copy), others = context.schedule.loops(reduction);
  return context.scheduled.contains(copy.name) && (loops.empty() || others.empty() || loops[0] != others[0]);
}

/// Copies under the loop what its iterations read; refuses where that is not worth it. Returns the copy.
Buffer copy_under(RuleContext& context, const BlockRef& reduction, const Copies& copies, const LoopRef& loop) {
  Schedule& schedule = context.schedule;
  const Buffer copied = schedule.node(copies.blocks[0]).f.writes[0].buffer;
  const std::vector<Expr> indices = load_of(schedule.node(reduction), copied)->indices;
  for (const BlockRef& block : copies.blocks) {
    take_apart(schedule, block);
    compute_inline(schedule, block);
  }
  const BlockRef part = reindex(schedule, reduction, copies.array->name);
  compute_at(schedule, part, loop);
  lay_out(schedule, reduction, part, indices);
  if (walk_array(schedule, part) < least_piece) throw Refusal("part_copies", 0, "the pieces of a part are short");
  vectorize_block(context, part);
  if (!is_vectorized(schedule, part)) throw Refusal("part_copies", 0, "no vectors copy a part");
  // That takes twice as long to compile, for little where the whole is copied at once.
  if (copies.blocks.size() == 1 && !schedule.producers(part).empty())
    throw Refusal("part_copies", 0, "a part goes through another copy");
  context.scheduled.insert(part.name);
  return schedule.node(part).f.writes[0].buffer;
}

/// Copies under the outermost loop where that can be done and a part stays near: its pieces are the longest, and little
/// of it is read while it is still being stored. Returns the copy, if there is one.
Buffer copy_in_parts(RuleContext& context, const BlockRef& reduction, const Copies& copies, double room) {
  const BlockRef& copy = copies.blocks[0];
  for (const LoopRef& loop : loops_of_parts(context, copy, reduction, most_repeated)) {
    if (live_bytes(context.schedule, context.schedule.node(copy), loop) > room) continue;
    const std::string decision =
        fmt::format("copy {} for {} by {}", copies.array->name, reduction.name, loop.variable->name);
    Buffer made;
    if (attempt(context, decision, [&] { made = copy_under(context, reduction, copies, loop); })) return made;
  }
  return nullptr;
}

Buffer make_parts(RuleContext& context, const BlockRef& reduction, const BlockRef& copy) {
  const Schedule& schedule = context.schedule;
  const std::optional<Copies> copies = copies_behind(schedule, copy);
  if (!copies || !is_whole(context, copy, reduction)) return nullptr;
  const Buffer copied = schedule.node(copy).f.writes[0].buffer;
  if (!load_of(schedule.node(reduction), copied) || !wants_parts(context.device, copied)) return nullptr;
  return copy_in_parts(context, reduction, *copies, std::min(room_of(context.device), bytes_of(copied) / least_parts));
}

}  // namespace

Buffer part_copies(RuleContext& context, const BlockRef& reduction, Buffer operand) {
  for (const BlockRef& copy : context.schedule.producers(reduction)) {
    const Buffer whole = context.schedule.node(copy).f.writes[0].buffer;
    const Buffer part = make_parts(context, reduction, copy);
    if (part && whole == operand) operand = part;
  }
  return operand;
}

bool wants_parts(const Device& device, const Buffer& copied) {
  return own_cache_bytes(device) > 0 && bytes_of(copied) > room_of(device);
}

}  // namespace lathe
