#include "ir/passes/lower_reductions.h"

#include <algorithm>
#include <unordered_set>

#include "ir/analysis/regions.h"
#include "ir/analysis/simplify.h"
#include "ir/error.h"
#include "ir/passes/bounds_scope.h"
#include "ir/passes/masked_terms.h"
#include "ir/passes/settle_ties.h"
#include "ir/reduction.h"
#include "ir/visitor.h"

namespace lathe {
namespace {

using VarSet = std::unordered_set<const Var*>;

/// An init on its way up to the loop in front of which it belongs, gathering the loops that it needs.
struct PendingInit {
  const For* target;
  VarSet loops;  ///< loop variables that its bindings and predicate use and that lie below target
  Stmt nest;
};

class ReductionLowerer : public Mutator {
 public:
  ReductionLowerer(const Func& func, const Device& device)
      : bounds_(func),
        facts_(func),
        params_(buffer_params(func)),
        adds_under_masks_(device.mask_registers > 0 && device.fused_multiply_add) {}

 protected:
  Stmt mutate_For(const Stmt& s, const For* node) override {
    path_.push_back(node);
    Stmt result;
    {
      BoundsScope scope(bounds_);
      bounds_.bind(node->variable, Range{node->min, node->extent});
      result = Mutator::mutate_For(s, node);
    }
    path_.pop_back();
    std::vector<Stmt> before;
    for (PendingInit& init : pending_) {
      if (init.loops.count(node->variable.get())) {
        VarRef copy = Var::make(node->variable->name + "_init");
        init.nest =
            For::make(copy, node->min, node->extent, node->for_kind,
                      substitute(init.nest, {{node->variable.get(), copy}}), node->annotations, node->thread_axis);
      }
      if (init.target == node) before.push_back(init.nest);
    }
    if (before.empty()) return result;
    std::erase_if(pending_, [&](const PendingInit& init) { return init.target == node; });
    before.push_back(std::move(result));
    return Seq::make(std::move(before));
  }

  Stmt mutate_If(const Stmt& s, const If* node) override {
    return behind_barrier([&] { return Mutator::mutate_If(s, node); });
  }
  Stmt mutate_While(const Stmt& s, const While* node) override {
    return behind_barrier([&] { return Mutator::mutate_While(s, node); });
  }
  Stmt mutate_Let(const Stmt& s, const Let* node) override {
    return behind_barrier([&] { return Mutator::mutate_Let(s, node); });
  }

  Stmt mutate_Block(const Stmt& s, const Block* node) override {
    BoundsScope scope(bounds_);
    std::vector<const For*> path;
    std::swap(path, path_);
    Stmt result = Mutator::mutate_Block(s, node);
    std::swap(path, path_);
    const Block* block = result.as<Block>();
    if (adds_under_masks_ && begins_with_identity(*block)) {
      if (std::optional<Block::Fields> skipping = skip_with_minus_zero(*block)) {
        result = Block::make(std::move(*skipping));
        block = result.as<Block>();
      }
    }
    if (!block->f.init) return result;
    if (std::optional<Block::Fields> settled = settle_ties(*block, path_, bounds_))
      return lower(*Block::make(std::move(*settled)).as<Block>());
    return lower(*block);
  }

 private:
  /// Is it the kernel that begins the reduction? What a caller hands in without an init may hold anything.
  bool begins_with_identity(const Block& block) const {
    return block.f.init || std::none_of(block.f.writes.begin(), block.f.writes.end(), [&](const Region& write) {
             return write.buffer->view_of || std::find(params_.begin(), params_.end(), write.buffer) != params_.end();
           });
  }

  /// A null on the path: no init may move out past it.
  template <class F>
  Stmt behind_barrier(F f) {
    path_.push_back(nullptr);
    Stmt result = f();
    path_.pop_back();
    return result;
  }

