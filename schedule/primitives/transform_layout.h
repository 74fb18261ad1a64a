#pragma once
#include <string>

#include "schedule/layout_map.h"
#include "schedule/schedule.h"

namespace lathe {

/// Lays an allocation out anew: the element at `map.from` goes to `map.to`, in every block that touches it.
///
///   alloc B: f32[30, 16]         alloc B: f32[8, 16, 4]        transform_layout(C, "B", "i, j -> i // 4, j, i % 4")
///   B[i, j] = ..            ->   B[i // 4, j, i % 4] = ..
///   .. B[i, j + 1] ..            .. B[i // 4, j + 1, i % 4] ..
///
/// Extents become what the map reaches; what it leaves out is never touched. Strides become compact.
///
/// Requires:
///   1. block reads or writes an allocation of that name, and everything that touches it is a Load or a Store at scalar
///      indices, without a hint
///   2. the map takes one index a dimension, and its expressions use nothing else
///   3. the map is proved to send no two elements to one place
///   4. every new index is proved to be at least 0, and its greatest value is known
void transform_layout(Schedule& schedule, const BlockRef& block, const std::string& buffer, const LayoutMap& map);

}  // namespace lathe
