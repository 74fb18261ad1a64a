#include "ir/passes/unmask_registers.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <unordered_map>
#include <unordered_set>

#include "ir/buffer.h"
#include "ir/conjuncts.h"
#include "ir/passes/harmless_loads.h"
#include "ir/structural.h"
#include "ir/visitor.h"

namespace lathe {
namespace {

/// What is known of a register buffer's slots.
struct Registers {
  size_t depth = 0;       ///< variables in scope where it is allocated
  std::int64_t size = 0;  ///< elements; a vector that reaches over the end keeps its mask
  bool opaque = false;
  struct Use {
    std::vector<Expr> asked;  ///< what any masked store asks for
    std::vector<Expr> loads;  ///< the masks of loads
    bool kept = false;        ///< a load without a mask, or a store's mask that changes while the buffer lives
  };
  std::map<Slot, Use> slots;
  std::set<Slot> whole;  ///< slots that a plain store of the allocating block's own writes

  static bool among(const Expr& asked, const std::vector<Expr>& given) {
    return std::any_of(given.begin(), given.end(), [&](const Expr& e) { return equal(asked, e); });
  }
  /// Is each lane that any load takes one that every store writes?
  bool read_within_stores(const Slot& slot) const {
    const auto found = slots.find(slot);
    if (opaque || found == slots.end() || found->second.kept || slot.end > size) return false;
    const std::vector<Expr>& asked = found->second.asked;
    for (const Expr& load : found->second.loads) {
      const std::vector<Expr> given = conjuncts_of(load);
      if (!std::all_of(asked.begin(), asked.end(), [&](const Expr& e) { return among(e, given); })) return false;
    }
    const auto next = std::next(found);
    if (next != slots.end() && next->first.begin < slot.end) return false;
    return std::all_of(slots.begin(), found, [&](const auto& before) { return before.first.end <= slot.begin; });
  }
};

class Collector : public Visitor {
 public:
  std::unordered_map<const BufferNode*, Registers> found;
  std::unordered_set<const Load*> behind_whole_store;
  std::unordered_set<const void*>
      holders;  ///< statements and values of Lets with a masked load from a register in them

  using Visitor::visit;
  void visit(const Stmt& s) override {
    around_.push_back(s.get());
    Visitor::visit(s);
    around_.pop_back();
  }

 protected:
  void visit_Block(const Block* node) override {
    for (const Buffer& buffer : node->f.allocs) {
      if (!is_register(buffer)) continue;
      Registers& registers = found[buffer.get()];
      registers.depth = scope_.size();
      registers.size = constant_elements(buffer).value_or(0);
    }
    const size_t nested = nested_;
    nested_ = 0;
    allocating_.push_back(node);
    visit(node->f.body);
    allocating_.pop_back();
    nested_ = nested;
  }
  void visit_For(const For* node) override {
    scope_[node->variable.get()] = scope_.size();
    ++nested_;
    Visitor::visit_For(node);
    --nested_;
  }
  void visit_If(const If* node) override {
    ++nested_;
    Visitor::visit_If(node);
    --nested_;
  }
  void visit_While(const While* node) override {
    ++nested_;
    Visitor::visit_While(node);
    --nested_;
  }
  void visit_Let(const Let* node) override {
    scope_[node->variable.get()] = scope_.size();
    masks_.bind(node);
    around_.push_back(node->value.get());
    visit(node->value);
    around_.pop_back();
    visit(node->body);
  }
  void visit_Load(const Load* node) override {
    if (node->mask && is_register(node->buffer)) holders.insert(around_.begin(), around_.end());
    if (Registers* registers = touch(node->buffer, node->indices, node->mask, false)) {
      const std::optional<Slot> slot = slot_of(node->indices);
      if (slot && registers->whole.contains(*slot)) behind_whole_store.insert(node);
    }
    Visitor::visit_Load(node);
  }
  void visit_Store(const Store* node) override {
    Visitor::visit_Store(node);
    Registers* registers = touch(node->buffer, node->indices, node->mask, true);
    const std::optional<Slot> slot = slot_of(node->indices);
    if (!registers || !slot || node->mask || nested_ > 0 || allocating_.empty()) return;
    for (const Buffer& buffer : allocating_.back()->f.allocs) {
      if (buffer == node->buffer) registers->whole.insert(*slot);
    }
  }
  void visit_AddressOf(const AddressOf* node) override {
    if (is_register(node->buffer)) found[node->buffer.get()].opaque = true;
    Visitor::visit_AddressOf(node);
  }

