#pragma once
#include <cstdint>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "ir/stmt.h"

namespace lathe {

/// Where the loops and blocks of a statement stand, kept up to date by looking at what a change made anew alone:
/// finding one takes as long as it lies deep, not as long as the program is. A loop is known by its variable, a block
/// by its name, whatever becomes of the nodes. What is found is checked on the way down, so that an entry that has
/// become wrong costs a search, never a wrong answer.
class StatementIndex {
 public:
  StatementIndex() = default;
  /// Entries point into the index: a copy begins anew.
  StatementIndex(const StatementIndex&) {}
  StatementIndex& operator=(const StatementIndex&) {
    clear();
    return *this;
  }

  /// `root` is the statement to look in from now on.
  void update(const Stmt& root);
  /// The statements from the root down to the loop, or the block, both included; empty when there is none.
  std::vector<Stmt> path(const VarRef& loop);
  std::vector<Stmt> path(const std::string& block);
  /// The last of these alone; null when there is none.
  const StmtNode* node(const VarRef& loop);
  const StmtNode* node(const std::string& block);

 private:
  using Key = const void*;
  struct Entry {
    Stmt node;
    Key parent = nullptr;
    std::uint64_t seen = 0;  ///< the root's number when this was last found where it says
  };
  void clear();
  Key key(const Stmt& s);
  void place(const Stmt& s, Key parent);
  void place_children(const Stmt& before, const Stmt& now, Key owner);
  Key known(const std::string& block) const;
  /// With the statements above it and itself in `path`, where that is asked for; these are of no use at null.
  const StmtNode* find(Key key, std::vector<Stmt>* path);
  const StmtNode* descend(Key key, std::vector<Stmt>* path);

  Stmt root_;
  std::uint64_t number_ = 1;  ///< of the root: each has one of its own
  std::unordered_map<Key, Entry> entries_;
  std::unordered_set<std::string> names_;
  std::vector<Entry*> chain_;  ///< of the last descent, deepest first
};

}  // namespace lathe
