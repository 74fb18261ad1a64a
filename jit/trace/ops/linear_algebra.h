#pragma once
#include <string_view>
#include <vector>

#include "jit/trace/tensor.h"

/// Contractions. Operands are read in place, through whatever views they are; f16 and bf16 accumulate in f32, integers
/// in their common dtype.
namespace lathe::ops {

/// The last two axes multiplied as matrices, those before broadcast; a 1-d operand is a row (left) or a column (right).
Tensor matmul(const Tensor& a, const Tensor& b);
/// The sum of products along `axis`, which both have; the other axes broadcast.
Tensor vecdot(const Tensor& a, const Tensor& b, std::int64_t axis = -1);
/// Of two 1-d tensors.
Tensor outer(const Tensor& a, const Tensor& b);
/// "ij,jk->ik"; without "->" the letters that occur once, in order. "..." stands for what axes an operand has beside,
/// the last of which are the same in all, as shapes broadcast: first in a result that is not named, summed where one
/// that is has no ellipsis. A letter that occurs twice in one
/// operand walks its diagonal. An extent of 1 broadcasts. Of more than two operands the pair that takes the least work
/// is multiplied first, and so on; all are converted to their common dtype first, and what pairs give is rounded once,
/// at the end. One operand is a view, or the sum of one, and no product.
Tensor einsum(std::string_view equation, const Tensor& a, const Tensor& b);
Tensor einsum(std::string_view equation, const std::vector<Tensor>& operands);

}  // namespace lathe::ops
