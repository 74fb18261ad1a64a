#include "schedule/primitives/parallel.h"

#include <fmt/format.h>

#include "schedule/access.h"
#include "schedule/primitives/loop_kind.h"

namespace lathe {
namespace {

/// One buffer's use below a loop, by one block: the region of an instance, over the loops.
struct Use {
  Stmt block;
  Region region;
};

void collect(const Stmt& s, const Block* skip, bool writes, std::vector<Use>& uses) {
  for_each_stmt(s, [&](const Stmt& at) {
    const Block* block = at.as<Block>();
    if (!block || block == skip || block->f.iters.empty()) return;
    Substitution map;
    for (size_t i = 0; i < block->f.iters.size(); ++i) map[block->f.iters[i].variable.get()] = block->f.bindings[i];
    for (const Region& region : writes ? block->f.writes : block->f.reads) uses.push_back({at, substitute(region, map)});
  });
}

/// The dimensions' minima that use the loop, as text independent of inner loops: equal for two uses means that an iteration
/// of the loop reads what it wrote itself.
bool same_slice(const Region& a, const Region& b, const VarRef& loop) {
  for (size_t d = 0; d < a.ranges.size(); ++d) {
    const auto left = split_linear(a.ranges[d].min, loop), right = split_linear(b.ranges[d].min, loop);
    if (left && right && left->first != 0 && left->first == right->first && a.ranges[d].min == b.ranges[d].min) return true;
    if (left && right && left->first != 0 && constant_difference(a.ranges[d].min, b.ranges[d].min) == 0) return true;
  }
  return false;
}

}  // namespace

void parallel(Schedule& schedule, const LoopRef& loop, std::int64_t grain) {
  const Path path = path_to(schedule, loop);
  const Stmt& at = path.back();
  const For& node = *at.as<For>();
  const std::string application = fmt::format("parallel({}, {})", schedule.place(loop), grain);
  if (grain < 1) refuse(schedule, application, 1, "grain is at least 1", at, "cannot run in such tasks");
  const std::string alone = "loop is serial, and no loop around it or below it is parallel";
  if (node.for_kind != ForKind::serial) {
    refuse(schedule, application, 2, alone, at, "is " + std::string(to_string(node.for_kind)));
  }
  const auto check_other = [&](const Stmt& s) {
    const For* other = s.as<For>();
    if (other && other->for_kind == ForKind::parallel) refuse(schedule, application, 2, alone, s, "is parallel");
  };
  for (const Stmt& s : path) check_other(s);
  for_each_stmt(node.body, check_other);
  require_space_iters(schedule, application, 3, at);

  std::vector<Use> written, read;
  collect(node.body, nullptr, true, written);
  collect(node.body, nullptr, false, read);
  const auto used_outside = [&](const Buffer& buffer) {
    for (const Buffer& param : buffer_params(schedule.func())) {
      if (param == buffer) return true;
    }
    size_t inside = 0, all = 0;
    const auto count = [&](const Stmt& s, size_t& total) {
      const Block* block = s.as<Block>();
      if (block && s != path.front() && (reads(*block, buffer) || writes(*block, buffer))) ++total;
    };
    for_each_stmt(node.body, [&](const Stmt& s) { count(s, inside); });
    for_each_stmt(schedule.func()->body, [&](const Stmt& s) { count(s, all); });
    return inside != all;
  };
  for (const Use& use : written) {
    bool uses_loop = false;
    for (const Range& range : use.region.ranges) uses_loop |= uses_var(range.min, loop.variable.get());
    if (is_int(node.extent, 1)) uses_loop = true;
    if (!uses_loop && used_outside(use.region.buffer)) {
      refuse(schedule, application, 4,
             "a block below that does not use loop writes only buffers that nothing outside of loop reads or writes",
             use.block, fmt::format("writes the same elements of {} in every iteration", use.region.buffer->name));
    }
    for (const Use& other : read) {
      if (other.region.buffer != use.region.buffer || other.block == use.block) continue;
      if (is_int(node.extent, 1) || same_slice(use.region, other.region, loop.variable)) continue;
      if (used_outside(use.region.buffer)) {
        refuse(schedule, application, 5, "what a block below reads of another block below comes from the same iteration",
               other.block, fmt::format("may read what another iteration writes to {}", use.region.buffer->name));
      }
    }
  }
  Annotations annotations = node.annotations;
  annotations["parallel_grain"] = grain;
  schedule.commit(
      replace_last(path, For::make(node.variable, node.min, node.extent, ForKind::parallel, node.body, annotations)),
      application);
}

}  // namespace lathe
