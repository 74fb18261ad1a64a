#pragma once
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "schedule/rewrite.h"
#include "schedule/schedule.h"

namespace lathe {

/// Removes a block that computes again what another one has computed: its readers read that one's buffer.
///
///   for i: for k: block A: a[i] += x[i, k]          for i: for k: block A: a[i] += x[i, k]
///   for i: for k: block B: b[i] += x[i, k]    ->    for i: block C: c[i] = a[i] / 8
///   for i: block C: c[i] = b[i] / 8
///
/// Requires:
///   1. each of the two runs over its whole domain, each iter by a serial loop of its own, in loops that stand in no
///      other loop and hold nothing else, and writes one buffer, which no other block writes: an allocation, or
///      original a parameter that no other may alias
///   2. original stands before block, and but for names and the buffers, of one type, shape and space, they are equal
///   3. from original on until block, no block writes what they read
void merge_equal(Schedule& schedule, const BlockRef& block, const BlockRef& original);

/// Several applications of merge_equal in one rewriting: one look at the program tells what each of them would look up
/// anew. The Func and the record are those of single applications, in their order. While a batch is open nothing else
/// may change the schedule.
class MergeBatch {
 public:
  explicit MergeBatch(Schedule& schedule);

  /// The block with what was added so far carried out, where it has a nest of its own directly below the root; null
  /// elsewhere.
  Stmt block(const BlockRef& block);
  /// Adds a block, where merge_equal would take it. False tells nothing: `apply`, then ask merge_equal itself.
  bool add(const BlockRef& block, const BlockRef& original);
  size_t size() const { return lines_.size(); }
  /// Changes the schedule. The batch is of no use afterwards.
  void apply();

 private:
  struct Site {
    Stmt nest;
    size_t position;  ///< among the nests below the root
  };
  Path path_of(const Site& site) const;

  Schedule& schedule_;
  Stmt root_;
  std::unordered_map<std::string, Site> sites_;
  std::unordered_map<const BufferNode*, std::vector<size_t>> writers_;  ///< of each buffer, the positions
  std::unordered_set<const BufferNode*> allocated_;
  BufferMap merged_;
  std::unordered_set<std::string> gone_;
  std::vector<std::string> lines_;
};

}  // namespace lathe
