#pragma once
#include <functional>
#include <optional>
#include <unordered_map>
#include <vector>

#include "ir/passes/extremes.h"

namespace lathe {

/// One Load, Store or AddressOf of a buffer below some statement.
struct BufferUse {
  bool writes = false;
  bool reads = false;
  bool conditional = false;            ///< under a While, or a mask that leaves out elements of the buffer
  int order = 0;                       ///< its place in execution, for accesses in the same iteration of all loops
  std::vector<Affine> indices;         ///< i64 Lets written out
  std::vector<Affine> first, last;     ///< of the region that a hint says the element lies in; empty when none does
  std::vector<LoopRange> loops;        ///< loops between the statement and the access, outermost first
  std::vector<const For*> loop_nodes;  ///< the same loops; null for a While, or for the lanes of a vector

  /// One arm of an If around the access.
  struct Arm {
    const If* node;
    bool then_case;
    friend bool operator==(const Arm&, const Arm&) = default;
  };
  std::vector<Arm> arms;     ///< outermost first
  std::vector<Affine> cuts;  ///< >= 0 wherever those let the access run; i64 Lets written out
  /// An arm around a store that may leave out elements of the buffer, and what it asks of them; without `known` it asks
  /// something else too.
  struct Omission {
    Arm arm;
    std::vector<Affine> cuts;
    bool known = true;
  };
  std::vector<Omission> omissions;

  /// The least and the greatest index of a dimension in one iteration of all loops.
  const Affine& least(size_t d) const { return first.empty() ? indices[d] : first[d]; }
  const Affine& greatest(size_t d) const { return last.empty() ? indices[d] : last[d]; }
};

/// The form that is >= 0 exactly where a comparison of indices holds; nothing of other conditions. `written_out` is put
/// for either side.
std::optional<Affine> cut_of(const Expr& condition, const Bounds& bounds,
                             const std::function<Affine(const Affine&)>& written_out = {});

/// What a cut says of the index of a dimension, over no variable of the loops `inner`: index <= limit when `upper`,
/// else index >= limit; nothing when it says no such thing.
std::optional<Affine> limit_of(const Affine& cut, const Affine& index, std::span<const LoopRange> inner, bool upper);

/// Every access of each buffer of `wanted` below `s`. `bounds` learns of the loops and Lets below `s`, for `extreme` to
/// ask; drop that with a BoundsScope. Vector indices contribute all of their lanes. An access below a scope with hints
/// of its buffer (lower_blocks) becomes one use for each. A view of a wanted buffer makes its entry `whole`: nothing is
/// known of what it touches.
struct BufferUses {
  std::vector<BufferUse> uses;
  bool whole = false;
};
std::unordered_map<const BufferNode*, BufferUses> find_uses(const Stmt& s, const std::vector<Buffer>& wanted,
                                                            Bounds& bounds);

}  // namespace lathe
