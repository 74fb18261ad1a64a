#include <algorithm>
#include <numeric>

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
    if (!identical(a.ranges[d].min, b.ranges[d].min) || !identical(a.ranges[d].extent, b.ranges[d].extent))
      return false;
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
      if (!(known.block == site.block) || !identical_regions(known.region, site.region) ||
          known.guards != site.guards || known.inner.size() != site.inner.size())
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

Expr renamed(const Expr& e, const Substitution& names) {
  return e && !names.empty() ? substitute(e, names) : e;
}

/// Binds the loops of a site's scope under fresh names, puts in the values of its iters and Lets, and assumes its
/// guards; returns what each variable became.
Substitution enter_scope(Bounds& bounds, const Site& site, Substitution names) {
  for (const Bounds::Entry& entry : site.inner) {
    if (entry.value) {
      names[entry.variable.get()] = renamed(entry.value, names);
      continue;
    }
    VarRef fresh = Var::make(entry.variable->name, entry.variable->dtype);
    if (entry.has_domain())
      bounds.bind(fresh, Range{renamed(entry.domain.min, names), renamed(entry.domain.extent, names)});
    else
      bounds.bind(fresh, entry.interval);
    names[entry.variable.get()] = fresh;
  }
  for (const Expr& guard : site.guards) bounds.assume(renamed(guard, names));
  return names;
}

/// The index forms of a site under its names, of points; the ends too, of boxes.
struct Forms {
  std::vector<Affine> begins, ends;
  bool points = true;

  Forms(ExprSimplifier& simplifier, const Site& site, const Substitution& names) {
    for (const Range& r : site.region.ranges) points &= is_int(r.extent, 1) && r.min->dtype.is_scalar();
    for (const Range& r : site.region.ranges) {
      begins.push_back(simplifier.simplify_affine(renamed(r.min, names)));
      if (!points) ends.push_back(simplifier.simplify_affine(renamed(r.min + r.extent, names)));
    }
  }
};

/// A function of the element's place, evaluated at two sites: where they differ, the elements do.
struct Witness {
  Affine first, second;
};

