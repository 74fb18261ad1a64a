#pragma once
#include <string>
#include <vector>

#include "jit/trace/tensor_node.h"

namespace lathe {

/// What the body of a compute leaves to be done.
struct Unfinished {
  std::vector<Expr> within;     ///< where its reduction has terms: each is asked where those before it hold
  std::vector<Expr> otherwise;  ///< the values elsewhere
  bool borrows_iters = false;   ///< they count in a body around it
};

/// The tensors that `node` computes: its places are checked, its indices simplified, what it calculates in f16 and bf16
/// is widened. `listener` has heard its body. InputErrors name `name`.
std::vector<Tensor> finish_compute(const Shape& shape, std::string name, ComputeNode node, Listener& listener,
                                   const Unfinished& unfinished = {});

}  // namespace lathe
