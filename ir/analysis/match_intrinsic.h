#pragma once
#include <string>
#include <vector>

#include "ir/func.h"

namespace lathe {

/// What a parameter of an intrinsic stands for in a program.
struct IntrinsicArgument {
  Buffer buffer;
  std::vector<size_t> dimensions;  ///< of the buffer, one a dimension of the parameter
  std::vector<Expr> first;  ///< the element that the parameter's first one is, one index a dimension of the buffer
};

struct IntrinsicMatch {
  std::vector<IntrinsicArgument> arguments;  ///< one a buffer parameter; no buffer for one that nothing touches
  std::string difference;                    ///< the first node that differs; empty for an instance of the intrinsic
};

/// Is `body` an instance of what the intrinsic, which check_intrinsic (ir/device.h) lets through, describes? It is when
/// both are the same node for node: loops of the same extents in the same order, around the same operations on the same
/// types. Each parameter stands for a part of one buffer, of the same dtype, strides and space (space global of a
/// description stands for any): an access' indices are those of the description plus what the loops do not move.
/// Operands of + and * may stand the other way round. A block's iters count as what they are bound to, and a
/// predicate that the loops do not change is left aside: where it is false the whole instance does not run.
IntrinsicMatch match_intrinsic(const Func& intrinsic, const Stmt& body);

}  // namespace lathe
