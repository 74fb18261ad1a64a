#pragma once
#include "ir/analysis/prove.h"

namespace lathe {

/// Simplifies expressions under one set of bounds; results of shared nodes are remembered until forget(). Bounds may
/// change between calls only with a forget().
class ExprSimplifier : public AffineBuilder {
 public:
  explicit ExprSimplifier(const Bounds& bounds, int effort = quick_effort) : bounds_(bounds), effort_(effort) {}
  Expr simplify(const Expr& e);
  /// The simplified affine form of an i64 expression.
  Affine simplify_affine(const Expr& e);
  void forget() {
    reset();
    visited_ = 0;
    memo_.clear();
  }

 protected:
  Affine leaf(const Expr& e) override;

 private:
  Expr simplify_new(const Expr& e);
  Affine leaf_binary(const Expr& e, const Binary* b);
  std::vector<Expr> simplify_all(const std::vector<Expr>& exprs, bool* changed);
  Expr unary(const Expr& e, const Unary* u);
  Expr binary(const Expr& e, const Binary* b);
  Expr float_identity(BinaryOp op, const Expr& a, const Expr& b);
  Expr integer_identity(BinaryOp op, const Expr& a, const Expr& b);
  Expr compare_indices(const Expr& e, const Binary* b);
  Expr compare_narrow(BinaryOp op, const Expr& a, const Expr& b) const;
  Expr logic(const Expr& e, const Binary* b);
  Expr select(const Expr& e, const Select* s);
  Expr cast(const Expr& e, const Cast* c);
  Expr load(const Expr& e, const Load* l);
  Expr shuffle(const Expr& e, const Shuffle* s);

  const Bounds& bounds_;
  int effort_;
  int visited_ = 0;
  std::unordered_map<Expr, Expr> memo_;
};

/// x // c and x % c in affine form, for a constant c > 0 and an x that cannot wrap.
Affine divide(const Bounds& bounds, const Affine& x, std::int64_t c, int effort);
Affine remainder(const Bounds& bounds, const Affine& x, std::int64_t c, int effort);
/// x // n and x % n for a symbolic n known to be positive; nothing when it cannot be decided.
struct Division {
  Affine quotient, remainder;
};
std::optional<Division> divide_symbolic(const Bounds& bounds, const Affine& x, const Expr& n, int effort);
/// Turns k * c * (x // c) + k * (x % c) into k * x, wherever it occurs.
void recombine(const Bounds& bounds, Affine& a, int effort);

}  // namespace lathe
