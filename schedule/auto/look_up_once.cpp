#include "schedule/auto/look_up_once.h"

#include <fmt/format.h>

#include <algorithm>

#include "ir/visitor.h"
#include "schedule/auto/block_model.h"
#include "schedule/primitives/reindex.h"
#include "schedule/rewrite.h"

namespace lathe {
namespace {

/// Has the place been checked? Bounds alone are left of what an index says that need not lie inside.
bool is_checked(const RuleContext& context, const BlockRef& ref, const Expr& place) {
  const std::vector<BlockRef> makers = context.schedule.producers(ref);
  bool found = false;
  for_each_expr(place, [&](const Expr& e) {
    const Load* load = e.as<Load>();
    found |= load && std::any_of(makers.begin(), makers.end(), [&](const BlockRef& maker) {
               const Block& made = context.schedule.node(maker);
               return asserts(made) && writes(made, load->buffer);
             });
  });
  return found;
}

/// Do the results for which an element is looked up fill a vector, or half of one, which then multiplies each element
/// as it is found (measured on Zen 4, bytes by 8 and 16 rows: half of the time)?
bool fills_a_vector(const RuleContext& context, const Block& block, double results) {
  const auto lanes = static_cast<double>(vector_lanes(block, context.device));
  return results == lanes || 2 * results == lanes;
}

/// Does data find the elements that neighbours along the last axis read, and are these few enough to stay near?
bool is_found_by_neighbours(const RuleContext& context, const Block& block, const Load& load) {
  if (block.f.iters.empty()) return false;
  const Var* last = block.f.iters.back().variable.get();
  const bool found = std::any_of(load.indices.begin(), load.indices.end(),
                                 [&](const Expr& index) { return has_load(index) && uses_var(index, last); });
  const double bytes = elements_walked(block, load, context.schedule.func()->facts) * load.buffer->dtype.bytes();
  return found && bytes <= static_cast<double>(own_cache_bytes(context.device));
}

/// Buffers whose elements the block finds by data, which no vector walks, and each for several results.
std::vector<std::string> looked_up(const RuleContext& context, const BlockRef& ref) {
  const Block& block = context.schedule.node(ref);
  const std::vector<Fact>& facts = context.schedule.func()->facts;
  std::vector<std::string> names;
  for_each_expr(block.f.body, [&](const Expr& e) {
    const Load* load = e.as<Load>();
    if (!load || load->mask || load->indices.empty()) return;
    if (block.f.reducer ? !has_load(load->indices.back()) : !is_found_by_neighbours(context, block, *load)) return;
    const double results = instance_count(block, facts) / std::max(elements_walked(block, *load, facts), 1.0);
    const std::string& name = load->buffer->name;
    if (results < results_that_share ||
        (block.f.reducer && fills_a_vector(context, block, results) &&
         !is_checked(context, ref, load->indices.back())) ||
        std::find(names.begin(), names.end(), name) != names.end())
      return;
    names.push_back(name);
  });
  return names;
}

}  // namespace

void look_up_once(RuleContext& context) {
  Schedule& schedule = context.schedule;
  for (const BlockRef& ref : schedule.blocks()) {
    const Block& block = schedule.node(ref);
    if (has_blocks(block) || is_sealed(block) || asserts(block)) continue;
    for (const std::string& name : looked_up(context, ref))
      attempt(context, fmt::format("look {} up once for {}", name, ref.name), [&] { reindex(schedule, ref, name); });
  }
}

}  // namespace lathe
