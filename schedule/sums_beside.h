#pragma once
/// Sums beside a sum of products: what a factor's constant part adds to the results, which readers take away again.
#include <cstdint>
#include <string>
#include <vector>

#include "ir/reduction.h"
#include "schedule/rewrite.h"

namespace lathe {

/// The sums of one factor of a block's terms, over the whole reduction, for each result that it tells apart.
class SumsBeside {
 public:
  /// `path` leads to a sum of products whose one output is `result`, by `reducer`.
  SumsBeside(const Schedule& schedule, std::string application, Path path, ReductionOutput result, Reducer reducer);

  /// Refuses by `condition` unless the block writes an allocation at its space iters, each once, others read it by
  /// Loads alone, and none writes it.
  void require_result(int condition) const;

  /// The nest of a new block that sums up `factor`, of the block's iters, into a new buffer.
  Stmt nest(const Expr& factor);
  /// The Func's body with `result op sum * weight` in the place of each load of the result, behind the block.
  Stmt corrected(const Stmt& body, BinaryOp op, std::int64_t weight) const;
  /// What nest() sums into.
  const Buffer& buffer() const { return sum_; }

 private:
  const Schedule& schedule_;
  const std::string application_;
  const Path path_;
  const Block& block_;
  const ReductionOutput result_;
  const Reducer reducer_;
  Buffer sum_;
  std::vector<size_t> dimensions_;  ///< of the result, that the sums have too
};

}  // namespace lathe
