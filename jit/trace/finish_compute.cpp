#include "jit/trace/finish_compute.h"

#include <fmt/format.h>

#include <algorithm>

#include "ir/analysis/fold.h"
#include "ir/analysis/simplify.h"
#include "ir/error.h"
#include "ir/visitor.h"
#include "jit/trace/check_places.h"
#include "jit/trace/describe.h"
#include "jit/trace/guarded_loads.h"
#include "jit/trace/promotion.h"

namespace lathe {
namespace {

/// Index maps compose into quotients and remainders that the iters' domains often decide. Places of few bits are known
/// to be none of those that a check would count from behind.
void simplify_indices(ComputeNode& node) {
  const Bounds bounds = domains_of(node);
  for (Expr& value : node.values) value = mask_guarded_loads(simplify(value, bounds), bounds);
  for (Requirement& requirement : node.requirements) {
    requirement.condition = simplify(requirement.condition, bounds);
    requirement.index = simplify(requirement.index, bounds);
  }
  std::erase_if(node.requirements, [](const Requirement& requirement) { return is_true(requirement.condition); });
}

/// Is an element picked by a quotient, a remainder, or a bound of a sum of iters? That is often one of them after all.
bool picks_by_quotients(const ComputeNode& node) {
  bool found = false;
  const auto look = [&](const Expr& part) {
    const Binary* binary = part.as<Binary>();
    found |= part.as<Select>() ||
             (binary && binary->op != BinaryOp::add && binary->op != BinaryOp::sub && binary->op != BinaryOp::mul);
  };
  for (const Expr& value : node.values) {
    for_each_expr(value, [&](const Expr& e) {
      const Load* load = e.as<Load>();
      if (!load || found) return;
      for (const Expr& place : load->indices) for_each_expr(place, look);
    });
  }
  return found;
}

/// Does `e` calculate in f16 or bf16?
bool calculates_in_half(const Expr& e) {
  bool found = false;
  for_each_expr(e, [&](const Expr& node) {
    const Unary* one = node.as<Unary>();
    const Binary* two = node.as<Binary>();
    found = found || (one && is_half(one->a->dtype)) || (two && is_half(two->a->dtype));
  });
  return found;
}

/// f16 and bf16 are storage types: what a body calculates in them is calculated in f32.
class Widen : public Mutator {
 protected:
  Expr mutate_Unary(const Expr& e, const Unary* node) override {
    return is_half(node->a->dtype) ? unary(node->op, wide(node->a)) : Mutator::mutate_Unary(e, node);
  }
  Expr mutate_Binary(const Expr& e, const Binary* node) override {
    if (!is_half(node->a->dtype)) return Mutator::mutate_Binary(e, node);
    return binary(node->op, wide(node->a), wide(node->b));
  }
  Expr mutate_Select(const Expr& e, const Select* node) override {
    if (!is_half(node->dtype)) return Mutator::mutate_Select(e, node);
    return select(mutate(node->condition), wide(node->when_true), wide(node->when_false));
  }
  Expr mutate_Cast(const Expr&, const Cast* node) override { return cast(node->dtype.element(), mutate(node->value)); }

 private:
  Expr wide(const Expr& e) {
    const Expr value = mutate(e);
    return is_half(value->dtype) ? convert(f32, value) : value;
  }
};

Expr widen(const Expr& value) {
  return calculates_in_half(value) ? convert(value->dtype, Widen().mutate(value)) : value;
}

/// Index arithmetic may not overflow (ir/expr.h).
void check_size(const std::string& name, const Shape& shape) {
  double elements = 1;
  for (const Expr& extent : shape) {
    if (const std::int64_t* value = as_int(extent)) elements *= static_cast<double>(*value);
  }
  if (elements >= 0x1p44) fail_value(name, fmt::format("{} has more elements than 2^44", describe(shape)));
}

/// Variables of its own in the place of those that count in the body around it.
void own_iters(ComputeNode& node) {
  Substitution map;
  for (Iter& iter : node.iters) {
    const VarRef own = Var::make(fmt::format("vi{}", map.size()));
    map[iter.variable.get()] = own;
    iter.variable = own;
  }
  for (std::vector<Expr>* list : {&node.values, &node.indices})
    for (Expr& e : *list) e = substitute(e, map);
  for (Requirement& requirement : node.requirements) {
    requirement.condition = substitute(requirement.condition, map);
    requirement.index = substitute(requirement.index, map);
  }
}

/// A tensor is one for all elements of the body in which it is made.
void refuse_indices_around(const std::string& name, const ComputeNode& node, const Listener* around) {
  if (!around) return;
  for (const Expr& value : node.values) {
    if (!value) continue;
    for (const VarRef& used : used_vars(value)) {
      if (!around->domains.domain(used.get())) continue;
      fail_value(name, fmt::format("its body uses {}, an index of the body around it: give it an axis for that, and "
                                   "compute it outside",
                                   used->name));
    }
  }
}

}  // namespace

std::vector<Tensor> finish_compute(const Shape& shape, std::string name, ComputeNode node, Listener& listener,
                                   const Unfinished& unfinished) {
  check_identifier(name.substr(0, name.find('.')), "operator name");
  if (!unfinished.borrows_iters) refuse_indices_around(name, node, listener.around());
  const Expr within = check_places(name, node, listener, unfinished.within);
  for (size_t k = 0; within && k < node.values.size(); ++k)
    node.values[k] = select(within, node.values[k], unfinished.otherwise[k]);
  node.sources = std::move(listener.sources);
  node.requirements = std::move(listener.requirements);
  check_size(name, shape);
  for (const Expr& value : node.values) {
    if (!value) fail_value(name, "the body gave no expression");
    if (!value->dtype.is_scalar()) {
      fail_type(name, fmt::format("the body gave a vector of type {}; expected a scalar", to_string(value->dtype)));
    }
  }
  for (Expr& value : node.values) {
    const Expr given = value;
    value = widen(given);
    node.rounds |= value != given;
  }
  if (listener.saw_view || !node.requirements.empty() || picks_by_quotients(node)) simplify_indices(node);
  if (unfinished.borrows_iters) own_iters(node);
  node.is_step = name.find('.') != std::string::npos;
  std::replace(name.begin(), name.end(), '.', '_');
  for (size_t k = node.buffers.size(); k < node.values.size(); ++k) {
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

}  // namespace lathe
