#include "ir/passes/carry_values.h"

#include <algorithm>
#include <cstdlib>
#include <optional>
#include <unordered_set>
#include <utility>
#include <vector>

#include "ir/analysis/affine.h"
#include "ir/storage.h"
#include "ir/visitor.h"

namespace lathe {
namespace {

/// Iterations back that a value is handed on.
constexpr std::int64_t most_back = 4;

/// A place as a form of the loop's variable: its base, that of the first lane of a vector, and the step from lane to
/// lane.
struct Place {
  Affine base;
  std::int64_t lanes = 1, stride = 1;
};

std::optional<Place> place_of(const std::vector<Expr>& indices) {
  if (indices.size() != 1) return std::nullopt;
  Place place;
  if (const Ramp* ramp = indices[0].as<Ramp>()) {
    const std::int64_t* stride = as_int(ramp->stride);
    if (!stride || ramp->base->dtype != i64) return std::nullopt;
    place = {to_affine(ramp->base), ramp->dtype.lanes, *stride};
  } else if (indices[0]->dtype == i64) {
    place.base = to_affine(indices[0]);
  } else {
    return std::nullopt;
  }
  return place;
}

/// How much further `place` is than `from`, vectors of the same lanes; nothing where that is no constant.
std::optional<std::int64_t> distance(const Place& place, const Place& from) {
  if (place.lanes != from.lanes || place.stride != from.stride) return std::nullopt;
  Affine difference = place.base;
  if (!add_scaled(difference, from.base, -1) || !difference.is_constant()) return std::nullopt;
  return difference.constant;
}

/// A store whose values are handed on.
struct Carried {
  const Store* store;
  Place place;
  std::int64_t step;      ///< that an iteration moves it by
  Expr mask;              ///< of every iteration, as it is outside of the loop; null where there is none
  std::int64_t back = 0;  ///< iterations that values are kept
  Buffer registers;       ///< `back` + 1 elements or vectors, the one of this iteration first
};

/// What a loop's body stores and loads, where it is plain enough.
class Body : public Visitor {
 public:
  explicit Body(const For& loop) : loop_(loop) {
    Visitor::visit(loop.body);
    if (opaque_) stores_.clear();
  }

  /// The stores whose values are handed on.
  std::vector<Carried> carried() const {
    std::vector<Carried> found;
    for (const Store* store : stores_) {
      const bool read =
          std::any_of(loads_.begin(), loads_.end(), [&](const Load* load) { return load->buffer == store->buffer; });
      if (!read) continue;
      const std::optional<Place> place = place_of(store->indices);
      const std::int64_t step = place ? place->base.coefficient(loop_.variable) : 0;
      const Expr mask = store->mask ? outside(store->mask) : nullptr;
      if (step == 0 || !stays(*place) || !is_alone(*store, *place, step) || (mask && !stays(mask))) continue;
      Carried one{.store = store, .place = *place, .step = step, .mask = mask, .registers = {}};
      // What each iteration reads may be read before the first; more may lie outside of the array.
      for (const Load* load : loads_) {
        if (const auto back = iterations_back(*load, one)) one.back = std::max(one.back, *back);
      }
      if (one.back > 0) found.push_back(std::move(one));
    }
    return found;
  }

  /// How many iterations ago the loaded value was stored; nothing where it was not, or longer ago than is known.
  static std::optional<std::int64_t> iterations_back(const Load& load, const Carried& from) {
    const Expr& mask = from.store->mask;
    if (load.buffer != from.store->buffer || !load.mask != !mask || (mask && !identical(load.mask, mask)))
      return std::nullopt;
    const std::optional<Place> place = place_of(load.indices);
    const auto further = place ? distance(*place, from.place) : std::nullopt;
    if (!further || *further % from.step != 0) return std::nullopt;
    const std::int64_t back = -*further / from.step;
    return back >= 1 && back <= most_back ? std::optional(back) : std::nullopt;
  }

  using Visitor::visit;
  void visit(const Expr& e) override {
    if (e && seen_.insert(e.get())) Visitor::visit(e);
  }

