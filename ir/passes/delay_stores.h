#pragma once
#include "ir/func.h"

namespace lathe {

/// Puts the stores of neighbouring statements behind the loads of all of them. A processor that meets a load behind a
/// store must know that they do not overlap; where the low twelve bits of both addresses agree it waits to find out,
/// and by fours the loads of an iteration miss the cache together.
///
///   out[0] = a[0] + b[0]           let value = a[0] + b[0]
///   out[1] = a[1] + b[1]    ->     let value_1 = a[1] + b[1]
///                                  out[0] = value
///                                  out[1] = value_1
///
/// A statement that reads what one before it stores stays behind it. Runs after unroll_loops, which makes such
/// neighbours.
Func delay_stores(const Func& func);

}  // namespace lathe
