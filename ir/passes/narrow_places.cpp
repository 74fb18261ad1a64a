#include "ir/passes/narrow_places.h"

#include <algorithm>
#include <unordered_map>

#include "ir/analysis/narrow.h"
#include "ir/passes/bounds_scope.h"
#include "ir/visitor.h"

namespace lathe {
namespace {

using Values = std::unordered_map<const Var*, Expr>;

/// Registers, or memory that only the kernel sees.
bool is_own(const Buffer& alloc) {
  return !alloc->view_of &&
         (alloc->space == space::registers || alloc->space == space::worker || alloc->space == space::global);
}

/// Finds the buffers that hold nothing but places of 32 bits.
class Finder : public Visitor {
 public:
  explicit Finder(const Func& func) : bounds_(func) {}
  BufferMap narrow;  ///< to what takes their place

 protected:
  void visit_For(const For* node) override {
    BoundsScope scope(bounds_);
    bounds_.bind(node->variable, Range{node->min, node->extent});
    Visitor::visit_For(node);
  }
  void visit_Let(const Let* node) override {
    values_[node->variable.get()] = node->value;
    BoundsScope scope(bounds_);
    if (node->value->dtype == i64) bounds_.bind_value(node->variable, node->value);
    Visitor::visit_Let(node);
  }
  void visit_Block(const Block* node) override {
    for (const Buffer& alloc : node->f.allocs) {
      if (!is_own(alloc) || !(alloc->dtype == i64)) continue;
      narrow[alloc.get()] = BufferNode::make(alloc->name, i32, alloc->shape, alloc->space, alloc->strides,
                                             alloc->offset, alloc->alignment);
    }
    for (const Buffer& alloc : node->f.allocs) {
      if (const std::optional<Region>& view = alloc->view_of) narrow.erase(view->buffer.get());
    }
    Visitor::visit_Block(node);
  }
  void visit_AddressOf(const AddressOf* node) override {
    narrow.erase(node->buffer.get());
    Visitor::visit_AddressOf(node);
  }
  void visit_Store(const Store* node) override {
    if (narrow.contains(node->buffer.get()) && !is_place(node->value, *node)) narrow.erase(node->buffer.get());
    Visitor::visit_Store(node);
  }

 private:
  bool is_place(const Expr& e, const Store& store) const {
    if (const Select* node = e.as<Select>())
      return is_place(node->when_true, store) && is_place(node->when_false, store);
    if (const Load* node = e.as<Load>()) return node->buffer == store.buffer;
    const auto found = e.as<Var>() ? values_.find(e.as<Var>()) : values_.end();
    return found == values_.end() ? fits_i32(e, bounds_) : is_place(found->second, store);
  }

  Bounds bounds_;
  Values values_;
};

class Narrower : public Mutator {
 public:
  Narrower(const Func& func, const BufferMap& narrow) : bounds_(func), narrow_(narrow) {}

 protected:
  Stmt mutate_For(const Stmt& s, const For* node) override {
    BoundsScope scope(bounds_);
    bounds_.bind(node->variable, Range{node->min, node->extent});
    return Mutator::mutate_For(s, node);
  }
  Stmt mutate_Block(const Stmt&, const Block* node) override {
    Block::Fields f = node->f;
    for (Buffer& alloc : f.allocs) {
      if (const auto found = narrow_.find(alloc.get()); found != narrow_.end()) alloc = found->second;
    }
    f.body = mutate(f.body);
    return Block::make(std::move(f));
  }
  /// What is loaded keeps its 32 bits in a variable of its own: by the time that it is stored the buffer may have
  /// changed.
  Stmt mutate_Let(const Stmt& s, const Let* node) override {
    const Load* load = node->value.as<Load>();
    if (!load || !narrow_.contains(load->buffer.get())) {
      values_[node->variable.get()] = node->value;
      BoundsScope scope(bounds_);
      if (node->value->dtype == i64) bounds_.bind_value(node->variable, node->value);
      return Mutator::mutate_Let(s, node);
    }
    const Expr value = narrow_load(*load);
    const VarRef narrow = Var::make(node->variable->name + "_narrow", value->dtype);
    narrow_variables_[node->variable.get()] = narrow;
    return Let::make(narrow, value, Let::make(node->variable, cast(node->variable->dtype, narrow), mutate(node->body)));
  }
  Expr mutate_Load(const Expr& e, const Load* node) override {
    if (!narrow_.contains(node->buffer.get())) return Mutator::mutate_Load(e, node);
    return cast(node->dtype, narrow_load(*node));
  }
  Stmt mutate_Store(const Stmt& s, const Store* node) override {
    const auto found = narrow_.find(node->buffer.get());
    if (found == narrow_.end()) return Mutator::mutate_Store(s, node);
    return Store::make(found->second, mutated(node->indices), narrowed(node->value), mutate(node->mask));
  }

 private:
  std::vector<Expr> mutated(const std::vector<Expr>& indices) {
    bool changed = false;
    return mutate_all(indices, &changed);
  }
  Expr narrow_load(const Load& load) {
    return Load::make(narrow_.at(load.buffer.get()), mutated(load.indices), mutate(load.mask));
  }
  Expr narrowed(const Expr& e) {
    if (const Select* node = e.as<Select>())
      return Select::make(mutate(node->condition), narrowed(node->when_true), narrowed(node->when_false));
    if (const Load* node = e.as<Load>()) return narrow_load(*node);
    if (const Var* node = e.as<Var>()) {
      if (const auto own = narrow_variables_.find(node); own != narrow_variables_.end()) return own->second;
      if (const auto known = values_.find(node); known != values_.end()) return narrowed(known->second);
    }
    return narrow_to_i32(mutate(e), bounds_);
  }

  Bounds bounds_;
  const BufferMap& narrow_;
  Values values_;
  std::unordered_map<const Var*, VarRef> narrow_variables_;
};

}  // namespace

Func narrow_places(const Func& func) {
  Finder finder(func);
  finder.visit(func->body);
  if (finder.narrow.empty()) return func;
  return with_body(func, Narrower(func, finder.narrow).mutate(func->body));
}

}  // namespace lathe
