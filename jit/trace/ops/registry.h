#pragma once
#include <span>
#include <string_view>
#include <variant>

#include "jit/trace/tensor.h"

namespace lathe::ops {

using UnaryOperator = Tensor (*)(const Tensor&);
using BinaryOperator = Tensor (*)(const Tensor&, const Tensor&);

/// One public operator. Bindings and tables walk the list; those of one or two tensors and nothing else are bound from
/// it.
struct Operator {
  std::string_view name;    ///< as the Array API standard has it, where it has it
  std::string_view family;  ///< the header in this folder that declares it
  std::variant<std::monostate, UnaryOperator, BinaryOperator> call;  ///< empty: it has parameters of its own
};

/// Every operator, by family.
std::span<const Operator> operators();
/// Null when there is none of that name.
const Operator* find_operator(std::string_view name);

}  // namespace lathe::ops
