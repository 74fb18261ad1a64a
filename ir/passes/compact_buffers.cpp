#include "ir/passes/compact_buffers.h"

#include <algorithm>

#include "ir/analysis/simplify.h"
#include "ir/passes/bounds_scope.h"
#include "ir/passes/buffer_uses.h"
#include "ir/structural.h"
#include "ir/visitor.h"

namespace lathe {
namespace {

/// A shrunken buffer, and what every index of a dimension loses; null keeps it.
struct Compacted {
  Buffer buffer;
  std::vector<Expr> origin;
};

/// The least index of dimension `d` over all accesses, and the extent that reaches the greatest; nothing when unknown.
/// With `whole_tiles`, of lanes that a predicate cuts off too.
struct Span {
  Affine low;
  std::int64_t extent;
};
/// How far a form of the scope's variables is from another, wherever the access is: also where the loops around it run
/// for one of their values alone, which was put in their place there.
std::optional<std::int64_t> distance_at(const BufferUse& access, const Affine& form, const Affine& from,
                                        const Bounds& bounds) {
  Affine distance = form;
  if (!add_scaled(distance, from, -1)) return std::nullopt;
  if (distance.is_constant()) return distance.constant;
  Bounds within(bounds);
  for (const LoopRange& loop : access.loops) within.assume(le(to_expr(loop.low), to_expr(loop.high)));
  return within.interval(distance).as_point();
}

std::optional<Span> touched_span(const std::vector<BufferUse>& accesses, size_t d, bool whole_tiles,
                                 const Bounds& bounds) {
  std::optional<Affine> low;
  std::int64_t least = 0, greatest = 0;
  for (const BufferUse& access : accesses) {
    std::optional<Affine> first = extreme(access.least(d), access.loops, false, bounds);
    std::optional<Affine> last = extreme(access.greatest(d), access.loops, true, bounds);
    if (!first || !last) return std::nullopt;
    // The last part of a tile is cut off where the tile is full.
    for (const Affine& cut : access.cuts) {
      if (whole_tiles) break;
      for (const bool upper : {true, false}) {
        Affine& end = upper ? *last : *first;
        const auto limit = limit_of(cut, access.indices[d], access.loops, upper);
        Affine beyond = end;
        if (limit && add_scaled(beyond, *limit, -1) && beyond.is_constant() && (beyond.constant > 0) == upper)
          end = *limit;
      }
    }
    if (!low) low = first;
    const std::optional<std::int64_t> begin = distance_at(access, *first, *low, bounds);
    std::optional<std::int64_t> end = begin ? distance_at(access, *last, *low, bounds) : std::nullopt;
    if (begin && !end && add_scaled(*last, *low, -1)) end = bounds.interval(*last).max;
    if (!end) return std::nullopt;
    least = std::min(least, *begin);
    greatest = std::max(greatest, *end);
  }
  if (!low) return std::nullopt;
  for (const AffineTerm& term : low->terms) {
    // An index read from memory may read differently elsewhere in the scope.
    if (has_load(term.atom)) return std::nullopt;
  }
  low->constant += least;
  return Span{*low, greatest - least + 1};
}

/// A single element that no loop at once shares is a value, and needs no memory. What somebody put into a space of the
/// device's own stays there.
bool is_value(const Buffer& buffer, const std::vector<Expr>& shape, const std::vector<BufferUse>& uses) {
  if (buffer->space != space::global && buffer->space != space::worker) return false;
  for (const Expr& extent : shape) {
    if (!is_int(extent, 1)) return false;
  }
  for (const BufferUse& use : uses) {
    for (const For* loop : use.loop_nodes) {
      if (loop && (loop->for_kind == ForKind::parallel || loop->for_kind == ForKind::bound)) return false;
    }
  }
  return true;
}

/// Strides for a smaller shape: rows that somebody padded keep their distance, the others lie densely again. Empty when
/// all do.
std::vector<Expr> strides_for(const Buffer& buffer, const std::vector<Expr>& shape, const Bounds& bounds) {
  if (buffer->strides.empty()) return {};
  const std::vector<Expr>& old = buffer->strides;
  std::vector<Expr> strides = old;
  Expr dense = index(1), old_dense = index(1);  // what a stride would be without padding
  bool padded = false;
  for (size_t d = shape.size(); d-- > 0;) {
    if (equal(simplify(old_dense, bounds), old[d]) || is_int(shape[d], 1)) {
      strides[d] = dense;
    } else {
      padded = true;
    }
    dense = simplify(strides[d] * shape[d], bounds);
    old_dense = old[d] * buffer->shape[d];
  }
  return padded ? strides : std::vector<Expr>{};
}

std::optional<Compacted> compact(const Buffer& buffer, const BufferUses& found, const Bounds& bounds) {
  if (found.whole || found.uses.empty() || buffer->view_of) return std::nullopt;
  for (const BufferUse& access : found.uses) {
    if (access.indices.size() != buffer->rank()) return std::nullopt;
  }
  std::vector<Expr> shape = buffer->shape, origin(buffer->rank());
  bool shrinks = false;
  // From the last on, as those that shrink to one element have the dimension before them innermost.
  for (size_t d = buffer->rank(); d-- > 0;) {
    // A row of registers that ended within a vector would have the next row's vectors straddle two registers.
    const bool innermost = std::all_of(shape.begin() + static_cast<std::ptrdiff_t>(d) + 1, shape.end(),
                                       [](const Expr& extent) { return is_int(extent, 1); });
    const bool row = buffer->space == space::registers && innermost && buffer->strides.empty();
    std::optional<Span> span = touched_span(found.uses, d, row, bounds);
    if (!span) continue;
    const std::int64_t* old = as_int(shape[d]);
    if (span->extent < 0 || (old && (row ? span->extent == *old : span->extent >= *old))) continue;
    shape[d] = index(span->extent);
    if (!(span->low.is_constant() && span->low.constant == 0)) origin[d] = to_expr(span->low);
    shrinks = true;
  }
  const bool value = is_value(buffer, shape, found.uses);
  const std::string space = value ? space::registers : buffer->space;
  if (!shrinks && space == buffer->space) return std::nullopt;
  std::vector<Expr> strides = strides_for(buffer, shape, bounds);
  return Compacted{BufferNode::make(buffer->name, buffer->dtype, std::move(shape), space, std::move(strides),
                                    value ? nullptr : buffer->offset, buffer->alignment),
                   std::move(origin)};
}

class Compactor : public BoundedMutator {
 public:
  explicit Compactor(const Func& func) : BoundedMutator(func) {}
  bool changed = false;

