#pragma once
#include "ir/device.h"
#include "ir/func.h"

namespace lathe {

/// Hands values that a loop stores on to the iterations that read them, in registers: what continues from the element
/// before it would else wait for that to come back from memory, in the place of an addition or so.
///
///   for i in [1, 100):                            carry[1] = y[0]
///     y[i] = 0.9 * y[i - 1] + x[i]        ->      for i in [1, 100):
///                                                   carry[0] = 0.9 * carry[1] + x[i]
///                                                   y[i] = carry[0]
///                                                   carry[1] = carry[0]
///
/// Of stores without a condition, and with no mask but one that stays the same, at places that each iteration moves by
/// the same step and that no other store of the loop reaches, as far back as registers are worth it. Runs behind
/// unroll_loops, so that vectors side by side are statements of their own, and leaves alone what may lie in one memory.
Func carry_values(const Func& func, const Device& device);

}  // namespace lathe
