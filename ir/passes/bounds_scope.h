#pragma once
#include "ir/analysis/interval.h"

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

}  // namespace lathe
