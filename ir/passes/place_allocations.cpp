#include "ir/passes/place_allocations.h"

#include <algorithm>

#include "ir/analysis/regions.h"
#include "ir/analysis/simplify.h"
#include "ir/passes/bounds_scope.h"
#include "ir/passes/buffer_uses.h"
#include "ir/passes/disjoint.h"
#include "ir/passes/lifetimes.h"
#include "ir/visitor.h"

namespace lathe {
namespace {

/// The box that a store fills without gaps while `inner` runs, as first and last index of each
/// dimension.
struct Box {
  std::vector<Affine> low, high;
};
std::optional<Box> filled_box(const BufferUse& store, std::span<const LoopRange> inner, const Bounds& bounds) {
  Box box;
  std::vector<std::int64_t> extents;
  for (const LoopRange& loop : inner) {
    Affine extent = loop.high;
    if (!add_scaled(extent, loop.low, -1) || !extent.is_constant() || extent.constant < 0) return std::nullopt;
    extents.push_back(extent.constant + 1);
  }
  std::vector<bool> used(inner.size(), false);
  for (const Affine& index : store.indices) {
    std::vector<std::pair<std::int64_t, std::int64_t>> digits;  // coefficient, extent
    for (size_t i = 0; i < inner.size(); ++i) {
      std::int64_t c = index.coefficient(inner[i].variable);
      if (c == 0) continue;
      if (used[i]) return std::nullopt;
      used[i] = true;
      digits.emplace_back(std::abs(c), extents[i]);
    }
    std::sort(digits.begin(), digits.end());
    std::int64_t span = 1;
    for (auto [c, extent] : digits) {
      if (extent > 1 && c > span) return std::nullopt;
      span += c * (extent - 1);
    }
    std::optional<Affine> low = extreme(index, inner, false, bounds), high = extreme(index, inner, true, bounds);
    if (!low || !high) return std::nullopt;
    // Anything but the digits would make the ends more than the span apart.
    Affine distance = *high;
    if (!add_scaled(distance, *low, -1) || !distance.is_constant() || distance.constant != span - 1)
      return std::nullopt;
    box.low.push_back(*low);
    box.high.push_back(*high);
  }
  return box;
}

bool at_most(Affine a, const Affine& b) {
  return add_scaled(a, b, -1) && a.is_constant() && a.constant <= 0;
}

/// Does `store` write, before `read` in the same iteration of their common loops, all that it reads?
bool covers(const BufferUse& store, const BufferUse& read, const Bounds& bounds) {
  if (store.conditional || store.order >= read.order || store.indices.size() != read.indices.size()) return false;
  size_t common = 0;
  while (common < store.loops.size() && common < read.loops.size() && store.loop_nodes[common] &&
         store.loop_nodes[common] == read.loop_nodes[common]) {
    ++common;
  }
  std::optional<Box> box = filled_box(store, below(store, common), bounds);
  if (!box) return false;
  // What runs the read runs the store too; or else the rest of a tile is cut off from the box.
  std::vector<std::pair<size_t, Affine>> upper, lower;
  for (const BufferUse::Omission& omission : store.omissions) {
    if (std::find(read.arms.begin(), read.arms.end(), omission.arm) != read.arms.end()) continue;
    if (!omission.known) return false;
    for (const Affine& cut : omission.cuts) {
      bool found = false;
      for (size_t d = 0; d < store.indices.size() && !found; ++d) {
        for (const bool is_upper : {true, false}) {
          auto limit = limit_of(cut, store.indices[d], below(store, common), is_upper);
          if (!limit) continue;
          (is_upper ? upper : lower).emplace_back(d, std::move(*limit));
          found = true;
          break;
        }
      }
      if (!found) return false;
    }
  }
  for (size_t d = 0; d < read.indices.size(); ++d) {
    std::optional<Affine> low = extreme(read.least(d), below(read, common), false, bounds);
    std::optional<Affine> high = extreme(read.greatest(d), below(read, common), true, bounds);
    if (!low || !high || !at_most(box->low[d], *low) || !at_most(*high, box->high[d])) return false;
    for (const auto& [dimension, limit] : upper)
      if (dimension == d && !at_most(*high, limit)) return false;
    for (const auto& [dimension, limit] : lower)
      if (dimension == d && !at_most(limit, *low)) return false;
  }
  return true;
}

bool every_read_covered(const std::vector<BufferUse>& accesses, const Bounds& bounds) {
  for (const BufferUse& read : accesses) {
    if (!read.reads) continue;
    bool covered = std::any_of(accesses.begin(), accesses.end(),
                               [&](const BufferUse& store) { return store.writes && covers(store, read, bounds); });
    if (!covered) return false;
  }
  return true;
}

/// Does each iteration of the last of the loops write what it reads of the buffer, whatever it takes several stores to?
bool writes_before_reading(const std::vector<const For*>& nodes, size_t depth, const Buffer& buffer, Bounds bounds) {
  for (size_t i = 0; i <= depth; ++i) bounds.bind(nodes[i]->variable, Range{nodes[i]->min, nodes[i]->extent});
  return exposed_reads(nodes[depth]->body, bounds, [&](const Buffer& b) { return b == buffer; }).empty();
}

/// The innermost loop into whose body the buffer may move; null when it stays. Of a space that exists per axis each
/// iteration of a loop along that axis has its own; all others share what is allocated outside such loops. `axis` is
/// that of the innermost bound loop around the allocation.
const For* find_home(const BufferUses& found, const Bounds& bounds, const Buffer& buffer, const Device& device,
                     std::string axis) {
  if (found.whole || found.uses.empty()) return nullptr;
  const std::vector<BufferUse>& all = found.uses;
  size_t common = all[0].loop_nodes.size();
  for (const BufferUse& access : all) {
    size_t same = 0;
    while (same < std::min(common, access.loop_nodes.size()) && access.loop_nodes[same] == all[0].loop_nodes[same])
      ++same;
    common = same;
  }
  const MemorySpace* space = device.find_space(buffer->space);
  const bool value = buffer->space == space::registers;
  const bool in_parallel = value || is_workspace(buffer->space);
  const For* home = nullptr;
  std::optional<bool> covered;
  for (size_t depth = 0; depth < common; ++depth) {
    const For* loop = all[0].loop_nodes[depth];
    if (!loop || loop->for_kind == ForKind::vectorized || loop->for_kind == ForKind::unrolled) break;
    if (loop->for_kind == ForKind::parallel && !in_parallel) break;
    if (loop->for_kind == ForKind::bound) axis = loop->thread_axis;
    if (!loop->annotations.contains(private_key(buffer)) && !disjoint(all, depth, bounds)) {
      if (!covered) covered = every_read_covered(all, bounds);
      if (!*covered && !writes_before_reading(all[0].loop_nodes, depth, buffer, bounds)) break;
    }
    if (value || axis == (space ? space->per : "")) home = loop;
  }
  return home;
}

class Placer : public Mutator {
 public:
  Placer(const Func& func, const Device& device) : bounds_(func), device_(device) {}

