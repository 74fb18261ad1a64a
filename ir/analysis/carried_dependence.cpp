#include <algorithm>
#include <numeric>
#include <unordered_map>
#include <unordered_set>

#include "ir/analysis/dependence.h"
#include "ir/analysis/nest_site.h"
#include "ir/analysis/remainders.h"
#include "ir/analysis/simplify_expr.h"
#include "ir/error.h"
#include "ir/storage.h"
#include "ir/visitor.h"

namespace lathe {
namespace {

/// Binds the loops of a site's scope under fresh names, puts in the values of its iters and Lets, and assumes its
/// guards; returns what each variable became.
Substitution enter_scope(Bounds& bounds, const Site& site, Substitution names) {
  for (const Bounds::Entry& entry : site.inner) {
    if (entry.value) {
      names[entry.variable.get()] = renamed(entry.value, names);
      continue;
    }
    VarRef fresh = Var::make(entry.variable->name, entry.variable->dtype);
    if (entry.domain)
      bounds.bind(fresh, Range{renamed(entry.domain->range.min, names), renamed(entry.domain->range.extent, names)});
    else
      bounds.bind(fresh, entry.interval);
    names[entry.variable.get()] = fresh;
  }
  for (const Expr& guard : site.guards) bounds.assume(renamed(guard, names));
  return names;
}

/// One index of an element, or the index that begins a range of them with the one behind it, at two sites.
struct IndexPair {
  Expr first, second;
};

/// The x of indices x // c and y % c, which both are equal only where x is; null when they are no such pair. Of y
/// multiples of c may be missing, as simplification leaves them out.
Expr rejoined(const Bounds& bounds, const Expr& whole, const Expr& rest) {
  auto *div = whole.as<Binary>(), *mod = rest.as<Binary>();
  if (!div || !mod || div->op != BinaryOp::floor_div || mod->op != BinaryOp::floor_mod) return nullptr;
  if (!identical(div->b, mod->b)) return nullptr;
  const std::int64_t* divisor = as_int(div->b);
  const bool same = divisor ? same_remainder(bounds, div->a, mod->a, *divisor) : identical(div->a, mod->a);
  return same ? div->a : nullptr;
}

/// Turns pairs of dimensions that hold x // c and x % c, as fused loops leave them, into one that holds x.
void rejoin(const Bounds& bounds, std::vector<IndexPair>& pairs) {
  for (size_t rest = 0; rest < pairs.size(); ++rest)
    for (size_t whole = 0; whole < pairs.size(); ++whole) {
      if (whole == rest) continue;
      Expr first = rejoined(bounds, pairs[whole].first, pairs[rest].first);
      Expr second = first ? rejoined(bounds, pairs[whole].second, pairs[rest].second) : nullptr;
      if (!second || !identical(pairs[rest].first.as<Binary>()->b, pairs[rest].second.as<Binary>()->b)) continue;
      pairs[whole] = {std::move(first), std::move(second)};
      pairs.erase(pairs.begin() + static_cast<std::ptrdiff_t>(rest));
      return rejoin(bounds, pairs);
    }
}

/// A function of the element's place, evaluated at two sites: where they differ, the elements do.
struct Witness {
  Affine first, second;
};

bool identical_witness(const Witness& a, const Witness& b) {
  return equal(a.first, b.first) && equal(a.second, b.second);
}

class Tester {
 public:
  Tester(const std::vector<const For*>& nest, const std::vector<Direction>& directions, const Bounds& outer)
      : base_(outer) {
    for (size_t i = 0; i < nest.size(); ++i) bind(nest[i], directions[i]);
  }

