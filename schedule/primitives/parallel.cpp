#include "schedule/primitives/parallel.h"

#include <fmt/format.h>

#include <limits>

#include "ir/analysis/dependence.h"
#include "schedule/access.h"
#include "schedule/primitives/loop_kind.h"

namespace lathe {
namespace {

/// One buffer's use below a loop, by one block: the region of an instance, over the loops.
struct Use {
  Stmt block;
  Region region;
};

void collect_writes(const Stmt& s, std::vector<Use>& uses) {
  for_each_stmt(s, [&](const Stmt& at) {
    const Block* block = at.as<Block>();
    if (!block || block->f.iters.empty()) return;
    Substitution map;
    for (size_t i = 0; i < block->f.iters.size(); ++i) map[block->f.iters[i].variable.get()] = block->f.bindings[i];
    for (const Region& region : block->f.writes) uses.push_back({at, substitute(region, map)});
  });
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

  std::vector<Use> written;
  collect_writes(node.body, written);
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
  }
  // Instances of one block are told apart by its space iters; different blocks by what they touch.
  constexpr size_t all = std::numeric_limits<size_t>::max();
  for (const CarriedDependence& d : carried_dependences(at, bounds_at(schedule.func(), at), all, used_outside)) {
    if (d.first.block == d.second.block) continue;
    refuse(schedule, application, 5, "what a block below reads of another block below comes from the same iteration",
           d.kind == DependenceKind::anti ? d.first.block : d.second.block,
           fmt::format("may {} what another iteration writes to {}",
                       d.kind == DependenceKind::output ? "overwrite" : "read", d.first.region.buffer->name));
  }
  Annotations annotations = node.annotations;
  annotations["parallel_grain"] = grain;
  schedule.commit(
      replace_last(path, For::make(node.variable, node.min, node.extent, ForKind::parallel, node.body, annotations)),
      application);
}

}  // namespace lathe
