#pragma once
#include "ir/func.h"

namespace lathe {

/// Replaces each unrolled loop by copies of its body, with names of their own.
///
///   for i in 0..2 unrolled:         acc[0] = a[0]
///     acc[i] = a[i]            ->   acc[1] = a[1]
///
/// An unrolled loop whose extent is not constant becomes serial. Conditions and masks that the copies decide go, and
/// with them what is then never stored. Runs last but for clean-up, so that every other pass sees a body once and not
/// its copies; register buffers have constant indices from here on.
Func unroll_loops(const Func& func);

}  // namespace lathe
