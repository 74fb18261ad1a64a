#pragma once
#include "jit/trace/tensor_node.h"

namespace lathe {

/// Is a place known to lie inside an axis of that extent?
bool is_inside(const Bounds& bounds, const Expr& place, const Expr& extent);

/// Keeps the elements that a body takes by places of its own (Tensor::element) within their tensors. A place is one of
///   - proved to lie inside: the element stays as it is
///   - inside wherever the choices around it want the element: loaded under a mask
///   - an affine index of iters that leaves the tensor: an InputError(index) that says how far
///   - in a run whose length data says (`within`): the run's ends are checked by a block of its own
///   - anything else, such as a loaded index: computed and checked by a block of its own over the iters that it
///     uses, which stops the kernel where it lies outside; the element is then read at that index
/// `listener` has heard the body of `node`; what is added is heard too. `within` says where there are values, each
/// condition where those before it hold; their own places are checked too, in what is returned, all of them together;
/// null is everywhere.
Expr check_places(const std::string& name, ComputeNode& node, Listener& listener, const std::vector<Expr>& within);

}  // namespace lathe
