#pragma once
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "schedule/inlining.h"
#include "schedule/schedule.h"

namespace lathe {

/// Computes a producer where it is read, and drops its block and buffer.
///
///   for i: block B: B[i] = x[i] + 1             for i: block C:
///   for i: block C: C[i] = B[i] * B[i]    ->      let B = x[i] + 1
///                                                 C[i] = B * B
///
/// An element that a consumer uses several times is computed once, bound by a Let, so that chains grow linearly. The
/// mask of a read is pushed into the producer's own loads, and gives zero where it is false, as the masked read did.
///
/// Requires:
///   1. block has no reducer and no iter but space iters, and its body is Lets around one Store without a mask, at
///      indices that are its iters, each once, or 0; no Assert and no extern call
///   2. block is the only writer of its buffer, and the buffer is an allocation
///   3. everything that reads the buffer is a Load in a block's body, not in an init, a reducer or an AddressOf
///   4. the indices and masks of those Loads use only the consumer's iters and the Lets at the head of its body, and no
///      element of the buffer itself
///   5. no block behind it writes what it reads
///   6. a block reads the buffer
void compute_inline(Schedule& schedule, const BlockRef& block);

/// Several applications of compute_inline in one rewriting. One after another they walk what they have grown each time;
/// together they take a time that is linear in what comes out. The record is that of single applications, the last
/// block first, so that an element that a block and one inlined into it both read is computed once. The Func computes
/// what they make, and tests a mask once that several of them would test. While a batch is open nothing else may change
/// the schedule.
class InlineBatch {
 public:
  explicit InlineBatch(Schedule& schedule);
  ~InlineBatch();
  InlineBatch(const InlineBatch&) = delete;
  InlineBatch& operator=(const InlineBatch&) = delete;

  /// Can the block be added? Only what has a nest of its own, comes behind those added, and of which one look tells
  /// that nothing writes again what it reads or writes. For others `apply`, then compute_inline.
  bool takes(const BlockRef& block) const;
  /// compute_inline's refusals, but for those of conditions 2 and 5, which do not arise.
  void add(const BlockRef& block);
  /// Changes the schedule. The batch is of no use afterwards.
  void apply();

 private:
  struct Site;
  bool loads_plainly(const Site& site) const;

  Schedule& schedule_;
  Stmt root_;
  bool unusual_ = false;  ///< region hints, or blocks in blocks
  std::vector<Site> sites_;
  std::unordered_map<std::string, size_t> names_;
  std::unordered_map<const BufferNode*, std::vector<size_t>> readers_, writers_;
  std::unordered_set<const BufferNode*> allocated_;
  Inlining inlining_;
  std::vector<size_t> added_;
  std::vector<std::string> lines_;
};

}  // namespace lathe
