#pragma once
#include "ir/analysis/interval.h"
#include "ir/analysis/regions.h"

namespace lathe {

/// Walks a statement with `bounds` always saying what holds at the place reached, and reports every access in program
/// order. A hint on a block is reported as one access, in place of the accesses that it covers.
class AccessWalk {
 public:
  /// With `assume_guards` false, bounds do not know what predicates and Ifs say, only guards_ does.
  explicit AccessWalk(Bounds bounds, bool assume_guards = true)
      : bounds_(std::move(bounds)), outer_(bounds_.mark()), assume_guards_(assume_guards) {}
  virtual ~AccessWalk() = default;
  void walk(const Stmt& s);
  /// The accesses of an expression: its loads, those in indices and masks included.
  void walk(const Expr& e);

  struct Access {
    Region region;  ///< over the variables in scope at the access; a point, or a hint
    bool is_write;
    Expr mask;  ///< null when none
  };

 protected:
  virtual void accessed(const Access& access) = 0;
  /// Does the hint on a block count, in place of the accesses that it covers?
  virtual bool governs(const Region& /*hint*/, const Block& /*block*/, bool /*is_write*/) { return true; }
  /// Is the block passed over, with all that it holds?
  virtual bool passes_over(const Block& /*block*/) { return false; }
  /// A statement is entered and left with these, its own variables bound.
  virtual void enter(const Stmt&) {}
  virtual void leave(const Stmt&) {}

  Bounds bounds_;
  const Bounds::Mark outer_;
  /// Buffers that are allocated within the walked statement: passed over unless set.
  bool reports_allocated_ = false;
  /// Conditions that guard the place reached, inside the walked statement: predicates and If conditions.
  std::vector<Expr> guards_;

 private:
  struct Hint {
    const BufferNode* buffer;
    bool is_write;
  };
  void report(const Buffer& buffer, const std::vector<Expr>& indices, bool is_write, const Expr& mask);
  void walk_block(const Stmt& s);
  void walk_init(const Block& block, const Bounds::Mark& around);
  void bind_instance(const Block& block, const Expr& predicate);
  bool is_allocated(const BufferNode* buffer) const;

  const bool assume_guards_;
  std::vector<const BufferNode*> allocated_;
  std::vector<Hint> hints_;
  std::vector<const ExprNode*> seen_;
};

}  // namespace lathe