 protected:
  void visit_Store(const Store* node) override {
    if (node->buffer->space != space::registers) {
      all_.push_back(node);
      if (nested_ == 0) stores_.push_back(node);
    }
    Visitor::visit_Store(node);
  }
  void visit_Load(const Load* node) override {
    if (node->buffer->space != space::registers && nested_ == 0) loads_.push_back(node);
    Visitor::visit_Load(node);
  }
  void visit_Let(const Let* node) override {
    bound_.push_back(node->variable.get());
    lets_.push_back(node);
    Visitor::visit_Let(node);
  }
  void visit_For(const For* node) override {
    bound_.push_back(node->variable.get());
    ++nested_;
    Visitor::visit_For(node);
    --nested_;
  }
  void visit_If(const If* node) override {
    ++nested_;
    Visitor::visit_If(node);
    --nested_;
  }
  void visit_While(const While*) override { opaque_ = true; }
  void visit_AddressOf(const AddressOf*) override { opaque_ = true; }
  void visit_Call(const Call* node) override {
    opaque_ |= node->call_kind != CallKind::intrinsic;
    Visitor::visit_Call(node);
  }

 private:
  /// With what Lets of the body stand for in their variables' place.
  Expr outside(const Expr& e) const {
    Substitution values;
    for (const Let* let : lets_) values[let->variable.get()] = substitute(let->value, values);
    return substitute(e, values);
  }

  /// Is it the same in every iteration, and before the loop?
  bool stays(const Expr& e) const {
    return !reads_memory(e) && !uses_var(e, loop_.variable.get()) &&
           std::none_of(bound_.begin(), bound_.end(), [&](const Var* v) { return uses_var(e, v); });
  }
  /// The same of a place, but for the loop's variable.
  bool stays(const Place& place) const {
    return std::all_of(place.base.terms.begin(), place.base.terms.end(),
                       [&](const AffineTerm& term) { return term.atom == Expr(loop_.variable) || stays(term.atom); });
  }

  /// Does no other store reach what an iteration of this one writes, whichever iteration that is of? All of one lie
  /// within a step.
  bool is_alone(const Store& store, const Place& place, std::int64_t step) const {
    const auto width = [](const Place& p) { return (p.lanes - 1) * std::abs(p.stride) + 1; };
    if (place.stride < 1) return false;
    std::int64_t first = 0, end = width(place);
    for (const Store* other : all_) {
      if (other == &store || storage_of(other->buffer) != storage_of(store.buffer)) continue;
      if (other->buffer != store.buffer) return false;
      const std::optional<Place> there = place_of(other->indices);
      if (!there || there->stride < 1) return false;
      Affine apart = there->base;
      if (!add_scaled(apart, place.base, -1) || !apart.is_constant()) return false;
      if (apart.constant < end && 0 < apart.constant + width(*there) && apart.constant > -width(*there) &&
          apart.constant < width(place))
        return false;
      first = std::min(first, apart.constant);
      end = std::max(end, apart.constant + width(*there));
    }
    return end - first <= std::abs(step);
  }

  const For& loop_;
  std::vector<const Store*> stores_, all_;
  std::vector<const Load*> loads_;
  std::vector<const Var*> bound_;
  std::vector<const Let*> lets_;
  NodeSet<const ExprNode*> seen_;
  int nested_ = 0;
  bool opaque_ = false;
};

Expr slot(const Carried& one, std::int64_t back) {
  const Expr first = index(back * one.place.lanes);
  return one.place.lanes == 1 ? first : Ramp::make(first, index(1), static_cast<int>(one.place.lanes));
}

Expr kept(const Carried& one, std::int64_t back) {
  return Load::make(one.registers, {slot(one, back)});
}

/// Reads and writes registers in the place of memory.
class Handing : public Mutator {
 public:
  explicit Handing(const std::vector<Carried>& carried) : carried_(carried) {}

 protected:
  Expr mutate_Load(const Expr& e, const Load* node) override {
    for (const Carried& one : carried_) {
      const auto back = Body::iterations_back(*node, one);
      if (back && *back <= one.back) return kept(one, *back);
    }
    return Mutator::mutate_Load(e, node);
  }
  Stmt mutate_Store(const Stmt& s, const Store* node) override {
    const auto one = std::find_if(carried_.begin(), carried_.end(), [&](const Carried& c) { return c.store == node; });
    if (one == carried_.end()) return Mutator::mutate_Store(s, node);
    const Expr value = mutate(node->value);
    // What a mask leaves out is read as zero.
    const Expr stored = node->mask ? Select::make(node->mask, value, constant(value->dtype, 0)) : value;
    return Seq::make({Store::make(one->registers, {slot(*one, 0)}, stored),
                      Store::make(node->buffer, node->indices, kept(*one, 0), node->mask)});
  }