  Stmt lower(const Block& block) {
    const Block::Fields& f = block.f;
    VarSet reduce_vars;
    for (size_t i = 0; i < f.iters.size(); ++i) {
      if (f.iters[i].kind == IterKind::space) continue;
      for (const VarRef& var : used_vars(f.bindings[i])) reduce_vars.insert(var.get());
    }
    size_t target = path_.size();
    bool legal = true;
    for (size_t i = path_.size(); i-- > 0;) {
      if (path_[i] && reduce_vars.count(path_[i]->variable.get())) target = i;
    }
    VarSet below;
    for (size_t i = target; i < path_.size(); ++i) {
      if (path_[i]) {
        below.insert(path_[i]->variable.get());
      } else {
        legal = false;
      }
    }
    for (const Var* var : reduce_vars) {
      // An iter of an outer block drives the reduction as well: only the guard sees its start.
      bool is_loop =
          std::any_of(path_.begin(), path_.end(), [&](const For* loop) { return loop && loop->variable.get() == var; });
      legal &= is_loop;
    }
    PendingInit init;
    for (size_t i = 0; i < f.iters.size(); ++i) {
      if (f.iters[i].kind != IterKind::space) continue;
      for (const VarRef& var : used_vars(f.bindings[i])) {
        legal &= !reduce_vars.count(var.get());
        if (below.count(var.get())) init.loops.insert(var.get());
      }
    }
    if (!legal) return guard(block);

    init.nest = init_block(f, point_exists(f, bounds_));
    bool loads = false;
    for_each_expr(f.init, [&](const Expr& e) { loads |= e.as<Load>() != nullptr; });
    if (loads) init.nest = infer_regions(init.nest, bounds_);
    Stmt update = without_init(f);
    if (target == path_.size()) return Seq::make({init.nest, update});
    init.target = path_[target];
    pending_.push_back(std::move(init));
    return update;
  }

  static Stmt without_init(Block::Fields f) {
    f.init = nullptr;
    return Block::make(std::move(f));
  }

  static Stmt init_block(const Block::Fields& f, const Expr& predicate) {
    Block::Fields init;
    init.name = f.name + "_init";
    Substitution fresh;
    for (size_t i = 0; i < f.iters.size(); ++i) {
      if (f.iters[i].kind != IterKind::space) continue;
      VarRef variable = Var::make(f.iters[i].variable->name);
      fresh[f.iters[i].variable.get()] = variable;
      init.iters.push_back({variable, f.iters[i].domain, IterKind::space});
      init.bindings.push_back(f.bindings[i]);
    }
    init.predicate = predicate;
    for (const Region& write : f.writes) init.writes.push_back(substitute(write, fresh));
    init.body = substitute(fresh_copy(f.init), fresh);
    return Block::make(std::move(init));
  }

  Stmt guard(const Block& block) {
    Block::Fields f = block.f;
    Expr at_start;
    for (const Iter& iter : f.iters) {
      if (iter.kind == IterKind::space) continue;
      // Not by what holds inside the loops: those are what may be empty.
      if (!proves(facts_, ge(iter.domain.extent, index(1)))) {
        throw Refusal(
            "lower_reductions", 1,
            "lower_reductions refused: condition 1, a reduction whose loops drive both space and reduce iters has a "
            "reduce domain that is never empty: block " +
                f.name + ", iter " + iter.variable->name);
      }
      at_start = logical_and(at_start, eq(iter.variable, iter.domain.min));
    }
    f.body = Seq::make({at_start ? If::make(at_start, f.init) : f.init, f.body});
    f.init = nullptr;
    run_in_order(f);
    return Block::make(std::move(f));
  }

  Bounds bounds_;
  const Bounds facts_;
  const std::vector<Buffer> params_;
  const bool adds_under_masks_;
  std::vector<const For*> path_;  ///< loops between the enclosing block and here; null for a barrier
  std::vector<PendingInit> pending_;
};

}  // namespace

Func lower_reductions(const Func& func, const Device& device) {
  return with_body(func, ReductionLowerer(func, device).mutate(func->body));
}

}  // namespace lathe
