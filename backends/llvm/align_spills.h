#pragma once
#include <llvm/Pass.h>

namespace lathe::codegen {

/// Aligns the stack of functions that will keep vectors on it, because more are live than there are registers, or some
/// live across a call: x86 enters functions at 16 bytes, from where a vector that is longer mostly crosses lines, and a
/// load that waits for such a store waits long (tanh(x) * sin(x), which calls for large angles: 0.4 of the time). Other
/// functions keep the register that the frame then takes. Runs right before registers are allocated. `registers` are
/// the device's for vectors.
llvm::FunctionPass* create_align_spills_pass(int registers);

}  // namespace lathe::codegen
