#pragma once
#include "ir/func.h"

namespace lathe {

/// Replaces the indices of every access by one flat element index.
///
///   B[i, ramp(j*8, 1, 8)]      ->      B[ramp(i*stride0 + j*8, 1, 8)]
///
/// The flat index counts elements from the base pointer: it includes the buffer's offset and strides, and a backend
/// adds nothing. A view's accesses become accesses of the buffer that it views. Vectors that are affine stay one ramp,
/// whose base is the sum of the parts that vary least first. Register buffers are flattened likewise. The last pass of
/// `flatten`: block rules and ranks end here.
Func flatten_buffers(const Func& func);

}  // namespace lathe
