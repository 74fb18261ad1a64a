#pragma once
/// Runs of statements without control flow, as passes behind unroll_loops find them: stores below Lets.
#include <functional>
#include <limits>
#include <unordered_set>
#include <utility>
#include <vector>

#include "ir/func.h"

namespace lathe {

/// A Store below nothing but Lets.
struct StraightStatement {
  Stmt stmt;
  std::vector<const Let*> lets;                  ///< outermost first
  const Store* store = nullptr;                  ///< null when the statement is something else
  std::unordered_set<const BufferNode*> loaded;  ///< storages in memory that the Lets and the stored value read
  bool value_loads = false;                      ///< the stored value does, apart from the Lets
  bool opaque = false;                           ///< calls what may read anything

  /// Is it a store to memory whose loads are all known?
  bool is_movable() const;
};

/// Rewrites runs of at most `most` movable statements none of which loads what one before it stores, so that all their
/// loads could come first. Null leaves a run as it is. A func whose buffers may be one memory is returned itself.
Func rewrite_straight_runs(const Func& func, const std::function<Stmt(const std::vector<StraightStatement>&)>& rewrite,
                           size_t most = std::numeric_limits<size_t>::max());

/// `body` below Lets of `bound`, the first outermost.
Stmt below_lets(const std::vector<std::pair<VarRef, Expr>>& bound, Stmt body);

}  // namespace lathe
