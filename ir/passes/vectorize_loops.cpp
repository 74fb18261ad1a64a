#include "ir/passes/vectorize_loops.h"

#include <optional>

#include "ir/analysis/affine.h"
#include "ir/analysis/simplify.h"
#include "ir/buffer.h"
#include "ir/conjuncts.h"
#include "ir/passes/bounds_scope.h"
#include "ir/passes/vectorizer.h"
#include "ir/storage.h"
#include "ir/visitor.h"

namespace lathe {
namespace {

bool has_vectors(const Stmt& s) {
  bool found = false;
  for_each_stmt(s, [&](const Stmt& below) {
    const For* loop = below.as<For>();
    found |= loop && loop->for_kind == ForKind::vectorized;
  });
  for_each_expr(s, [&](const Expr& e) { found |= !e->dtype.is_scalar(); });
  return found;
}

/// Does the condition leave the first iteration of the loop alone?
bool leaves_first(const Expr& condition, const For& loop) {
  const Binary* node = condition.as<Binary>();
  return node && node->op == BinaryOp::lt && node->a == Expr(loop.variable) && is_int(node->b, 1) &&
         is_int(loop.min, 0);
}

/// What a loop does of which only the first iteration does anything; null for another one.
Stmt only_first(const For& loop) {
  const If* node = loop.body.as<If>();
  if (!node || node->else_case) return nullptr;
  std::vector<Expr> others = conjuncts_of(node->condition);
  if (std::erase_if(others, [&](const Expr& part) { return leaves_first(part, loop); }) == 0) return nullptr;
  const Expr rest = conjunction(others);
  return substitute(rest ? If::make(rest, node->then_case) : node->then_case, {{loop.variable.get(), index(0)}});
}

/// Vectors of registers from which on each update of one lane weighs: it takes three instructions then, and all are
/// made one after the other. Of fewer the scalars are quicker, which are not read anew after they were written alone
/// (measured on Zen 4: tiles of 5 x 4 dot products over 17 elements 0.2 of the time in vectors, 1 x 8 1.3, softmax over
/// rows of 17 1.7). So they are of integers, whose masks stay (1 to 3 rows of 65 bytes by 128 1.2).
constexpr std::int64_t many_vectors = 12;

/// Finds the register buffers of many vectors of floats that loops write, besides constants to begin with.
class VectorRegisters : public Visitor {
 public:
  explicit VectorRegisters(const Stmt& body) { visit(body); }
  bool written_by(const For& loop) const {
    bool found = false;
    for_each_stmt(loop.body, [&](const Stmt& s) {
      const Store* store = s.as<Store>();
      found |= store && buffers_.contains(store->buffer.get());
    });
    return found;
  }

 protected:
  void visit_For(const For* node) override {
    if (node->for_kind != ForKind::vectorized) return Visitor::visit_For(node);
    const std::int64_t* lanes = as_int(node->extent);
    if (!lanes || only_first(*node)) return;
    for_each_stmt(node->body, [&](const Stmt& s) {
      const Store* store = s.as<Store>();
      if (!store || store->buffer->space != space::registers || !store->buffer->dtype.is_float() ||
          store->value.as<FloatImm>())
        return;
      if (constant_elements(store->buffer).value_or(0) >= many_vectors * *lanes) buffers_.insert(store->buffer.get());
    });
  }

