#include <algorithm>
#include <numeric>
#include <utility>

#include "ir/analysis/affine.h"
#include "ir/visitor.h"
#include "jit/memory_order.h"
#include "schedule/access.h"
#include "schedule/commutes.h"
#include "schedule/rewrite.h"

/// Funcs over arrays that are row-major, of arrays in another order.
namespace lathe {
namespace {

template <class T>
std::vector<T> in_order(const std::vector<T>& values, const std::vector<size_t>& order) {
  std::vector<T> result;
  result.reserve(values.size());
  for (const size_t i : order) result.push_back(values[i]);
  return result;
}

/// Where each iter stands among the indices of the first access that has it.
class IterPlaces : public Visitor {
 public:
  std::unordered_map<const Var*, size_t> places;

 protected:
  void visit_Store(const Store* store) override {
    note(store->indices);
    Visitor::visit_Store(store);
  }
  void visit_Load(const Load* load) override {
    note(load->indices);
    Visitor::visit_Load(load);
  }

 private:
  void note(const std::vector<Expr>& indices) {
    for (size_t d = 0; d < indices.size(); ++d) {
      if (const Var* variable = indices[d].as<Var>()) places.emplace(variable, d);
    }
  }
};

class Permuter : public Mutator {
 public:
  Permuter(const Func& func, const MemoryOrders& orders) {
    for (const auto& [buffer, classes] : orders) orders_[buffer] = permuted_dimensions(classes, buffer->rank());
    const auto add = [&](const Buffer& buffer) {
      const auto order = orders_.find(buffer.get());
      if (order == orders_.end()) return;
      made_[buffer.get()] = BufferNode::make(buffer->name, buffer->dtype, in_order(buffer->shape, order->second),
                                             buffer->space, {}, buffer->offset, buffer->alignment, buffer->view_of);
    };
    for (const Buffer& buffer : buffer_params(func)) add(buffer);
    for (const Buffer& buffer : allocations(func)) add(buffer);
  }

  Buffer mutate_buffer(const Buffer& buffer) override {
    const auto made = made_.find(buffer.get());
    return made == made_.end() ? buffer : made->second;
  }

 protected:
  Expr mutate_Load(const Expr& e, const Load* node) override {
    Expr inner = Mutator::mutate_Load(e, node);
    const auto order = orders_.find(node->buffer.get());
    if (order == orders_.end()) return inner;
    const Load& load = *inner.as<Load>();
    return in_two_pieces(load.buffer, in_order(load.indices, order->second), load.mask);
  }

  Stmt mutate_Store(const Stmt& s, const Store* node) override {
    Stmt inner = Mutator::mutate_Store(s, node);
    const auto order = orders_.find(node->buffer.get());
    if (order == orders_.end()) return inner;
    const Store& store = *inner.as<Store>();
    return Store::make(store.buffer, in_order(store.indices, order->second), store.value, store.mask);
  }

  Stmt mutate_Block(const Stmt& s, const Block* node) override {
    const Block* around = std::exchange(block_, node);
    const Stmt inner = Mutator::mutate_Block(s, node);
    block_ = around;
    Block::Fields fields = inner.as<Block>()->f;
    const auto permute = [&](std::vector<Region>* regions, const std::vector<Region>& old) {
      for (size_t i = 0; i < old.size(); ++i) {
        const auto order = orders_.find(old[i].buffer.get());
        if (order != orders_.end()) (*regions)[i].ranges = in_order((*regions)[i].ranges, order->second);
      }
    };
    permute(&fields.reads, node->f.reads);
    permute(&fields.writes, node->f.writes);
    const Stmt permuted = Block::make(std::move(fields));
    return has_blocks(*permuted.as<Block>()) || !std::exchange(in_pieces_, false)
               ? permuted
               : with_inferred_regions(*permuted.as<Block>());
  }

