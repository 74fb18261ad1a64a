#pragma once
/// Runs of statements without control flow, as passes behind unroll_loops find them: stores below Lets.
#include <unordered_set>
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

StraightStatement read_straight(const Stmt& s);

/// A run of movable statements none of which loads what one before it stores: all their loads could come first.
class StraightRun {
 public:
  bool takes(const StraightStatement& statement) const;
  void add(StraightStatement statement);
  const std::vector<StraightStatement>& statements() const { return statements_; }
  void clear();

 private:
  std::vector<StraightStatement> statements_;
  std::unordered_set<const BufferNode*> stored_;
};

}  // namespace lathe
