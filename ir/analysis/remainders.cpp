#include "ir/analysis/remainders.h"

#include <algorithm>

#include "ir/analysis/affine.h"
#include "ir/structural.h"
#include "ir/visitor.h"

namespace lathe {

bool takes_apart(const Expr& place) {
  bool found = false;
  for_each_expr(place, [&](const Expr& e) {
    const Binary* node = e.as<Binary>();
    found |= node && (node->op == BinaryOp::floor_div || node->op == BinaryOp::floor_mod);
  });
  return found;
}

bool same_remainder(const Bounds& bounds, const Expr& a, const Expr& b, std::int64_t divisor) {
  if (equal(a, b)) return true;
  const Affine first = to_affine(a), second = to_affine(b);
  Affine apart = first;
  if (divisor < 1 || !add_scaled(apart, second, -1) || may_wrap(bounds, first) || may_wrap(bounds, second))
    return false;
  return apart.constant % divisor == 0 &&
         std::all_of(apart.terms.begin(), apart.terms.end(),
                     [&](const AffineTerm& term) { return term.coefficient % divisor == 0; });
}

}  // namespace lathe
