#include "schedule/auto/stage_operands.h"

#include <fmt/format.h>

#include <algorithm>

#include "ir/reduction.h"
#include "ir/visitor.h"
#include "schedule/access.h"
#include "schedule/auto/block_model.h"
#include "schedule/auto/contraction.h"
#include "schedule/auto/register_tile.h"
#include "schedule/primitives/cache_padding.h"
#include "schedule/primitives/cache_read.h"
#include "schedule/primitives/reorder.h"
#include "schedule/primitives/split.h"
#include "schedule/primitives/transform_layout.h"
#include "schedule/primitives/vectorize.h"
#include "schedule/rewrite.h"

namespace lathe {
namespace {

/// Reads of an element for which a copy is made: fewer cost less than writing the copy and reading it back.
constexpr double copy_reuse = 32;
/// The widest step between elements for which the lines that a copy reads still serve whole.
constexpr std::int64_t most_interleaved = 4;

/// Cycles that an element takes to be copied to where the next one is far away.
constexpr double turn_cycles = 1.5;
/// What is estimated to take longer than this part is left as it is.
constexpr double worth_turning = 0.9;

bool worth_copying(const Block& reader, const Buffer& buffer) {
  double elements = 1;
  for (const Expr& extent : buffer->shape) elements *= static_cast<double>(extent_estimate(extent));
  return instance_count(reader) >= copy_reuse * elements;
}

/// Copies of what the reduction pads, where each element is read so often that choosing between it and the padding at
/// every read costs more.
void stage_padding(RuleContext& context, const BlockRef& ref) {
  const Block& block = context.schedule.node(ref);
  std::vector<std::string> padded;
  for_each_expr(block.f.body, [&](const Expr& e) {
    const Select* select = e.as<Select>();
    const Load* load = select ? select->when_true.as<Load>() : nullptr;
    if (load && worth_copying(block, load->buffer)) padded.push_back(load->buffer->name);
  });
  for (const std::string& buffer : padded) {
    attempt(context, fmt::format("pad {} once for {}", buffer, ref.name),
            [&] { cache_padding(context.schedule, ref, buffer, space::global); });
  }
}

/// The load that alone keeps vectors from walking the output's contiguous iter, as it moves by a few elements a step;
/// with that step.
std::optional<std::pair<Buffer, std::int64_t>> strided_operand(const Block& block) {
  const std::optional<ReductionParts> parts = match_update(block);
  if (!parts || parts->outputs.size() != 1) return std::nullopt;
  const std::vector<Access> accesses = block_accesses(block);
  for (size_t i = 0; i < block.f.iters.size(); ++i) {
    const Iter& iter = block.f.iters[i];
    if (iter.kind != IterKind::space || extent_estimate(iter.domain.extent) < 2) continue;
    std::optional<std::pair<Buffer, std::int64_t>> found;
    bool along = true;
    for (const Access& access : accesses) {
      const std::optional<std::int64_t> stride = access.strides[i];
      if (access.buffer == parts->outputs[0].buffer) {
        along &= stride == 1;
      } else if (stride && *stride > 1 && *stride <= most_interleaved && !access.masked && !found) {
        found = {access.buffer, *stride};
      } else {
        along &= stride == 0 || stride == 1;
      }
    }
    if (along && found) return found;
  }
  return std::nullopt;
}

/// Sets the elements of a strided operand apart by their place in a step, in a copy: `x[2 * j + k]` becomes
/// `copy[k % 2, j + k // 2]`, along which vectors can walk.
void stage_strided(RuleContext& context, const BlockRef& ref) {
  Schedule& schedule = context.schedule;
  const auto operand = strided_operand(schedule.node(ref));
  if (!operand || !worth_copying(schedule.node(ref), operand->first)) return;
  const auto& [buffer, step] = *operand;
  attempt(context, fmt::format("set every {} elements of {} apart for {}", step, buffer->name, ref.name), [&] {
    std::string name = buffer->name;
    const std::vector<BlockRef> makers = schedule.producers(ref);
    const bool own = std::any_of(makers.begin(), makers.end(), [&](const BlockRef& maker) {
      return writes(schedule.node(maker), buffer) && schedule.consumers(maker).size() == 1;
    });
    if (!own) name = schedule.node(cache_read(schedule, ref, name, space::global)).f.writes[0].buffer->name;
    LayoutMap map;
    for (size_t d = 0; d < buffer->rank(); ++d) map.from.push_back(Var::make(fmt::format("i{}", d)));
    for (const VarRef& variable : map.from) map.to.emplace_back(variable);
    const Expr last = map.to.back();
    map.to.back() = floor_mod(last, step);
    map.to.push_back(floor_div(last, step));
    transform_layout(schedule, ref, name, map);
  });
}

/// An operand that could be turned: its buffer, and the dimension that the reduction walks.
struct Turnable {
  std::string buffer;
  size_t dimension;
  double elements;
};

/// The operand that vectors walk along a space iter, while all others lie along the one reduce iter.
std::optional<Turnable> turnable_operand(const Block& block, const ReductionShape& shape) {
  if (!shape.vector_space || shape.reduce.size() != 1) return std::nullopt;
  const size_t depth = shape.reduce[0];
  const Load* found = nullptr;
  bool several = false;
  for_each_expr(block.f.body, [&](const Expr& e) {
    const Load* load = e.as<Load>();
    if (!load || load->buffer == block.f.writes[0].buffer) return;
    const auto along = split_linear(load->indices.back(), block.f.iters[*shape.vector_space].variable);
    if (!along || along->first != 1) return;
    several |= found != nullptr || load->mask;
    found = load;
  });
  if (!found || several) return std::nullopt;
  for (const Access& access : block_accesses(block)) {
    if (access.store || access.buffer == block.f.writes[0].buffer || access.buffer == found->buffer) continue;
    if (access.masked || access.strides[depth] != 1) return std::nullopt;
  }
  Turnable operand{found->buffer->name, found->indices.size(), 1};
  for (size_t d = 0; d < found->indices.size(); ++d) {
    if (found->indices[d] == Expr(block.f.iters[depth].variable)) operand.dimension = d;
    operand.elements *= static_cast<double>(extent_estimate(found->buffer->shape[d]));
  }
  if (operand.dimension + 1 >= found->indices.size()) return std::nullopt;
  return operand;
}

}  // namespace

void turn_operand(RuleContext& context, const BlockRef& ref) {
  Schedule& schedule = context.schedule;
  const Block& block = schedule.node(ref);
  const std::optional<ReductionShape> shape = reduction_shape(block);
  const std::optional<Turnable> operand = shape ? turnable_operand(block, *shape) : std::nullopt;
  if (!operand) return;
  const auto extent = [&](size_t i) {
    const std::int64_t* value = as_int(block.f.iters[i].domain.extent);
    return value ? std::optional(*value) : std::nullopt;
  };
  const size_t columns = shape->vector_space.value_or(0);
  const TiledExtents extents{shape->rows ? extent(*shape->rows) : 1, extent(columns), extent(shape->reduce[0])};
  const std::int64_t lanes = vector_lanes(block, context.device), bits = widest_bits(block);
  // Everything but rows and columns is done so many times over.
  double times = 1;
  for (const size_t i : shape->space) {
    if (i != shape->rows && i != columns) times *= static_cast<double>(extent_estimate(block.f.iters[i].domain.extent));
  }
  const double tiles = times * choose_tile(context.device, lanes, bits, extents).cycles;
  const double dots =
      times * dot_product_cycles(context.device, lanes, bits, extents) + turn_cycles * operand->elements;
  if (dots > tiles * worth_turning) return;
  attempt(context, fmt::format("turn {} around for {}", operand->buffer, ref.name), [&] {
    const BlockRef copy = cache_read(schedule, ref, operand->buffer, space::global);
    const Buffer turned = schedule.node(copy).f.writes[0].buffer;
    LayoutMap map;
    for (size_t d = 0; d < turned->rank(); ++d) map.from.push_back(Var::make(fmt::format("i{}", d)));
    map.to.assign(map.from.begin(), map.from.end());
    std::swap(map.to[operand->dimension], map.to.back());
    transform_layout(schedule, ref, turned->name, map);
    std::vector<LoopRef> order = own_loops(schedule, copy);
    std::swap(order[operand->dimension], order.back());
    reorder(schedule, order);
    vectorize(schedule, split(schedule, order.back(), lanes).second);
    context.scheduled.insert(copy.name);
  });
}

void stage_operands(RuleContext& context, const BlockRef& reduction) {
  stage_padding(context, reduction);
  stage_strided(context, reduction);
}

}  // namespace lathe
