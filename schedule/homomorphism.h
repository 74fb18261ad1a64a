#pragma once
/// How the terms of a reduction follow a value that they are computed with.
#include <string>

#include "ir/expr.h"

namespace lathe {

/// f(x, to) = f(x, from) * op(slope * (to - from)) for every value `from` and `to` of the result that f depends on; so
/// what was summed with one value of it is carried to another by one factor.
struct Homomorphism {
  UnaryOp op = UnaryOp::exp;  ///< exp or exp2
  double slope = 0;           ///< 0: f does not depend on the result
};

/// Finds it on the expression: products, quotients by what does not depend on `result`, and powers of e and of 2 whose
/// exponent is slope * (result - own) plus something that has neither; `own` stands for the value that the earlier
/// reduction takes of the same instance. So no exponent is above that something where `result` is the greatest (slope <
/// 0) or least (slope > 0) of all `own`, nor is it with a partial result in its place. Otherwise says why not.
struct FoundHomomorphism {
  Homomorphism value;
  std::string why_not;  ///< "" when there is one
};
FoundHomomorphism find_homomorphism(const Expr& term, const Var* result, const Var* own);

/// The factor op(slope * (to - from)).
Expr carry_factor(const Homomorphism& f, const Expr& from, const Expr& to);

}  // namespace lathe
