#pragma once
#include <mutex>

#include "jit/trace/tensor_node.h"

namespace lathe {

/// The tensor that a view's elements were put into once, because what stands on it takes each of them over and over:
/// null where none was asked for, or none can be, as the elements belong to the body of one compute.
///
///   y = view of x, two reads an element      z[i, j] = select(.., 64 reads of x)
///   z = view of y, two an element        ->  k[i, j] = select(.., 64 reads of x), z[i, j] = select(.., k, k)
///   .. seven of them
class KeptView {
 public:
  /// What stands for the view already.
  Tensor find() const;
  /// Makes it, where that was not tried before.
  Tensor make(const Tensor& view);

 private:
  mutable std::mutex lock_;
  bool tried_ = false;
  Tensor tensor_;
};

/// Reads of one element of a view beyond which it is looked at whether they are many because few are taken often. Wide
/// ones, as of hundreds of tensors that are joined, take each once.
constexpr std::size_t most_reads = 64;

/// Does one element of the view evaluate it and the views below more than twice each, on average?
bool evaluates_often(const Tensor& view);

/// Nodes of an index, those that are shared counted as often as they occur, beyond which it is simplified at once, and
/// what it is an index into is kept if that does not help: each view below would double it.
constexpr int most_index_nodes = 128;

}  // namespace lathe