 protected:
  Stmt mutate_Block(const Stmt& s, const Block* node) override {
    if (node->f.allocs.empty() && node->f.reads.empty() && node->f.writes.empty())
      return Mutator::mutate_Block(s, node);
    Block::Fields f = node->f;
    // What hints had to say has been heard; behind this pass indices count from other origins.
    changed |= !f.reads.empty() || !f.writes.empty();
    f.reads.clear();
    f.writes.clear();
    {
      BoundsScope scope(bounds_);
      auto found = find_uses(f.body, f.allocs, bounds_);
      for (Buffer& alloc : f.allocs) {
        if (auto smaller = compact(alloc, found[alloc.get()], bounds_)) {
          changed = true;
          compacted_.emplace(alloc.get(), *smaller);
          alloc = smaller->buffer;
        }
      }
    }
    f.body = mutate(f.body);
    return f.allocs.empty() ? f.body : Block::make(std::move(f));
  }

  Expr mutate_Load(const Expr& e, const Load* node) override {
    auto found = compacted_.find(node->buffer.get());
    if (found == compacted_.end()) return Mutator::mutate_Load(e, node);
    return Load::make(found->second.buffer, rebased(node->indices, found->second), mutate(node->mask));
  }

  Stmt mutate_Store(const Stmt& s, const Store* node) override {
    auto found = compacted_.find(node->buffer.get());
    if (found == compacted_.end()) return Mutator::mutate_Store(s, node);
    return Store::make(found->second.buffer, rebased(node->indices, found->second), mutate(node->value),
                       mutate(node->mask));
  }

 private:
  std::vector<Expr> rebased(const std::vector<Expr>& indices, const Compacted& compacted) {
    std::vector<Expr> result;
    for (size_t d = 0; d < indices.size(); ++d) {
      Expr i = mutate(indices[d]);
      if (is_int(compacted.buffer->shape[d], 1)) {  // whatever the index was, only one is valid
        result.push_back(Broadcast::make(index(0), i->dtype.lanes));
        continue;
      }
      const Expr& origin = compacted.origin[d];
      result.push_back(origin ? i - Broadcast::make(origin, i->dtype.lanes) : i);
    }
    return result;
  }

  std::unordered_map<const BufferNode*, Compacted> compacted_;
};

}  // namespace

Func compact_buffers(const Func& func) {
  Compactor compactor(func);
  Stmt body = compactor.mutate(func->body);
  if (!compactor.changed) return func;
  return with_body(func, simplify(body, Bounds(func)));
}

}  // namespace lathe
