#include "jit/trace/known_places.h"

#include <algorithm>

#include "ir/analysis/affine.h"
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
  if (indices.rank() == 0 || !size) return std::nullopt;
  Bounds bounds;
  KnownPlaces known;
  Indices at;
  for (const Expr& length : indices.shape()) {
    if (!as_int(length)) return std::nullopt;
    known.places.push_back(Var::make("place"));
    bounds.bind(known.places.back(), Range{index(0), length});
    at.emplace_back(known.places.back());
  }
  Listener listener;  // what is read here is not read by the kernel
  Follower follower(listener.sources);
  const Expr given = indices.at(at), followed = follower.mutate(convert(i64, given));
  if (follower.failed) return std::nullopt;
  known.value = simplify(followed, bounds);
  const auto is_place = [&](const Expr& e) { return std::find(at.begin(), at.end(), e) != at.end(); };
  int nodes = 0;
  bool alone = true;
  for_each_expr(known.value, [&](const Expr& e) {
    ++nodes;
    alone &= !e.as<Var>() || is_place(e);
  });
  const Interval reached = bounds.interval(known.value);
  const bool inside = reached.min && reached.max && *reached.min >= 0 && *reached.max < *size;
  if (!alone || nodes > most_nodes || !inside) return std::nullopt;
  const Affine sum = to_affine(known.value);
  const bool steps_on =
      std::all_of(sum.terms.begin(), sum.terms.end(), [&](const AffineTerm& term) { return is_place(term.atom); });
  const bool grows = at.size() == 1 && greatest_gain(known.value, known.places[0], steps, bounds);
  if (!steps_on && !grows) return std::nullopt;
  return known;
}

}  // namespace lathe
