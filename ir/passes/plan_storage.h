#pragma once
#include "ir/func.h"

namespace lathe {

/// Lays every allocation out in the call's workspaces.
///
///   alloc T: f32[1000]                          (no alloc; attrs shared_bytes = 8000)
///   alloc U: f32[1000]                    ->    T, U: 64-byte aligned element offsets into the workspace,
///   T = ..  U = f(T)                            the same for two that are never alive together
///
/// What a parallel iteration allocates goes to the `worker` workspace, anything else to `global`, which all threads
/// share. A planned Buffer is listed in no block's allocs; its space names the workspace and its offset, in elements,
/// the place. Register buffers stay as they are. Sizes go to the attrs `shared_bytes` and `worker_bytes`. The first
/// pass of `flatten`: flatten_buffers folds the offsets into indices.
///
/// Requires:
///   1. the size of each allocation has a constant bound, given the facts of the Func
Func plan_storage(const Func& func);

}  // namespace lathe
