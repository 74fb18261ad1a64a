#include "ir/passes/plan_storage.h"

#include <algorithm>

#include "ir/analysis/simplify.h"
#include "ir/error.h"
#include "ir/passes/bounds_scope.h"
#include "ir/visitor.h"

namespace lathe {
namespace {

constexpr std::int64_t workspace_alignment = 64;  // a cache line, and the widest vector

struct Allocation {
  Buffer buffer;
  bool worker = false;
  std::int64_t bytes = 0;
  int first = -1, last = -1;  ///< statements, counted in program order, between which it is alive
  std::int64_t offset = 0;
};

/// Finds the allocations, their sizes, and when they are alive.
class Liveness : public Visitor {
 public:
  explicit Liveness(const Func& func) : bounds_(func) {}
  std::vector<Allocation> allocations;

 protected:
  void visit_Block(const Block* node) override {
    for (const Buffer& alloc : node->f.allocs) {
      if (alloc->space == space::registers) continue;
      of_[alloc.get()] = allocations.size();
      allocations.push_back({alloc, in_parallel_, bytes_of(alloc)});
      depth_.push_back(loops_.size());
    }
    Visitor::visit_Block(node);
  }

  void visit_For(const For* node) override {
    BoundsScope scope(bounds_);
    bounds_.bind(node->variable, Range{node->min, node->extent});
    bool saved = in_parallel_;
    in_parallel_ |= node->for_kind == ForKind::parallel;
    repeated([&] { Visitor::visit_For(node); });
    in_parallel_ = saved;
  }

  void visit_While(const While* node) override {
    repeated([&] { Visitor::visit_While(node); });
  }

  void visit_Store(const Store* node) override {
    Visitor::visit_Store(node);
    touch(node->buffer);
    ++clock_;
  }
  void visit_Load(const Load* node) override {
    Visitor::visit_Load(node);
    touch(node->buffer);
  }
  void visit_AddressOf(const AddressOf* node) override {
    Visitor::visit_AddressOf(node);
    touch(node->buffer);
  }
  void visit_Let(const Let* node) override {
    visit(node->value);
    ++clock_;
    visit(node->body);
  }

 private:
  /// What is used in a loop and allocated outside it is alive for the whole loop.
  template <class F>
  void repeated(F f) {
    loops_.push_back(++clock_);
    touched_.emplace_back();
    f();
    ++clock_;
    for (size_t i : touched_.back()) {
      if (depth_[i] >= loops_.size()) continue;
      allocations[i].first = std::min(allocations[i].first, loops_.back());
      allocations[i].last = std::max(allocations[i].last, clock_);
      if (touched_.size() > 1) touched_[touched_.size() - 2].push_back(i);
    }
    touched_.pop_back();
    loops_.pop_back();
    ++clock_;
  }

  void touch(Buffer buffer) {
    while (buffer->view_of) buffer = buffer->view_of->buffer;
    auto found = of_.find(buffer.get());
    if (found == of_.end()) return;
    Allocation& a = allocations[found->second];
    if (a.first < 0) a.first = clock_;
    a.last = std::max(a.last, clock_);
    if (!touched_.empty() && (touched_.back().empty() || touched_.back().back() != found->second)) {
      touched_.back().push_back(found->second);
    }
  }

  std::int64_t bytes_of(const Buffer& buffer) {
    std::int64_t elements = 1, last = 0;
    for (size_t d = 0; d < buffer->shape.size(); ++d) {
      std::optional<std::int64_t> most = bounds_.interval(buffer->shape[d]).max;
      std::optional<std::int64_t> stride = buffer->strides.empty() ? 0 : bounds_.interval(buffer->strides[d]).max;
      if (!most || !stride) {
        throw Refusal("plan_storage", 1,
                      "plan_storage refused: condition 1, the size of each allocation has a constant bound: buffer " +
                          buffer->name + "; give its symbolic extents a maximum");
      }
      elements *= std::max<std::int64_t>(*most, 0);
      last += std::max<std::int64_t>(*most - 1, 0) * *stride;
    }
    // Padded rows reach further than their elements count.
    if (elements > 0 && !buffer->strides.empty()) elements = last + 1;
    return elements * buffer->dtype.bytes();
  }

