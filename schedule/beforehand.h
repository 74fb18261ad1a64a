#pragma once
/// What a block reads, computed beforehand by blocks of their own.
#include <vector>

#include "ir/analysis/interval.h"
#include "schedule/rewrite.h"

namespace lathe {

/// The elements of a buffer that a block's own statements load, each once, in the order in which they stand there.
std::vector<Expr> elements_of(const Block& block, const Buffer& buffer);

/// The same with `value` in the place of every Load of the element.
Expr replace_element(const Expr& e, const Expr& element, const Expr& value);
Stmt replace_element(const Stmt& s, const Expr& element, const Expr& value);

/// Is every index of the Load proved to lie in the buffer?
bool lies_inside(const Load& load, const Bounds& bounds);

/// Some iters of a block, over which another block computes what it reads.
class OverIters {
 public:
  void add(const Iter& iter);

  const std::vector<Expr>& shape() const { return shape_; }
  /// Of what is computed for the block's iters.
  const std::vector<Expr>& places() const { return places_; }
  /// The block, in loops, that stores a value of the iters at their place in the buffer, after which it is named.
  Stmt nest(const Buffer& target, const Expr& value) const;

 private:
  std::vector<Iter> iters_;
  std::vector<Expr> shape_, places_;
};

/// Where in a block's path the nest begins that stands in the root block.
size_t nest_level(const Path& path);
/// The Func's body with `nests` before the nest that holds the block at the end of the path, and `reader` in its place.
Stmt put_before(const Path& path, std::vector<Stmt> nests, const Stmt& reader);

}  // namespace lathe
