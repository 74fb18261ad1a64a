#pragma once
#include <llvm/Pass.h>

namespace lathe::codegen {

/// Has pointers walk with loops over the steps of a tile, and those around them, in the place of indices that are added
/// up anew in each iteration: a core that starts two multiply-adds a cycle has few issue slots beside them.
///
///   loop: i = phi(0, i + 1)             loop: i = phi(0, i + 1), p = phi(&a[n], p + 8)
///     x = load a[n + 2 * i]        ->     x = load p
///
/// Runs behind loop-invariant motion, which has left in a loop what changes with its counter. LLVM's own strength
/// reduction finds more, for a third of all code generation.
llvm::FunctionPass* create_walk_pointers_pass();

}  // namespace lathe::codegen
