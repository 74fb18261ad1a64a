#include <algorithm>

#include "ir/analysis/comparison.h"
#include "ir/analysis/interval.h"

namespace lathe {
namespace {

/// What is known of the variable, and that it lies within `bound`.
Bounds::Entry narrowed(Bounds::Entry known, const Interval& bound) {
  known.interval = intersect(known.interval, bound);
  known.narrowed = true;
  return known;
}

}  // namespace

Bounds::Bounds(const Func& func) {
  const auto option = func->attrs.find("float_intervals");
  float_intervals_ = option == func->attrs.end() || option->second != Annotation{std::int64_t{0}};
  for (const Param& param : func->params)
    if (auto* v = std::get_if<VarRef>(&param)) bind(*v, Interval::of((*v)->dtype));
  for (const Param& param : func->params) {
    auto* buffer = std::get_if<Buffer>(&param);
    if (!buffer) continue;
    for (const Expr& extent : (*buffer)->shape) {
      auto* v = extent.as<Var>();
      const Entry* known = v ? find(v) : nullptr;
      if (v && (!known || !known->interval.min)) bind(VarRef(v), Interval{0, {}, 1, 0});
    }
  }
  for (const Fact& fact : func->facts) {
    Interval i = interval(fact.variable);
    if (fact.min) i.min = i.min ? std::max(*i.min, *fact.min) : *fact.min;
    if (fact.max) i.max = i.max ? std::min(*i.max, *fact.max) : *fact.max;
    i.multiple_of = std::max<std::int64_t>(fact.multiple_of, 1);
    bind(fact.variable, i);
    if (fact.equals) bind_value(fact.variable, fact.equals);
  }
}

void Bounds::bind(const VarRef& variable, const Range& domain) {
  // Lists of this size come from the allocator's own free lists; growing to them would not.
  constexpr size_t loops_of_most = 11;
  if (entries_.capacity() == 0) entries_.reserve(loops_of_most);
  Affine low = to_affine(domain.min), high = low, last = to_affine(domain.extent);
  if (!add_scaled(high, last, 1) || __builtin_sub_overflow(high.constant, 1, &high.constant)) {
    entries_.push_back({variable, {}, {}, {}, false});
    return;
  }
  const Interval least = interval(low), most = interval(high);
  const bool point = least.min && most.max && *least.min == *most.max;
  entries_.push_back({variable,
                      point ? Interval::point(*least.min) : Interval{least.min, most.max},
                      std::make_shared<const Domain>(Domain{domain, std::move(low), std::move(high)}),
                      {},
                      false});
  // The variable has a value here, so the domain is not empty.
  if (!last.is_constant()) {
    last.constant -= 1;
    Interval extent = interval(last);
    if (!extent.min || *extent.min < 0) assume_nonnegative(last);
  }
}

void Bounds::bind(const VarRef& variable, const Interval& interval) {
  entries_.push_back({variable, interval, {}, {}, false});
}

void Bounds::bind_value(const VarRef& variable, const Expr& value) {
  Interval known = Interval::everything();
  if (const Entry* entry = find(variable.get())) known = entry->interval;
  entries_.push_back({variable, known, {}, value, false});
}

void Bounds::assume(const Expr& condition) {
  if (!condition || as_int(condition)) return;
  if (auto* v = condition.as<Broadcast>()) return assume(v->value);
  if (auto* b = condition.as<Binary>()) {
    if (b->op == BinaryOp::logical_and) {
      assume(b->a);
      assume(b->b);
      return;
    }
    if (is_comparison(b->op)) {
      std::vector<Affine> forms;
      append_inequalities(b->op, *b, forms);
      for (const Affine& form : forms)
        if (!may_wrap(*this, form) || form.terms.size() == 1) assume_nonnegative(form);
      if (b->op == BinaryOp::eq) assume_remainder(*b);
    }
  }
  if (auto* u = condition.as<Unary>(); u && u->op == UnaryOp::logical_not) {
    if (auto* b = u->a.as<Binary>()) {
      if (b->op == BinaryOp::logical_or) {
        assume(Unary::make(UnaryOp::logical_not, b->a));
        assume(Unary::make(UnaryOp::logical_not, b->b));
        return;
      }
      // Not a < b is b <= a only where NaN cannot be.
      if (is_comparison(b->op) && !b->a->dtype.is_float()) assume(Binary::make(negated(b->op), b->a, b->b));
    }
  }
  assumptions_.push_back(condition);
}

void Bounds::assume_remainder(const Binary& equality) {
  const Binary* mod = equality.a.as<Binary>();
  const std::int64_t* remainder = as_int(equality.b);
  const std::int64_t* divisor = mod && mod->op == BinaryOp::floor_mod ? as_int(mod->b) : nullptr;
  if (!remainder || !divisor || *divisor < 2 || !(mod->dtype == i64)) return;
  const Affine form = to_affine(mod->a);
  const Var* v = form.terms.size() == 1 ? form.terms[0].atom.as<Var>() : nullptr;
  const Entry* known = v && v != lane_variable().get() ? find(v) : nullptr;
  const std::int64_t c = v ? form.terms[0].coefficient : 0;
  if (!known || (c != 1 && c != -1) || may_wrap(*this, form)) return;
  const Interval place = Interval::point(c) * (Interval::point(*remainder) - Interval::point(form.constant));
  Interval class_of = Interval::everything();
  class_of.multiple_of = *divisor;
  class_of.remainder = floor_mod(place, Interval::point(*divisor)).min.value_or(0);
  entries_.push_back(narrowed(*known, class_of));
}

void Bounds::assume_nonnegative(const Affine& a) {
  if (a.is_constant() || inequalities_.size() > 64) return;
  // One variable against a constant also narrows its interval, so that plain interval arithmetic sees it.
  if (a.terms.size() == 1) {
    auto* v = a.terms[0].atom.as<Var>();
    const Entry* known = v ? find(v) : nullptr;
    if (v && v != lane_variable().get()) {
      std::int64_t c = a.terms[0].coefficient;
      Interval bound;
      if (c > 0) bound.min = floor_div(Interval::point(-a.constant) + Interval::point(c - 1), Interval::point(c)).min;
      if (c < 0) bound.max = floor_div(Interval::point(a.constant), Interval::point(-c)).min;
      entries_.push_back(
          narrowed(known ? *known : Entry{VarRef(v), Interval::of(v->dtype.element()), {}, {}, true}, bound));
    }
  }
  inequalities_.push_back(a);
}

const Bounds::Entry* Bounds::find(const Var* variable) const {
  int at = position(variable);
  return at < 0 ? nullptr : &entries_[at];
}

int Bounds::position(const Var* variable) const {
  for (size_t i = entries_.size(); i-- > 0;)
    if (entries_[i].variable.get() == variable) return static_cast<int>(i);
  return -1;
}

bool Bounds::bound_since(const Mark& mark, const Var* variable) const {
  for (size_t i = mark.entries; i < entries_.size(); ++i)
    if (entries_[i].variable.get() == variable && !entries_[i].narrowed) return true;
  return false;
}

std::vector<Bounds::Entry> Bounds::entries_since(const Mark& mark) const {
  std::vector<Entry> result;
  for (size_t i = mark.entries; i < entries_.size(); ++i)
    if (!entries_[i].narrowed) result.push_back(entries_[i]);
  return result;
}

const Range* Bounds::domain(const Var* variable) const {
  const Entry* entry = find(variable);
  return entry && entry->domain ? &entry->domain->range : nullptr;
}

const Expr* Bounds::value(const Var* variable) const {
  const Entry* entry = find(variable);
  return entry && entry->value ? &entry->value : nullptr;
}

void Bounds::rollback(const Mark& mark) {
  entries_.resize(mark.entries);
  assumptions_.resize(mark.assumptions);
  inequalities_.resize(mark.inequalities);
}

}  // namespace lathe
