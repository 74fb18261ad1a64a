#include <algorithm>

#include "ir/analysis/access_walk.h"
#include "ir/analysis/dependence.h"
#include "ir/analysis/simplify_expr.h"
#include "ir/error.h"
#include "ir/visitor.h"

namespace lathe {
namespace {

/// One access in the body of the loop, with what was bound and known between the loop and it.
struct Site {
  Region region;
  bool reads = false, writes = false;
  std::vector<Bounds::Entry> inner;
  std::vector<Expr> guards;
  Stmt block;
};

const BufferNode* storage(const Buffer& buffer) {
  const BufferNode* b = buffer.get();
  while (b->view_of) b = b->view_of->buffer.get();
  return b;
}

bool identical_regions(const Region& a, const Region& b) {
  if (!(a.buffer == b.buffer) || a.ranges.size() != b.ranges.size()) return false;
  for (size_t d = 0; d < a.ranges.size(); ++d)
    if (!identical(a.ranges[d].min, b.ranges[d].min) || !identical(a.ranges[d].extent, b.ranges[d].extent)) return false;
  return true;
}

class SiteCollector : public AccessWalk {
 public:
  explicit SiteCollector(const Bounds& outer) : AccessWalk(outer, false) {}

  std::vector<Site> sites;

 protected:
  void enter(const Stmt& s) override {
    if (s->kind == StmtKind::Block) blocks_.push_back(s);
  }
  void leave(const Stmt& s) override {
    if (s->kind == StmtKind::Block) blocks_.pop_back();
  }
  void accessed(const Access& access) override {
    Site site;
    site.region = access.region;
    bool vectors = std::any_of(site.region.ranges.begin(), site.region.ranges.end(),
                               [](const Range& r) { return r.min->dtype.lanes > 1; });
    if (vectors) site.region = relax(site.region, bounds_, bounds_.mark(), bounds_);
    (access.is_write ? site.writes : site.reads) = true;
    site.inner = bounds_.entries_since(outer_);
    site.guards = guards_;
    if (access.mask && access.mask->dtype.is_scalar()) site.guards.push_back(access.mask);
    if (!blocks_.empty()) site.block = blocks_.back();
    for (Site& known : sites) {
      if (!(known.block == site.block) || !identical_regions(known.region, site.region) || known.guards != site.guards ||
          known.inner.size() != site.inner.size())
        continue;
      bool same_scope = true;
      for (size_t i = 0; i < known.inner.size(); ++i) same_scope &= known.inner[i].variable == site.inner[i].variable;
      if (!same_scope) continue;
      known.reads |= site.reads;
      known.writes |= site.writes;
      return;
    }
    sites.push_back(std::move(site));
  }

 private:
  std::vector<Stmt> blocks_;
};

Expr renamed(const Expr& e, const Substitution& names) { return e && !names.empty() ? substitute(e, names) : e; }

/// Binds what a site's scope binds, under fresh names, and assumes its guards; returns the names.
Substitution enter_scope(Bounds& bounds, const Site& site, Substitution names) {
  std::unordered_map<const Var*, VarRef> own;
  for (const Bounds::Entry& entry : site.inner) {
    // An iter is bound twice: to its domain, then to its binding.
    auto known = own.find(entry.variable.get());
    VarRef fresh = known != own.end() ? known->second : Var::make(entry.variable->name, entry.variable->dtype);
    own[entry.variable.get()] = fresh;
    if (entry.has_domain())
      bounds.bind(fresh, Range{renamed(entry.domain.min, names), renamed(entry.domain.extent, names)});
    else if (!entry.value)
      bounds.bind(fresh, entry.interval);
    if (entry.value) bounds.bind_value(fresh, renamed(entry.value, names));
    names[entry.variable.get()] = fresh;
  }
  for (const Expr& guard : site.guards) bounds.assume(renamed(guard, names));
  return names;
}

/// The index forms of a site under its names. What follows a divisor of one index over several dimensions, x // c in one
/// and x % c in another, is put together again: equal in both dimensions means equal in c * (x // c) + x % c.
class Forms {
 public:
  Forms(const Bounds& bounds, const Site& site, const Substitution& names) : simplifier_(bounds) {
    for (const Range& r : site.region.ranges) {
      begins.push_back(form(renamed(r.min, names)));
      ends.push_back(form(renamed(r.min + r.extent, names)));
      points &= is_int(r.extent, 1) && r.min->dtype.is_scalar();
    }
  }

  std::vector<Affine> begins, ends;
  bool points = true;

  /// weight * begins[d] + begins[d + 1].
  std::optional<Affine> merged(size_t d, const Expr& weight) {
    Affine sum = begins[d];
    if (!multiply(sum, to_affine(weight)) || !add_scaled(sum, begins[d + 1], 1)) return std::nullopt;
    return simplifier_.simplify_affine(to_expr(sum));
  }

 private:
  Affine form(const Expr& e) { return simplifier_.simplify_affine(e); }
  ExprSimplifier simplifier_;
};

class Tester {
 public:
  Tester(const For* loop, const Bounds& outer) : base_(outer) {
    base_.bind(loop->variable, Range{loop->min, loop->extent});
    // A later iteration: loop variable + distance, still in the domain.
    distance_ = Var::make("distance");
    base_.bind(distance_, Range{index(1), loop->min + loop->extent - loop->variable - 1});
    later_[loop->variable.get()] = loop->variable + Expr(distance_);
  }

