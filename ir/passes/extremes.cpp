#include "ir/passes/extremes.h"

#include <algorithm>

#include "ir/visitor.h"

namespace lathe {
namespace {

bool uses_any(const Expr& e, std::span<const LoopRange> loops) {
  if (const Var* var = e.as<Var>()) {
    return std::any_of(loops.begin(), loops.end(), [&](const LoopRange& l) { return l.variable.get() == var; });
  }
  bool found = false;
  for_each_expr(e, [&](const Expr& sub) {
    if (sub.as<Var>()) found |= uses_any(sub, loops);
  });
  return found;
}

/// coefficient * atom with `loop`'s variable at its end; false when the atom has it in no plain place.
bool replace(Affine& sum, const AffineTerm& term, const LoopRange& loop, bool greatest, const Bounds& bounds) {
  std::vector<Expr> factors, others;
  append_factors(term.atom, factors);
  bool once = false, others_negative = false;
  for (const Expr& factor : factors) {
    if (factor == Expr(loop.variable) && !once) {
      once = true;
    } else {
      others.push_back(factor);
      Interval known = bounds.interval(factor);
      others_negative |= !known.min || *known.min < 0;
    }
  }
  if (!once || others_negative) return false;
  Affine end = (term.coefficient > 0) == greatest ? loop.high : loop.low;
  if (!others.empty() && !multiply(end, Affine::atom(product(others)))) return false;
  return add_scaled(sum, end, term.coefficient);
}

}  // namespace

LoopRange loop_range(const For& loop) {
  LoopRange range{loop.variable, to_affine(loop.min), to_affine(loop.min)};
  add_scaled(range.high, to_affine(loop.extent), 1);
  range.high.constant -= 1;
  return range;
}

std::optional<Affine> extreme(Affine a, std::span<const LoopRange> inner, bool greatest, const Bounds& bounds) {
  for (size_t i = inner.size(); i-- > 0;) {
    Affine sum = Affine::of(a.constant);
    for (const AffineTerm& term : a.terms) {
      if (!uses_any(term.atom, inner.subspan(i, 1))) {
        if (!add_term(sum, term.atom, term.coefficient)) return std::nullopt;
        continue;
      }
      if (replace(sum, term, inner[i], greatest, bounds)) continue;
      // A floor_div, floor_mod, min or the like: only its interval is known.
      Interval known = bounds.interval(term.atom);
      std::optional<std::int64_t> end = (term.coefficient > 0) == greatest ? known.max : known.min;
      if (!end) return std::nullopt;
      if (!add_scaled(sum, Affine::of(*end), term.coefficient)) return std::nullopt;
    }
    a = std::move(sum);
  }
  return a;
}

}  // namespace lathe
