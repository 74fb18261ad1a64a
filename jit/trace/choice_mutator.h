#pragma once
#include "ir/analysis/interval.h"
#include "ir/visitor.h"

namespace lathe {

/// A mutator of a body's values that knows, within a choice by indices, what the choice has decided; and within what
/// else the choice asks for, what these say. What is shared with values outside of the choice becomes another there.
class ChoiceMutator : public Mutator {
 protected:
  explicit ChoiceMutator(Bounds bounds) : bounds_(std::move(bounds)) {}

  /// The conditions of the choices around, of comparisons of i64 without a Load, and what `under` was given; null
  /// outside of any.
  const Expr& guard() const { return guard_; }
  /// Does a choice around ask for more than the guard says?
  bool asks_more() const { return asks_more_; }
  /// What is known with the guard.
  const Bounds& bounds() const { return bounds_; }

  Expr mutate_Select(const Expr& e, const Select* node) override;

  /// The value where the condition holds, which from there on is a part of the guard.
  Expr under(const Expr& condition, const Expr& value);

 private:
  Bounds bounds_;
  Expr guard_;
  bool asks_more_ = false;
};

}  // namespace lathe
