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

Expr matching_residue(const Congruence& c) {
  if (const Expr line = fitted([&](std::int64_t a) { return c.matching(a); }, c.residue, c.modulus)) return line;
  // It goes on evenly, modulo the modulus.
  std::int64_t slope = c.matching(1) - c.matching(0);
  if (slope < 0) slope += c.modulus;
  return floor_mod(Expr(c.residue) * slope + c.matching(0), c.modulus);
}

Parts::Parts(const std::vector<Congruence>& congruences, const Block& block)
    : congruences_(congruences), block_(block) {
  for (const Congruence& c : congruences_) {
    iters_[space(c).get()] = Expr(c.quotient) * c.modulus + Expr(c.residue);
    iters_[reduce(c).get()] = Expr(c.taken) * c.modulus + matching_residue(c);
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
  const std::int64_t p = form.coefficient(space(c)), q = form.coefficient(reduce(c)), m = c.modulus;
  if (p == 0 && q == 0) return nullptr;
  Expr sum = Expr(c.quotient) * p + Expr(c.taken) * q;
  for (const AffineTerm& term : form.terms) {
    if (term.atom == Expr(space(c)) || term.atom == Expr(reduce(c))) continue;
    if (term.coefficient % m != 0) return nullptr;
    sum = sum + mutate(term.atom) * (term.coefficient / m);
  }
  const auto rest = [&](std::int64_t a) { return floored(p * a + q * c.matching(a) + form.constant, m); };
  const Expr line = fitted(rest, c.residue, m);
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
