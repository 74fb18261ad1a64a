#include "jit/trace/check_places.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <optional>
#include <unordered_map>

#include "ir/analysis/affine.h"
#include "ir/analysis/prove.h"
#include "ir/analysis/simplify.h"
#include "ir/conjuncts.h"
#include "ir/error.h"
#include "ir/text/print.h"
#include "ir/visitor.h"
#include "jit/trace/choice_mutator.h"
#include "jit/trace/describe.h"
#include "jit/trace/promotion.h"

namespace lathe {

bool is_inside(const Bounds& bounds, const Expr& place, const Expr& extent) {
  const Interval values = bounds.interval(place);
  const std::int64_t* constant_extent = as_int(extent);
  if (values.min && values.max && constant_extent && *values.min >= 0 && *values.max < *constant_extent) return true;
  const Affine form = to_affine(place);
  return decide_less(bounds, to_affine(index(-1)), form) == Truth::yes &&
         decide_less(bounds, form, to_affine(extent)) == Truth::yes;
}

namespace {

/// Residues that are looked at one by one.
constexpr std::int64_t most_residues = 16;

struct Digits {
  VarRef variable;
  std::int64_t divisor;
};

/// The first quotient or remainder of an iter and a number, by few that divide its extent.
std::optional<Digits> digits_of(const Expr& of, const std::vector<Iter>& iters) {
  std::optional<Digits> found;
  for_each_expr(of, [&](const Expr& e) {
    const Binary* node = e.as<Binary>();
    if (found || !node || (node->op != BinaryOp::floor_mod && node->op != BinaryOp::floor_div)) return;
    const std::int64_t* divisor = as_int(node->b);
    const Affine dividend = to_affine(node->a);
    if (dividend.terms.size() != 1 || dividend.terms[0].coefficient != 1) return;
    for (const Iter& iter : iters) {
      const std::int64_t* extent = as_int(iter.domain.extent);
      if (!divisor || !extent || dividend.terms[0].atom != Expr(iter.variable)) continue;
      if (*divisor > 1 && *divisor <= most_residues && *extent % *divisor == 0) found = {iter.variable, *divisor};
    }
  });
  return found;
}

/// Also where a quotient or a remainder of an iter hides it, as in x[d + 1 - 2 * (d % 2)], and the guard asks for some
/// residues alone.
bool lies_inside_by_residues(const Bounds& bounds, const std::vector<Iter>& iters, const Expr& place,
                             const Expr& extent, const Expr& guard) {
  std::optional<Digits> digits = digits_of(place, iters);
  if (!digits && guard) digits = digits_of(guard, iters);
  if (!digits) return false;
  const Range* domain = bounds.domain(digits->variable.get());
  if (!domain) return false;
  const VarRef quotient = Var::make("quotient");
  Bounds with(bounds);
  with.bind(quotient, Range{index(0), floor_div(domain->extent, index(digits->divisor))});
  for (std::int64_t residue = 0; residue < digits->divisor; ++residue) {
    const Substitution map{{digits->variable.get(), quotient * digits->divisor + residue}};
    if (guard && is_int(simplify(substitute(guard, map), with), 0)) continue;
    if (!is_inside(with, simplify(substitute(place, map), with), extent)) return false;
  }
  return true;
}

/// Is it a choice of places, as of those of either end? Simplified it may say less and be known for more.
bool chooses(const Expr& place) {
  bool found = false;
  for_each_expr(place, [&](const Expr& e) { found |= e.as<Select>() != nullptr; });
  return found;
}

class Checker : public ChoiceMutator {
 public:
  Checker(const std::string& name, const ComputeNode& node, Listener& listener)
      : ChoiceMutator(domains_of(node)), name_(name), iters_(node.iters), listener_(listener), plain_(bounds()) {
    for (const ElementAccess& access : listener.accesses) accesses_[access.element.get()] = access;
  }

  /// A term that there is where `within` holds.
  Expr term(const Expr& within, const Expr& value) { return under(within, value); }

  Expr mutate(const Expr& e) override {
    const auto found = e ? accesses_.find(e.get()) : accesses_.end();
    return found == accesses_.end() ? Mutator::mutate(e) : element(e, ElementAccess(found->second));
  }