  /// Do `first` in one instance and `second` in another one never touch the same element? Where they may, `steps`
  /// becomes the distances that are one number.
  bool apart(const Site& first, const Site& second, std::vector<std::optional<std::int64_t>>& steps) const {
    if (!(first.region.buffer == second.region.buffer)) return false;  // views of one memory
    Bounds bounds = base_;
    Substitution a = enter_scope(bounds, first, {}), b = enter_scope(bounds, second, later_);
    ExprSimplifier simplifier(bounds);
    std::vector<IndexPair> pairs;
    for (size_t d = 0; d < first.region.ranges.size(); ++d) {
      const Range &r = first.region.ranges[d], &s = second.region.ranges[d];
      const IndexPair begin{renamed(r.min, a), renamed(s.min, b)};
      if (is_int(r.extent, 1) && is_int(s.extent, 1)) {
        if (begin.first->dtype.is_scalar() && begin.second->dtype.is_scalar()) pairs.push_back(begin);
        continue;
      }
      const IndexPair end{renamed(r.min + r.extent, a), renamed(s.min + s.extent, b)};
      const Affine x = simplifier.simplify_affine(begin.first), y = simplifier.simplify_affine(begin.second);
      if (may_wrap(bounds, x) || may_wrap(bounds, y)) continue;
      if (ordered(bounds, simplifier.simplify_affine(end.first), y) ||
          ordered(bounds, simplifier.simplify_affine(end.second), x))
        return true;
    }
    rejoin(bounds, pairs);
    std::vector<Witness> witnesses;
    for (const IndexPair& pair : pairs) {
      if (identical(pair.first, pair.second)) continue;
      Witness w{simplifier.simplify_affine(pair.first), simplifier.simplify_affine(pair.second)};
      if (may_wrap(bounds, w.first) || may_wrap(bounds, w.second)) continue;
      if (unequal(bounds, w)) return true;
      witnesses.push_back(std::move(w));
    }
    // New witnesses join the list as it is walked: quotients and remainders of each, and what two of them make. A place
    // of four digits, one of which is made up of three, takes some fifty.
    constexpr size_t most_witnesses = 64;
    const size_t dimensions = witnesses.size();
    for (size_t i = 0; i < witnesses.size(); ++i) {
      if (i >= dimensions && unequal(bounds, witnesses[i])) return true;
      if (i < dimensions || witnesses.size() < most_witnesses) append_parts(bounds, witnesses[i], witnesses);
      for (size_t j = 0; j < i && witnesses.size() < most_witnesses; ++j) {
        append_joined(bounds, witnesses[i], witnesses[j], witnesses);
        append_joined(bounds, witnesses[j], witnesses[i], witnesses);
      }
    }
    steps.assign(distances_.size(), std::nullopt);
    for (const Witness& w : witnesses) note_distance(w, steps);
    return false;
  }

 private:
  /// Where the second instance stands: the loop's variable, or distance iterations from it, within its own bounds.
  void bind(const For* loop, Direction direction) {
    base_.bind(loop->variable, Range{loop->min, loop->extent});
    const Expr min = renamed(loop->min, later_), end = renamed(loop->min + loop->extent, later_);
    const bool same_bounds = min == loop->min && identical(end, loop->min + loop->extent);
    const Expr here = loop->variable;
    VarRef distance;
    Expr there = here;
    switch (direction) {
      case Direction::equal:
        break;
      case Direction::later:
        distance = Var::make("distance");
        base_.bind(distance, Range{index(1), end - here - 1});
        there = here + Expr(distance);
        break;
      case Direction::earlier:
        distance = Var::make("distance");
        base_.bind(distance, Range{index(1), here - min});
        there = here - Expr(distance);
        break;
      case Direction::any: {
        const VarRef other = Var::make(loop->variable->name);
        base_.bind(other, Range{min, end - min});
        there = other;
        break;
      }
    }
    if (!same_bounds && direction != Direction::any) {
      base_.assume(ge(there, min));
      base_.assume(lt(there, end));
    }
    if (there != here) later_[loop->variable.get()] = there;
    distances_.push_back(distance);
    signs_.push_back(direction == Direction::earlier ? -1 : 1);
  }

  bool is_distance(const Expr& e) const {
    return std::any_of(distances_.begin(), distances_.end(), [&](const VarRef& v) { return v && e == Expr(v); });
  }

  /// A difference that is 0 at one distance alone says what it is.
  void note_distance(const Witness& w, std::vector<std::optional<std::int64_t>>& steps) const {
    Affine d = w.second;
    if (!add_scaled(d, w.first, -1) || d.terms.size() != 1 || d.constant == INT64_MIN) return;
    const AffineTerm& t = d.terms[0];
    if (t.coefficient == 0 || -d.constant % t.coefficient != 0) return;
    for (size_t i = 0; i < distances_.size(); ++i)
      if (distances_[i] && t.atom == Expr(distances_[i])) steps[i] = signs_[i] * (-d.constant / t.coefficient);
  }

