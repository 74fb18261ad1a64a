#include "schedule/auto/join_parts.h"

#include <fmt/format.h>

#include <algorithm>

#include "schedule/access.h"
#include "schedule/auto/block_model.h"
#include "schedule/primitives/join_loops.h"
#include "schedule/rewrite.h"

namespace lathe {
namespace {

/// Loops around an element-wise block alone.
struct Part {
  std::vector<const For*> loops;
  const Block* block = nullptr;

  const Region& stored() const { return block->f.writes[0]; }
};

std::optional<Part> part_of(const Stmt& nest) {
  Part part;
  Stmt at = nest;
  for (; at.as<For>(); at = at.as<For>()->body) part.loops.push_back(at.as<For>());
  part.block = at.as<Block>();
  if (!part.block || part.loops.empty() || part.block->f.reducer || part.block->f.init || has_blocks(*part.block) ||
      part.block->f.writes.size() != 1)
    return std::nullopt;
  return part;
}

/// Do both store to the same rows of the array as their iter `i` moves?
bool stores_alike(const Part& first, const Part& second, size_t i) {
  const Block::Fields &a = first.block->f, &b = second.block->f;
  Substitution same;
  for (size_t k = 0; k < b.iters.size(); ++k) same[b.iters[k].variable.get()] = a.iters[k].variable;
  for (size_t d = 0; d < first.stored().ranges.size(); ++d) {
    const Expr &mine = first.stored().ranges[d].min, theirs = substitute(second.stored().ranges[d].min, same);
    const Var* moved = a.iters[i].variable.get();
    if ((uses_var(mine, moved) || uses_var(theirs, moved)) && constant_difference(mine, theirs) != 0) return false;
  }
  return true;
}

/// The outer loops that the two have alike.
size_t common_loops(const Part& first, const Part& second) {
  if (first.stored().buffer != second.stored().buffer || first.block->f.iters.size() != second.block->f.iters.size())
    return 0;
  size_t common = 0;
  for (; common < std::min(first.loops.size(), second.loops.size()); ++common) {
    const For &a = *first.loops[common], &b = *second.loops[common];
    if (a.for_kind != ForKind::serial || b.for_kind != ForKind::serial || a.annotations != b.annotations ||
        constant_difference(a.min, b.min) != 0 || constant_difference(a.extent, b.extent) != 0)
      break;
    const std::optional<size_t> iter = iter_moved_by(*first.block, a.variable);
    if (!iter || iter_moved_by(*second.block, b.variable) != iter || !stores_alike(first, second, *iter)) break;
  }
  return common;
}

/// The bytes that an iteration of the outer loops touches.
double row_bytes(const Part& part, size_t outer, const std::vector<Fact>& facts) {
  double instances = instance_count(*part.block, facts), bytes = 0;
  for (size_t i = 0; i < outer; ++i)
    instances /= static_cast<double>(std::max<std::int64_t>(extent_estimate(part.loops[i]->extent, facts), 1));
  for (const Access& access : block_accesses(*part.block)) bytes += access.buffer->dtype.bytes();
  return bytes * instances;
}

double stored_bytes(const Part& part, const std::vector<Fact>& facts) {
  const Buffer& buffer = part.stored().buffer;
  return estimated_elements(buffer, facts) * static_cast<double>(buffer->dtype.bytes());
}

bool join(RuleContext& context, const Part& first, const Part& second, size_t loops) {
  const std::string what =
      fmt::format("walk the rows of {} and {} together", first.block->f.name, second.block->f.name);
  return attempt(context, what, [&] {
    for (size_t i = 0; i < loops; ++i)
      join_loops(context.schedule, {first.loops[i]->variable}, {second.loops[i]->variable});
  });
}

}  // namespace

void join_parts(RuleContext& context) {
  Schedule& schedule = context.schedule;
  if (context.device.caches.empty()) return;
  const auto first_cache = static_cast<double>(context.device.caches[0].bytes),
             own_caches = static_cast<double>(own_cache_bytes(context.device));
  const std::vector<Fact>& facts = schedule.func()->facts;
  std::vector<Part> group;  // joined so far; the first has the loops that they share
  for (const Stmt& nest : outermost_statements(schedule.func())) {
    const std::optional<Part> part = part_of(nest);
    if (!part) {
      group.clear();
      continue;
    }
    const size_t common = group.empty() ? 0 : common_loops(group[0], *part);
    double row = common > 0 ? row_bytes(*part, common, facts) : 0;
    for (const Part& other : group) row += common > 0 ? row_bytes(other, common, facts) : 0;
    const bool near = 2 * row <= own_caches, far = stored_bytes(*part, facts) > first_cache;
    if (common > 0 && near && far && join(context, group[0], *part, common)) {
      group[0].loops.resize(common);
    } else {
      group.clear();
    }
    group.push_back(*part);
  }
}

}  // namespace lathe
