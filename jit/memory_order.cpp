#include "jit/memory_order.h"

#include <algorithm>
#include <iterator>
#include <numeric>
#include <optional>
#include <unordered_set>
#include <utility>

#include "ir/structural.h"
#include "ir/visitor.h"

namespace lathe {
namespace {

/// What arguments say about the order of one buffer's dimensions.
struct Voice {
  enum Kind : std::uint8_t { silent, permuted, row_major } kind = silent;
  StrideClasses classes = 0;  ///< of permuted
};

/// The dimensions of a permuted array, the outermost first.
std::vector<size_t> dimensions_of(StrideClasses classes, size_t rank) {
  std::vector<size_t> dimensions;
  for (size_t k = rank; k-- > 0;) dimensions.push_back(permuted_dimension(classes, static_cast<int>(k)));
  return dimensions;
}

bool same_order(StrideClasses a, StrideClasses b, const std::vector<Expr>& shape) {
  const auto wide_dimensions = [&](StrideClasses classes) {
    std::vector<size_t> dimensions = dimensions_of(classes, shape.size());
    std::erase_if(dimensions, [&](size_t d) { return is_int(shape[d], 1); });
    return dimensions;
  };
  return a == b || wide_dimensions(a) == wide_dimensions(b);
}

Voice agree(const Voice& a, const Voice& b, const std::vector<Expr>& shape) {
  if (a.kind == Voice::silent) return b;
  if (b.kind == Voice::silent) return a;
  const bool same = a.kind == Voice::permuted && b.kind == Voice::permuted && same_order(a.classes, b.classes, shape);
  return same ? a : Voice{Voice::row_major};
}

StrideClasses classes_of(const std::vector<size_t>& dimensions) {
  StrideClasses classes = StrideClasses{1} << 63;
  for (size_t k = 0; k < dimensions.size(); ++k)
    classes |= static_cast<StrideClasses>(dimensions[dimensions.size() - 1 - k]) << (4 * k);
  return classes;
}

/// A slice of a transposed array is known by its dimension of neighbours; the others are taken to lie in their order.
/// Where the last dimension has neighbours too, as of windows that overlap, it stays the innermost.
Voice voice_of(StrideClasses classes, const std::vector<Expr>& shape) {
  if (is_permuted(classes)) return {Voice::permuted, classes};
  std::vector<size_t> order;
  std::optional<size_t> innermost;
  bool rows = false;
  for (size_t d = 0; d < shape.size(); ++d) {
    const StrideClass one = stride_class(classes, static_cast<int>(d));
    if (one == StrideClass::zero) return {};
    if (!is_int(shape[d], 1)) rows = one == StrideClass::dense && stride_step(classes) == 1;
    if (one == StrideClass::unit && !innermost) {
      innermost = d;
    } else {
      order.push_back(d);
    }
  }
  if (!innermost || rows || shape.size() > max_permuted_rank) return {Voice::row_major};
  order.push_back(*innermost);
  return {Voice::permuted, classes_of(order)};
}

/// Variables and numbers only: what an element-wise operator reads and writes at.
bool same_exprs(const std::vector<Expr>& a, const std::vector<Expr>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](const Expr& x, const Expr& y) {
    const std::int64_t *number = as_int(x), *other = as_int(y);
    return x == y || (number && other && *number == *other);
  });
}

bool reads_same_index(const Load& load, const Store& store) {
  return same_exprs(load.indices, store.indices) && same_exprs(load.buffer->shape, store.buffer->shape);
}

/// What a reduction's windows walk.
class WindowReader : public Visitor {
 public:
  WindowReader(const Block& block, const Store& store) : store_(store) {
    for (const Iter& iter : block.f.iters) {
      if (iter.kind == IterKind::reduce) steps_.push_back(iter.variable.get());
    }
    visit(block.f.body);
  }

  /// The operands that windows walk: tensors of the result's rank, each index of which moves along the result's
  /// dimension of its own place or along none, the last one along its own. Either windows slide along them alone, as in
  /// pooling, or there are two dimensions and more that nothing else moves along, as an image's beside filters.
  std::vector<const Load*> operands() const {
    std::vector<const Load*> walked;
    std::copy_if(loads_.begin(), loads_.end(), std::back_inserter(walked),
                 [&](const Load* load) { return is_walked(*load); });
    return walked;
  }

 protected:
  void visit_Load(const Load* load) override {
    if (load->buffer != store_.buffer) loads_.push_back(load);
    Visitor::visit_Load(load);
  }

