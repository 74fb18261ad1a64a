#include <fmt/format.h>

#include <algorithm>

#include "ir/analysis/simplify.h"
#include "ir/error.h"
#include "ir/visitor.h"
#include "jit/trace/describe.h"
#include "jit/trace/tensor_node.h"

namespace lathe {
namespace {

/// Space iters of `shape` and the index each dimension is stored at.
void make_space_iters(const Shape& shape, ComputeNode& node) {
  for (size_t d = 0; d < shape.size(); ++d) {
    if (is_int(shape[d], 1)) {
      node.indices.push_back(index(0));
      continue;
    }
    VarRef variable = Var::make(fmt::format("vi{}", d));
    node.iters.push_back({variable, {index(0), shape[d]}, IterKind::space});
    node.indices.push_back(variable);
  }
}

/// Index maps compose into quotients and remainders that the iters' domains often decide.
void simplify_indices(ComputeNode& node) {
  Bounds bounds;
  for (const Iter& iter : node.iters) bounds.bind(iter.variable, iter.domain);
  for (Expr& value : node.values) value = simplify(value, bounds);
  for (Requirement& requirement : node.requirements) {
    requirement.condition = simplify(requirement.condition, bounds);
    requirement.index = simplify(requirement.index, bounds);
  }
}

std::vector<Tensor> finish(const Shape& shape, std::string name, ComputeNode node, Listener& listener) {
  node.sources = std::move(listener.sources);
  node.requirements = std::move(listener.requirements);
  check_identifier(name.substr(0, name.find('.')), "operator name");
  for (const Expr& value : node.values) {
    if (!value) fail_value(name, "the body gave no expression");
    if (!value->dtype.is_scalar()) {
      fail_type(name, fmt::format("the body gave a vector of type {}; expected a scalar", to_string(value->dtype)));
    }
  }
  if (listener.saw_view) simplify_indices(node);
  node.is_step = name.find('.') != std::string::npos;
  std::replace(name.begin(), name.end(), '.', '_');
  for (size_t k = 0; k < node.values.size(); ++k) {
    const std::string suffix = node.values.size() > 1 ? fmt::format("_{}", k) : "";
    node.buffers.push_back(BufferNode::make(name + suffix, node.values[k]->dtype, shape));
  }
  node.name = name;
  auto definition = std::make_shared<const ComputeNode>(std::move(node));
  std::vector<Tensor> outputs;
  for (const Buffer& buffer : definition->buffers) {
    outputs.push_back(Tensor(std::make_shared<const TensorNode>(TensorNode{.kind = TensorKind::compute,
                                                                           .dtype = buffer->dtype,
                                                                           .shape = shape,
                                                                           .name = name,
                                                                           .buffer = buffer,
                                                                           .definition = definition})));
  }
  return outputs;
}

}  // namespace

Tensor compute(Shape shape, const std::function<Expr(const Indices&)>& f, std::string name) {
  Listener listener;
  ComputeNode node;
  make_space_iters(shape, node);
  node.values = {f(node.indices)};
  return finish(shape, std::move(name), std::move(node), listener).front();
}

std::vector<Tensor> compute_tuple(Shape shape, const std::function<Reduction(const Indices&)>& f, std::string name) {
  Listener listener;
  ComputeNode node;
  make_space_iters(shape, node);
  Reduction reduction = f(node.indices);
  for (size_t d = 0; d < reduction.variables.size(); ++d) {
    node.iters.push_back({reduction.variables[d], reduction.domain[d], IterKind::reduce});
  }
  if (reduction.terms.size() != reduction.reducer.results.size()) {
    fail_value(name, fmt::format("the reduction has {} terms; its reducer folds {}", reduction.terms.size(),
                                 reduction.reducer.results.size()));
  }
  for (size_t k = 0; k < reduction.terms.size(); ++k) {
    const DType expected = reduction.reducer.results[k]->dtype;
    if (reduction.terms[k]->dtype != expected) {
      fail_type(name, fmt::format("term {} of the reduction has type {}; its reducer folds {}", k,
                                  to_string(reduction.terms[k]->dtype), to_string(expected)));
    }
  }
  node.values = std::move(reduction.terms);
  node.reducer = std::move(reduction.reducer);
  return finish(shape, std::move(name), std::move(node), listener);
}

Tensor compute(Shape shape, const std::function<Reduction(const Indices&)>& f, std::string name) {
  std::vector<Tensor> outputs = compute_tuple(std::move(shape), f, name);
  if (outputs.size() != 1) {
    fail_value(name, fmt::format("the reduction gives {} tensors; use compute_tuple", outputs.size()));
  }
  return outputs.front();
}

Reduction reduce_tuple(const Reducer& reducer, const Shape& extents,
                       const std::function<std::vector<Expr>(const Indices&)>& f) {
  Reduction reduction{.reducer = reducer, .domain = {}, .variables = {}, .terms = {}};
  Indices indices;
  for (size_t d = 0; d < extents.size(); ++d) {
    VarRef variable = Var::make(fmt::format("vr{}", d));
    reduction.variables.push_back(variable);
    reduction.domain.push_back({index(0), extents[d]});
    indices.push_back(variable);
  }
  reduction.terms = f(indices);
  return reduction;
}

Reduction reduce(const Reducer& reducer, const Shape& extents, const std::function<Expr(const Indices&)>& f) {
  return reduce_tuple(reducer, extents, [&](const Indices& indices) { return std::vector<Expr>{f(indices)}; });
}

}  // namespace lathe