 private:
  Registers* touch(const Buffer& buffer, const std::vector<Expr>& indices, const Expr& mask, bool stored) {
    if (!is_register(buffer)) return nullptr;
    Registers& registers = found[buffer.get()];
    const std::optional<Slot> slot = slot_of(indices);
    if (!slot) {
      registers.opaque = true;
      return nullptr;
    }
    const Expr resolved = masks_.resolve(mask);
    Registers::Use& use = registers.slots[*slot];
    if (!stored) {
      use.kept |= !resolved;
      if (resolved && !Registers::among(resolved, use.loads)) use.loads.push_back(resolved);
    } else if (resolved) {
      use.kept |= !is_fixed(resolved, registers.depth);
      for (const Expr& part : conjuncts_of(resolved)) {
        if (!Registers::among(part, use.asked)) use.asked.push_back(part);
      }
    }
    return &registers;
  }

  /// Does the mask stay the same while a buffer lives that was allocated with `depth` variables in scope?
  bool is_fixed(const Expr& mask, size_t depth) const {
    bool fixed = !reads_memory(mask);
    for_each_expr(mask, [&](const Expr& e) {
      const auto place = e.as<Var>() ? scope_.find(e.as<Var>()) : scope_.end();
      if (place != scope_.end() && place->second >= depth) fixed = false;
    });
    return fixed;
  }

  Masks masks_;
  std::unordered_map<const Var*, size_t> scope_;  ///< each variable's number in order of binding
  std::vector<const Block*> allocating_;
  std::vector<const void*> around_;  ///< the statements, and the value of a Let, that are being visited
  size_t nested_ = 0;                ///< loops and branches between the innermost block and here
};

class Unmasker : public Mutator {
 public:
  Unmasker(const Collector& collected, const HarmlessLoads& harmless) : collected_(collected), harmless_(harmless) {}

 protected:
  Expr mutate_Load(const Expr& e, const Load* node) override {
    if (!node->mask || !is_register(node->buffer) || !harmless_.contains(node)) return Mutator::mutate_Load(e, node);
    if (!read_within_stores(node->buffer, node->indices) && !collected_.behind_whole_store.contains(node))
      return Mutator::mutate_Load(e, node);
    const Expr unmasked = Load::make(node->buffer, node->indices);
    // Of one element the mask alone may have lanes.
    return unmasked->dtype == e->dtype ? unmasked : Broadcast::make(unmasked, e->dtype.lanes);
  }
  Stmt mutate_Store(const Stmt& s, const Store* node) override {
    if (!is_register(node->buffer)) return Mutator::mutate_Store(s, node);
    const Stmt stored = node->mask ? without_mask(s, node) : Mutator::mutate_Store(s, node);
    // What was read of the buffer before is not what it holds.
    std::erase_if(held_, [&](const auto& entry) { return entry.second.template as<Load>()->buffer == node->buffer; });
    return stored;
  }
  Stmt mutate_For(const Stmt& s, const For* node) override {
    held_.clear();  // a store in one iteration comes before what another does with it
    return Mutator::mutate_For(s, node);
  }
  Stmt mutate_While(const Stmt& s, const While* node) override {
    held_.clear();
    return Mutator::mutate_While(s, node);
  }
  Stmt mutate_Let(const Stmt& s, const Let* node) override {
    masks_.bind(node);
    const Expr value = mutate(node->value);
    const Load* load = value.as<Load>();
    if (load && is_register(load->buffer)) {
      held_[node->variable.get()] = value;
    } else if (!value->dtype.is_scalar()) {
      values_[node->variable.get()] = value;
    }
    Stmt body = mutate(node->body);
    return value == node->value && body == node->body ? s : Let::make(node->variable, value, std::move(body));
  }