 private:
  Expr element(const Expr& e, const ElementAccess& access) {
    Indices places;
    bool changed = false;
    Expr mask;
    for (size_t axis = 0; axis < access.indices.size(); ++axis) {
      const Expr given = convert(i64, access.indices[axis]), place = mutate(given);
      const Expr& extent = access.tensor.shape()[axis];
      places.push_back(place);
      changed |= place != given;
      if (is_inside(plain_, place, extent) || lies_inside_by_residues(plain_, iters_, place, extent, nullptr) ||
          (chooses(place) && !has_load(place) && is_inside(plain_, simplify(place, plain_), extent)))
        continue;
      changed = true;
      if (guard()) mask = guard();
      if (guard() &&
          (is_inside(bounds(), place, extent) || lies_inside_by_residues(plain_, iters_, place, extent, guard())))
        continue;
      if (const std::optional<Run> run = run_of(place)) {
        places.back() = checked(*run, axis, extent);
        mask = logical_and(mask, lt(places.back(), extent));
        continue;
      }
      refuse_outside(access.tensor, axis, place);
      places.back() = checked(place, axis, extent);
    }
    return changed ? access.tensor.at(places, mask) : e;
  }

  bool is_iter(const Expr& e) const {
    return std::any_of(iters_.begin(), iters_.end(), [&](const Iter& iter) { return e == Expr(iter.variable); });
  }

  /// Every corner of the iters' domains is computed, so that the ends of an affine index are reached.
  void refuse_outside(const Tensor& tensor, size_t axis, const Expr& place) const {
    const Affine form = to_affine(place);
    const Interval values = plain_.interval(place);
    const std::int64_t* extent = as_int(tensor.shape()[axis]);
    const bool exact = !guard() && std::all_of(form.terms.begin(), form.terms.end(), [&](const auto& term) {
      return is_iter(term.atom) && plain_.interval(term.atom).is_bounded();
    });
    if (!exact || !extent || !values.min || !values.max) return;
    const std::int64_t least = *values.min, greatest = *values.max;
    if (0 <= least && greatest < *extent) return;
    throw InputError(
        Mistake::index,
        fmt::format("{}: the index {} of {} reaches {} on axis {}; expected 0 to {}: bound it with "
                    "lathe.clip, or choose with lathe.where",
                    name_, print(place), describe(tensor), least < 0 ? least : greatest, axis, *extent - 1));
  }

  /// A place as what data decides and what iters count beside it, with the least and the greatest of that.
  struct Slid {
    Expr data, counted;
    std::int64_t least, greatest;
  };

  /// Is it an iter of which every value up to a known end is there?
  bool is_counter(const Expr& e) const {
    return std::any_of(iters_.begin(), iters_.end(), [&](const Iter& iter) {
      return e == Expr(iter.variable) && as_int(iter.domain.min) && as_int(iter.domain.extent);
    });
  }

  /// Of a place in a window that data moves, as x[start[m] + n] is: nothing where a choice asks for a part of the
  /// window alone, or the tensor may be shorter than it is.
  std::optional<Slid> slid(const Expr& place, const Expr& extent) const {
    if (guard()) return std::nullopt;
    Affine data = to_affine(place), counted = Affine::of(0);
    const auto moves = [&](const AffineTerm& term) {
      return is_counter(term.atom) && std::none_of(data.terms.begin(), data.terms.end(), [&](const AffineTerm& other) {
               return other.atom != term.atom && uses_var(other.atom, term.atom.as<Var>());
             });
    };
    for (const AffineTerm& term : Affine(data).terms) {
      if (!moves(term)) continue;
      const VarRef iter = VarRef(term.atom.as<Var>());
      if (!add_term(counted, iter, term.coefficient) || !add_term(data, iter, -term.coefficient)) return std::nullopt;
    }
    const Expr window = to_expr(counted);
    const Interval values = plain_.interval(window);
    if (counted.terms.empty() || data.is_constant() || !values.min || !values.max) return std::nullopt;
    const std::int64_t* size = as_int(extent);
    if (!size || *values.max - *values.min >= *size) return std::nullopt;
    return Slid{to_expr(data), window, *values.min, *values.max};
  }

  /// A place as where data begins it and a variable that counts up to what data says, as x[begin[m] + n] is for n up to
  /// length[m].
  struct Run {
    Expr begin, length, counter;
  };

  std::optional<Run> run_of(const Expr& place) const {
    const Binary* bound = guard() ? guard().as<Binary>() : nullptr;
    const Var* counter = bound && bound->op == BinaryOp::lt ? bound->a.as<Var>() : nullptr;
    if (!counter || !is_counter(bound->a) || !has_load(bound->b) || uses_var(bound->b, counter)) return std::nullopt;
    Affine begin = to_affine(place);
    if (!add_term(begin, bound->a, -1)) return std::nullopt;
    const Expr rest = to_expr(begin);
    return uses_var(rest, counter) ? std::nullopt : std::optional(Run{rest, bound->b, bound->a});
  }