  /// The loops of a block, in the order in which what it writes lies, and those of a reduction in that of what it
  /// reads, unless its terms are to be folded in their own.
  Stmt mutate_For(const Stmt& s, const For*) override {
    std::vector<const For*> loops;
    Stmt innermost = s;
    for (const For* loop = s.as<For>(); loop; loop = innermost.as<For>()) {
      loops.push_back(loop);
      innermost = loop->body;
    }
    Stmt body = mutate(innermost);
    const Block* block = body.as<Block>();
    std::vector<size_t> order(loops.size());
    std::iota(order.begin(), order.end(), size_t{0});
    if (block && moves_its_iters(*block, loops)) {
      IterPlaces finder;
      finder.visit(block->f.body);
      const auto place_of = [&](size_t i) {
        const auto found = finder.places.find(block->f.iters[i].variable.get());
        return found == finder.places.end() ? loops.size() : found->second;
      };
      const bool keeps_order = block->f.reducer && !folds_in_any_order(*block->f.reducer);
      std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
        const auto is_reduced = [&](size_t i) { return block->f.iters[i].kind == IterKind::reduce; };
        if (is_reduced(a) != is_reduced(b)) return is_reduced(b);
        return !(keeps_order && is_reduced(a)) && place_of(a) < place_of(b);
      });
      Block::Fields fields = block->f;
      fields.iters = in_order(fields.iters, order);
      fields.bindings = in_order(fields.bindings, order);
      body = Block::make(std::move(fields));
    }
    for (size_t k = order.size(); k-- > 0;) {
      const For& loop = *loops[order[k]];
      body = For::make(loop.variable, loop.min, loop.extent, loop.for_kind, std::move(body), loop.annotations,
                       loop.thread_axis);
    }
    return body;
  }

 private:
  /// What is rolled along an axis of rows is read elsewhere row by row, at a remainder; along the last axis, which it
  /// may be now, rows are two whole pieces.
  Expr in_two_pieces(const Buffer& buffer, std::vector<Expr> indices, const Expr& mask) {
    const Binary* node = indices.empty() ? nullptr : indices.back().as<Binary>();
    const std::int64_t* extent = node && node->op == BinaryOp::floor_mod ? as_int(node->b) : nullptr;
    if (!extent || !is_int(buffer->shape.back(), *extent)) return Load::make(buffer, std::move(indices), mask);
    const Affine place = to_affine(node->a);
    const bool rolled = place.terms.size() == 1 && place.terms[0].coefficient == 1 && place.terms[0].atom.as<Var>() &&
                        0 < place.constant && place.constant < *extent && walks(place.terms[0].atom, *extent);
    if (!rolled) return Load::make(buffer, std::move(indices), mask);
    const Expr& iter = place.terms[0].atom;
    const Expr before = lt(iter, index(*extent - place.constant));
    std::vector<Expr> front = indices, back = std::move(indices);
    front.back() = iter + index(place.constant);
    back.back() = iter + index(place.constant - *extent);
    in_pieces_ = true;
    return select(before, Load::make(buffer, std::move(front), logical_and(mask, before)),
                  Load::make(buffer, std::move(back), logical_and(mask, logical_not(before))));
  }
  bool in_pieces_ = false;

  /// Is it an iter of the block over [0, extent), so that a place moved by less begins anew once?
  bool walks(const Expr& variable, std::int64_t extent) const {
    return block_ && std::any_of(block_->f.iters.begin(), block_->f.iters.end(), [&](const Iter& iter) {
             return Expr(iter.variable) == variable && is_int(iter.domain.min, 0) && is_int(iter.domain.extent, extent);
           });
  }
  const Block* block_ = nullptr;  ///< whose body it is in

  /// Iters each bound to the loop at its place, of which one at the most runs in order: what a trace makes.
  static bool moves_its_iters(const Block& block, const std::vector<const For*>& loops) {
    if (block.f.iters.size() != loops.size()) return false;
    int ordered = 0;
    for (size_t i = 0; i < loops.size(); ++i) {
      const IterKind kind = block.f.iters[i].kind;
      ordered += kind == IterKind::ordered;
      if (kind == IterKind::opaque || ordered > 1) return false;
      if (block.f.bindings[i].as<Var>() != loops[i]->variable.get()) return false;
    }
    return true;
  }

  std::unordered_map<const BufferNode*, std::vector<size_t>> orders_;
  BufferMap made_;
};

}  // namespace

Func in_memory_order(const Func& traced, const MemoryOrders& orders) {
  if (orders.empty()) return traced;
  Permuter permuter(traced, orders);
  std::vector<Param> params = traced->params;
  for (Param& param : params) {
    if (Buffer* buffer = std::get_if<Buffer>(&param)) *buffer = permuter.mutate_buffer(*buffer);
  }
  return FuncNode::make(traced->name, std::move(params), permuter.mutate(traced->body), traced->facts, traced->attrs,
                        traced->stage);
}

}  // namespace lathe