 private:
  /// Products of fewer dimensions give row-major results, as PyTorch's do.
  static constexpr size_t least_rank = 4;

  bool moves_along(const Load& load, size_t index, size_t dimension) const {
    const Var* variable = store_.indices[dimension].as<Var>();
    return variable && uses_var(load.indices[index], variable);
  }
  bool uses(const Load& load, size_t dimension) const {
    for (size_t i = 0; i < load.indices.size(); ++i) {
      if (moves_along(load, i, dimension)) return true;
    }
    return false;
  }
  bool is_wide(size_t dimension) const { return !is_int(store_.buffer->shape[dimension], 1); }
  bool slides(const Load& load, size_t dimension) const {
    return std::any_of(steps_.begin(), steps_.end(),
                       [&](const Var* step) { return uses_var(load.indices[dimension], step); });
  }
  bool is_walked(const Load& load) const {
    const size_t rank = store_.indices.size();
    if (rank < least_rank || load.indices.size() != rank || !moves_along(load, rank - 1, rank - 1)) return false;
    size_t alone = 0;
    bool all = true, sliding = false, shares = false;
    for (size_t d = 0; d < rank; ++d) {
      for (size_t other = 0; other < rank; ++other) {
        if (other != d && moves_along(load, d, other)) return false;
      }
      if (!is_wide(d)) continue;
      const bool shared = std::any_of(loads_.begin(), loads_.end(), [&](const Load* any) {
        return any->buffer != load.buffer && !is_alike(*any, load) && uses(*any, d);
      });
      shares |= shared;
      all &= moves_along(load, d, d);
      sliding |= moves_along(load, d, d) && slides(load, d);
      alone += moves_along(load, d, d) && !shared;
    }
    return (all && sliding && !shares) || (alone >= 2 && (sliding || !all));
  }
  /// Do two loads move alike, as of factors whose windows are the same?
  bool is_alike(const Load& a, const Load& b) const {
    if (a.indices.size() != b.indices.size()) return false;
    for (size_t d = 0; d < a.indices.size(); ++d) {
      if (!equal(a.indices[d], b.indices[d])) return false;
    }
    return true;
  }

  const Store& store_;
  std::vector<const Var*> steps_;
  std::vector<const Load*> loads_;
};

/// Blocks come producers first, so that one walk knows every buffer before it is read.
class OrderFinder : public Visitor {
 public:
  std::unordered_map<const BufferNode*, Voice> voices;

  using Visitor::visit;
  void visit(const Expr& e) override {
    if (seen_.insert(e.get()).second) Visitor::visit(e);
  }

 protected:
  void visit_Block(const Block* block) override {
    const auto plain = [](const Iter& iter) { return iter.kind == IterKind::space; };
    if (!block->f.reducer && std::all_of(block->f.iters.begin(), block->f.iters.end(), plain)) {
      visit(block->f.body);
      return;
    }
    for (const Region& region : block->f.writes) voices[region.buffer.get()] = {Voice::row_major};
    const Store* store = only_store(*block);
    if (!store) return;
    Voice voice;
    for (const Load* operand : WindowReader(*block, *store).operands())
      voice = agree(voice, voices[operand->buffer.get()], operand->buffer->shape);
    if (voice.kind == Voice::permuted) voices[store->buffer.get()] = voice;
  }

  /// The store of a reduction of one value.
  static const Store* only_store(const Block& block) {
    Stmt s = block.f.body;
    while (const Let* let = s.as<Let>()) s = let->body;
    return block.f.reducer ? s.as<Store>() : nullptr;
  }

  void visit_Store(const Store* store) override {
    seen_.clear();
    voice_ = {};
    store_ = store;
    for (const Load* load : bound_) listen(*load);
    visit(store->value);
    voices[store->buffer.get()] = voice_;
    store_ = nullptr;
  }

  /// What a Let binds is part of the stores below it.
  void visit_Let(const Let* let) override {
    const size_t before = bound_.size();
    if (before == 0) seen_.clear();
    Visitor::visit_Let(let);
    bound_.resize(before);
  }

  void visit_Load(const Load* load) override {
    if (store_) {
      listen(*load);
    } else {
      bound_.push_back(load);
    }
    Visitor::visit_Load(load);
  }
  void visit_Assert(const Assert*) override {}

 private:
  void listen(const Load& load) {
    if (reads_same_index(load, *store_)) voice_ = agree(voice_, voices[load.buffer.get()], load.buffer->shape);
  }