 private:
  Stmt without_mask(const Stmt& s, const Store* node) {
    const Expr value = mutate(node->value);
    if (read_within_stores(node->buffer, node->indices) || adds_nothing(*node, value))
      return Store::make(node->buffer, node->indices, value);
    return value == node->value ? s : Store::make(node->buffer, node->indices, value, node->mask);
  }
  Expr resolve(const Expr& e) const {
    const auto found = e.as<Var>() ? values_.find(e.as<Var>()) : values_.end();
    return found == values_.end() ? e : resolve(found->second);
  }

  /// Is `value` what the register holds, of which all is read, and in the lanes that the store leaves out a zero more?
  /// (A negative zero there becomes a positive one.)
  bool adds_nothing(const Store& store, const Expr& value) const {
    const auto registers = collected_.found.find(store.buffer.get());
    const std::optional<Slot> slot = slot_of(store.indices);
    if (!slot || registers == collected_.found.end() || slot->end > registers->second.size) return false;
    const Expr mask = masks_.resolve(store.mask);
    if (reads_memory(mask)) return false;
    const auto holds = [&](const Expr& e) {
      const auto held = e.as<Var>() ? held_.find(e.as<Var>()) : held_.end();
      const Load* load = held == held_.end() ? e.as<Load>() : held->second.as<Load>();
      return load && load->buffer == store.buffer && !load->mask && slot_of(load->indices) == slot;
    };
    if (const Binary* sum = value.as<Binary>(); sum && sum->op == BinaryOp::add)
      return (holds(sum->a) && is_zero(sum->b, mask)) || (holds(sum->b) && is_zero(sum->a, mask));
    const Call* call = value.as<Call>();
    return call && call->call_kind == CallKind::intrinsic && call->callee == "fma" && holds(call->args[2]) &&
           is_zero(call->args[0], mask) && is_zero(call->args[1], mask);
  }

  /// In lanes that `mask` leaves out. Both factors of a product are, as infinity times zero is not.
  bool is_zero(const Expr& e, const Expr& mask) const {
    const Expr value = resolve(e);
    if (const Load* load = value.as<Load>()) return load->mask && equal(masks_.resolve(load->mask), mask);
    if (const Cast* cast = value.as<Cast>()) return is_zero(cast->value, mask);
    const Binary* product = value.as<Binary>();
    return product && product->op == BinaryOp::mul && is_zero(product->a, mask) && is_zero(product->b, mask);
  }

  bool read_within_stores(const Buffer& buffer, const std::vector<Expr>& indices) const {
    const auto registers = collected_.found.find(buffer.get());
    const std::optional<Slot> slot = slot_of(indices);
    return slot && registers != collected_.found.end() && registers->second.read_within_stores(*slot);
  }

  const Collector& collected_;
  const HarmlessLoads& harmless_;
  Masks masks_;
  Substitution values_;  ///< of Lets, of vectors
  Substitution held_;    ///< of Lets, of what registers hold still
};

}  // namespace

Func unmask_registers(const Func& func) {
  Collector collector;
  collector.visit(func->body);
  bool masked = false;
  for (const auto& [buffer, registers] : collector.found) {
    for (const auto& [slot, use] : registers.slots) masked |= !use.asked.empty() || !use.loads.empty();
  }
  if (!masked) return func;
  const HarmlessLoads harmless(func->body, collector.holders);
  return with_body(func, Unmasker(collector, harmless).mutate(func->body));
}

}  // namespace lathe
