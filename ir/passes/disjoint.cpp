#include "ir/passes/disjoint.h"

#include <algorithm>

#include "ir/analysis/simplify.h"
#include "ir/visitor.h"

namespace lathe {
namespace {

/// What the digit to the left of `digit` weighs: of f % n it is n times `weight`, of others `weight` times one more
/// than their greatest value. Null where that is unknown or too large.
Expr next_weight(const Expr& weight, const Expr& digit, const Bounds& bounds) {
  const Binary* remainder = digit.as<Binary>();
  if (remainder && remainder->op == BinaryOp::floor_mod && !as_int(remainder->b)) return weight * remainder->b;
  const Interval range = bounds.interval(digit);
  if (!range.max || *range.max < 0 || *range.max > (std::int64_t{1} << 40)) return nullptr;
  const std::int64_t* constant = as_int(weight);
  if (!constant) return weight * (*range.max + 1);
  std::int64_t product = 0;
  return __builtin_mul_overflow(*constant, *range.max + 1, &product) ? nullptr : Expr(index(product));
}

/// Do some dimensions, at indices that all accesses share and that vary with the loop at `depth` alone, spell out its
/// variable? So they do after loops were fused: T[f // 12, f % 12, j].
bool spells_variable(const std::vector<BufferUse>& accesses, size_t depth, const Bounds& bounds) {
  if (std::any_of(accesses.begin(), accesses.end(), [](const BufferUse& u) { return !u.first.empty(); })) return false;
  const VarRef& variable = accesses[0].loops[depth].variable;
  Expr spelled = index(0), weight = index(1);
  for (size_t d = accesses[0].indices.size(); d-- > 0;) {
    const Affine& place = accesses[0].indices[d];
    const bool scalar = place.lanes == 1 && std::all_of(place.terms.begin(), place.terms.end(),
                                                        [](const AffineTerm& t) { return t.atom->dtype.lanes == 1; });
    if (!scalar) continue;
    const Expr digit = to_expr(place);
    bool shared = uses_var(digit, variable.get());
    for (const BufferUse& access : accesses) {
      shared = shared && equal(access.indices[d], accesses[0].indices[d]);
      for (const LoopRange& loop : below(access, depth + 1)) shared = shared && !uses_var(digit, loop.variable.get());
    }
    if (!shared) continue;
    if (!weight) return false;
    spelled = spelled + digit * weight;
    weight = next_weight(weight, digit, bounds);
  }
  return proves_equal(bounds, spelled, variable);
}

}  // namespace

std::span<const LoopRange> below(const BufferUse& access, size_t depth) {
  return std::span(access.loops).subspan(std::min(depth, access.loops.size()));
}

bool disjoint(const std::vector<BufferUse>& accesses, size_t depth, const Bounds& bounds) {
  Expr variable = accesses[0].loops[depth].variable;
  for (size_t d = 0; d < accesses[0].indices.size(); ++d) {
    std::int64_t c = accesses[0].least(d).coefficient(variable);
    if (c == 0) continue;
    std::optional<Affine> origin;
    std::int64_t least = 0, greatest = 0;
    bool apart = true;
    for (const BufferUse& access : accesses) {
      Affine begin = access.least(d), end = access.greatest(d);
      if (begin.coefficient(variable) != c || !add_term(begin, variable, -c) || end.coefficient(variable) != c ||
          !add_term(end, variable, -c)) {
        apart = false;
        break;
      }
      std::optional<Affine> low = extreme(begin, below(access, depth + 1), false, bounds);
      std::optional<Affine> high = extreme(end, below(access, depth + 1), true, bounds);
      if (!low || !high) {
        apart = false;
        break;
      }
      if (!origin) origin = low;
      if (!add_scaled(*low, *origin, -1) || !add_scaled(*high, *origin, -1)) {
        apart = false;
        break;
      }
      if (!low->is_constant() || !high->is_constant()) {
        apart = false;
        break;
      }
      least = std::min(least, low->constant);
      greatest = std::max(greatest, high->constant);
    }
    if (apart && greatest - least < std::abs(c)) return true;
  }
  return spells_variable(accesses, depth, bounds);
}

}  // namespace lathe
