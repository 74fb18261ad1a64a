#include "schedule/auto/hoist_offsets.h"

#include <fmt/format.h>

#include <algorithm>

#include "ir/error.h"
#include "schedule/auto/block_model.h"
#include "schedule/primitives/cache_write.h"
#include "schedule/primitives/compute_inline.h"
#include "schedule/primitives/hoist_offset.h"
#include "schedule/rewrite.h"

namespace lathe {
namespace {

/// How often each element of a factor is multiplied from which on adding it up beside costs little.
constexpr double least_reuse = 8;
constexpr int byte_bits = 8;

/// Does the block widen bytes, plus or minus a constant or not, and nothing else?
bool widens(const Block& block) {
  const Store* store = block.f.body.as<Store>();
  if (!store || !only_space(block)) return false;
  const Binary* node = store->value.as<Binary>();
  const bool offset = node && (node->op == BinaryOp::add || node->op == BinaryOp::sub) && as_int(node->b);
  const Cast* cast = (offset ? node->a : store->value).as<Cast>();
  const Load* load = cast ? cast->value.as<Load>() : nullptr;
  return load && !load->mask && load->dtype.is_integer() && load->dtype.bits == byte_bits && cast->dtype.is_integer() &&
         cast->dtype.bits > load->dtype.bits;
}

bool multiplies_bytes(const Block& block) {
  const Accesses accesses = block_accesses(block);
  return std::all_of(accesses.begin(), accesses.end(), [&](const Access& access) {
    return access.store || writes(block, access.buffer) || access.buffer->dtype.bits == byte_bits;
  });
}

bool has_offset(const Block& block) {
  return block.f.body.as<Store>()->value.as<Binary>() != nullptr;
}

/// Is each element that an operand of the block has taken again and again?
bool reuses_operands(const Block& block) {
  const Accesses accesses = block_accesses(block);
  return std::all_of(accesses.begin(), accesses.end(), [&](const Access& access) {
    if (access.store || writes(block, access.buffer)) return true;
    double reuse = 1;
    for (size_t i = 0; i < block.f.iters.size(); ++i) {
      if (access.strides[i] == 0) reuse *= static_cast<double>(extent_estimate(block.f.iters[i].domain.extent));
    }
    return reuse >= least_reuse;
  });
}

}  // namespace

void hoist_offsets(RuleContext& context, const BlockRef& ref) {
  Schedule& schedule = context.schedule;
  if (context.device.intrinsics.empty()) return;
  std::vector<BlockRef> makers;
  bool offset = !offset_factor(schedule.node(ref)).empty();
  for (const BlockRef& maker : schedule.producers(ref)) {
    const Block& block = schedule.node(maker);
    if (context.scheduled.contains(maker.name) || !widens(block) || schedule.consumers(maker).size() != 1) continue;
    offset |= has_offset(block);
    makers.push_back(maker);
  }
  if (!offset || !reuses_operands(schedule.node(ref))) return;
  attempt(context, fmt::format("take constants out of the terms of {}", ref.name), [&] {
    for (const BlockRef& maker : makers) compute_inline(schedule, maker);
    if (offset_factor(schedule.node(ref)).empty() || !multiplies_bytes(schedule.node(ref)))
      throw Refusal("hoist_offsets", 1,
                    "hoist_offsets refused: condition 1, factors are of bytes, of which one has more");
    const bool is_output = !is_allocated(schedule.func(), schedule.node(ref).f.writes[0].buffer);
    if (is_output || schedule.consumers(ref).empty()) cache_write(schedule, ref, space::global);
    for (std::string name = offset_factor(schedule.node(ref)); !name.empty(); name = offset_factor(schedule.node(ref)))
      hoist_offset(schedule, ref, name);
  });
}

}  // namespace lathe
