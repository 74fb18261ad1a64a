#pragma once
#include <span>
#include <vector>

#include "ir/func.h"
#include "jit/layout.h"

namespace lathe {

/// How one array argument lies in memory.
struct ArgumentLayout {
  StrideClasses strides = 0;
  AlignmentClass alignment = AlignmentClass::element;
};

struct StrideParameter {
  int tensor, dimension;
};

/// Rewrites the buffer parameters of a traced Func, which are compact, to the layouts that the caller's arrays have:
/// strides known from the class are constants, the others become scalar parameters, appended in the order of
/// `*runtime`. Arrays that are dense in another order stand there as the row-major ones that lie in their memory
/// (jit/memory_order.h).
Func apply_layouts(const Func& traced, std::span<const ArgumentLayout> layouts, std::vector<StrideParameter>* runtime);

}  // namespace lathe