 private:
  const std::vector<Carried>& carried_;
};

/// The buffers in memory that are both stored to and loaded from.
std::unordered_set<const BufferNode*> read_again(const Func& func) {
  std::unordered_set<const BufferNode*> loaded, stored;
  for_each_stmt(func->body, [&](const Stmt& s) {
    const Store* store = s.as<Store>();
    if (store && store->buffer->space != space::registers) stored.insert(store->buffer.get());
  });
  for_each_expr(func->body, [&](const Expr& e) {
    if (const Load* load = e.as<Load>()) loaded.insert(load->buffer.get());
  });
  std::erase_if(stored, [&](const BufferNode* buffer) { return !loaded.contains(buffer); });
  return stored;
}

class Carrier : public Mutator {
 public:
  Carrier(const Device& device, const std::unordered_set<const BufferNode*>& read_again)
      : device_(device), read_again_(read_again) {}
  using Mutator::mutate;
  Expr mutate(const Expr& e) override { return e; }

 protected:
  Stmt mutate_For(const Stmt& s, const For* node) override {
    const Stmt inner = Mutator::mutate_For(s, node);
    if (inner != s || node->for_kind != ForKind::serial) return inner;
    const std::int64_t* count = as_int(node->extent);
    if (!count || !stores_for_later(*node)) return s;
    std::vector<Carried> carried = Body(*node).carried();
    std::erase_if(carried, [&](const Carried& one) { return one.back > *count; });
    if (carried.empty() || registers_of(carried) > device_.vector_registers / 2) return s;
    return with_registers(*node, std::move(carried));
  }

 private:
  /// Does the loop store, at a place of each iteration, what may be read again? Most loops end here.
  bool stores_for_later(const For& loop) const {
    bool found = false;
    for_each_stmt(loop.body, [&](const Stmt& s) {
      const Store* store = s.as<Store>();
      found |= store && read_again_.contains(store->buffer.get()) && store->indices.size() == 1 &&
               uses_var(store->indices[0], loop.variable.get());
    });
    return found;
  }

  std::int64_t registers_of(const std::vector<Carried>& carried) const {
    std::int64_t registers = 0;
    for (const Carried& one : carried) {
      const std::int64_t bits = one.place.lanes * one.store->buffer->dtype.bits,
                         width = std::max(device_.vector_bits, 1);
      registers += one.back * ((bits + width - 1) / width);
    }
    return registers;
  }

  static Stmt with_registers(const For& loop, std::vector<Carried> carried) {
    Block::Fields scope;
    std::vector<Stmt> before, after;
    for (Carried& one : carried) {
      one.registers = BufferNode::make("carry", one.store->buffer->dtype, {index((one.back + 1) * one.place.lanes)},
                                       space::registers);
      scope.allocs.push_back(one.registers);
      for (std::int64_t back = 1; back <= one.back; ++back) {
        const Expr place = substitute(one.store->indices[0], {{loop.variable.get(), loop.min - index(back)}});
        before.push_back(
            Store::make(one.registers, {slot(one, back)}, Load::make(one.store->buffer, {place}, one.mask)));
      }
      for (std::int64_t back = one.back; back > 0; --back)
        after.push_back(Store::make(one.registers, {slot(one, back)}, kept(one, back - 1)));
    }
    std::vector<Stmt> body{Handing(carried).mutate(loop.body)};
    body.insert(body.end(), after.begin(), after.end());
    before.push_back(For::make(loop.variable, loop.min, loop.extent, loop.for_kind, Seq::make(std::move(body)),
                               loop.annotations, loop.thread_axis));
    scope.body = Seq::make(std::move(before));
    return Block::make(std::move(scope));
  }

  const Device& device_;
  const std::unordered_set<const BufferNode*>& read_again_;
};

}  // namespace

Func carry_values(const Func& func, const Device& device) {
  // What is stored to one of two buffers that may be one memory may be read from the other.
  if (func->attrs.contains("may_alias")) return func;
  const std::unordered_set<const BufferNode*> again = read_again(func);
  if (again.empty()) return func;
  const Stmt body = Carrier(device, again).mutate(func->body);
  return body == func->body ? func : with_body(func, body);
}

}  // namespace lathe