  /// Is `end` <= `begin`?
  static bool ordered(const Bounds& bounds, const Affine& end, const Affine& begin) {
    if (end.lanes > 1 || begin.lanes > 1) return false;
    Affine gap = begin;
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
      return std::any_of(factors.begin(), factors.end(), [&](const Expr& f) { return is_distance(f); });
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
  /// A copy of w: it comes from `out`, which grows here.
  // NOLINTNEXTLINE(performance-unnecessary-value-param)
  static void append_parts(const Bounds& bounds, Witness w, std::vector<Witness>& out) {
    std::vector<std::int64_t> divisors;
    for (const AffineTerm& t : w.first.terms) {
      std::int64_t g = t.coefficient < 0 ? -t.coefficient : t.coefficient;
      if (g > 1 && std::find(divisors.begin(), divisors.end(), g) == divisors.end()) divisors.push_back(g);
    }
    for (std::int64_t g : divisors) {
      Affine p = divide(bounds, w.first, g, quick_effort), q = divide(bounds, w.second, g, quick_effort);
      // A part that keeps the division as a whole says nothing new.
      if (p.terms.size() < w.first.terms.size()) append_new({p, q}, out);
      Affine r = remainder(bounds, w.first, g, quick_effort), s = remainder(bounds, w.second, g, quick_effort);
      if (r.terms.size() < w.first.terms.size()) append_new({r, s}, out);
    }
  }

  /// c * (x // c) + y % c is x where y is x with coefficients counted modulo c, as remainders are written.
  static void recombine_reduced(const Bounds& bounds, Affine& a) {
    for (const AffineTerm& rest : a.terms)
      for (const AffineTerm& whole : a.terms) {
        auto *m = rest.atom.as<Binary>(), *d = whole.atom.as<Binary>();
        if (!m || !d || m->op != BinaryOp::floor_mod || d->op != BinaryOp::floor_div) continue;
        const std::int64_t *c = as_int(m->b), *divisor = as_int(d->b);
        std::int64_t scaled;
        if (!c || !divisor || *c < 1 || *c != *divisor || __builtin_mul_overflow(rest.coefficient, *c, &scaled) ||
            scaled != whole.coefficient)
          continue;
        if (!same_remainder(bounds, d->a, m->a, *c)) continue;
        const Affine x = to_affine(d->a);
        Affine result = a;
        if (!add_term(result, rest.atom, -rest.coefficient) || !add_term(result, whole.atom, -whole.coefficient) ||
            !add_scaled(result, x, rest.coefficient))
          continue;
        a = std::move(result);
        return;
      }
  }

  /// Of `whole` = x // c and `rest` = x % c the form x, as c * whole + rest.
  static void append_joined(const Bounds& bounds, const Witness& whole, const Witness& rest,
                            std::vector<Witness>& out) {
    if (rest.first.terms.size() != 1 || divisions(whole.first) == 0) return;
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
      recombine_reduced(bounds, scaled);
      return scaled;
    };
    auto p = join(whole.first, rest.first);
    if (!p || divisions(*p) >= divisions(whole.first) + 1) return;
    auto q = join(whole.second, rest.second);
    if (!q) return;
    append_new({*p, *q}, out);
  }

  static void append_new(Witness witness, std::vector<Witness>& out) {
    if (std::none_of(out.begin(), out.end(), [&](const Witness& w) { return identical_witness(w, witness); }))
      out.push_back(std::move(witness));
  }

  /// The terms with a quotient or a remainder in them.
  static std::ptrdiff_t divisions(const Affine& a) {
    return std::count_if(a.terms.begin(), a.terms.end(), [](const AffineTerm& t) {
      std::vector<Expr> factors;
      append_factors(t.atom, factors);
      return std::any_of(factors.begin(), factors.end(), [](const Expr& f) {
        auto* b = f.as<Binary>();
        return b && (b->op == BinaryOp::floor_div || b->op == BinaryOp::floor_mod);
      });
    });
  }