 private:
  std::unordered_set<const BufferNode*> buffers_;
};

/// A loop over the lanes that a condition leaves, in the place of vectors under a mask; null where none hangs on them.
Stmt lane_by_lane(const For& loop) {
  const If* node = loop.body.as<If>();
  if (!node || node->else_case || !uses_var(node->condition, loop.variable.get())) return nullptr;
  const Binary* condition = node->condition.as<Binary>();
  if (condition && condition->op == BinaryOp::lt && condition->a->dtype == i64 && is_int(loop.min, 0)) {
    Affine left = to_affine(condition->b);
    const bool fits = add_scaled(left, to_affine(condition->a), -1) && left.coefficient(loop.variable) == -1 &&
                      add_term(left, loop.variable, 1);
    const Expr count = fits ? to_expr(left) : nullptr;
    if (count && !uses_var(count, loop.variable.get()))
      return For::make(loop.variable, loop.min, max(min(count, loop.extent), index(0)), ForKind::serial,
                       node->then_case);
  }
  return For::make(loop.variable, loop.min, loop.extent, ForKind::serial, loop.body);
}

/// The storage that iterations of a loop share and one of them writes.
std::unordered_set<const BufferNode*> shared_writes(const For& loop) {
  std::unordered_set<const BufferNode*> written;
  std::vector<Buffer> own;
  for_each_stmt(loop.body, [&](const Stmt& s) {
    if (const Store* store = s.as<Store>()) written.insert(storage_of(store->buffer));
    if (const Block* block = s.as<Block>()) own.insert(own.end(), block->f.allocs.begin(), block->f.allocs.end());
  });
  for (const Buffer& buffer : own) written.erase(buffer.get());
  return written;
}

class LoopVectorizer : public Mutator {
 public:
  explicit LoopVectorizer(const Func& func) : body_(func->body), bounds_(func) {}
  bool changed = false;

 protected:
  Stmt mutate_For(const Stmt& s, const For* node) override {
    BoundsScope scope(bounds_);
    if (node->for_kind != ForKind::vectorized) {
      bounds_.bind(node->variable, Range{node->min, node->extent});
      const bool at_once = node->for_kind == ForKind::parallel || node->for_kind == ForKind::bound;
      if (!at_once) return Mutator::mutate_For(s, node);
      const auto around = contended_;
      contended_.merge(shared_writes(*node));
      const Stmt result = Mutator::mutate_For(s, node);
      contended_ = around;
      return result;
    }
    changed = true;
    Expr extent = simplify(node->extent, bounds_);
    const std::int64_t* lanes = as_int(extent);
    if (node->annotations.contains(unmasked_key)) {
      if (const Stmt rest = lane_by_lane(*node)) return mutate(rest);
    }
    // The edge of a tile that one element is left for: lanes that all name it would run one after another. Not of
    // registers that hold many vectors: to put a lane into each takes longer than to compute under a mask.
    const Stmt first = lanes && *lanes >= 1 ? only_first(*node) : nullptr;
    if (first && !writes_vectors(*node)) return mutate(first);
    if (lanes && *lanes >= 2 && *lanes <= max_lanes && !has_vectors(node->body)) {
      if (Stmt vector = vectorize(*node, static_cast<int>(*lanes), bounds_, contended_)) return vector;
    }
    bounds_.bind(node->variable, Range{node->min, node->extent});
    return For::make(node->variable, node->min, node->extent, ForKind::serial, mutate(node->body), node->annotations);
  }

  Stmt mutate_If(const Stmt& s, const If* node) override {
    Stmt then_case;
    {
      BoundsScope scope(bounds_);
      bounds_.assume(node->condition);
      then_case = mutate(node->then_case);
    }
    Stmt else_case = mutate(node->else_case);
    if (then_case == node->then_case && else_case == node->else_case) return s;
    return If::make(node->condition, std::move(then_case), std::move(else_case));
  }

 private:
  bool writes_vectors(const For& loop) {
    if (!registers_) registers_.emplace(body_);
    return registers_->written_by(loop);
  }

  static constexpr std::int64_t max_lanes = 1024;
  const Stmt body_;
  Bounds bounds_;
  std::optional<VectorRegisters> registers_;         ///< found when the first loop asks
  std::unordered_set<const BufferNode*> contended_;  ///< by the parallel loop around
};

}  // namespace

Func vectorize_loops(const Func& func) {
  LoopVectorizer vectorizer(func);
  Stmt body = vectorizer.mutate(func->body);
  if (!vectorizer.changed) return func;
  return with_body(func, simplify(body, Bounds(func)));
}

}  // namespace lathe
