#pragma once
#include "ir/analysis/interval.h"

namespace lathe {

/// The least and the greatest value of an index, both inclusive, as functions of outer variables. A null end is
/// unknown.
struct SymbolicRange {
  Expr low, high;
};

/// Frees index expressions from inner variables: those that `bounds` learned after `outer` was marked. Loop variables
/// go by their symbolic domains, Let-bound ones by their values, lanes by their count, floor_div, min, max and select
/// by monotonicity, whatever else by its constant interval.
class Relaxation {
 public:
  Relaxation(const Bounds& bounds, const Bounds::Mark& outer) : bounds_(bounds), outer_(outer) {}

  /// Bounds that hold for all inner values; they are tight where the expression is affine with independent terms.
  SymbolicRange range(const Expr& index);
  /// The greatest (or least) value; nothing when unbounded.
  std::optional<Affine> end(Affine a, bool greatest);
  /// Does the expression use an inner variable, a lane, or memory?
  bool is_inner(const Expr& e) const;
  bool is_inner(const Affine& a) const;

 private:
  std::optional<Affine> with_arms(const Affine& rest, const Expr& a, const Expr& b, std::int64_t coefficient,
                                  bool greatest, BinaryOp combine);
  /// The end of one atom that is no plain variable.
  std::optional<Affine> atom_end(const Expr& atom, int lanes, bool greatest);

  const Bounds& bounds_;
  Bounds::Mark outer_;
  int steps_ = 0;
};

}  // namespace lathe