  Bounds base_;
  std::vector<VarRef> distances_;
  std::vector<std::int64_t> signs_;
  Substitution later_;
};

/// An index that is loaded from memory which the loop writes says nothing from one iteration to another.
bool reads_written(const Region& region, const std::vector<const BufferNode*>& written) {
  bool found = false;
  for (const Range& r : region.ranges)
    for (const Expr& e : {r.min, r.extent})
      for_each_expr(e, [&](const Expr& part) {
        auto* l = part.as<Load>();
        found |= l && std::find(written.begin(), written.end(), storage_of(l->buffer)) != written.end();
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

/// By the memory that they touch, and whether something writes it.
struct NestDependences::Sites {
  struct Memory {
    const BufferNode* storage;
    std::vector<Site> sites;
  };
  std::vector<Memory> memories;
  std::vector<const BufferNode*> written;
};

NestDependences::NestDependences(std::vector<const For*> nest, const Bounds& outer,
                                 const std::function<bool(const Buffer&)>& considered)
    : nest_(std::move(nest)), outer_(outer), sites_(std::make_unique<Sites>()) {
  Bounds inside = outer;
  for (const For* loop : nest_) inside.bind(loop->variable, Range{loop->min, loop->extent});
  std::unordered_set<const BufferNode*> written;
  for_each_stmt(nest_.back()->body, [&](const Stmt& s) {
    if (const Store* store = s.as<Store>()) written.insert(storage_of(store->buffer));
    const Block* block = s.as<Block>();
    if (!block) return;
    for (const Region& region : block->f.writes) written.insert(storage_of(region.buffer));
  });
  for_each_expr(nest_.back()->body, [&](const Expr& e) {
    if (const AddressOf* taken = e.as<AddressOf>()) written.insert(storage_of(taken->buffer));
  });
  sites_->written.assign(written.begin(), written.end());
  std::vector<Site> sites = collect_sites(nest_.back()->body, inside, [&](const Buffer& buffer) {
    return written.contains(storage_of(buffer)) && (!considered || considered(buffer));
  });
  std::unordered_map<const BufferNode*, size_t> known;
  for (Site& site : sites) {
    const BufferNode* memory = storage_of(site.region.buffer);
    auto [place, fresh] = known.emplace(memory, sites_->memories.size());
    if (fresh) sites_->memories.push_back({memory, {}});
    sites_->memories[place->second].sites.push_back(std::move(site));
  }
}
NestDependences::~NestDependences() = default;

std::vector<CarriedDependence> NestDependences::find(const std::vector<Direction>& directions, size_t most,
                                                     bool with_reductions) const {
  LATHE_CHECK(directions.size() == nest_.size(), "one direction a loop");
  std::vector<CarriedDependence> result;
  std::optional<Tester> tester;
  for (const Sites::Memory& memory : sites_->memories)
    for (const Site& first : memory.sites)
      for (const Site& second : memory.sites) {
        if (!(first.writes || second.writes)) continue;
        const bool reduction = is_reduction_output(first, second);
        if (reduction && !with_reductions) continue;
        bool unknown = reads_written(first.region, sites_->written) || reads_written(second.region, sites_->written);
        if (!unknown && plainly_apart(nest_, directions, first, second)) continue;
        if (!tester) tester.emplace(nest_, directions, outer_);
        std::vector<std::optional<std::int64_t>> steps(nest_.size());
        if (!unknown && tester->apart(first, second, steps)) continue;
        DependenceKind kind = first.writes && second.reads ? DependenceKind::flow
                              : first.writes               ? DependenceKind::output
                                                           : DependenceKind::anti;
        result.push_back({kind,
                          {first.region, first.writes, first.block},
                          {second.region, kind != DependenceKind::flow, second.block},
                          reduction,
                          std::move(steps)});
        if (result.size() >= most) return result;
      }
  return result;
}

std::vector<CarriedDependence> carried_dependences(const Stmt& loop_stmt, const Bounds& outer, size_t most,
                                                   const std::function<bool(const Buffer&)>& considered) {
  auto* loop = loop_stmt.as<For>();
  LATHE_CHECK(loop, "carried_dependences takes a loop");
  Interval extent = outer.interval(loop->extent);
  if (extent.max && *extent.max <= 1) return {};
  return NestDependences({loop}, outer, considered).find({Direction::later}, most);
}

}  // namespace lathe
