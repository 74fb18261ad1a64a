#include "ir/analysis/regions.h"

#include "ir/analysis/relax.h"
#include "ir/analysis/simplify_expr.h"
#include "ir/structural.h"

namespace lathe {
namespace {

/// a <= b?
bool at_most(const Bounds& bounds, const Expr& a, const Expr& b) {
  Affine d = to_affine(b);
  return add_scaled(d, to_affine(a), -1) && prove_nonnegative(bounds, d, full_effort);
}

/// The element at a variable whose domain is the dimension itself: what most accesses of a traced program are.
bool is_whole_domain_point(const Bounds& bounds, const Range& r, const Expr& shape) {
  auto* v = r.min.as<Var>();
  const Range* domain = v && is_int(r.extent, 1) ? bounds.domain(v) : nullptr;
  return domain && is_int(domain->min, 0) && identical(domain->extent, shape);
}

Expr smaller(ExprSimplifier& s, const Expr& a, const Expr& b) {
  return s.simplify(min(a, b));
}
Expr larger(ExprSimplifier& s, const Expr& a, const Expr& b) {
  return s.simplify(max(a, b));
}
Expr end_of(const Range& r) {
  return r.min + r.extent;
}

bool proper(const Bounds& bounds, const Expr& extent) {
  Interval known = bounds.interval(extent);
  return (known.min && *known.min >= 0) || at_most(bounds, index(0), extent);
}

Range clip(ExprSimplifier& s, const Bounds& bounds, const Range& r, const Expr& shape) {
  if (is_whole_domain_point(bounds, r, shape)) return r;
  bool starts_inside = at_most(bounds, index(0), r.min), ends_inside = at_most(bounds, end_of(r), shape);
  Expr extent = s.simplify(r.extent);
  if (starts_inside && ends_inside && proper(bounds, extent)) return {s.simplify(r.min), extent};
  Expr begin = s.simplify(starts_inside ? r.min : max(r.min, index(0)));
  if (!at_most(bounds, begin, shape)) begin = s.simplify(min(begin, shape));
  Expr end = s.simplify(ends_inside ? end_of(r) : min(end_of(r), shape));
  extent = s.simplify(end - begin);
  return {begin, proper(bounds, extent) ? extent : s.simplify(max(extent, index(0)))};
}

using Choice = Expr(ExprSimplifier&, const Expr&, const Expr&);

/// In each dimension from one of the two beginnings to one of the two ends.
Region combine(const Region& a, const Region& b, const Bounds& bounds, Choice* begin_of_two, Choice* end_of_two) {
  ExprSimplifier s(bounds);
  Region result = a;
  for (size_t d = 0; d < a.ranges.size(); ++d) {
    const Range &x = a.ranges[d], &y = b.ranges[d];
    if (identical(x.min, y.min) && identical(x.extent, y.extent)) continue;
    const Expr begin = begin_of_two(s, x.min, y.min), end = end_of_two(s, end_of(x), end_of(y));
    result.ranges[d] = {begin, s.simplify(end - begin)};
  }
  return result;
}

}  // namespace

std::string inspected_key(const Buffer& buffer) {
  return "inspected_" + buffer->name;
}

std::string private_key(const Buffer& buffer) {
  return "private_" + buffer->name;
}

bool hint_holds(const Region& hint, const Annotations& block, bool is_write) {
  return hint.provenance != Provenance::checked || is_write || block.contains(inspected_key(hint.buffer));
}

Region clip(const Region& region, const Bounds& bounds) {
  ExprSimplifier s(bounds);
  Region result = region;
  for (size_t d = 0; d < result.ranges.size() && d < region.buffer->rank(); ++d)
    result.ranges[d] = clip(s, bounds, region.ranges[d], region.buffer->shape[d]);
  return result;
}

Region relax(const Region& region, const Bounds& bounds, const Bounds::Mark& outer, const Bounds& around) {
  Relaxation relaxation(bounds, outer);
  ExprSimplifier s(around);
  Region result = region;
  for (size_t d = 0; d < region.ranges.size(); ++d) {
    const Range& r = region.ranges[d];
    bool point = is_int(r.extent, 1);
    SymbolicRange first = relaxation.range(r.min);
    // A single element is touched only where it exists: cutting it would say nothing, and hide that it is one.
    if (point && first.low && first.low == first.high && r.min->dtype.is_scalar()) {
      result.ranges[d] = {s.simplify(first.low), r.extent};
      continue;
    }
    Expr low = first.low, high = point ? first.high : relaxation.range(r.min + r.extent - 1).high;
    if (!low) low = index(0);
    if (!high) high = region.buffer->shape[d] - 1;
    result.ranges[d] = clip(s, around, {low, high - low + 1}, region.buffer->shape[d]);
  }
  return result;
}

Region relax(const Region& region, const Bounds& bounds, const Bounds::Mark& outer) {
  Bounds around = bounds;
  around.rollback(outer);
  return relax(region, bounds, outer, around);
}

Region unite(const Region& a, const Region& b, const Bounds& bounds) {
  return combine(a, b, bounds, smaller, larger);
}

Region intersect(const Region& a, const Region& b, const Bounds& bounds) {
  return combine(a, b, bounds, larger, smaller);
}

bool proved_empty(const Region& region, const Bounds& bounds) {
  for (const Range& r : region.ranges)
    if (at_most(bounds, r.extent, index(0))) return true;
  return false;
}

bool identical(const Region& a, const Region& b) {
  return a.buffer == b.buffer && std::equal(a.ranges.begin(), a.ranges.end(), b.ranges.begin(), b.ranges.end(),
                                            [](const Range& x, const Range& y) {
                                              return identical(x.min, y.min) && identical(x.extent, y.extent);
                                            });
}

bool contains(const Region& outer, const Region& inner, const Bounds& bounds) {
  if (!(outer.buffer == inner.buffer) || outer.ranges.size() != inner.ranges.size()) return false;
  ExprSimplifier s(bounds, full_effort);
  bool inside = true;
  for (size_t d = 0; d < outer.ranges.size() && inside; ++d) {
    const Range &x = outer.ranges[d], &y = inner.ranges[d];
    if (identical(x.min, y.min) && identical(x.extent, y.extent)) continue;
    inside = at_most(bounds, s.simplify(x.min), s.simplify(y.min)) &&
             at_most(bounds, s.simplify(end_of(y)), s.simplify(end_of(x)));
  }
  return inside || proved_empty(inner, bounds);
}

bool disjoint(const Region& a, const Region& b, const Bounds& bounds) {
  if (!(a.buffer == b.buffer)) return true;
  for (size_t d = 0; d < a.ranges.size(); ++d) {
    const Range &x = a.ranges[d], &y = b.ranges[d];
    if (at_most(bounds, end_of(x), y.min) || at_most(bounds, end_of(y), x.min)) return true;
  }
  return proved_empty(a, bounds) || proved_empty(b, bounds);
}

bool is_whole(const Range& range, const Expr& extent) {
  return is_int(range.min, 0) && equal(range.extent, extent);
}

bool is_whole(const Region& region) {
  bool whole = region.ranges.size() == region.buffer->rank();
  for (size_t d = 0; whole && d < region.ranges.size(); ++d)
    whole = is_whole(region.ranges[d], region.buffer->shape[d]);
  return whole;
}

}  // namespace lathe
