#pragma once
#include "ir/analysis/interval.h"
#include "ir/visitor.h"

namespace lathe {

/// What `bounds` learns while this lives is forgotten with it.
class BoundsScope {
 public:
  explicit BoundsScope(Bounds& bounds) : bounds_(bounds), mark_(bounds.mark()) {}
  ~BoundsScope() { bounds_.rollback(mark_); }
  BoundsScope(const BoundsScope&) = delete;
  BoundsScope& operator=(const BoundsScope&) = delete;

 private:
  Bounds& bounds_;
  Bounds::Mark mark_;
};

/// A Mutator that knows what bounds the variables of the loops and the i64 Lets around what it rewrites.
class BoundedMutator : public Mutator {
 protected:
  explicit BoundedMutator(const Func& func) : bounds_(func) {}
  Stmt mutate_For(const Stmt& s, const For* node) override {
    BoundsScope scope(bounds_);
    bounds_.bind(node->variable, Range{node->min, node->extent});
    return Mutator::mutate_For(s, node);
  }
  Stmt mutate_Let(const Stmt& s, const Let* node) override {
    BoundsScope scope(bounds_);
    if (node->value->dtype == i64) bounds_.bind_value(node->variable, node->value);
    return Mutator::mutate_Let(s, node);
  }

  Bounds bounds_;
};

}  // namespace lathe
