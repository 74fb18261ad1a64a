#pragma once
#include <unordered_map>
#include <vector>

#include "ir/passes/extremes.h"

namespace lathe {

/// One Load, Store or AddressOf of a buffer below some statement.
struct BufferUse {
  bool writes = false;
  bool reads = false;
  bool conditional = false;            ///< under an If, a While or a mask
  int order = 0;                       ///< its place in execution, for accesses in the same iteration of all loops
  std::vector<Affine> indices;         ///< i64 Lets written out
  std::vector<LoopRange> loops;        ///< loops between the statement and the access, outermost first
  std::vector<const For*> loop_nodes;  ///< the same loops; null for a While, or for the lanes of a vector
};

/// Every access of each buffer of `wanted` below `s`. `bounds` learns of the loops and Lets below `s`, for `extreme` to
/// ask; drop that with a BoundsScope. Vector indices contribute all of their lanes. A view of a wanted buffer makes its
/// entry `whole`: nothing is known of what it touches.
struct BufferUses {
  std::vector<BufferUse> uses;
  bool whole = false;
};
std::unordered_map<const BufferNode*, BufferUses> find_uses(const Stmt& s, const std::vector<Buffer>& wanted,
                                                            Bounds& bounds);

}  // namespace lathe
