#pragma once
/// i64 vectors that 32 bits hold: of those a register takes twice as many, and products and quotients are instructions.
#include "ir/analysis/interval.h"

namespace lathe {

/// What is known of all lanes of such a vector.
Interval lanes_interval(const Expr& e, const Bounds& bounds);

/// Is every lane of a scalar or vector of Ramps, Broadcasts, rounded floats and arithmetic, and every value in between,
/// known to be an i32?
bool fits_i32(const Expr& e, const Bounds& bounds);

/// The same value in i32; null where fits_i32 does not hold.
Expr narrow_to_i32(const Expr& e, const Bounds& bounds);

/// A vector as the sum of what is the same in all lanes, a scalar, and of what varies, as summands at the top of the
/// expression have it. Null is nothing.
struct LaneSum {
  Expr uniform, varying;
};
LaneSum lane_sum(const Expr& e);

}  // namespace lathe
