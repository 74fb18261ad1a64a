#pragma once
#include <span>
#include <unordered_set>

#include "ir/visitor.h"
#include "jit/trace/tensor_node.h"

namespace lathe {

/// The buffers among what `computes`, producers first, make that may stay in f32, though they are f16 or bf16: those
/// that an operator has rounded (ComputeNode::rounds), or moved from such, and that no one sees but readers which
/// calculate in f32 again. `outputs` are rounded, and so is what they hold to every reader.
///
///   multiply: bf16[n]              = bf16(f32(x) * f32(y))  ->  multiply: f32[n] = f32(x) * f32(y)
///   out: bf16[n] = bf16(f32(multiply) + 1)                  ->  out: bf16[n]     = bf16(multiply + 1)
///
/// Operands of contractions stay as they are, since devices multiply pairs of 16 bits faster, and a copy of them would
/// take twice the room.
std::unordered_set<const BufferNode*> kept_wide(std::span<const ComputeNode* const> computes, const BufferMap& outputs);

/// `value` on the buffers of `map`, some of which are f32 in the place of f16 and bf16: what calculates in a wider type
/// takes them as they are. Others take them rounded: choices between tensors, and comparisons of two loaded values,
/// whose answers would change where one of them was rounded by being stored.
Expr replace_widened(const Expr& value, const BufferMap& map);
/// As replace_widened, of a value that an operator rounds as its last step, without that step.
Expr replace_unrounded(const Expr& value, const BufferMap& map);

}  // namespace lathe
