#pragma once
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "jit/trace/promotion.h"
#include "jit/trace/tensor.h"

/// How the element-wise families are made.
namespace lathe::ops {

/// From the operands' elements, in arithmetic_type(common dtype), to the result's.
using ElementFn = std::function<Expr(const std::vector<Expr>&)>;

/// What an element-wise operator gives.
enum class Result {
  common,  ///< the operands' common dtype
  boolean
};

/// Is one of the operands an expression of a compute's body? Then all must be 0-d: InputError(type) otherwise.
bool is_in_body(std::string_view name, std::span<const Tensor> operands);

/// The operands broadcast and promoted, f applied to their elements: f16 and bf16 in f32, rounded to their dtype as
/// eager frameworks do, but where the rounding goes (compute_rounded). An operator on weak scalars alone gives a weak
/// scalar, and no Block; one on expressions (see expression) an expression.
Tensor elementwise(std::string_view name, const std::vector<Tensor>& operands, unsigned accepts, Result result,
                   const ElementFn& f);

}  // namespace lathe::ops
