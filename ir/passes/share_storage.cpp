#include "ir/passes/share_storage.h"

#include <algorithm>
#include <numeric>

#include "ir/passes/disjoint.h"
#include "ir/structural.h"

namespace lathe {
namespace {

/// Beyond so many pairs of accesses a proof costs more than it gains.
constexpr size_t most_pairs = 1024;

bool equal_layout(const Allocation& a, const Allocation& b) {
  const auto same = [](const std::vector<Expr>& x, const std::vector<Expr>& y) {
    return std::equal(x.begin(), x.end(), y.begin(), y.end(), [](const Expr& p, const Expr& q) { return equal(p, q); });
  };
  return a.buffer->dtype == b.buffer->dtype && a.space == b.space && a.depth == b.depth &&
         same(a.buffer->shape, b.buffer->shape) && same(a.buffer->strides, b.buffer->strides);
}

/// Does the index of one end below where the other's begins, in some dimension, whatever their inner loops do?
bool apart(const BufferUse& a, const BufferUse& b, size_t depth, const Bounds& bounds) {
  const auto ends_before = [&](const BufferUse& x, const BufferUse& y, size_t d) {
    std::optional<Affine> high = extreme(x.indices[d], below(x, depth), true, bounds);
    const std::optional<Affine> low = extreme(y.indices[d], below(y, depth), false, bounds);
    return high && low && add_scaled(*high, *low, -1) && high->is_constant() && high->constant < 0;
  };
  for (size_t d = 0; d < a.indices.size(); ++d) {
    if (ends_before(a, b, d) || ends_before(b, a, d)) return true;
  }
  return false;
}

/// Where both touch an element, is it the old buffer's access that runs first? The loops up to `depth` are around both
/// allocations, which live for one iteration of them.
bool old_comes_first(const BufferUse& old_use, const BufferUse& new_use, size_t depth, const Bounds& bounds) {
  size_t common = depth;
  while (common < std::min(old_use.loops.size(), new_use.loops.size()) &&
         old_use.loops[common].variable == new_use.loops[common].variable &&
         old_use.loops[common].variable != lane_variable()) {
    if (!old_use.loop_nodes[common] || !disjoint({old_use, new_use}, common, bounds)) return false;
    ++common;
  }
  return old_use.order < new_use.order || apart(old_use, new_use, common, bounds);
}

bool takes_over(const BufferUses& old_uses, const BufferUses& new_uses, size_t depth, const Bounds& bounds) {
  if (old_uses.whole || new_uses.whole || old_uses.uses.size() * new_uses.uses.size() > most_pairs) return false;
  for (const BufferUse& old_use : old_uses.uses) {
    for (const BufferUse& new_use : new_uses.uses) {
      if (!old_use.writes && !new_use.writes) continue;
      if (!old_comes_first(old_use, new_use, depth, bounds)) return false;
    }
  }
  return true;
}

}  // namespace

std::vector<size_t> find_shared(const Func& func, const std::vector<Allocation>& allocations) {
  std::vector<size_t> owner(allocations.size()), by_start;
  std::iota(owner.begin(), owner.end(), size_t{0});
  std::vector<Buffer> wanted;
  for (size_t i = 0; i < allocations.size(); ++i) {
    if (allocations[i].first < 0) continue;
    by_start.push_back(i);
    wanted.push_back(allocations[i].buffer);
  }
  std::stable_sort(by_start.begin(), by_start.end(),
                   [&](size_t a, size_t b) { return allocations[a].first < allocations[b].first; });
  // Looking at every access is for those programs only that have two alike which meet.
  std::vector<std::pair<size_t, size_t>> candidates;  // new, old
  std::vector<size_t> alive;
  for (const size_t i : by_start) {
    std::erase_if(alive, [&](size_t other) { return allocations[other].last < allocations[i].first; });
    for (const size_t other : alive) {
      const bool meets_at_the_end =
          allocations[other].first < allocations[i].first && allocations[other].last < allocations[i].last;
      if (meets_at_the_end && equal_layout(allocations[other], allocations[i])) candidates.emplace_back(i, other);
    }
    alive.push_back(i);
  }
  if (candidates.empty()) return owner;

  Bounds bounds(func);
  const auto uses = find_uses(func->body, wanted, bounds);
  std::vector<std::vector<size_t>> members(allocations.size());
  for (size_t i = 0; i < members.size(); ++i) members[i] = {i};
  for (const auto& [fresh, old] : candidates) {
    if (owner[fresh] != fresh) continue;
    std::vector<size_t>& group = members[owner[old]];
    const bool all = std::all_of(group.begin(), group.end(), [&](size_t member) {
      const Allocation& before = allocations[member];
      return before.last < allocations[fresh].first ||
             (before.first < allocations[fresh].first &&
              takes_over(uses.at(before.buffer.get()), uses.at(allocations[fresh].buffer.get()), before.depth, bounds));
    });
    if (!all) continue;
    group.push_back(fresh);
    owner[fresh] = owner[old];
  }
  return owner;
}

}  // namespace lathe