  /// Do `first` in one iteration and `second` in a later one never touch the same element?
  bool apart(const Site& first, const Site& second) {
    if (!(first.region.buffer == second.region.buffer)) return storage(first.region.buffer) != storage(second.region.buffer);
    Bounds bounds = base_;
    Substitution a = enter_scope(bounds, first, {}), b = enter_scope(bounds, second, later_);
    Forms x(bounds, first, a), y(bounds, second, b);
    for (size_t d = 0; d < x.begins.size(); ++d) {
      if (wild(bounds, x.begins[d]) || wild(bounds, y.begins[d])) continue;
      if (x.points && y.points) {
        if (decide_equal(bounds, x.begins[d], y.begins[d]) == Truth::no) return true;
      } else if (before(bounds, x.ends[d], y.begins[d]) || before(bounds, y.ends[d], x.begins[d])) {
        return true;
      }
    }
    if (!x.points || !y.points) return false;
    for (size_t d = 0; d + 1 < x.begins.size(); ++d)
      for (const Expr& weight : weights(first.region.buffer, x.begins[d + 1], d)) {
        auto p = x.merged(d, weight), q = y.merged(d, weight);
        if (p && q && !wild(bounds, *p) && !wild(bounds, *q) && decide_equal(bounds, *p, *q) == Truth::no) return true;
      }
    // All dimensions at once, by the buffer's own shape: what fuses three or more loops.
    auto flat = [&](Forms& f) {
      Affine sum = f.begins[0];
      for (size_t d = 1; d < f.begins.size(); ++d)
        if (!multiply(sum, to_affine(first.region.buffer->shape[d])) || !add_scaled(sum, f.begins[d], 1)) return std::optional<Affine>();
      ExprSimplifier s(bounds);
      return std::optional(s.simplify_affine(to_expr(sum)));
    };
    if (x.begins.size() < 3) return false;
    auto p = flat(x), q = flat(y);
    return p && q && !wild(bounds, *p) && !wild(bounds, *q) && decide_equal(bounds, *p, *q) == Truth::no;
  }

 private:
  static bool wild(const Bounds& bounds, const Affine& a) { return may_wrap(bounds, a); }

  static bool before(const Bounds& bounds, const Affine& end, const Affine& begin) {
    if (end.lanes > 1 || begin.lanes > 1) return false;
    Affine gap = begin;
    return add_scaled(gap, end, -1) && prove_nonnegative(bounds, gap);
  }

  /// Factors by which dimension d may join the next: the shape, and divisors that the next index's remainders show.
  static std::vector<Expr> weights(const Buffer& buffer, const Affine& next, size_t d) {
    std::vector<Expr> result{buffer->shape[d + 1]};
    for (const AffineTerm& t : next.terms) {
      auto* b = t.atom.as<Binary>();
      if (b && b->op == BinaryOp::floor_mod && b->b->dtype.is_scalar()) result.push_back(b->b * t.coefficient);
    }
    return result;
  }

  Bounds base_;
  VarRef distance_;
  Substitution later_;
};

/// An index that is loaded from memory which the loop writes says nothing from one iteration to another.
bool reads_written(const Region& region, const std::vector<const BufferNode*>& written) {
  bool found = false;
  for (const Range& r : region.ranges)
    for (const Expr& e : {r.min, r.extent})
      for_each_expr(e, [&](const Expr& part) {
        auto* l = part.as<Load>();
        found |= l && std::find(written.begin(), written.end(), storage(l->buffer)) != written.end();
        found |= part->kind == ExprKind::Call;
      });
  return found;
}

bool is_reduction_output(const Site& a, const Site& b) {
  if (!(a.block == b.block) || !a.block || !a.block.as<Block>()->f.reducer) return false;
  for (const Region& w : a.block.as<Block>()->f.writes)
    if (w.buffer == a.region.buffer) return true;
  return false;
}

}  // namespace

std::vector<CarriedDependence> carried_dependences(const Stmt& loop_stmt, const Bounds& outer, size_t most) {
  std::vector<CarriedDependence> result;
  auto* loop = loop_stmt.as<For>();
  LATHE_CHECK(loop, "carried_dependences takes a loop");
  Interval extent = outer.interval(loop->extent);
  if (extent.max && *extent.max <= 1) return result;
  Bounds inside = outer;
  inside.bind(loop->variable, Range{loop->min, loop->extent});
  SiteCollector collector(inside);
  collector.walk(loop->body);
  std::vector<const BufferNode*> written;
  for (const Site& site : collector.sites)
    if (site.writes) written.push_back(storage(site.region.buffer));
  std::optional<Tester> tester;
  for (const Site& first : collector.sites)
    for (const Site& second : collector.sites) {
      if (!(first.writes || second.writes) || storage(first.region.buffer) != storage(second.region.buffer)) continue;
      if (!tester) tester.emplace(loop, outer);
      bool unknown = reads_written(first.region, written) || reads_written(second.region, written);
      if (!unknown && tester->apart(first, second)) continue;
      DependenceKind kind = first.writes && second.reads ? DependenceKind::flow
                            : first.writes               ? DependenceKind::output
                                                         : DependenceKind::anti;
      result.push_back({kind,
                        {first.region, first.writes, first.block},
                        {second.region, kind != DependenceKind::flow, second.block},
                        is_reduction_output(first, second)});
      if (result.size() >= most) return result;
    }
  return result;
}

}  // namespace lathe
