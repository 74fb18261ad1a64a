#pragma once
#include <utility>
#include <vector>

#include "ir/analysis/witness.h"
#include "ir/visitor.h"

namespace lathe {

/// Knows the steps that lead from where it began to what it visits: loops, bindings, conditions, and assertions behind
/// which the rest of a sequence stands.
class StepVisitor : public Visitor {
 protected:
  void visit_For(const For* node) override;
  void visit_Let(const Let* node) override;
  void visit_If(const If* node) override;
  void visit_While(const While* node) override;
  void visit_Seq(const Seq* node) override;
  void visit_Block(const Block* node) override;
  /// What a block's iters and predicate lead to; by default its init and its body.
  virtual void visit_inside(const Block::Fields& f);

  template <class Node>
  void within(Step step, const Node& node) {
    steps_.push_back(std::move(step));
    visit(node);
    steps_.pop_back();
  }

  std::vector<Step> steps_;
};

}  // namespace lathe
