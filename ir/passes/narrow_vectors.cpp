#include "ir/passes/narrow_vectors.h"

#include "ir/analysis/fold.h"
#include "ir/analysis/narrow.h"
#include "ir/passes/bounds_scope.h"
#include "ir/passes/vector_runs.h"

namespace lathe {
namespace {

/// Is it a vector of places that some arithmetic makes, which is not the same in all lanes?
bool is_computed(const Expr& e) {
  return e->dtype.lanes > 1 && e->dtype.element() == i64 && e.as<Binary>() && !scalar_of(e);
}

class VectorNarrower : public BoundedMutator {
 public:
  VectorNarrower(const Func& func, const Device& device) : BoundedMutator(func), keeps_runs_(cuts_runs(device)) {}
  using Mutator::mutate;

 protected:
  Expr mutate_Load(const Expr& e, const Load* node) override {
    if (node->indices.size() != 1) return Mutator::mutate_Load(e, node);
    const Expr place = narrow_place(node->indices[0]);
    if (!place) return Mutator::mutate_Load(e, node);
    return Load::make(node->buffer, {place}, node->mask ? mutate(node->mask) : nullptr);
  }
  Stmt mutate_Store(const Stmt& s, const Store* node) override {
    const Expr place = node->indices.size() == 1 ? narrow_place(node->indices[0]) : nullptr;
    if (!place) return Mutator::mutate_Store(s, node);
    return Store::make(node->buffer, {place}, mutate(node->value), node->mask ? mutate(node->mask) : nullptr);
  }
  Expr mutate_Cast(const Expr& e, const Cast* node) override {
    if (e->dtype.is_float() && is_computed(node->value)) {
      if (const Expr narrow = narrow_to_i32(node->value, bounds_)) return Cast::make(e->dtype, narrow);
    }
    return Mutator::mutate_Cast(e, node);
  }
  Expr mutate_Binary(const Expr& e, const Binary* node) override {
    if (e->dtype.is_bool() && (is_computed(node->a) || is_computed(node->b))) {
      const Expr a = narrow_to_i32(node->a, bounds_), b = narrow_to_i32(node->b, bounds_);
      if (a && b) return Binary::make(node->op, a, b);
    }
    return Mutator::mutate_Binary(e, node);
  }

 private:
  /// Null where a place is no vector, or is known too little of.
  Expr narrow_place(const Expr& place) {
    if (!is_computed(place) || (keeps_runs_ && runs_of(place, bounds_))) return nullptr;
    const auto [uniform, varying] = lane_sum(place);
    const Expr narrow = varying && is_computed(varying) ? narrow_to_i32(varying, bounds_) : nullptr;
    if (!narrow) return nullptr;
    const Expr wide = Cast::make(place->dtype, narrow);
    return uniform ? wide + Broadcast::make(uniform, place->dtype.lanes) : wide;
  }

  const bool keeps_runs_;  ///< which are cut later, by their 64 bits
};

}  // namespace

Func narrow_vectors(const Func& func, const Device& device) {
  return with_body(func, VectorNarrower(func, device).mutate(func->body));
}

}  // namespace lathe
