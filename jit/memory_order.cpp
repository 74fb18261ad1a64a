#include "jit/memory_order.h"

#include <algorithm>
#include <iterator>
#include <optional>
#include <unordered_set>
#include <utility>

#include "ir/analysis/remainders.h"
#include "ir/structural.h"
#include "ir/visitor.h"
#include "schedule/rewrite.h"

namespace lathe {
namespace {

/// What arguments say about the order of one buffer's dimensions.
struct Voice {
  enum Kind : std::uint8_t { silent, permuted, row_major } kind = silent;
  StrideClasses classes = 0;  ///< of permuted
};

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

/// Does the load move along each dimension of several elements as the store does, and along no other: at the same
/// index, or in a slice, a flip, a part of what is joined or padded?
bool moves_alike(const Load& load, const Store& store) {
  if (load.indices.size() != store.indices.size()) return false;
  for (size_t d = 0; d < store.indices.size(); ++d) {
    const std::vector<VarRef> used = used_vars(load.indices[d]);
    const bool other =
        std::any_of(used.begin(), used.end(), [&](const VarRef& v) { return store.indices[d] != Expr(v); });
    if (has_load(load.indices[d]) || other || (used.empty() && !is_int(store.buffer->shape[d], 1))) return false;
  }
  return true;
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

std::vector<const Load*> loads_of(const Block& block) {
  std::vector<const Load*> loads;
  for_each_expr(block.f.body, [&](const Expr& e) {
    if (const Load* load = e.as<Load>()) loads.push_back(load);
  });
  return loads;
}

/// Is the place a remainder, or one of several?
bool chooses_place(const Expr& place) {
  bool chooses = takes_apart(place);
  for_each_expr(place, [&](const Expr& e) { chooses |= e.as<Select>() != nullptr; });
  return chooses;
}

/// The order of the dimensions that `load` and `store` share, which must be all that `store` has; 0 where it is
/// row-major.
StrideClasses order_left(const Load& load, StrideClasses order, const Store& store) {
  std::vector<size_t> left, dimensions;
  for (const size_t d : permuted_dimensions(order, load.indices.size())) {
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

/// Hears what each store is computed from: the loads of its value, and of what Lets around it bind.
class StoreListener : public Visitor {
 public:
  using Visitor::visit;
  void visit(const Expr& e) override {
    if (seen_.insert(e.get()).second) Visitor::visit(e);
  }

 protected:
  virtual void hear(const Load& load, const Store& store) = 0;

  void visit_Store(const Store* store) override {
    seen_.clear();
    store_ = store;
    for (const Load* load : bound_) hear(*load, *store);
    visit(store->value);
    store_ = nullptr;
  }
  void visit_Let(const Let* let) override {
    const size_t before = bound_.size();
    if (before == 0) seen_.clear();
    binds_ = true;
    visit(let->value);
    binds_ = false;
    visit(let->body);
    bound_.resize(before);
  }
  void visit_Load(const Load* load) override {
    if (store_) {
      hear(*load, *store_);
    } else if (binds_) {
      bound_.push_back(load);
    }
    Visitor::visit_Load(load);
  }

 private:
  const Store* store_ = nullptr;
  bool binds_ = false;              ///< is the value of a Let visited?
  std::vector<const Load*> bound_;  ///< by Lets around
  std::unordered_set<const ExprNode*> seen_;
};

/// Are these images whose dimensions lie in their order but for the channels, which are neighbours?
bool has_channels_last(const Voice& voice, size_t rank) {
  constexpr size_t least_rank = 4;
  if (voice.kind != Voice::permuted || rank < least_rank) return false;
  std::vector<size_t> dimensions = permuted_dimensions(voice.classes, rank);
  return dimensions.back() == 1 && std::is_sorted(dimensions.begin(), dimensions.end() - 1);
}

/// Blocks come producers first, so that one walk knows every buffer before it is read.
class OrderFinder : public StoreListener {
 public:
  OrderFinder(const Func& traced, std::span<const StrideClasses> inputs) {
    const std::vector<Buffer> buffers = buffer_params(traced);
    for (size_t i = 0; i < inputs.size(); ++i) {
      const Voice voice = voice_of(inputs[i], buffers[i]->shape);
      turned |= voice.kind == Voice::permuted;
      voices[buffers[i].get()] = kept[buffers[i].get()] = voice;
    }
    if (turned) visit(traced->body);
  }
  bool turned = false;  ///< does an input lie in another order?
  std::unordered_map<const BufferNode*, Voice> voices;
  /// As buffers lie that nobody sees, or best would: what reductions and scans leave keeps the order of what they read.
  std::unordered_map<const BufferNode*, Voice> kept;

 protected:
  void visit_Block(const Block* block) override {
    if (!block->f.reducer) visit(block->f.body);
    const auto plain = [](const Iter& iter) { return iter.kind == IterKind::space; };
    if (!block->f.reducer && std::all_of(block->f.iters.begin(), block->f.iters.end(), plain)) return;
    for (const Region& region : block->f.writes) voices[region.buffer.get()] = {Voice::row_major};
    if (!block->f.reducer) return;
    keep_orders(*block);
    const Store* store = only_store(*block);
    if (!store) return;
    Voice voice;
    for (const Load* operand : WindowReader(*block, *store).operands())
      voice = agree(voice, voices[operand->buffer.get()], operand->buffer->shape);
    if (voice.kind == Voice::permuted) voices[store->buffer.get()] = kept[store->buffer.get()] = voice;
  }

  /// The order of the operand's dimensions that are left, of the first operand that has one.
  void keep_orders(const Block& block) {
    const std::vector<const Load*> loads = loads_of(block);
    for_each_stmt(block.f.body, [&](const Stmt& s) {
      const Store* store = s.as<Store>();
      if (!store) return;
      Voice& voice = kept[store->buffer.get()] = {Voice::row_major};
      if (store->buffer->rank() > max_permuted_rank) return;
      for (const Load* load : loads) {
        const auto found = kept.find(load->buffer.get());
        if (found == kept.end() || found->second.kind != Voice::permuted || load->buffer == store->buffer) continue;
        if (const StrideClasses left = order_left(*load, found->second.classes, *store))
          voice = {Voice::permuted, left};
        break;
      }
    });
  }

  /// The store of a reduction of one value.
  static const Store* only_store(const Block& block) {
    Stmt s = block.f.body;
    while (const Let* let = s.as<Let>()) s = let->body;
    return block.f.reducer ? s.as<Store>() : nullptr;
  }

  void visit_Store(const Store* store) override {
    voice_ = kept_ = {};
    StoreListener::visit_Store(store);
    voices[store->buffer.get()] = voice_;
    kept[store->buffer.get()] = kept_;
  }
  void hear(const Load& load, const Store& store) override {
    if (!moves_alike(load, store)) return;
    kept_ = agree(kept_, kept[load.buffer.get()], store.buffer->shape);
    // PyTorch lays what is joined, padded or rolled out by rows, but where channels lie last.
    const bool turns_back = std::any_of(load.indices.begin(), load.indices.end(), chooses_place);
    const Voice& voice = voices[load.buffer.get()];
    if ((!load.mask && !turns_back) || has_channels_last(voice, store.indices.size()))
      voice_ = agree(voice_, voice, store.buffer->shape);
  }

 private:
  Voice voice_, kept_;
};

/// Which temporaries element-wise operators read at the index at which they store, and how often each is read at all;
/// but for those that sums and scans leave, which keep the order of what they fold.
class SameIndexReads : public StoreListener {
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

 protected:
  void visit_Block(const Block* block) override {
    const bool before = std::exchange(reduces_, block->f.reducer.has_value());
    const bool leaf = !has_blocks(*block);
    if (leaf && folds_elements(*block)) {
      for (const Region& region : block->f.writes) temporaries_.erase(region.buffer.get());
    }
    std::unordered_set<const BufferNode*> own;
    for (const Region& region : block->f.reads) own.insert(region.buffer.get());
    for (const Region& region : block->f.writes) own.erase(region.buffer.get());
    for (const BufferNode* buffer : own) readers_[buffer] += leaf;
    Visitor::visit_Block(block);
    reduces_ = before;
  }
  void hear(const Load& load, const Store& store) override {
    if (!reduces_ && temporaries_.count(load.buffer.get()) && reads_same_index(load, store))
      reads.emplace_back(store.buffer.get(), load.buffer.get());
  }

 private:
  std::unordered_set<const BufferNode*> temporaries_;
  std::unordered_map<const BufferNode*, int> readers_;
  bool reduces_ = false;
};

}  // namespace

MemoryOrders memory_orders(const Func& traced, std::span<const StrideClasses> inputs, MemoryOrders* folded) {
  MemoryOrders orders;
  const OrderFinder finder(traced, inputs);
  if (!finder.turned) return orders;
  const std::vector<Buffer> buffers = buffer_params(traced);
  const auto take = [](const Buffer& buffer, const auto& voices, MemoryOrders* orders) {
    const auto found = voices.find(buffer.get());
    if (found != voices.end() && found->second.kind == Voice::permuted) (*orders)[buffer.get()] = found->second.classes;
  };
  for (size_t i = 0; i < buffers.size(); ++i) {
    if (i >= inputs.size() || is_permuted(inputs[i])) take(buffers[i], finder.voices, &orders);
    if (i >= inputs.size() && folded) take(buffers[i], finder.kept, folded);
  }
  for (const Buffer& buffer : allocations(traced)) take(buffer, finder.kept, &orders);
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

}  // namespace lathe
