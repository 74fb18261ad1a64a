#include "schedule/primitives/parallel.h"

#include <fmt/format.h>

#include <algorithm>
#include <unordered_set>

#include "ir/analysis/regions.h"
#include "schedule/access.h"
#include "schedule/carried.h"
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

/// Parameters, and what blocks read or write that do not lie below the loop that the path ends with.
std::unordered_set<const BufferNode*> used_outside(const Func& func, const Path& path) {
  std::unordered_set<const BufferNode*> used;
  for (const Buffer& param : buffer_params(func)) used.insert(param.get());
  const std::function<void(const Stmt&)> walk = [&](const Stmt& s) {
    if (s == path.back()) return;
    switch (s->kind) {
      case StmtKind::For:
        return walk(s.as<For>()->body);
      case StmtKind::Seq:
        for (const Stmt& child : s.as<Seq>()->stmts) walk(child);
        return;
      case StmtKind::Block:
        if (std::find(path.begin(), path.end(), s) != path.end()) return walk(s.as<Block>()->f.body);
        for (const Region& region : s.as<Block>()->f.reads) used.insert(region.buffer.get());
        for (const Region& region : s.as<Block>()->f.writes) used.insert(region.buffer.get());
        return;
      case StmtKind::Let:
        return walk(s.as<Let>()->body);
      case StmtKind::If:
        walk(s.as<If>()->then_case);
        if (s.as<If>()->else_case) walk(s.as<If>()->else_case);
        return;
      case StmtKind::While:
        return walk(s.as<While>()->body);
      default:
        return;
    }
  };
  walk(func->body);
  return used;
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
  const std::unordered_set<const BufferNode*> outside = used_outside(schedule.func(), path);
  for (const Use& use : written) {
    bool uses_loop = false;
    for (const Range& range : use.region.ranges) uses_loop |= uses_var(range.min, loop.variable.get());
    if (is_int(node.extent, 1)) uses_loop = true;
    if (!uses_loop && outside.contains(use.region.buffer.get())) {
      refuse(schedule, application, 4,
             "a block below that does not use loop writes only buffers that nothing outside of loop reads or writes",
             use.block, fmt::format("writes the same elements of {} in every iteration", use.region.buffer->name));
    }
  }
  // Each iteration has for itself what it writes before it reads it, if nobody else looks.
  Bounds inside = bounds_at(schedule.func(), path);
  inside.bind(node.variable, Range{node.min, node.extent});
  std::unordered_set<const BufferNode*> shared = outside;
  const auto is_private = [&](const Buffer& buffer) { return !outside.contains(buffer.get()); };
  for (const ExposedRead& read : exposed_reads(node.body, inside, is_private)) shared.insert(read.region.buffer.get());
  require_apart(schedule, application, 5,
                "no two iterations meet in an element that one of them writes, but for buffers that nothing outside of "
                "loop uses and that each iteration writes before it reads them",
                path, [&](const Buffer& buffer) { return shared.contains(buffer.get()); });
  Annotations annotations = node.annotations;
  annotations["parallel_grain"] = grain;
  schedule.commit(
      replace_last(path, For::make(node.variable, node.min, node.extent, ForKind::parallel, node.body, annotations)),
      application);
}

}  // namespace lathe
