#pragma once
#include <optional>
#include <unordered_map>
#include <vector>

#include "ir/expr.h"
#include "ir/structural.h"

namespace lathe {

/// One summand of an affine form. The atom is a Var, a product of scalar atoms in canonical order (`i * n`), or an i64
/// expression that is not affine itself (floor_div, floor_mod, min, select, Load, ..).
struct AffineTerm {
  Expr atom;
  std::int64_t coefficient;
};

/// No coefficient or constant of a form is larger, so that negating one, or adding 1, never overflows. Larger integers
/// (the identities of reductions, say) are atoms.
inline constexpr std::int64_t largest_affine = std::int64_t{1} << 61;

/// sum of coefficient * atom + constant, over i64. A vector form (lanes > 1) uses the variable `lane_variable()`, whose
/// values are 0 .. lanes - 1: Ramp(b, s, n) is b + s * lane. Each atom occurs once, no coefficient is 0.
struct Affine {
  std::vector<AffineTerm> terms;
  std::int64_t constant = 0;
  int lanes = 1;

  bool is_constant() const { return terms.empty(); }
  /// The coefficient of an atom that is structurally equal to `atom`, or 0.
  std::int64_t coefficient(const Expr& atom) const;

  static Affine of(std::int64_t value, int lanes = 1) { return {{}, value, lanes}; }
  static Affine atom(const Expr& e) { return {{{e, 1}}, 0, e->dtype.lanes}; }
};

/// Each returns false, with `into` spoilt, when a number leaves +-largest_affine (or, for multiply, when the product is
/// no sum of few terms).
bool add_term(Affine& into, const Expr& atom, std::int64_t coefficient);
bool add_scaled(Affine& into, const Affine& other, std::int64_t factor);
bool add_constant(Affine& into, std::int64_t value);
bool multiply(Affine& into, const Affine& other);

/// The stand-in for the lane number in vector forms.
const VarRef& lane_variable();
/// The factors of an atom: several for a product, else the atom alone.
void append_factors(const Expr& atom, std::vector<Expr>& factors);
/// The product of scalar factors in canonical order. At least one factor.
Expr product(std::vector<Expr> factors);

/// A total order on expressions that does not depend on addresses, but for distinct variables or buffers of one name.
/// 0 means structurally equal.
int compare_exprs(const Expr& a, const Expr& b);
bool identical(const Expr& a, const Expr& b);

/// Walks i64 sums, differences, products, ramps and broadcasts; every other expression goes to `leaf`.
class AffineBuilder {
 public:
  virtual ~AffineBuilder() = default;
  Affine build(const Expr& e);

 protected:
  /// The affine form of an expression that is no sum; its own atom unless overridden.
  virtual Affine leaf(const Expr& e) { return Affine::atom(e); }
  /// Forgets what was built, as the answers of leaf() have changed.
  void reset() {
    visited_ = 0;
    memo_.clear();
  }

 private:
  Affine build_new(const Expr& e);
  int visited_ = 0;
  std::unordered_map<Expr, Affine> memo_;
};

/// The affine form of an i64 expression (scalar or vector). Never fails: at worst the expression is its own atom.
Affine to_affine(const Expr& e);
/// The expression, in canonical order: products, then terms by falling coefficient, then the constant.
Expr to_expr(const Affine& a);

bool equal(const Affine& a, const Affine& b);

}  // namespace lathe
