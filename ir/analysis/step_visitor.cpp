#include "ir/analysis/step_visitor.h"

namespace lathe {

void StepVisitor::visit_For(const For* node) {
  visit(node->min);
  visit(node->extent);
  within(Step::of_loop(node), node->body);
}

void StepVisitor::visit_Let(const Let* node) {
  visit(node->value);
  within(Step::of_value(node->variable, node->value), node->body);
}

void StepVisitor::visit_If(const If* node) {
  visit(node->condition);
  within(Step::of_condition(node->condition), node->then_case);
  if (node->else_case) within(Step::of_condition(logical_not(node->condition)), node->else_case);
}

void StepVisitor::visit_While(const While* node) {
  visit(node->condition);
  within(Step::of_unknown(), node->body);
}

void StepVisitor::visit_Seq(const Seq* node) {
  const size_t count = steps_.size();
  for (const Stmt& s : node->stmts) {
    visit(s);
    if (const Assert* assertion = s.as<Assert>()) steps_.push_back(Step::of_condition(assertion->condition));
  }
  steps_.resize(count, Step::of_unknown());
}

void StepVisitor::visit_Block(const Block* node) {
  const Block::Fields& f = node->f;
  const size_t count = steps_.size();
  if (f.predicate) steps_.push_back(Step::of_condition(f.predicate));
  for (size_t i = 0; i < f.iters.size(); ++i) steps_.push_back(Step::of_iter(f.iters[i], f.bindings[i]));
  visit_inside(f);
  steps_.resize(count, Step::of_unknown());
}

void StepVisitor::visit_inside(const Block::Fields& f) {
  if (f.init) visit(f.init);
  visit(f.body);
}

}  // namespace lathe
