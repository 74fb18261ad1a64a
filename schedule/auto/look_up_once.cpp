#include "schedule/auto/look_up_once.h"

#include <fmt/format.h>

#include <algorithm>

#include "ir/visitor.h"
#include "schedule/auto/block_model.h"
#include "schedule/primitives/reindex.h"
#include "schedule/rewrite.h"

namespace lathe {
namespace {

/// Buffers whose elements the reduction finds by data, which no vector walks, and each for several results.
std::vector<std::string> looked_up(const RuleContext& context, const Block& block) {
  std::vector<std::string> names;
  const std::vector<Fact>& facts = context.schedule.func()->facts;
  for_each_expr(block.f.body, [&](const Expr& e) {
    const Load* load = e.as<Load>();
    if (!load || load->mask || load->indices.empty() || !has_load(load->indices.back())) return;
    double found = 1;
    for (const Iter& iter : block.f.iters) {
      const bool used = std::any_of(load->indices.begin(), load->indices.end(),
                                    [&](const Expr& index) { return uses_var(index, iter.variable.get()); });
      if (used) found *= static_cast<double>(extent_estimate(iter.domain.extent));
    }
    const std::string& name = load->buffer->name;
    if (instance_count(block, facts) >= results_that_share * found &&
        std::find(names.begin(), names.end(), name) == names.end())
      names.push_back(name);
  });
  return names;
}

}  // namespace

void look_up_once(RuleContext& context) {
  Schedule& schedule = context.schedule;
  for (const BlockRef& ref : schedule.blocks()) {
    const Block& block = schedule.node(ref);
    if (!block.f.reducer || has_blocks(block) || is_sealed(block)) continue;
    for (const std::string& name : looked_up(context, block))
      attempt(context, fmt::format("look {} up once for {}", name, ref.name), [&] { reindex(schedule, ref, name); });
  }
}

}  // namespace lathe
