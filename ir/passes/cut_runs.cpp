#include "ir/passes/cut_runs.h"

#include "ir/passes/bounds_scope.h"
#include "ir/passes/vector_runs.h"

namespace lathe {
namespace {

class Cutter : public BoundedMutator {
 public:
  explicit Cutter(const Func& func) : BoundedMutator(func) {}

  using Mutator::mutate;

 protected:
  Expr mutate_Load(const Expr& e, const Load* node) override {
    const auto runs = runs_at(node->buffer, node->indices, node->dtype.lanes);
    if (!runs) return Mutator::mutate_Load(e, node);
    const Expr mask = node->mask ? mutate(node->mask) : Expr();
    if (!runs->in_first) return Load::make(node->buffer, {runs->first}, mask);
    return Select::make(runs->in_first, Load::make(node->buffer, {runs->first}, logical_and(mask, runs->in_first)),
                        Load::make(node->buffer, {runs->second}, logical_and(mask, logical_not(runs->in_first))));
  }

  Stmt mutate_Store(const Stmt& s, const Store* node) override {
    const auto runs = runs_at(node->buffer, node->indices, node->value->dtype.lanes);
    if (!runs) return Mutator::mutate_Store(s, node);
    const Expr mask = node->mask ? mutate(node->mask) : Expr();
    if (!runs->in_first) return Store::make(node->buffer, {runs->first}, mutate(node->value), mask);
    const VarRef value = Var::make("run", node->value->dtype);
    return Let::make(
        value, mutate(node->value),
        Seq::make(
            {Store::make(node->buffer, {runs->first}, Expr(value), logical_and(mask, runs->in_first)),
             Store::make(node->buffer, {runs->second}, Expr(value), logical_and(mask, logical_not(runs->in_first)))}));
  }

 private:
  std::optional<Runs> runs_at(const Buffer& buffer, const std::vector<Expr>& indices, int lanes) const {
    if (lanes < 2 || indices.size() != 1 || buffer->space == space::registers) return std::nullopt;
    return runs_of(indices[0], bounds_);
  }
};

}  // namespace

Func cut_runs(const Func& func, const Device& device) {
  return cuts_runs(device) ? with_body(func, Cutter(func).mutate(func->body)) : func;
}

}  // namespace lathe
