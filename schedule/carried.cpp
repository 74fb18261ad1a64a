#include "schedule/carried.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cstdlib>

#include "ir/text/print.h"

namespace lathe {

Bounds bounds_at(const Func& func, const Path& path) {
  Bounds bounds(func);
  for (size_t i = 0; i + 1 < path.size(); ++i) {
    if (const For* loop = path[i].as<For>()) {
      bounds.bind(loop->variable, Range{loop->min, loop->extent});
    } else if (const Let* let = path[i].as<Let>()) {
      bounds.bind_value(let->variable, let->value);
    } else if (const If* node = path[i].as<If>()) {
      bounds.assume(path[i + 1] == node->then_case ? node->condition : logical_not(node->condition));
    } else if (const Block* block = path[i].as<Block>()) {
      if (block->f.predicate) bounds.assume(block->f.predicate);
      for (const Iter& iter : block->f.iters) bounds.bind(iter.variable, iter.domain);
    }
  }
  return bounds;
}

void refuse_carried(const Schedule& schedule, const std::string& application, int condition, const std::string& text,
                    const CarriedDependence& carried, const std::vector<const For*>& nest, const std::string& advice) {
  const CarriedDependence::Access &first = carried.first, &second = carried.second;
  std::vector<std::string> steps, loops;
  for (size_t i = 0; i < nest.size(); ++i) {
    loops.push_back(nest[i]->variable->name);
    if (const auto& back = carried.distance[i]) {
      steps.push_back(fmt::format("{} {} {}", loops.back(), *back < 0 ? '+' : '-', std::abs(*back)));
    }
  }
  const std::string where =
      steps.size() == nest.size()
          ? fmt::format("at {}", fmt::join(steps, ", "))
          : fmt::format("in {} iteration of {}", nest.size() == 1 ? "an earlier" : "another", fmt::join(loops, ", "));
  const std::string who =
      first.block ? "block " + first.block.as<Block>()->f.name : std::string("a statement in no block");
  const std::string note =
      fmt::format("may {} {}, which {} {} as {} {}", second.is_write ? "write" : "read", print(second.region), who,
                  first.is_write ? "writes" : "reads", print(first.region), where);
  refuse(schedule, application, condition, text, second.block ? second.block : Stmt(nest.back()), note, advice);
}

void require_apart(const Schedule& schedule, const std::string& application, int condition, const std::string& text,
                   const Path& path, const std::function<bool(const Buffer&)>& considered, const std::string& advice) {
  const auto found = carried_dependences(path.back(), bounds_at(schedule.func(), path), 1, considered);
  if (!found.empty()) {
    refuse_carried(schedule, application, condition, text, found.front(), {path.back().as<For>()}, advice);
  }
}

}  // namespace lathe