  const Store* store_ = nullptr;
  std::vector<const Load*> bound_;
  Voice voice_;
  std::unordered_set<const ExprNode*> seen_;
};

/// Orders of what reductions leave in memory for later blocks: that of the operand's dimensions that are left.
class ReductionOrders : public Visitor {
 public:
  ReductionOrders(const Func& func, MemoryOrders* orders) : orders_(orders) {
    for (const Buffer& buffer : allocations(func)) temporaries_.insert(buffer.get());
  }

  using Visitor::visit;
  void visit(const Expr& e) override {
    if (seen_.insert(e.get()).second) Visitor::visit(e);
  }

 protected:
  void visit_Block(const Block* block) override {
    loads_.clear();
    stores_.clear();
    seen_.clear();
    visit(block->f.body);
    if (!block->f.reducer) return;
    for (const Store* store : stores_) {
      const BufferNode* buffer = store->buffer.get();
      if (!temporaries_.count(buffer) || buffer->rank() > max_permuted_rank) continue;
      for (const Load* load : loads_) {
        const auto order = orders_->find(load->buffer.get());
        if (order == orders_->end() || load->buffer.get() == buffer) continue;
        if (const StrideClasses left = order_left(*load, order->second, *store)) orders_->emplace(buffer, left);
        break;
      }
    }
  }
  void visit_Store(const Store* store) override {
    stores_.push_back(store);
    Visitor::visit_Store(store);
  }
  void visit_Load(const Load* load) override {
    loads_.push_back(load);
    Visitor::visit_Load(load);
  }

 private:
  /// The order of the dimensions that `load` and `store` share, which must be all that `store` has; 0 where it is
  /// row-major.
  static StrideClasses order_left(const Load& load, StrideClasses order, const Store& store) {
    std::vector<size_t> left, dimensions;
    for (const size_t d : dimensions_of(order, load.indices.size())) {
      const auto found = std::find(store.indices.begin(), store.indices.end(), load.indices[d]);
      if (load.indices[d].as<Var>() && found != store.indices.end()) left.push_back(found - store.indices.begin());
    }
    if (std::is_sorted(left.begin(), left.end())) return 0;
    for (size_t d = 0; d < store.indices.size(); ++d) {
      const auto times = std::count(left.begin(), left.end(), d);
      if (times > 1 || (times == 0 && !is_int(store.buffer->shape[d], 1))) return 0;
      if (times == 0) dimensions.push_back(d);
    }
    dimensions.insert(dimensions.end(), left.begin(), left.end());
    return classes_of(dimensions);
  }

  MemoryOrders* orders_;
  std::unordered_set<const BufferNode*> temporaries_;
  std::vector<const Store*> stores_;
  std::vector<const Load*> loads_;
  std::unordered_set<const ExprNode*> seen_;
};

/// Which temporaries element-wise operators read at the index at which they store, and how often each is read at all.
class SameIndexReads : public Visitor {
 public:
  explicit SameIndexReads(const Func& func) {
    for (const Buffer& buffer : allocations(func)) temporaries_.insert(buffer.get());
    visit(func->body);
  }
  /// The buffer that is stored, and the temporary, in the order of the program.
  std::vector<std::pair<const BufferNode*, const BufferNode*>> reads;
  bool read_once(const BufferNode* buffer) const {
    const auto found = readers_.find(buffer);
    return found != readers_.end() && found->second == 1;
  }

  using Visitor::visit;
  void visit(const Expr& e) override {
    if (seen_.insert(e.get()).second) Visitor::visit(e);
  }

 protected:
  void visit_Block(const Block* block) override {
    const bool before = std::exchange(reduces_, block->f.reducer.has_value());
    std::unordered_set<const BufferNode*> own;
    for (const Region& region : block->f.reads) own.insert(region.buffer.get());
    for (const Region& region : block->f.writes) own.erase(region.buffer.get());
    for (const BufferNode* buffer : own) readers_[buffer] += is_leaf(*block);
    Visitor::visit_Block(block);
    reduces_ = before;
  }
  void visit_Store(const Store* store) override {
    seen_.clear();
    store_ = store;
    Visitor::visit_Store(store);
    store_ = nullptr;
  }
  void visit_Load(const Load* load) override {
    if (store_ && !reduces_ && temporaries_.count(load->buffer.get()) && same_exprs(load->indices, store_->indices) &&
        same_exprs(load->buffer->shape, store_->buffer->shape))
      reads.emplace_back(store_->buffer.get(), load->buffer.get());
    Visitor::visit_Load(load);
  }