  Bounds bounds_;
  std::unordered_map<const BufferNode*, size_t> of_;
  std::vector<size_t> depth_;                 ///< loops around each allocation
  std::vector<int> loops_;                    ///< when each loop around here began
  std::vector<std::vector<size_t>> touched_;  ///< allocations used in each loop around here
  bool in_parallel_ = false;
  int clock_ = 0;
};

/// First fit, the largest first: each goes to the lowest place that nothing alive with it holds. Returns the total.
std::int64_t lay_out(std::vector<Allocation*> all) {
  std::stable_sort(all.begin(), all.end(),
                   [](const Allocation* a, const Allocation* b) { return a->bytes > b->bytes; });
  std::vector<Allocation*> placed;
  std::int64_t total = 0;
  for (Allocation* a : all) {
    std::int64_t offset = 0;
    for (const Allocation* other : placed) {  // sorted by offset
      bool together = a->first <= other->last && other->first <= a->last;
      if (together && offset < other->offset + other->bytes && other->offset < offset + a->bytes) {
        offset = other->offset + other->bytes;
      }
    }
    a->offset = offset;
    a->bytes = (a->bytes + workspace_alignment - 1) / workspace_alignment * workspace_alignment;
    total = std::max(total, offset + a->bytes);
    placed.insert(std::upper_bound(placed.begin(), placed.end(), a,
                                   [](const Allocation* x, const Allocation* y) { return x->offset < y->offset; }),
                  a);
  }
  return total;
}

class Planner : public Mutator {
 public:
  explicit Planner(const BufferMap& planned) : planned_(planned) {}

 protected:
  Buffer mutate_buffer(const Buffer& buffer) override {
    if (auto found = planned_.find(buffer.get()); found != planned_.end()) return found->second;
    if (!buffer->view_of) return buffer;
    auto [place, is_new] = views_.try_emplace(buffer.get(), buffer);
    if (is_new) {
      Region region = *buffer->view_of;
      Buffer viewed = mutate_buffer(region.buffer);
      if (viewed != region.buffer) {
        region.buffer = viewed;
        place->second = BufferNode::make(buffer->name, buffer->dtype, buffer->shape, viewed->space, buffer->strides,
                                         buffer->offset, buffer->alignment, region);
      }
    }
    return place->second;
  }

  Stmt mutate_Block(const Stmt& s, const Block* node) override {
    Block::Fields f = node->f;
    std::erase_if(f.allocs, [&](const Buffer& alloc) { return planned_.count(alloc.get()) != 0; });
    f.body = mutate(f.body);
    bool bare = f.allocs.empty() && f.iters.empty() && !f.predicate && !f.init;
    return bare ? f.body : Block::make(std::move(f));
  }

 private:
  const BufferMap& planned_;
  BufferMap views_;
};

}  // namespace

Func plan_storage(const Func& func) {
  Liveness liveness(func);
  liveness.visit(func->body);
  std::vector<Allocation*> shared, worker;
  for (Allocation& a : liveness.allocations) {
    if (a.first >= 0) (a.worker ? worker : shared).push_back(&a);
  }
  std::int64_t shared_bytes = lay_out(shared), worker_bytes = lay_out(worker);
  BufferMap planned;
  for (const Allocation& a : liveness.allocations) {
    const Buffer& b = a.buffer;
    planned[b.get()] =
        BufferNode::make(b->name, b->dtype, b->shape, a.worker ? space::worker : space::global, b->strides,
                         index(a.offset / b->dtype.bytes()), static_cast<int>(workspace_alignment));
  }
  Annotations attrs = func->attrs;
  attrs["shared_bytes"] = shared_bytes;
  attrs["worker_bytes"] = worker_bytes;
  Stmt body = Planner(planned).mutate(func->body);
  return FuncNode::make(func->name, func->params, std::move(body), func->facts, std::move(attrs), func->stage);
}

}  // namespace lathe
