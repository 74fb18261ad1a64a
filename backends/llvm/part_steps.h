#pragma once
#include <llvm/Pass.h>

namespace lathe::codegen {

/// Parts the steps that one iteration of a tile takes, or what a condition may leave out of it, by fences for the
/// compiler alone, which become no instruction:
///
///   loop: b = load p           loop: b = load p
///         s0 += a * b, ..            s0 += a * b, ..
///         c = load p + 64   ->       fence
///         s0 += d * c, ..            c = load p + 64
///                                    s0 += d * c, ..
///
/// LLVM's scheduler loads up to four vectors that lie near each other together, of two steps then, and registers that
/// are full of sums push some of these out to memory for them. `registers` are the device's for vectors. Runs behind
/// all that moves loads.
llvm::FunctionPass* create_part_steps_pass(int registers);

}  // namespace lathe::codegen
