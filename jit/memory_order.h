#pragma once
#include <span>
#include <unordered_map>
#include <vector>

#include "ir/func.h"
#include "jit/layout.h"

/// Programs of arrays that are dense, but lie in another order than row-major: transposed, or with their channels last.
namespace lathe {

/// The buffers that lie so, each with its order (is_permuted).
using MemoryOrders = std::unordered_map<const BufferNode*, StrideClasses>;

/// Which buffers of a traced Func lie as `inputs`, its first buffer parameters, do: those of these that are permuted,
/// and each result and temporary whose elements are computed from arguments' elements at the same index, or at one that
/// moves along each dimension as its own does (slices, flips), through other element-wise operators too, where all of
/// these arguments lie in one order: dense, or slices of such arrays, whose dimension of neighbours is known. What is
/// broadcast has no say, and neither has what is read along other dimensions, at loaded places, or under a condition,
/// as what is joined, padded or rolled, but for temporaries and images of four dimensions and more whose channels lie
/// last.
///
/// So lie the results of windows over tensors of four dimensions and more, as of pooling and convolutions, where these
/// agree: each of their dimensions moves along the tensor's at its place, or along none, as filters do, and the last
/// one along its own. Either windows slide along them alone, or they have two dimensions that nothing else moves along.
/// Temporaries that hold the results of other reductions and of scans have the dimensions that are left in the order of
/// their operand's, and what is computed of them lies so too. All others are row-major: where arguments disagree or
/// have no neighbours, and results of reductions and scans, and what is computed of those.
/// PyTorch and NumPy lay out the results of element-wise operators so, but that theirs keep the order of all strided
/// arguments, and that PyTorch's follow the first of several orders.
/// To `folded`, where it is given, go the orders in which results of sums and scans lie as what they fold.
MemoryOrders memory_orders(const Func& traced, std::span<const StrideClasses> inputs, MemoryOrders* folded = nullptr);

/// Has sums whose results are to lie otherwise than what they fold write to a temporary that lies as this does, and
/// copies it: vectors then walk all that a fold reads and writes, and squares turn the copy around where neighbours are
/// others. So too scans whose results have their neighbours along what is scanned, and the operand across.
Func fold_in_order(const Func& traced, const MemoryOrders& folded, MemoryOrders* orders);

/// Does the block fold elements each of which it reads once, as sums and scans do and contractions do not?
bool folds_elements(const Block& block);

/// Do dimensions of several elements lie in the same order?
bool same_order(StrideClasses a, StrideClasses b, const std::vector<Expr>& shape);

/// Has temporaries that one block alone reads, which is no reduction and stores at the same index, lie as what it
/// stores: once it is known how the outputs that a caller gives do. Those of sums and scans stay as they are.
void follow_outputs(const Func& traced, MemoryOrders* orders);

/// The Func over arrays that are row-major: dimensions of the buffers named, and the loops over them, change places,
/// and every element stays where it is in memory.
///
///   x: f32[8, 3] strides [1, 8]             x: f32[3, 8]
///   for i0 in [0, 8):                       for i1 in [0, 3):
///     for i1 in [0, 3):               ->      for i0 in [0, 8):
///       out[i0, i1] = x[i0, i1] + 1             out[i1, i0] = x[i1, i0] + 1
///
/// So no later rule needs to know of any other order.
Func in_memory_order(const Func& traced, const MemoryOrders& orders);

}  // namespace lathe
