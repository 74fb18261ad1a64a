#include "schedule/auto/coalesce_axes.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <unordered_map>

#include "ir/error.h"
#include "schedule/auto/block_model.h"
#include "schedule/auto/split_joined_sums.h"
#include "schedule/auto/vector_loop.h"
#include "schedule/layout_map.h"
#include "schedule/primitives/cache_write.h"
#include "schedule/primitives/join_iters.h"
#include "schedule/primitives/transform_layout.h"
#include "schedule/rewrite.h"

namespace lathe {
namespace {

/// Vectors of a row from which on its loop costs little.
constexpr std::int64_t short_row = 4;

/// Iters of blocks and dimensions of the buffers between them, those that are one axis together.
class Axes {
 public:
  explicit Axes(const Schedule& schedule) : schedule_(schedule), blocks_(schedule.blocks()) {
    for (const BlockRef& ref : blocks_) {
      const Block& block = schedule.node(ref);
      for (const Iter& iter : block.f.iters) node_of_iter(iter);
      for (const std::vector<Region>* regions : {&block.f.reads, &block.f.writes}) {
        for (const Region& region : *regions) take(region);
      }
    }
  }

  struct Member {
    BlockRef block;
    size_t outer, inner;  ///< iters
  };
  struct Pair {
    std::vector<Member> members;
    std::vector<std::pair<Buffer, size_t>> buffers;  ///< with the outer one's dimension
  };
  /// Everything that has the two axes; nothing where something has one of them alone, or several times.
  std::optional<Pair> pair_of(const Iter& outer, const Iter& inner) {
    const size_t first = root(node_of_iter(outer)), second = root(node_of_iter(inner));
    if (first == second || irregular_[first] || irregular_[second]) return std::nullopt;
    Pair pair;
    for (const BlockRef& ref : blocks_) {
      std::vector<size_t> nodes;
      for (const Iter& iter : schedule_.node(ref).f.iters) nodes.push_back(node_of_iter(iter));
      const std::vector<size_t> outers = places_of(first, nodes), inners = places_of(second, nodes);
      if (outers.empty() && inners.empty()) continue;
      if (outers.size() != 1 || inners.size() != 1) return std::nullopt;
      pair.members.push_back({ref, outers[0], inners[0]});
    }
    for (const auto& [buffer, nodes] : dimensions_) {
      const std::vector<size_t> outers = places_of(first, nodes), inners = places_of(second, nodes);
      if (outers.empty() && inners.empty()) continue;
      if (outers.size() != 1 || inners.size() != 1 || inners[0] != outers[0] + 1) return std::nullopt;
      pair.buffers.emplace_back(buffer, outers[0]);
    }
    return pair;
  }

 private:
  size_t new_node() {
    parents_.push_back(parents_.size());
    irregular_.push_back(false);
    return parents_.size() - 1;
  }
  size_t root(size_t node) const {
    while (parents_[node] != node) node = parents_[node];
    return node;
  }
  /// Which of the nodes are of the axis.
  std::vector<size_t> places_of(size_t axis, const std::vector<size_t>& nodes) const {
    std::vector<size_t> places;
    for (size_t i = 0; i < nodes.size(); ++i) {
      if (root(nodes[i]) == axis) places.push_back(i);
    }
    return places;
  }
  size_t node_of_iter(const Iter& iter) {
    const auto [found, is_new] = iters_.try_emplace(iter.variable.get(), 0);
    if (is_new) found->second = new_node();
    return found->second;
  }
  std::vector<size_t>& dimensions_of(const Buffer& buffer) {
    const auto known =
        std::find_if(dimensions_.begin(), dimensions_.end(), [&](const auto& entry) { return entry.first == buffer; });
    if (known != dimensions_.end()) return known->second;
    std::vector<size_t> nodes;
    while (nodes.size() < buffer->rank()) nodes.push_back(new_node());
    return dimensions_.emplace_back(buffer, std::move(nodes)).second;
  }
  void unite(size_t a, size_t b) {
    a = root(a), b = root(b);
    parents_[b] = a;
    irregular_[a] = irregular_[a] || irregular_[b];
  }
  void take(const Region& region) {
    if (!is_allocated(schedule_.func(), region.buffer)) return;
    std::vector<size_t>& nodes = dimensions_of(region.buffer);
    for (size_t d = 0; d < region.ranges.size(); ++d) {
      const Range& range = region.ranges[d];
      const Var* variable = range.min.as<Var>();
      const auto iter = variable ? iters_.find(variable) : iters_.end();
      if (iter != iters_.end() && is_int(range.extent, 1)) {
        unite(nodes[d], iter->second);
      } else {
        irregular_[root(nodes[d])] = true;
      }
    }
  }