 private:
  void note(const Load& load) {
    if (!reduces_ && temporaries_.count(load.buffer.get()) && reads_same_index(load, *store_))
      reads.emplace_back(store_->buffer.get(), load.buffer.get());
  }

  static bool is_leaf(const Block& block) {
    bool leaf = true;
    for_each_stmt(block.f.body, [&](const Stmt& s) { leaf &= s->kind != StmtKind::Block; });
    return leaf;
  }

  std::unordered_set<const BufferNode*> temporaries_;
  std::unordered_map<const BufferNode*, int> readers_;
  std::vector<const Load*> bound_;  ///< by Lets around
  std::unordered_set<const ExprNode*> seen_;
  const Store* store_ = nullptr;
  bool reduces_ = false;
};

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
    for (const auto& [buffer, classes] : orders) orders_[buffer] = dimensions_of(classes, buffer->rank());
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
    return Load::make(load.buffer, in_order(load.indices, order->second), load.mask);
  }

  Stmt mutate_Store(const Stmt& s, const Store* node) override {
    Stmt inner = Mutator::mutate_Store(s, node);
    const auto order = orders_.find(node->buffer.get());
    if (order == orders_.end()) return inner;
    const Store& store = *inner.as<Store>();
    return Store::make(store.buffer, in_order(store.indices, order->second), store.value, store.mask);
  }

  Stmt mutate_Block(const Stmt& s, const Block* node) override {
    const Stmt inner = Mutator::mutate_Block(s, node);
    Block::Fields fields = inner.as<Block>()->f;
    const auto permute = [&](std::vector<Region>* regions, const std::vector<Region>& old) {
      for (size_t i = 0; i < old.size(); ++i) {
        const auto order = orders_.find(old[i].buffer.get());
        if (order != orders_.end()) (*regions)[i].ranges = in_order((*regions)[i].ranges, order->second);
      }
    };
    permute(&fields.reads, node->f.reads);
    permute(&fields.writes, node->f.writes);
    return Block::make(std::move(fields));
  }

  /// The loops of a block, in the order in which what it writes lies, and those of a reduction in that of what it
  /// reads.
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
      std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
        const IterKind kind = block->f.iters[a].kind, other = block->f.iters[b].kind;
        return kind == other ? place_of(a) < place_of(b) : kind < other;
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
  /// Space and reduce iters, each bound to the loop at its place: what a trace makes of everything but scans.
  static bool moves_its_iters(const Block& block, const std::vector<const For*>& loops) {
    if (block.f.iters.size() != loops.size()) return false;
    for (size_t i = 0; i < loops.size(); ++i) {
      const IterKind kind = block.f.iters[i].kind;
      if (kind != IterKind::space && kind != IterKind::reduce) return false;
      if (block.f.bindings[i].as<Var>() != loops[i]->variable.get()) return false;
    }
    return true;
  }

  std::unordered_map<const BufferNode*, std::vector<size_t>> orders_;
  BufferMap made_;
};

}  // namespace

MemoryOrders memory_orders(const Func& traced, std::span<const StrideClasses> inputs) {
  MemoryOrders orders;
  const std::vector<Buffer> buffers = buffer_params(traced);
  OrderFinder finder;
  bool turned = false;
  for (size_t i = 0; i < inputs.size(); ++i) {
    const Voice voice = voice_of(inputs[i], buffers[i]->shape);
    turned |= voice.kind == Voice::permuted;
    finder.voices[buffers[i].get()] = voice;
  }
  if (!turned) return orders;
  finder.visit(traced->body);
  for (const auto& [buffer, voice] : finder.voices) {
    if (voice.kind == Voice::permuted) orders[buffer] = voice.classes;
  }
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (!is_permuted(inputs[i])) orders.erase(buffers[i].get());
  }
  ReductionOrders(traced, &orders).visit(traced->body);
  return orders;
}

void follow_outputs(const Func& traced, MemoryOrders* orders) {
  const SameIndexReads found(traced);
  for (size_t i = found.reads.size(); i-- > 0;) {
    const auto& [stored, temporary] = found.reads[i];
    if (!found.read_once(temporary)) continue;
    if (const auto order = orders->find(stored); order != orders->end()) {
      (*orders)[temporary] = order->second;
    } else {
      orders->erase(temporary);
    }
  }
}

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