bool identical_witness(const Witness& a, const Witness& b) {
  return equal(a.first, b.first) && equal(a.second, b.second);
}

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
    if (!(first.region.buffer == second.region.buffer)) return false;  // views of one memory
    Bounds bounds = base_;
    Substitution a = enter_scope(bounds, first, {}), b = enter_scope(bounds, second, later_);
    ExprSimplifier simplifier(bounds);
    Forms x(simplifier, first, a), y(simplifier, second, b);
    std::vector<Witness> witnesses;
    for (size_t d = 0; d < x.begins.size(); ++d) {
      if (may_wrap(bounds, x.begins[d]) || may_wrap(bounds, y.begins[d])) continue;
      if (x.points && y.points)
        witnesses.push_back({x.begins[d], y.begins[d]});
      else if (before(bounds, x, y, d) || before(bounds, y, x, d))
        return true;
    }
    // New witnesses join the list as it is walked: first quotients and remainders, then what two of them make.
    constexpr size_t most_witnesses = 16;
    const size_t dimensions = witnesses.size();
    for (size_t i = 0; i < witnesses.size(); ++i) {
      if (unequal(bounds, witnesses[i])) return true;
      if (i < dimensions) append_parts(bounds, witnesses[i], witnesses);
      for (size_t j = 0; j < i && witnesses.size() < most_witnesses; ++j) {
        append_joined(bounds, witnesses[i], witnesses[j], witnesses);
        append_joined(bounds, witnesses[j], witnesses[i], witnesses);
      }
    }
    return false;
  }

 private:
  static bool before(const Bounds& bounds, const Forms& x, const Forms& y, size_t d) {
    const Affine& end = x.points ? x.begins[d] : x.ends[d];
    if (end.lanes > 1 || y.begins[d].lanes > 1) return false;
    Affine gap = y.begins[d];
    if (x.points) gap.constant -= 1;
    return add_scaled(gap, end, -1) && prove_nonnegative(bounds, gap);
  }

  bool unequal(const Bounds& bounds, const Witness& w) const {
    Affine d = w.second;
    if (!add_scaled(d, w.first, -1)) return false;
    if (d.is_constant()) return d.constant != 0;
    if (!bounds.interval(d).contains(0)) return true;
    std::int64_t g = 0;
    for (const AffineTerm& t : d.terms) g = t.coefficient == INT64_MIN ? 1 : std::gcd(g, t.coefficient);
    if (g > 1 && d.constant % g != 0) return true;
    // Only a difference that grows with the distance can be told from 0 by more than that.
    bool grows = std::any_of(d.terms.begin(), d.terms.end(), [&](const AffineTerm& t) {
      std::vector<Expr> factors;
      append_factors(t.atom, factors);
      return std::find(factors.begin(), factors.end(), Expr(distance_)) != factors.end();
    });
    constexpr int effort = 150;
    if (!grows) return false;
    Affine above = d, below = Affine::of(0);
    above.constant -= 1;
    if (prove_nonnegative(bounds, above, effort)) return true;
    if (!add_scaled(below, d, -1)) return false;
    below.constant -= 1;
    return prove_nonnegative(bounds, below, effort);
  }

  /// w // g and w % g, for the divisors that w's coefficients suggest: equal places have equal ones.
  static void append_parts(const Bounds& bounds, Witness w, std::vector<Witness>& out) {
    std::vector<std::int64_t> divisors;
    for (const AffineTerm& t : w.first.terms) {
      std::int64_t g = t.coefficient < 0 ? -t.coefficient : t.coefficient;
      if (g > 1 && std::find(divisors.begin(), divisors.end(), g) == divisors.end()) divisors.push_back(g);
    }
    for (std::int64_t g : divisors) {
      Affine p = divide(bounds, w.first, g, quick_effort), q = divide(bounds, w.second, g, quick_effort);
      // A part that keeps the division as a whole says nothing new.
      if (p.terms.size() < w.first.terms.size()) out.push_back({p, q});
      Affine r = remainder(bounds, w.first, g, quick_effort), s = remainder(bounds, w.second, g, quick_effort);
      if (r.terms.size() < w.first.terms.size()) out.push_back({r, s});
    }
  }

  /// Of `whole` = x // c and `rest` = x % c the form x, as c * whole + rest.
  static void append_joined(const Bounds& bounds, const Witness& whole, const Witness& rest,
                            std::vector<Witness>& out) {
    if (rest.first.terms.size() != 1 || !divides(whole.first)) return;
    const AffineTerm& t = rest.first.terms[0];
    auto* m = t.atom.as<Binary>();
    if (!m || m->op != BinaryOp::floor_mod || m->b->dtype.lanes > 1) return;
    Affine weight = to_affine(m->b);
    auto join = [&](const Affine& a, const Affine& b) -> std::optional<Affine> {
      Affine sum = a;
      if (!multiply(sum, weight)) return std::nullopt;
      Affine scaled = b;
      if (!add_scaled(scaled, sum, t.coefficient)) return std::nullopt;
      recombine(bounds, scaled, quick_effort);
      return scaled;
    };
    auto p = join(whole.first, rest.first);
    if (!p || p->terms.size() >= whole.first.terms.size() + rest.first.terms.size()) return;
    auto q = join(whole.second, rest.second);
    if (!q) return;
    Witness joined{*p, *q};
    if (std::none_of(out.begin(), out.end(), [&](const Witness& w) { return identical_witness(w, joined); }))
      out.push_back(std::move(joined));
  }

  static bool divides(const Affine& a) {
    return std::any_of(a.terms.begin(), a.terms.end(), [](const AffineTerm& t) {
      std::vector<Expr> factors;
      append_factors(t.atom, factors);
      return std::any_of(factors.begin(), factors.end(), [](const Expr& f) {
        auto* b = f.as<Binary>();
        return b && (b->op == BinaryOp::floor_div || b->op == BinaryOp::floor_mod);
      });
    });
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

std::vector<CarriedDependence> carried_dependences(const Stmt& loop_stmt, const Bounds& outer, size_t most,
                                                   const std::function<bool(const Buffer&)>& considered) {
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
  if (considered) std::erase_if(collector.sites, [&](const Site& site) { return !considered(site.region.buffer); });
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
