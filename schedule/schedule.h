#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ir/func.h"
#include "schedule/statement_index.h"

namespace lathe {

/// A block of a Schedule, by its name, which is unique in a Func.
struct BlockRef {
  std::string name;
  friend bool operator==(const BlockRef&, const BlockRef&) = default;
};

/// A loop of a Schedule, by its variable. Splitting, fusing or moving a loop makes new ones; the old reference is then
/// of no loop, and using it is an InputError.
struct LoopRef {
  VarRef variable;
  friend bool operator==(const LoopRef& a, const LoopRef& b) { return a.variable == b.variable; }
};

/// A Func that is being scheduled. The primitives (schedule/primitives/, one file pair each) are free functions on it:
/// each checks its numbered preconditions before it changes anything, and records itself. A refused one leaves the Func
/// and the record as they were.
class Schedule {
 public:
  explicit Schedule(Func func);

  const Func& func() const { return func_; }
  /// The Func as it was given.
  const Func& original() const { return original_; }

  /// The block of that name; an InputError that lists those known.
  BlockRef block(const std::string& name) const;
  /// Every block but the root, in program order.
  std::vector<BlockRef> blocks() const;
  /// The loops around a block, outermost first.
  std::vector<LoopRef> loops(const BlockRef& block) const;
  /// The loop of a place as a record writes it: the loops around the block, counted from 0.
  LoopRef loop(const std::string& block, size_t depth) const;
  /// "C.1": the first block under the loop, and the loop's depth above it. Empty where `names_places` is not set.
  std::string place(const LoopRef& loop) const;

  const For& node(const LoopRef& loop) const;
  const Block& node(const BlockRef& block) const;
  /// The blocks that write what `block` reads, and that read what it writes, in program order.
  std::vector<BlockRef> producers(const BlockRef& block) const;
  std::vector<BlockRef> consumers(const BlockRef& block) const;

  /// A name that no block and no buffer of the Func has, nor any of `others`: `base`, or with the least number behind
  /// it.
  std::string unique_name(const std::string& base, const std::vector<std::string>& others = {}) const;

  /// What was applied, one line each, as text that `replay` reads.
  const std::vector<std::string>& record() const { return record_; }

  /// For primitives: puts `body` in the place of the Func's body, and notes the application. Refuses where a region
  /// hint (hints.h) would be lost or no longer be true. `hints`: the application gives one.
  void commit(Stmt body, std::string line, bool hints = false);
  /// The same for several applications at once, in a Func that has no hint.
  void commit(Stmt body, std::vector<std::string> lines);
  /// For blockize: from now on blocks with iters hold others, and their regions are to follow what those declare.
  void note_tiles() { tiled_ = true; }
  /// For primitives: the statements from the Func's body down to a loop or block, both included; empty when there is
  /// none.
  std::vector<Stmt> find(const LoopRef& loop) const;
  std::vector<Stmt> find(const BlockRef& block) const;

  /// A state to come back to: for those who try something, and go on when it is refused.
  struct Checkpoint {
    Func func;
    size_t applications;
  };
  Checkpoint checkpoint() const { return {func_, record_.size()}; }
  void rollback(const Checkpoint& checkpoint);
  /// Whether refusals show the Func, which takes as long as it is large; a caller that only goes on wants none of it.
  bool shows_func_when_refused = true;
  /// Whether the record names the places of loops, which have to be found: a caller that reads no record wants none.
  bool names_places = true;

 private:
  Func func_;
  Func original_;
  std::vector<std::string> record_;
  bool hinted_ = false;  ///< some block has a region hint
  bool tiled_ = false;   ///< whether a block with iters holds other blocks
  mutable StatementIndex index_;
};

}  // namespace lathe
