#pragma once
#include <optional>
#include <unordered_set>
#include <vector>

#include "ir/analysis/affine.h"
#include "ir/analysis/interval.h"
#include "ir/passes/extremes.h"
#include "ir/visitor.h"

namespace lathe {

/// Is the loop unrolled or vectorized, so that one copy or lane is a point of it?
inline bool is_point_loop(const For& loop) {
  return loop.for_kind == ForKind::unrolled || loop.for_kind == ForKind::vectorized;
}

/// Where a condition holds for sure: variable >= low (if given) and variable < high (if given).
struct Cut {
  Expr condition;
  std::optional<Affine> low_numerator, high_numerator;  ///< over `divisor`
  std::int64_t divisor = 1;
  /// With a high end: it holds nowhere from floor(most_numerator / divisor) + 1 on, where that is known.
  std::optional<Affine> most_numerator;
};

/// Conditions below a loop that are decided by its variable alone, once the loops inside are taken whole.
class CutFinder : public Visitor {
 public:
  /// With `whole_tile` serial loops of constant extent are taken whole, too; without `of_loads` what masks a load is no
  /// condition.
  CutFinder(const VarRef& variable, const Bounds& bounds, bool whole_tile = false, bool of_loads = true)
      : variable_(variable), bounds_(bounds), whole_tile_(whole_tile), of_loads_(of_loads) {}
  std::vector<Cut> cuts;
  std::unordered_set<const StmtNode*> holders;  ///< statements with such a condition in them
  bool others = false;                          ///< are there conditions on the variable that are not so decided?

  using Visitor::visit;
  void visit(const Stmt& s) override;
  void visit(const Expr& e) override;

 protected:
  void visit_For(const For* node) override;
  void visit_Let(const Let* node) override;
  void visit_If(const If* node) override;
  void visit_Load(const Load* node) override;
  void visit_Store(const Store* node) override;

 private:
  void consider(const Expr& condition);
  /// From distance >= 0, distance = c * variable + rest, with the least rest over the point loops.
  std::optional<Cut> cut_of(const Expr& conjunct) const;
  /// What is left of a distance without c * variable, where the loops around say what it is.
  std::optional<Affine> rest_of(std::optional<Affine> distance, std::int64_t c) const;

  const VarRef variable_;
  const Bounds& bounds_;
  const bool whole_tile_, of_loads_;
  std::vector<LoopRange> points_;
  std::unordered_set<const Var*> hidden_;  ///< bound below, by other than point loops
};

}  // namespace lathe
