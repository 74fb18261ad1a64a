#include "jit/trace/ops/elementwise.h"

#include <algorithm>

#include "jit/trace/broadcast.h"
#include "jit/trace/tensor_node.h"

namespace lathe::ops {

Tensor elementwise(std::string_view name, const std::vector<Tensor>& operands, unsigned accepts, Result result,
                   const ElementFn& f) {
  const DType common = result_type(name, operands, accepts);
  const DType arithmetic = arithmetic_type(common);
  const DType dtype = result == Result::boolean ? boolean : common;
  const auto element = [=](const Indices& i) {
    std::vector<Expr> elements;
    elements.reserve(operands.size());
    for (const Tensor& tensor : operands)
      elements.push_back(convert(arithmetic, convert(common, at_broadcast(tensor, i))));
    return convert(dtype, f(elements));
  };
  if (std::all_of(operands.begin(), operands.end(), [](const Tensor& t) { return t.is_weak(); })) {
    return Tensor(std::make_shared<const TensorNode>(TensorNode{.kind = TensorKind::view,
                                                                .dtype = dtype,
                                                                .shape = {},
                                                                .name = std::string(name),
                                                                .weak = true,
                                                                .element = [=](const Indices& i, const Expr& mask) {
                                                                  const Expr value = element(i);
                                                                  return mask ? select(mask, value, constant(dtype, 0))
                                                                              : value;
                                                                }}));
  }
  return compute(broadcast_shapes(name, operands), element, std::string(name));
}

}  // namespace lathe::ops
