#include "schedule/residues.h"

#include <functional>

#include "ir/analysis/simplify.h"

namespace lathe {
namespace {

/// f(0) .. f(count - 1) as an expression: a line, a line with one step, or null.
Expr fitted(const std::function<std::int64_t(std::int64_t)>& f, const Expr& at, std::int64_t count) {
  const auto fits = [&](const std::function<std::int64_t(std::int64_t)>& g) {
    for (std::int64_t i = 0; i < count; ++i) {
      if (f(i) != g(i)) return false;
    }
    return true;
  };
  const std::int64_t first = f(0), slope = f(1) - first;
  if (fits([&](std::int64_t i) { return first + i * slope; })) return simplify(at * slope + first);
  for (std::int64_t shift = 1; shift < count; ++shift) {
    if (fits([&](std::int64_t i) { return first + (i + shift) / count; }))
      return simplify(floor_div(at + shift, count) + first);
  }
  return nullptr;
}

/// The same of what goes on evenly, modulo the modulus.
Expr even_steps(const std::function<std::int64_t(std::int64_t)>& f, const Expr& at, std::int64_t count,
                std::int64_t modulus) {
  if (count == 1) return index(f(0));
  if (const Expr line = fitted(f, at, count)) return line;
  std::int64_t slope = f(1) - f(0);
  if (slope < 0) slope += modulus;
  return floor_mod(at * slope + f(0), modulus);
}

std::int64_t floored(std::int64_t a, std::int64_t b) {
  return (a - ((a % b) + b) % b) / b;
}

const Binary* remainder_of(const Expr& e) {
  const Binary* binary = e.as<Binary>();
  return binary && binary->op == BinaryOp::floor_mod ? binary : nullptr;
}

}  // namespace

std::optional<ResidueCondition> residue_condition(const Expr& condition) {
  const Binary* comparison = condition.as<Binary>();
  if (!comparison || (comparison->op != BinaryOp::eq && comparison->op != BinaryOp::lt)) return std::nullopt;
  const bool below = comparison->op == BinaryOp::lt, left = remainder_of(comparison->a) != nullptr;
  const Binary* remainder = remainder_of(left ? comparison->a : comparison->b);
  const std::int64_t* modulus = remainder ? as_int(remainder->b) : nullptr;
  const std::int64_t* value = as_int(left ? comparison->b : comparison->a);
  if (!modulus || !value || *modulus < 2) return std::nullopt;
  if (below && *value != (left ? 1 : *modulus - 2)) return std::nullopt;
  if (*value < 0 || *value >= *modulus) return std::nullopt;  // it never holds
  return ResidueCondition{remainder->a, *modulus, !below ? *value : left ? 0 : *modulus - 1};
}

std::int64_t Congruence::space_residue(std::int64_t of_class) const {
  if (by_space()) return of_class;
  std::int64_t h = 0;
  while (h + 1 < modulus && !holds(h, of_class)) ++h;
  return h;
}

std::optional<std::int64_t> Congruence::matching(std::int64_t h) const {
  for (std::int64_t r = 0; r < period(); ++r) {
    if (holds(h, r)) return r;
  }
  return std::nullopt;
}

std::int64_t Congruence::reduce_residue(std::int64_t of_class) const {
  return by_space() ? *matching(of_class) : of_class;
}

Expr space_of_class(const Congruence& c) {
  const auto residue = [&](std::int64_t i) { return c.space_residue(i); };
  return Expr(c.quotient) * c.modulus + even_steps(residue, c.class_, c.classes(), c.modulus);
}

Expr reduce_residue_of(const Congruence& c, const Expr& of_class) {
  return even_steps([&](std::int64_t i) { return c.reduce_residue(i); }, of_class, c.classes(), c.period());
}

Expr reduce_of_class(const Congruence& c) {
  return Expr(c.taken) * c.period() + reduce_residue_of(c, c.class_);
}

ClassOfResidue class_of_residue(const Congruence& c) {
  if (c.by_space()) return {c.residue, nullptr};
  // Residues that hold for some r are evenly apart, and the r they hold for go on evenly, modulo the period.
  const std::int64_t apart = c.modulus / c.period();
  std::int64_t first = 0;
  while (!c.matching(first)) ++first;
  const auto r = [&](std::int64_t i) { return *c.matching((first + i * apart) % c.modulus); };
  const Expr at = even_steps(r, floor_div(Expr(c.residue) - first, apart), c.period(), c.period());
  Expr exists;
  if (apart > 1) exists = eq(floor_mod(Expr(c.residue) - first, apart), index(0));
  if (c.classes() < c.period()) exists = logical_and(exists, lt(at, index(c.classes())));
  return {at, exists};
}

Parts::Parts(const std::vector<Congruence>& congruences, const Block& block)
    : congruences_(congruences), block_(block) {
  for (const Congruence& c : congruences_) {
    iters_[space(c).get()] = space_of_class(c);
    if (c.reduce) iters_[reduce(c).get()] = reduce_of_class(c);
  }
}

void Parts::replace(const Expr& from, const Expr& to) {
  replaced_ = {from, to};
  forget();
}

Expr Parts::mutate_Var(const Expr& e, const Var* node) {
  const auto found = iters_.find(node);
  return found == iters_.end() ? e : found->second;
}

Expr Parts::mutate_Select(const Expr& e, const Select* node) {
  return e == replaced_.first ? replaced_.second : Mutator::mutate_Select(e, node);
}

Expr Parts::mutate_Binary(const Expr& e, const Binary* node) {
  const std::int64_t* divisor = node->op == BinaryOp::floor_div ? as_int(node->b) : nullptr;
  for (const Congruence& c : congruences_) {
    if (e == c.condition) return constant(boolean, 1);
    if (!divisor || *divisor != c.modulus) continue;
    if (const Expr quotient = divided(to_affine(node->a), c)) return quotient;
  }
  return Mutator::mutate_Binary(e, node);
}

/// The form // the modulus, where everything else in it is a multiple; null otherwise.
Expr Parts::divided(const Affine& form, const Congruence& c) {
  const std::int64_t p = form.coefficient(space(c)), q = c.reduce ? form.coefficient(reduce(c)) : 0, m = c.modulus;
  if ((p == 0 && q == 0) || q * c.period() % m != 0) return nullptr;
  Expr sum = Expr(c.quotient) * p;
  if (c.reduce) sum = sum + Expr(c.taken) * (q * c.period() / m);
  for (const AffineTerm& term : form.terms) {
    if (term.atom == Expr(space(c)) || (c.reduce && term.atom == Expr(reduce(c)))) continue;
    if (term.coefficient % m != 0) return nullptr;
    sum = sum + mutate(term.atom) * (term.coefficient / m);
  }
  const auto rest = [&](std::int64_t i) {
    return floored(p * c.space_residue(i) + q * c.reduce_residue(i) + form.constant, m);
  };
  const Expr line = c.classes() == 1 ? index(rest(0)) : fitted(rest, c.class_, c.classes());
  if (!line) return nullptr;
  return simplify(sum + line);
}

Expr unproved_inside(const std::vector<Expr>& indices, const Buffer& buffer, const Bounds& bounds) {
  Expr unproved;
  for (size_t d = 0; d < indices.size(); ++d) {
    for (const Expr& side : {ge(indices[d], index(0)), lt(indices[d], buffer->shape[d])}) {
      if (!proves(bounds, side)) unproved = logical_and(unproved, side);
    }
  }
  return unproved;
}

Expr zero_outside(const Expr& choice, const Bounds& bounds) {
  class Guard : public Mutator {
   public:
    explicit Guard(const Bounds& bounds) : bounds_(bounds) {}
    Expr guards = nullptr;

   protected:
    Expr mutate_Load(const Expr&, const Load* node) override {
      std::vector<Expr> indices;
      indices.reserve(node->indices.size());
      for (const Expr& e : node->indices) indices.push_back(simplify(mutate(e), bounds_));
      const Expr within = unproved_inside(indices, node->buffer, bounds_);
      if (within) guards = logical_and(guards, within);
      const Expr mask = within ? logical_and(node->mask, within) : node->mask;
      return Load::make(node->buffer, std::move(indices), mask);
    }

   private:
    const Bounds& bounds_;
  };
  Guard guard(bounds);
  Expr guarded = guard.mutate(choice);
  if (!guard.guards) return guarded;
  const Select& made = *guarded.as<Select>();
  return select(logical_and(made.condition, guard.guards), made.when_true, made.when_false);
}

}  // namespace lathe
