#pragma once
/// Iters of a reduction taken apart into residues and quotients, where a condition allows only matching residues.
#include <algorithm>
#include <numeric>
#include <optional>
#include <utility>
#include <vector>

#include "ir/analysis/affine.h"
#include "ir/analysis/interval.h"
#include "ir/stmt.h"
#include "ir/visitor.h"

namespace lathe {

/// What a condition allows of a residue: form % modulus == value.
struct ResidueCondition {
  Expr form;
  std::int64_t modulus = 0, value = 0;
};

/// Of a comparison that leaves one residue, however it says so: r == t, r < 1, m - 2 < r. Nothing for any other.
std::optional<ResidueCondition> residue_condition(const Expr& condition);

/// (h*space_step + r*reduce_step + offset) % modulus == 0, of the iters at two positions of a block's list, or of h
/// alone, with a step of 0, as if r were 0. What holds it comes in classes of one residue of each: of every residue of
/// h, or of every residue of r that there is where these are fewer, as of a step that is wider than what is spread, or
/// that has a divisor of the modulus.
struct Congruence {
  Expr condition;
  size_t space = 0;
  std::optional<size_t> reduce;
  std::int64_t space_step = 0, reduce_step = 0, offset = 0, modulus = 0;
  std::int64_t points = 0, terms = 1;       ///< the extents of the iters
  VarRef quotient, residue, class_, taken;  ///< h // modulus, h % modulus, the class, and r // period()

  bool holds(std::int64_t h, std::int64_t r) const {
    return (h * space_step + r * reduce_step + offset) % modulus == 0;
  }
  /// From how many r on their residues repeat themselves.
  std::int64_t period() const { return modulus / std::gcd(reduce_step, modulus); }
  std::int64_t classes() const { return std::min(terms, period()); }
  bool by_space() const { return classes() == modulus; }
  /// The least r that the condition holds of; nothing where it holds of none.
  std::optional<std::int64_t> matching(std::int64_t h) const;
  std::int64_t space_residue(std::int64_t of_class) const;
  std::int64_t reduce_residue(std::int64_t of_class) const;
};

/// h and r over the class, and the quotient or what is taken.
Expr space_of_class(const Congruence& c);
Expr reduce_of_class(const Congruence& c);
/// The residue of r of a class.
Expr reduce_residue_of(const Congruence& c, const Expr& of_class);

/// The class of a residue of h, over that, and whether it has one; null where each has.
struct ClassOfResidue {
  Expr at, exists;
};
ClassOfResidue class_of_residue(const Congruence& c);

/// Writes expressions in quotients and residues of the iters that congruences hold of.
class Parts : public Mutator {
 public:
  Parts(const std::vector<Congruence>& congruences, const Block& block);
  /// From now on `to` stands for the Select `from`.
  void replace(const Expr& from, const Expr& to);

 protected:
  Expr mutate_Var(const Expr& e, const Var* node) override;
  Expr mutate_Select(const Expr& e, const Select* node) override;
  Expr mutate_Binary(const Expr& e, const Binary* node) override;

 private:
  const VarRef& space(const Congruence& c) const { return block_.f.iters[c.space].variable; }
  /// Null where the condition hangs on h alone.
  VarRef reduce(const Congruence& c) const { return c.reduce ? block_.f.iters[*c.reduce].variable : nullptr; }
  Expr divided(const Affine& form, const Congruence& c);

  const std::vector<Congruence>& congruences_;
  const Block& block_;
  Substitution iters_;
  std::pair<Expr, Expr> replaced_;
};

/// What is not proved of indices that lie in the buffer; null when all is.
Expr unproved_inside(const std::vector<Expr>& indices, const Buffer& buffer, const Bounds& bounds);

/// A choice between an element and 0 as one that is 0 where a Load of it would be out of bounds.
Expr zero_outside(const Expr& choice, const Bounds& bounds);

}  // namespace lathe