  const Schedule& schedule_;
  std::vector<BlockRef> blocks_;
  std::vector<size_t> parents_;
  std::vector<bool> irregular_;
  std::unordered_map<const Var*, size_t> iters_;
  std::vector<std::pair<Buffer, std::vector<size_t>>> dimensions_;
};

/// Has each operand of the reduction another element for every result, or the same ones for all, as weights of a window
/// are?
bool weighs_alike(const Block& block) {
  const Accesses accesses = block_accesses(block);
  return std::all_of(accesses.begin(), accesses.end(), [&](const Access& access) {
    size_t still = 0, moving = 0;
    for (size_t i = 0; i < block.f.iters.size(); ++i) {
      if (block.f.iters[i].kind == IterKind::space && !is_int(block.f.iters[i].domain.extent, 1))
        ++(access.strides[i] == 0 ? still : moving);
    }
    return still == 0 || (!access.store && moving == 0);
  });
}

/// May its axes be joined, as no contraction plans them?
bool may_be_joined(const RuleContext& context, const BlockRef& ref) {
  return is_plain_reduction(context, ref) ||
         (is_free_reduction(context, ref) && weighs_alike(context.schedule.node(ref)));
}

bool is_free(const RuleContext& context, const BlockRef& ref) {
  const Block& block = context.schedule.node(ref);
  if (context.scheduled.contains(ref.name) || block.f.predicate || is_sealed(block)) return false;
  return !block.f.reducer || may_be_joined(context, ref);
}

/// Do all accesses of the block walk the two as one axis, by no more elements than vectors are picked out of, and none
/// under a mask?
bool walks_as_one(const Block& block, size_t outer, size_t inner) {
  for (const size_t i : {outer, inner}) {
    const Iter& iter = block.f.iters[i];
    if (iter.kind != IterKind::space || !is_int(iter.domain.min, 0) || !as_int(iter.domain.extent)) return false;
  }
  const Accesses accesses = block_accesses(block);
  return goes_on(block, outer, inner) && std::all_of(accesses.begin(), accesses.end(), [&](const Access& access) {
           return !access.masked && access.strides[inner].value_or(0) >= 0 &&
                  access.strides[inner].value_or(0) <= (access.store ? 1 : most_shuffled_stride);
         });
}

void join(Schedule& schedule, const Axes::Pair& pair) {
  for (const auto& [buffer, dimension] : pair.buffers) {
    LayoutMap map = same_layout(buffer->rank());
    map.to[dimension] = map.to[dimension] * buffer->shape[dimension + 1] + map.to[dimension + 1];
    map.to.erase(map.to.begin() + static_cast<std::ptrdiff_t>(dimension) + 1);
    const auto touches = [&](const Axes::Member& member) {
      const Block& block = schedule.node(member.block);
      return reads(block, buffer) || writes(block, buffer);
    };
    const auto by = std::find_if(pair.members.begin(), pair.members.end(), touches);
    transform_layout(schedule, by->block, buffer->name, map);
  }
  for (const Axes::Member& member : pair.members) {
    const auto outer = loop_of_iter(schedule, member.block, member.outer),
               inner = loop_of_iter(schedule, member.block, member.inner);
    if (!outer || !inner) throw Refusal("coalesce_axes", 1, "an axis has no loop of its own");
    join_iters(schedule, member.block, *outer, *inner);
  }
}

/// Gives a reduction of which the caller has the results a buffer of its own, of the joined axis: what copies it out
/// then stores what a tile of it has in registers.
void keep_results(Schedule& schedule, const BlockRef& ref) {
  const std::vector<Region> written = schedule.node(ref).f.writes;
  if (!schedule.node(ref).f.reducer) return;
  for (const Region& region : written) {
    if (!is_allocated(schedule.func(), region.buffer)) cache_write(schedule, ref, space::global, region.buffer->name);
  }
}

/// Joins two axes of the reduction and of all that has them; says whether it did.
bool join_some(RuleContext& context, const BlockRef& ref) {
  Schedule& schedule = context.schedule;
  const Block& block = schedule.node(ref);
  const std::int64_t lanes = vector_lanes(block, context.device);
  // Of windows and tuples short rows alone: longer ones have tiles, or vectors of neighbours, that are as good.
  const std::int64_t longest = !is_plain_reduction(context, ref) ? lanes - 1
                               : block.f.writes.size() > 1       ? short_row * lanes
                                                                 : std::numeric_limits<std::int64_t>::max();
  std::optional<Axes> axes;
  for (size_t inner = block.f.iters.size(); inner-- > 0;) {
    const std::int64_t* row = as_int(block.f.iters[inner].domain.extent);
    if (!row || (*row % lanes == 0 && *row >= short_row * lanes) || *row > longest) continue;
    for (size_t outer = inner; outer-- > 0;) {
      if (!walks_as_one(block, outer, inner)) continue;
      const Iter first = block.f.iters[outer], second = block.f.iters[inner];
      if (!axes) axes.emplace(schedule);
      const auto pair = axes->pair_of(first, second);
      const bool all = pair && std::all_of(pair->members.begin(), pair->members.end(), [&](const Axes::Member& member) {
                         return is_free(context, member.block) &&
                                walks_as_one(schedule.node(member.block), member.outer, member.inner);
                       });
      if (!all) continue;
      const std::string decision = fmt::format("join {} and {} of {} and of all that has them", first.variable->name,
                                               second.variable->name, ref.name);
      const bool joined = attempt(context, decision, [&] {
        for (const Axes::Member& member : pair->members) keep_results(schedule, member.block);
        const auto kept = Axes(schedule).pair_of(first, second);
        if (!kept) throw Refusal("coalesce_axes", 1, "the results have a dimension between the two");
        join(schedule, *kept);
      });
      if (joined) return true;
    }
  }
  return false;
}

}  // namespace

void coalesce_axes(RuleContext& context) {
  for (const BlockRef& ref : context.schedule.blocks()) {
    if (!may_be_joined(context, ref)) continue;
    while (join_some(context, ref)) {
    }
  }
}

}  // namespace lathe
