#pragma once
#include <functional>
#include <string_view>

#include "jit/trace/tensor.h"

namespace lathe::ops {

/// An operand's element for result index i and fold index r.
using ElementAt = std::function<Expr(const Indices& i, const Indices& r)>;

/// x, or a Block of its elements where these are chosen among several tensors or places, as of those that are joined or
/// stacked along any axis: a product reads an element many times, and is not to choose each time. What is
/// cheap enough is inlined again.
Tensor as_operand(const std::string& name, const Tensor& x);

/// The sum over `folded` of the products of two elements, in the operands' common dtype.
Tensor contract(const std::string& name, const Tensor& a, const Tensor& b, const Shape& result, const Shape& folded,
                const ElementAt& a_at, const ElementAt& b_at);

}  // namespace lathe::ops
