#include "jit/trace/known_places.h"

#include <algorithm>

#include "ir/analysis/simplify.h"
#include "ir/analysis/window.h"
#include "ir/visitor.h"
#include "jit/trace/promotion.h"
#include "jit/trace/tensor_node.h"

namespace lathe {
namespace {

/// Operators that are followed, one behind another, and nodes of the expression that they may come to.
constexpr int most_operators = 24;
constexpr int most_nodes = 60;
/// Places over which the gain is looked at: lanes of the widest vectors.
constexpr std::int64_t steps = 15;

/// Replaces Loads by what computes their elements. Where it fails, some read what nothing is known of.
class Follower : public Mutator {
 public:
  explicit Follower(const std::vector<Tensor>& sources) : sources_(sources) {}
  bool failed = false;

 protected:
  Expr mutate_Load(const Expr& e, const Load* node) override {
    const ComputeNode* definition = node->mask ? nullptr : definition_of(node->buffer);
    if (!definition || ++operators_ > most_operators) {
      failed = true;
      return e;
    }
    Substitution map;
    for (size_t d = 0; d < definition->indices.size(); ++d) {
      if (const Var* iter = definition->indices[d].as<Var>()) map[iter] = node->indices[d];
    }
    const auto output = std::find(definition->buffers.begin(), definition->buffers.end(), node->buffer);
    const Expr value = substitute(definition->values[static_cast<size_t>(output - definition->buffers.begin())], map);
    Follower inner(definition->sources);
    inner.operators_ = operators_;
    const Expr followed = inner.mutate(value);
    operators_ = inner.operators_;
    failed |= inner.failed;
    return followed;
  }

 private:
  const ComputeNode* definition_of(const Buffer& buffer) const {
    for (const Tensor& source : sources_) {
      const ComputeNode* definition = source.node()->definition.get();
      if (!definition ||
          std::find(definition->buffers.begin(), definition->buffers.end(), buffer) == definition->buffers.end())
        continue;
      const bool pointwise = !definition->reducer && !definition->begin && definition->requirements.empty() &&
                             std::all_of(definition->iters.begin(), definition->iters.end(),
                                         [](const Iter& iter) { return iter.kind == IterKind::space; });
      return pointwise ? definition : nullptr;
    }
    return nullptr;
  }

  const std::vector<Tensor>& sources_;
  int operators_ = 0;
};

}  // namespace

bool lies_inside(const Tensor& indices, const Expr& extent) {
  const std::int64_t* size = as_int(extent);
  if (!size) return false;
  Listener listener;  // what is read here is not read by the kernel
  Bounds bounds;
  Indices places;
  for (const Expr& length : indices.shape()) {
    const VarRef place = Var::make("place");
    bounds.bind(place, Range{index(0), length});
    places.emplace_back(place);
  }
  const Expr given = indices.at(places);
  Follower follower(listener.sources);
  const Expr value = simplify(convert(i64, follower.mutate(given)), bounds);
  const Interval known = bounds.interval(value);
  return has_load(value) && known.min && known.max && *known.min >= 0 && *known.max < *size;
}

std::optional<KnownPlaces> known_places(const Tensor& indices, const Expr& extent) {
  const std::int64_t* size = as_int(extent);
  if (indices.rank() != 1 || !size || !as_int(indices.shape()[0])) return std::nullopt;
  const VarRef place = Var::make("place");
  Listener listener;  // what is read here is not read by the kernel
  const Expr given = indices.at({place});
  Follower follower(listener.sources);
  const Expr followed = follower.mutate(convert(i64, given));
  if (follower.failed) return std::nullopt;
  Bounds bounds;
  bounds.bind(place, Range{index(0), indices.shape()[0]});
  const Expr value = simplify(followed, bounds);
  int nodes = 0;
  bool alone = true;
  for_each_expr(value, [&](const Expr& e) {
    ++nodes;
    alone &= !e.as<Var>() || e == Expr(place);
  });
  const Interval known = bounds.interval(value);
  const bool inside = known.min && known.max && *known.min >= 0 && *known.max < *size;
  if (!alone || nodes > most_nodes || !inside || !greatest_gain(value, place, steps, bounds)) return std::nullopt;
  return KnownPlaces{place, value};
}

}  // namespace lathe
