#pragma once
#include "ir/func.h"

namespace lathe {

/// Takes masks off accesses to register buffers where nobody can tell: a masked register costs an instruction at every
/// read and every write.
///
///   let m = ramp(0, 1, 16) < 12            let m = ramp(0, 1, 16) < 12
///   acc[ramp(16, 1, 16) if m] = 0          acc[ramp(16, 1, 16)] = 0
///   for k:                            ->   for k:
///     let l = acc[ramp(16, 1, 16) if m]      let l = acc[ramp(16, 1, 16)]
///     acc[.. if m] = l + x[.. if m]          acc[..] = l + x[.. if m]
///
/// A register that is only ever read under masks that ask for all that those of its stores ask for is read and written
/// whole. A masked load loses its mask where the register was written whole before and what comes of the other
/// lanes goes only to stores under the same mask. A store loses its mask where it adds to the register what is zero in
/// the other lanes, as a masked load is. Runs after unroll_loops, when the indices of register buffers are
/// constants.
Func unmask_registers(const Func& func);

}  // namespace lathe