  /// What a place must be, and which index is out of range where it is not, by its value and that of what stands beside
  /// it.
  struct Rule {
    std::function<Expr(const Expr& value, const Expr& beside)> inside, reached;
  };

  /// The place as a block of its own has computed and checked it, for the iters that it hangs on.
  Expr checked(const Expr& place, size_t axis, const Expr& extent) {
    if (const std::optional<Slid> window = slid(place, extent)) {
      const Expr least = index(-window->least), end = extent - index(window->greatest);
      const Rule rule{
          .inside = [&](const Expr& value, const Expr&) { return logical_and(ge(value, least), lt(value, end)); },
          .reached =
              [&](const Expr& value, const Expr&) {
                return select(lt(value, least), value + index(window->least), value + index(window->greatest));
              }};
      // The check has passed where this is read; the clamp says so to whoever bounds the access.
      return min(max(checked_values(window->data, nullptr, axis, rule), least), end - index(1)) + window->counted;
    }
    const Rule rule{.inside =
                        [&](const Expr& value, const Expr& asked) {
                          const Expr holds = logical_and(ge(value, index(0)), lt(value, extent));
                          return asked ? logical_or(logical_not(asked), holds) : holds;
                        },
                    .reached = [](const Expr& value, const Expr&) { return value; }};
    return min(max(checked_values(place, guard(), axis, rule), index(0)), extent - index(1));
  }

  /// The run's place, whose ends a block of its own has checked wherever there is a run.
  Expr checked(const Run& run, size_t axis, const Expr& extent) {
    const Rule rule{
        .inside =
            [&](const Expr& begin, const Expr& length) {
              const Expr holds = logical_and(ge(begin, index(0)), le(begin, extent - length));
              return logical_or(le(length, index(0)), holds);
            },
        .reached = [](const Expr& begin,
                      const Expr& length) { return select(lt(begin, index(0)), begin, begin + length - index(1)); }};
    return max(checked_values(run.begin, run.length, axis, rule), index(0)) + run.counter;
  }

  /// `place` as a block of its own computes it, for the iters that it and `beside` hang on, where the rule holds; else
  /// the kernel stops.
  Expr checked_values(const Expr& place, const Expr& beside, size_t axis, const Rule& rule) {
    Shape shape;
    Indices used;
    for (const Iter& iter : iters_) {
      if (!uses_var(place, iter.variable.get()) && !(beside && uses_var(beside, iter.variable.get()))) continue;
      shape.push_back(iter.domain.extent);
      used.emplace_back(iter.variable);
    }
    const std::vector<Tensor> sources = listener_.sources;
    const Tensor places = compute(
        shape,
        [&](const Indices& indices) {
          Substitution map;
          for (size_t i = 0; i < used.size(); ++i) map[used[i].as<Var>()] = indices[i];
          for (const Tensor& source : sources) {
            if (reads(place, source) || (beside && reads(beside, source))) Listener::active()->read(source);
          }
          const Expr value = substitute(place, map), other = beside ? substitute(beside, map) : Expr();
          require(rule.inside(value, other), fmt::format("{}|axis {}|index", name_, axis), rule.reached(value, other));
          return value;
        },
        name_ + ".index");
    return places.at(used);
  }

  const std::string& name_;
  const std::vector<Iter>& iters_;
  Listener& listener_;
  std::unordered_map<const ExprNode*, ElementAccess> accesses_;
  const Bounds plain_;  ///< what the domains say, whatever the choices around a place
};

}  // namespace

Expr check_places(const std::string& name, ComputeNode& node, Listener& listener, const std::vector<Expr>& within) {
  const bool empty =
      std::any_of(node.iters.begin(), node.iters.end(), [](const Iter& iter) { return is_int(iter.domain.extent, 0); });
  if (listener.accesses.empty() || empty) return conjunction(within);
  Checker checker(name, node, listener);
  Expr asked;
  for (const Expr& condition : within)
    asked = asked ? logical_and(asked, checker.term(asked, condition)) : checker.mutate(condition);
  for (Expr& value : node.values) value = asked ? checker.term(asked, value) : checker.mutate(value);
  return asked;
}

}  // namespace lathe
