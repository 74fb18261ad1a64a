#include "schedule/auto/stage_operands.h"

#include <fmt/format.h>

#include <algorithm>

#include "ir/reduction.h"
#include "ir/visitor.h"
#include "schedule/access.h"
#include "schedule/auto/block_model.h"
#include "schedule/primitives/cache_padding.h"
#include "schedule/primitives/cache_read.h"
#include "schedule/primitives/transform_layout.h"
#include "schedule/rewrite.h"

namespace lathe {
namespace {

/// Reads of an element for which a copy is made: fewer cost less than writing the copy and reading it back.
constexpr double copy_reuse = 32;
/// The widest step between elements for which the lines that a copy reads still serve whole.
constexpr std::int64_t most_interleaved = 4;

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

}  // namespace

void stage_operands(RuleContext& context, const BlockRef& reduction) {
  stage_padding(context, reduction);
  stage_strided(context, reduction);
}

}  // namespace lathe
