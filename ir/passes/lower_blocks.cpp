#include "ir/passes/lower_blocks.h"

#include "ir/analysis/regions.h"
#include "ir/analysis/simplify.h"
#include "ir/error.h"
#include "ir/visitor.h"

namespace lathe {
namespace {

class BlockLowerer : public Mutator {
 protected:
  Expr mutate_Var(const Expr& e, const Var* node) override {
    auto found = values_.find(node);
    return found == values_.end() ? e : found->second;
  }

  Stmt mutate_Block(const Stmt&, const Block* node) override {
    const Block::Fields& f = node->f;
    LATHE_CHECK(!f.init, "block " + f.name + " still has an init; lower_reductions runs before lower_blocks");
    Expr predicate = mutate(f.predicate);
    for (size_t i = 0; i < f.iters.size(); ++i) values_[f.iters[i].variable.get()] = mutate(f.bindings[i]);
    // A block that stands in two places binds its iters twice: what was remembered of the first is void.
    if (!f.iters.empty()) forget();
    Stmt body = mutate(f.body);
    // The mark of an instruction's instance goes on with the loops that it stands for.
    if (const auto mark = f.annotations.find("tensorize"); mark != f.annotations.end() && body.as<For>()) {
      const For& loop = *body.as<For>();
      Annotations annotations = loop.annotations;
      annotations.insert(*mark);
      body = For::make(loop.variable, loop.min, loop.extent, loop.for_kind, loop.body, std::move(annotations),
                       loop.thread_axis);
    }
    Block::Fields scope;
    for (const Region& region : f.reads) {
      if (!is_hint(region) || !hint_holds(region, f.annotations, false)) continue;
      scope.reads.push_back(mutate_region(region));
      const auto inspected = f.annotations.find(inspected_key(region.buffer));
      if (inspected != f.annotations.end()) scope.annotations.insert(*inspected);
    }
    for (const Region& region : f.writes) {
      if (is_hint(region) && hint_holds(region, f.annotations, true)) scope.writes.push_back(mutate_region(region));
    }
    if (!f.allocs.empty() || !scope.reads.empty() || !scope.writes.empty()) {
      scope.name = f.name;
      scope.allocs = f.allocs;
      scope.body = std::move(body);
      scope.annotations = f.annotations;
      body = Block::make(std::move(scope));
    }
    return predicate ? If::make(std::move(predicate), std::move(body)) : body;
  }

 private:
  Substitution values_;
};

}  // namespace

Func lower_blocks(const Func& func) {
  Stmt body = BlockLowerer().mutate(func->body);
  return with_body(func, simplify(body, Bounds(func)));
}

}  // namespace lathe
