#include "ir/passes/place_allocations.h"

#include <algorithm>

#include "ir/analysis/simplify.h"
#include "ir/passes/bounds_scope.h"
#include "ir/passes/buffer_uses.h"
#include "ir/visitor.h"

namespace lathe {
namespace {

std::span<const LoopRange> below(const BufferUse& access, size_t depth) {
  return std::span(access.loops).subspan(std::min(depth, access.loops.size()));
}

/// What the digit to the left of `digit` weighs: of f % n it is n times `weight`, of others `weight` times one more
/// than their greatest value. Null where that is unknown or too large.
Expr next_weight(const Expr& weight, const Expr& digit, const Bounds& bounds) {
  const Binary* remainder = digit.as<Binary>();
  if (remainder && remainder->op == BinaryOp::floor_mod && !as_int(remainder->b)) return weight * remainder->b;
  const Interval range = bounds.interval(digit);
  if (!range.max || *range.max < 0 || *range.max > (std::int64_t{1} << 40)) return nullptr;
  const std::int64_t* constant = as_int(weight);
  if (!constant) return weight * (*range.max + 1);
  std::int64_t product = 0;
  return __builtin_mul_overflow(*constant, *range.max + 1, &product) ? nullptr : Expr(index(product));
}

/// Do some dimensions, at indices that all accesses share and that vary with the loop at `depth` alone, spell out its
/// variable? So they do after loops were fused: T[f // 12, f % 12, j].
bool spells_variable(const std::vector<BufferUse>& accesses, size_t depth, const Bounds& bounds) {
  const VarRef& variable = accesses[0].loops[depth].variable;
  Expr spelled = index(0), weight = index(1);
  for (size_t d = accesses[0].indices.size(); d-- > 0;) {
    const Expr digit = to_expr(accesses[0].indices[d]);
    bool shared = uses_var(digit, variable.get());
    for (const BufferUse& access : accesses) {
      shared = shared && equal(access.indices[d], accesses[0].indices[d]);
      for (const LoopRange& loop : below(access, depth + 1)) shared = shared && !uses_var(digit, loop.variable.get());
    }
    if (!shared) continue;
    if (!weight) return false;
    spelled = spelled + digit * weight;
    weight = next_weight(weight, digit, bounds);
  }
  return proves_equal(bounds, spelled, variable);
}

/// Do different iterations of the loop at `depth` touch different elements, told apart by one dimension or by several?
bool disjoint(const std::vector<BufferUse>& accesses, size_t depth, const Bounds& bounds) {
  Expr variable = accesses[0].loops[depth].variable;
  for (size_t d = 0; d < accesses[0].indices.size(); ++d) {
    std::int64_t c = accesses[0].indices[d].coefficient(variable);
    if (c == 0) continue;
    std::optional<Affine> origin;
    std::int64_t least = 0, greatest = 0;
    bool apart = true;
    for (const BufferUse& access : accesses) {
      Affine rest = access.indices[d];
      if (rest.coefficient(variable) != c || !add_term(rest, variable, -c)) {
        apart = false;
        break;
      }
      std::optional<Affine> low = extreme(rest, below(access, depth + 1), false, bounds);
      std::optional<Affine> high = extreme(rest, below(access, depth + 1), true, bounds);
      if (!low || !high) {
        apart = false;
        break;
      }
      if (!origin) origin = low;
      if (!add_scaled(*low, *origin, -1) || !add_scaled(*high, *origin, -1)) {
        apart = false;
        break;
      }
      if (!low->is_constant() || !high->is_constant()) {
        apart = false;
        break;
      }
      least = std::min(least, low->constant);
      greatest = std::max(greatest, high->constant);
    }
    if (apart && greatest - least < std::abs(c)) return true;
  }
  return spells_variable(accesses, depth, bounds);
}

/// The box that an unconditional store fills without gaps while `inner` runs, as first and last index of each
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
  for (size_t d = 0; d < read.indices.size(); ++d) {
    std::optional<Affine> low = extreme(read.indices[d], below(read, common), false, bounds);
    std::optional<Affine> high = extreme(read.indices[d], below(read, common), true, bounds);
    if (!low || !high || !at_most(box->low[d], *low) || !at_most(*high, box->high[d])) return false;
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

/// The innermost loop into whose body the buffer may move; null when it stays.
const For* find_home(const BufferUses& found, const Bounds& bounds) {
  if (found.whole || found.uses.empty()) return nullptr;
  const std::vector<BufferUse>& all = found.uses;
  size_t common = all[0].loop_nodes.size();
  for (const BufferUse& access : all) {
    size_t same = 0;
    while (same < std::min(common, access.loop_nodes.size()) && access.loop_nodes[same] == all[0].loop_nodes[same])
      ++same;
    common = same;
  }
  const For* home = nullptr;
  std::optional<bool> covered;
  for (size_t depth = 0; depth < common; ++depth) {
    const For* loop = all[0].loop_nodes[depth];
    if (!loop || (loop->for_kind != ForKind::serial && loop->for_kind != ForKind::parallel)) break;
    if (!disjoint(all, depth, bounds)) {
      if (!covered) covered = every_read_covered(all, bounds);
      if (!*covered) break;
    }
    home = loop;
  }
  return home;
}

class Placer : public Mutator {
 public:
  explicit Placer(const Func& func) : bounds_(func) {}

 protected:
  Stmt mutate_For(const Stmt& s, const For* node) override {
    BoundsScope scope(bounds_);
    bounds_.bind(node->variable, Range{node->min, node->extent});
    Stmt body = mutate(node->body);
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
        const For* home = find_home(uses, bounds_);
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
  std::unordered_map<const For*, std::vector<Buffer>> homes_;
};

}  // namespace

Func place_allocations(const Func& func) {
  return with_body(func, Placer(func).mutate(func->body));
}

}  // namespace lathe
