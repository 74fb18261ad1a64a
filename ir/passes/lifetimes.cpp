#include "ir/passes/lifetimes.h"

#include <fmt/format.h>

#include "ir/analysis/simplify.h"
#include "ir/error.h"
#include "ir/passes/bounds_scope.h"
#include "ir/storage.h"
#include "ir/visitor.h"

namespace lathe {
namespace {

[[noreturn]] void refuse(int condition, const char* text, const std::string& what) {
  throw Refusal("plan_storage", condition,
                fmt::format("plan_storage refused: condition {}, {}: {}", condition, text, what));
}

/// The most bytes that `buffer` spans, strides counted.
std::int64_t bytes_of(const Buffer& buffer, const Bounds& bounds) {
  std::int64_t elements = 1, last = 0;
  for (size_t d = 0; d < buffer->shape.size(); ++d) {
    const std::optional<std::int64_t> most = bounds.interval(buffer->shape[d]).max;
    const std::optional<std::int64_t> stride = buffer->strides.empty() ? 0 : bounds.interval(buffer->strides[d]).max;
    if (!most || !stride) {
      refuse(1, "the size of each allocation has a constant bound",
             fmt::format("buffer {}; give its symbolic extents a maximum", buffer->name));
    }
    elements *= std::max<std::int64_t>(*most, 0);
    last += std::max<std::int64_t>(*most - 1, 0) * *stride;
  }
  // Padded rows reach further than their elements count.
  if (elements > 0 && !buffer->strides.empty()) elements = last + 1;
  return elements * buffer->dtype.bytes();
}

class Finder : public Visitor {
 public:
  Finder(const Func& func, const Device& device) : device_(device), bounds_(func) {}
  std::vector<Allocation> found;

 protected:
  void visit_Block(const Block* node) override {
    for (const Buffer& alloc : node->f.allocs) {
      if (alloc->space == space::registers || alloc->view_of) continue;
      of_[alloc.get()] = found.size();
      found.push_back({alloc, space_of(alloc), bytes_of(alloc, bounds_), -1, -1, loops_.size()});
    }
    Visitor::visit_Block(node);
  }

  void visit_For(const For* node) override {
    BoundsScope scope(bounds_);
    bounds_.bind(node->variable, Range{node->min, node->extent});
    const bool is_parallel = node->for_kind == ForKind::parallel, is_bound = node->for_kind == ForKind::bound;
    parallel_ += is_parallel;
    if (is_bound) axes_.push_back(node->thread_axis);
    repeated([&] { Visitor::visit_For(node); });
    if (is_bound) axes_.pop_back();
    parallel_ -= is_parallel;
  }

  void visit_While(const While* node) override {
    repeated([&] { Visitor::visit_While(node); });
  }

  void visit_buffer(const Buffer& buffer) override {
    const auto place = of_.find(storage_of(buffer));
    if (place == of_.end()) return;
    Allocation& a = found[place->second];
    if (a.first < 0) a.first = clock_;
    a.last = std::max(a.last, clock_);
    if (!touched_.empty() && (touched_.back().empty() || touched_.back().back() != place->second)) {
      touched_.back().push_back(place->second);
    }
  }

  void visit_Store(const Store* node) override {
    Visitor::visit_Store(node);
    ++clock_;
  }
  void visit_Let(const Let* node) override {
    visit(node->value);
    ++clock_;
    visit(node->body);
  }

 private:
  std::string space_of(const Buffer& alloc) const {
    const MemorySpace* described = device_.find_space(alloc->space);
    if (!described) {
      refuse(2, "each allocation lies in a space of the device",
             fmt::format("buffer {}: {}", alloc->name, unknown_name("space", alloc->space, device_.space_names())));
    }
    const std::string axis = axes_.empty() ? "" : axes_.back();
    const bool shared_in_parallel = parallel_ > 0 && !is_workspace(alloc->space);
    if (described->per != axis || shared_in_parallel) {
      refuse(3, "an allocation has a memory of its own in each iteration that has the allocation",
             fmt::format("buffer {} is allocated {}, and space {} exists {}", alloc->name,
                         shared_in_parallel ? "in a parallel loop"
                         : axis.empty()     ? "in no loop along an axis"
                                            : "in a loop along " + axis,
                         alloc->space, described->per.empty() ? "once" : "per " + described->per));
    }
    if (!is_workspace(alloc->space)) return alloc->space;
    return parallel_ > 0 ? space::worker : space::global;
  }

  /// What is used in a loop and allocated outside it is alive for the whole loop.
  template <class F>
  void repeated(F f) {
    loops_.push_back(++clock_);
    touched_.emplace_back();
    f();
    ++clock_;
    for (const size_t i : touched_.back()) {
      if (found[i].depth >= loops_.size()) continue;
      found[i].first = std::min(found[i].first, loops_.back());
      found[i].last = std::max(found[i].last, clock_);
      if (touched_.size() > 1) touched_[touched_.size() - 2].push_back(i);
    }
    touched_.pop_back();
    loops_.pop_back();
    ++clock_;
  }

  const Device& device_;
  Bounds bounds_;
  std::unordered_map<const BufferNode*, size_t> of_;
  std::vector<int> loops_;                    ///< when each loop around here began
  std::vector<std::vector<size_t>> touched_;  ///< allocations used in each loop around here
  std::vector<std::string> axes_;             ///< of the bound loops around here
  int parallel_ = 0;                          ///< parallel loops around here
  int clock_ = 0;
};

}  // namespace

bool is_workspace(const std::string& space) {
  return space == space::global || space == space::worker || space == space::constants;
}

std::vector<Allocation> find_lifetimes(const Func& func, const Device& device) {
  Finder finder(func, device);
  finder.visit(func->body);
  return std::move(finder.found);
}

}  // namespace lathe