 protected:
  Stmt mutate_For(const Stmt& s, const For* node) override {
    BoundsScope scope(bounds_);
    bounds_.bind(node->variable, Range{node->min, node->extent});
    const std::string outer_axis = axis_;
    if (node->for_kind == ForKind::bound) axis_ = node->thread_axis;
    Stmt body = mutate(node->body);
    axis_ = outer_axis;
    auto found = homes_.find(node);
    if (found != homes_.end()) {
      Block::Fields f;
      f.name = node->variable->name + "_scope";
      f.allocs = std::move(found->second);
      f.body = std::move(body);
      body = Block::make(std::move(f));
    }
    if (body == node->body) return s;
    return For::make(node->variable, node->min, node->extent, node->for_kind, std::move(body), node->annotations,
                     node->thread_axis);
  }

  Stmt mutate_Block(const Stmt& s, const Block* node) override {
    if (node->f.allocs.empty()) return Mutator::mutate_Block(s, node);
    Block::Fields f = node->f;
    {
      BoundsScope scope(bounds_);
      auto found = find_uses(f.body, f.allocs, bounds_);
      std::erase_if(f.allocs, [&](const Buffer& alloc) {
        const BufferUses& uses = found[alloc.get()];
        if (uses.uses.empty() && !uses.whole) return true;
        const For* home = find_home(uses, bounds_, alloc, device_, axis_);
        if (home) homes_[home].push_back(alloc);
        return home != nullptr;
      });
    }
    f.body = mutate(f.body);
    if (f.allocs.empty() && f.iters.empty() && !f.predicate && !f.init) return f.body;
    return Block::make(std::move(f));
  }

 private:
  Bounds bounds_;
  const Device& device_;
  std::string axis_;
  std::unordered_map<const For*, std::vector<Buffer>> homes_;
};

}  // namespace

Func place_allocations(const Func& func, const Device& device) {
  return with_body(func, Placer(func, device).mutate(func->body));
}

}  // namespace lathe
