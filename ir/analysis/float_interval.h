#pragma once
#include "ir/analysis/interval.h"

namespace lathe {

/// What is known of a float expression that is computed from integers. Where it is not NaN, its value lies in
/// [low, high], and, when there is a form, within `radius` of sum(coefficient * atom) + constant: radius 0 says exactly
/// that real number. Every rounding of the expression's own type is accounted for, no more: such floats are never
/// contracted or reassociated.
struct FloatBound {
  struct Term {
    Expr atom;  ///< i64
    double coefficient;
  };
  double low, high;
  bool may_be_nan = true;
  bool has_form = false;
  std::vector<Term> terms;
  double constant = 0;
  double radius = 0;

  static FloatBound unknown();
};

/// The bound of a float expression; of a vector, of every lane, without a form.
FloatBound float_bound(const Expr& e, const Bounds& bounds);

/// Integer forms between which an expression that a float was cast to lies, both inclusive.
struct IntegerForms {
  Affine low, high;
  bool exact = false;  ///< both are the value itself
};
/// The forms of Cast(integer, e); nothing when the float may be NaN or leave the type.
std::optional<IntegerForms> integer_forms(const Cast& cast, const Bounds& bounds);
/// The constant interval of the same.
Interval integer_interval(const Cast& cast, const Bounds& bounds);

}  // namespace lathe
