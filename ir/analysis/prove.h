#pragma once
#include "ir/analysis/interval.h"

namespace lathe {

/// How much work a proof may cost before it counts as failed.
inline constexpr int quick_effort = 40, full_effort = 600;

/// True only if `d` >= 0 for all values that `bounds` allows. Lower bounds are substituted for atoms, one after another
/// (loop variables by their symbolic domains, innermost first; floor_div by its defining inequalities; min and max by
/// their operands), and known inequalities subtracted, until intervals decide.
bool prove_nonnegative(const Bounds& bounds, const Affine& d, int effort = full_effort);

enum class Truth : std::uint8_t { unknown, yes, no };
/// Decides left < right, and left == right, for i64 forms.
Truth decide_less(const Bounds& bounds, const Affine& left, const Affine& right, int effort = full_effort);
Truth decide_equal(const Bounds& bounds, const Affine& left, const Affine& right, int effort = full_effort);

}  // namespace lathe
