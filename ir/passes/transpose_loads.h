#pragma once
#include "ir/func.h"

namespace lathe {

/// Reads a small square of memory by rows and turns it around in registers, where unrolled copies read it by columns:
/// a strided vector costs a load and an insertion for each lane, a square of n vectors n loads and n log2(n) shuffles.
///
///   out[ramp(0, 1, 2)] = x[ramp(at, s, 2)]            let row = x[ramp(at, 1, 2)]
///   out[ramp(8, 1, 2)] = x[ramp(at + 1, s, 2)]   ->   let row_1 = x[ramp(at + s, 1, 2)]
///                                                     let column = shuffle([row, row_1], [0, 2])
///                                                     let column_1 = shuffle([row, row_1], [1, 3])
///                                                     out[ramp(0, 1, 2)] = column
///                                                     out[ramp(8, 1, 2)] = column_1
///
/// Takes loads of as many neighbours as they have lanes, a power of two of at least four, or of every second to fourth
/// element, in statements none of which reads what one before it stores. Neighbours may stay together, as the bytes of
/// a word do: then a lane is a group of them. Where they are loaded under one mask, a
/// comparison of a ramp with what all lanes share, rows whose lane is left out are left out. Runs after unroll_loops,
/// which makes such statements.
Func transpose_loads(const Func& func);

}  // namespace lathe
