#include "jit/trace/kept_view.h"

#include <algorithm>
#include <unordered_set>

#include "ir/visitor.h"

namespace lathe {
namespace {

/// Do the values use nothing but the node's own iters, what it reads, and symbols of shapes? A view that is made within
/// the body of a compute may speak of that one's iters.
bool stands_alone(const ComputeNode& node, const Shape& shape) {
  std::unordered_set<const Var*> known;
  const auto add_shape = [&](const Shape& extents) {
    for (const Expr& extent : extents)
      for (const VarRef& symbol : used_vars(extent)) known.insert(symbol.get());
  };
  add_shape(shape);
  for (const Iter& iter : node.iters) known.insert(iter.variable.get());
  for (const Tensor& source : node.sources) {
    add_shape(source.shape());
    if (source.node()->kind == TensorKind::scalar) known.insert(source.node()->value.as<Var>());
  }
  return std::all_of(node.values.begin(), node.values.end(), [&](const Expr& value) {
    const std::vector<VarRef> used = used_vars(value);
    return std::all_of(used.begin(), used.end(),
                       [&](const VarRef& variable) { return known.contains(variable.get()); });
  });
}

}  // namespace

Tensor KeptView::find() const {
  const std::lock_guard guard(lock_);
  return tensor_;
}

Tensor KeptView::make(const Tensor& view) {
  {
    const std::lock_guard guard(lock_);
    if (tried_) return tensor_;
  }
  const TensorNode& node = *view.node();
  const auto element = [&](const Indices& i) { return node.element(i, nullptr); };
  const Listener apart;  // whatever body asks for the view
  Tensor made = compute(node.shape, element, node.name + ".kept");
  if (!stands_alone(*made.node()->definition, node.shape)) made = Tensor();
  const std::lock_guard guard(lock_);
  if (!tried_) tensor_ = std::move(made);
  tried_ = true;
  return tensor_;
}

bool evaluates_often(const Tensor& view) {
  Listener listener;
  std::unordered_set<const TensorNode*> met;
  listener.met = &met;
  Indices place;
  for (size_t d = 0; d < view.rank(); ++d) place.push_back(Var::make("i"));
  view.node()->element(place, nullptr);
  return listener.views > 2 * met.size();
}

}  // namespace lathe
