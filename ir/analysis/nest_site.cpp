#include "ir/analysis/nest_site.h"

#include <algorithm>

#include "ir/analysis/access_walk.h"

namespace lathe {
namespace {

class SiteCollector : public AccessWalk {
 public:
  SiteCollector(const Bounds& outer, const std::function<bool(const Buffer&)>& considered)
      : AccessWalk(outer, false), considered_(considered) {}

  std::vector<Site> sites;

 protected:
  void enter(const Stmt& s) override {
    if (s->kind == StmtKind::Block) blocks_.push_back(s);
  }
  void leave(const Stmt& s) override {
    if (s->kind == StmtKind::Block) blocks_.pop_back();
  }
  /// What rests on a dependence has no other version to fall back on.
  bool governs(const Region& hint, const Block& block, bool is_write) override {
    return hint_holds(hint, block.f.annotations, is_write);
  }
  void accessed(const Access& access) override {
    if (!considered_(access.region.buffer)) return;
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
    // A block's own sites follow each other.
    for (size_t i = sites.size(); i-- > 0 && sites[i].block == site.block;) {
      Site& known = sites[i];
      if (!identical(known.region, site.region) || known.guards != site.guards ||
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
  const std::function<bool(const Buffer&)> considered_;
  std::vector<Stmt> blocks_;
};

/// Writes out the iters and Lets in a site's indices, which then hold nothing but loops from inside and from outside.
void find_forms(Site& site) {
  Substitution values;
  for (const Bounds::Entry& entry : site.inner)
    if (entry.value) values[entry.variable.get()] = renamed(entry.value, values);
  for (const Range& r : site.region.ranges) {
    site.forms.emplace_back();
    if (is_int(r.extent, 1) && r.min->dtype.is_scalar()) site.forms.back() = to_affine(renamed(r.min, values));
  }
}

bool is_bound_within(const Site& site, const Var* variable) {
  return std::any_of(site.inner.begin(), site.inner.end(),
                     [&](const Bounds::Entry& entry) { return entry.variable.get() == variable; });
}

/// The range of a sum of multiples of variables.
struct Spread {
  std::int64_t low = 0, high = 0;

  /// Adds `sign` times the coefficient times a variable that is bound within the site; false where its range is not
  /// known, or too great.
  bool add(const Site& site, const Var* variable, std::int64_t coefficient, int sign) {
    for (const Bounds::Entry& entry : site.inner) {
      if (entry.variable.get() != variable || !entry.interval.min || !entry.interval.max) continue;
      std::int64_t factor, a, b;
      if (__builtin_mul_overflow(coefficient, std::int64_t{sign}, &factor) ||
          __builtin_mul_overflow(factor, *entry.interval.min, &a) ||
          __builtin_mul_overflow(factor, *entry.interval.max, &b))
        return false;
      return !__builtin_add_overflow(low, std::min(a, b), &low) && !__builtin_add_overflow(high, std::max(a, b), &high);
    }
    return false;
  }
};

}  // namespace

Expr renamed(const Expr& e, const Substitution& names) {
  return e && !names.empty() ? substitute(e, names) : e;
}

std::vector<Site> collect_sites(const Stmt& body, const Bounds& inside,
                                const std::function<bool(const Buffer&)>& considered) {
  SiteCollector collector(inside, considered);
  collector.walk(body);
  for (Site& site : collector.sites) find_forms(site);
  return std::move(collector.sites);
}

bool plainly_apart(const std::vector<const For*>& nest, const std::vector<Direction>& directions, const Site& first,
                   const Site& second) {
  if (first.region.buffer != second.region.buffer) return false;
  for (size_t d = 0; d < first.forms.size(); ++d) {
    const auto &x = first.forms[d], &y = second.forms[d];
    if (!x || !y) continue;
    // second - first = offset + step * distance + something in `spread`.
    std::int64_t offset, step = 0;
    Spread spread;
    const auto takes = [&](const Affine& mine, const Affine& other, const Site& site, int sign) {
      return std::all_of(mine.terms.begin(), mine.terms.end(), [&](const AffineTerm& t) {
        for (size_t i = 0; i < nest.size(); ++i) {
          if (t.atom != Expr(nest[i]->variable)) continue;
          if (other.coefficient(t.atom) != t.coefficient) return false;
          if (directions[i] == Direction::equal) return true;
          // The second pass meets the loop that the first one found.
          if (directions[i] == Direction::any || (step != 0 && sign < 0) || t.coefficient == INT64_MIN) return false;
          step = directions[i] == Direction::later ? t.coefficient : -t.coefficient;
          return true;
        }
        const auto* variable = t.atom.as<Var>();
        if (!variable) return false;
        if (is_bound_within(site, variable)) return spread.add(site, variable, t.coefficient, sign);
        return other.coefficient(t.atom) == t.coefficient && !is_bound_within(first, variable) &&
               !is_bound_within(second, variable);
      });
    };
    if (!takes(*x, *y, first, -1) || !takes(*y, *x, second, 1) || step == 0) continue;
    if (__builtin_sub_overflow(y->constant, x->constant, &offset)) continue;
    if (spread.low == 0 && spread.high == 0) {
      // step * distance = -offset has no solution with distance >= 1.
      if (offset == 0 || (offset > 0) == (step > 0) || offset % step != 0) return true;
      continue;
    }
    std::int64_t nearest;
    if (!__builtin_add_overflow(offset, step, &nearest) &&
        !__builtin_add_overflow(nearest, step > 0 ? spread.low : spread.high, &nearest) && nearest != 0 &&
        (nearest > 0) == (step > 0))
      return true;
  }
  return false;
}

}  // namespace lathe
