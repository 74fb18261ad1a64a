#include "schedule/primitives/loop_kind.h"

#include <fmt/format.h>

#include <algorithm>
#include <unordered_map>
#include <unordered_set>

#include "ir/analysis/regions.h"
#include "schedule/carried.h"

namespace lathe {
namespace {

/// One buffer's use below a loop, by one block: the region of an instance, over the loops.
struct Use {
  Stmt block;
  Region region;
};

/// Of the outermost blocks with instances of their own: what lies in them uses their iters, not the loops.
void collect_writes(const Stmt& s, std::vector<Use>& uses) {
  for (const Stmt& at : outer_blocks(s)) {
    const Block* block = at.as<Block>();
    if (block->f.iters.empty()) {
      collect_writes(block->f.body, uses);
      continue;
    }
    Substitution map;
    for (size_t i = 0; i < block->f.iters.size(); ++i) map[block->f.iters[i].variable.get()] = block->f.bindings[i];
    for (const Region& region : block->f.writes) uses.push_back({at, substitute(region, map)});
  }
}

/// For each buffer that blocks below touch, the dimensions in which every inferred region is the variable of `loop`
/// alone. False when something else than blocks in loops may touch a buffer.
bool find_slices(const Stmt& s, const Var* loop, std::unordered_map<const BufferNode*, std::vector<bool>>& slices) {
  switch (s->kind) {
    case StmtKind::For:
      return find_slices(s.as<For>()->body, loop, slices);
    case StmtKind::Seq:
      return std::all_of(s.as<Seq>()->stmts.begin(), s.as<Seq>()->stmts.end(),
                         [&](const Stmt& child) { return find_slices(child, loop, slices); });
    case StmtKind::Block:
      break;
    default:
      return false;
  }
  const Block& block = *s.as<Block>();
  if (block.f.iters.empty()) return find_slices(block.f.body, loop, slices);
  const auto is_loop = [&](const Expr& e) {
    if (e.as<Var>() == loop) return true;
    for (size_t i = 0; i < block.f.iters.size(); ++i) {
      if (e == Expr(block.f.iters[i].variable)) return block.f.bindings[i].as<Var>() == loop;
    }
    return false;
  };
  for (const auto* regions : {&block.f.reads, &block.f.writes}) {
    for (const Region& region : *regions) {
      std::vector<bool>& dimensions = slices.try_emplace(region.buffer.get(), region.ranges.size(), true).first->second;
      for (size_t d = 0; d < region.ranges.size(); ++d) {
        const Range& range = region.ranges[d];
        if (is_hint(region) || !is_int(range.extent, 1) || !is_loop(range.min)) dimensions[d] = false;
      }
    }
  }
  return true;
}

/// The buffers of which each iteration of `loop` touches a slice of its own, by the declared regions alone.
std::unordered_set<const BufferNode*> sliced_by(const For& loop) {
  std::unordered_map<const BufferNode*, std::vector<bool>> slices;
  std::unordered_set<const BufferNode*> found;
  if (!find_slices(loop.body, loop.variable.get(), slices)) return found;
  for (const auto& [buffer, dimensions] : slices) {
    if (buffer->view_of) return {};
    if (std::find(dimensions.begin(), dimensions.end(), true) != dimensions.end()) found.insert(buffer);
  }
  return found;
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
        for_each_expr(s.as<If>()->condition, [&](const Expr& e) {
          if (const Load* load = e.as<Load>()) used.insert(load->buffer.get());
        });
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

Stmt with_kind(const For& loop, ForKind kind) {
  return For::make(loop.variable, loop.min, loop.extent, kind, loop.body, loop.annotations);
}

void require_constant_extent(const Schedule& schedule, const std::string& application, int number, const Stmt& loop) {
  const std::int64_t* extent = as_int(loop.as<For>()->extent);
  if (!extent || *extent < 1) {
    refuse(schedule, application, number, "the extent is a constant of at least 1", loop,
           extent ? "never runs" : "has an extent that is no constant", "split it by a constant first");
  }
}

void require_space_iters(const Schedule& schedule, const std::string& application, int number, const Stmt& loop) {
  const Var* variable = loop.as<For>()->variable.get();
  for (const Stmt& s : outer_blocks(loop.as<For>()->body)) {
    const Block& block = *s.as<Block>();
    for (size_t i = 0; i < block.f.iters.size(); ++i) {
      if (block.f.iters[i].kind != IterKind::space && uses_var(block.f.bindings[i], variable)) {
        refuse(schedule, application, number,
               "no reduce, ordered or opaque iter below is bound to an expression of loop", s,
               fmt::format("binds {} iter {} to it", to_string(block.f.iters[i].kind), block.f.iters[i].variable->name),
               block.f.iters[i].kind == IterKind::reduce ? "rfactor makes a space iter of it" : "");
      }
    }
  }
}

std::vector<Buffer> require_independent_iterations(const Schedule& schedule, const std::string& application, int first,
                                                   const Path& path) {
  const For& node = *path.back().as<For>();
  require_space_iters(schedule, application, first, path.back());

  std::vector<Use> written;
  collect_writes(node.body, written);
  const std::unordered_set<const BufferNode*> outside = used_outside(schedule.func(), path);
  for (const Use& use : written) {
    bool uses_loop = false;
    for (const Range& range : use.region.ranges) uses_loop |= uses_var(range.min, node.variable.get());
    if (is_int(node.extent, 1)) uses_loop = true;
    if (!uses_loop && outside.contains(use.region.buffer.get())) {
      refuse(schedule, application, first + 1,
             "a block below that does not use loop writes only buffers that nothing outside of loop reads or writes",
             use.block, fmt::format("writes the same elements of {} in every iteration", use.region.buffer->name));
    }
  }
  // Each iteration has for itself what it writes before it reads it, if nobody else looks.
  Bounds inside = bounds_at(schedule.func(), path);
  inside.bind(node.variable, Range{node.min, node.extent});
  std::unordered_set<const BufferNode*> shared = outside;
  const std::unordered_set<const BufferNode*> sliced = sliced_by(node);
  const auto is_private = [&](const Buffer& buffer) {
    return !outside.contains(buffer.get()) && !sliced.contains(buffer.get());
  };
  for (const ExposedRead& read : exposed_reads(node.body, inside, is_private)) shared.insert(read.region.buffer.get());
  require_apart(schedule, application, first + 2,
                "no two iterations meet in an element that one of them writes, but for buffers that nothing outside of "
                "loop uses and that each iteration writes before it reads them",
                path,
                [&](const Buffer& buffer) { return shared.contains(buffer.get()) && !sliced.contains(buffer.get()); });
  std::vector<Buffer> own;
  for (const Use& use : written) {
    const Buffer& buffer = use.region.buffer;
    if (shared.contains(buffer.get()) || sliced.contains(buffer.get()) ||
        std::find(own.begin(), own.end(), buffer) != own.end())
      continue;
    const auto only = [&](const Buffer& other) { return other == buffer; };
    if (!carried_dependences(path.back(), bounds_at(schedule.func(), path), 1, only).empty()) own.push_back(buffer);
  }
  return own;
}

}  // namespace lathe
