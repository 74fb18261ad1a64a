#include "jit/trace/ops/elementwise.h"

#include <fmt/format.h>

#include <algorithm>

#include "jit/trace/broadcast.h"
#include "jit/trace/describe.h"
#include "jit/trace/tensor_node.h"

namespace lathe::ops {

bool is_in_body(std::string_view name, std::span<const Tensor> operands) {
  if (std::none_of(operands.begin(), operands.end(), [](const Tensor& t) { return t.is_expression(); })) return false;
  for (const Tensor& operand : operands) {
    if (operand.rank() == 0) continue;
    fail_type(name, fmt::format("an expression beside {}: in the body of a compute, give an element of the tensor",
                                describe(operand)));
  }
  return true;
}

Tensor elementwise(std::string_view name, const std::vector<Tensor>& operands, unsigned accepts, Result result,
                   const ElementFn& f) {
  const DType common = result_type(name, operands, accepts);
  const DType arithmetic = arithmetic_type(common);
  const DType dtype = result == Result::boolean ? boolean : common;
  const auto calculated = [=](const Indices& i) {
    std::vector<Expr> elements;
    elements.reserve(operands.size());
    for (const Tensor& tensor : operands)
      elements.push_back(convert(arithmetic, convert(common, at_broadcast(tensor, i))));
    return f(elements);
  };
  const auto element = [=](const Indices& i) { return convert(dtype, calculated(i)); };
  if (is_in_body(name, operands)) return expression(element({}));
  if (std::all_of(operands.begin(), operands.end(), [](const Tensor& t) { return t.is_weak(); })) {
    // Taken once: of s * s + s, over and over, each would be evaluated thrice as often as the next.
    Listener listener;
    const Expr value = element({});
    const std::vector<Tensor> sources = std::move(listener.sources);
    return Tensor(std::make_shared<const TensorNode>(TensorNode{.kind = TensorKind::view,
                                                                .dtype = dtype,
                                                                .shape = {},
                                                                .name = std::string(name),
                                                                .weak = true,
                                                                .element = [=](const Indices&, const Expr& mask) {
                                                                  if (Listener* reader = Listener::active()) {
                                                                    for (const Tensor& source : sources)
                                                                      reader->read(source);
                                                                  }
                                                                  return mask ? select(mask, value, constant(dtype, 0))
                                                                              : value;
                                                                }}));
  }
  return compute_rounded(broadcast_shapes(name, operands), dtype, calculated, std::string(name));
}

}  // namespace lathe::ops
