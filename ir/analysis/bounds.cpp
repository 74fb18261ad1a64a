#include <algorithm>

#include "ir/analysis/float_interval.h"
#include "ir/analysis/interval.h"

namespace lathe {
namespace {

/// The comparison of b's operands by `op` as affine forms that are >= 0; 0, 1 or 2 of them.
void append_inequalities(BinaryOp op, const Binary& b, std::vector<Affine>& out) {
  if (!(b.a->dtype == i64)) return;
  Affine left = to_affine(b.a), right = to_affine(b.b);
  auto push = [&](const Affine& low, const Affine& high, std::int64_t slack) {
    Affine d = high;
    if (add_scaled(d, low, -1) && !__builtin_sub_overflow(d.constant, slack, &d.constant)) out.push_back(std::move(d));
  };
  switch (op) {
    case BinaryOp::lt:
      return push(left, right, 1);
    case BinaryOp::le:
      return push(left, right, 0);
    case BinaryOp::gt:
      return push(right, left, 1);
    case BinaryOp::ge:
      return push(right, left, 0);
    case BinaryOp::eq:
      push(left, right, 0);
      return push(right, left, 0);
    default:
      return;
  }
}

BinaryOp negated(BinaryOp op) {
  switch (op) {
    case BinaryOp::lt:
      return BinaryOp::ge;
    case BinaryOp::le:
      return BinaryOp::gt;
    case BinaryOp::gt:
      return BinaryOp::le;
    case BinaryOp::ge:
      return BinaryOp::lt;
    case BinaryOp::eq:
      return BinaryOp::ne;
    default:
      return BinaryOp::eq;
  }
}

/// One query: remembers shared subexpressions so that it stays linear on shared graphs.
class IntervalQuery {
 public:
  explicit IntervalQuery(const Bounds& bounds) : bounds_(bounds) {}

  Interval of(const Affine& a) {
    Interval sum = Interval::point(a.constant);
    for (const AffineTerm& t : a.terms) sum = sum + of_atom(t.atom, a.lanes) * Interval::point(t.coefficient);
    return sum;
  }

  Interval of(const Expr& e) {
    if (auto* imm = e.as<IntImm>()) return Interval::point(imm->value);
    if (e->kind == ExprKind::Var) return of_atom(e, 1);
    if (e->dtype.is_float()) return Interval::everything();
    if (e->references.load(std::memory_order_relaxed) <= 1) return of_new(e);
    for (auto& [node, known] : memo_)
      if (node == e) return known;
    Interval result = of_new(e);
    if (memo_.size() < most_remembered) memo_.emplace_back(e, result);
    return result;
  }

 private:
  static constexpr size_t most_remembered = 64;

  Interval of_new(const Expr& e) {
    if (++steps_ > most_steps) return Interval::of(e->dtype.element());
    if (e->dtype.element() == i64) return of(to_affine(e));
    return intersect(Interval::of(e->dtype.element()), of_operation(e));
  }

  Interval of_atom(const Expr& e, int lanes) {
    if (auto* v = e.as<Var>()) {
      if (v == lane_variable().get()) return Interval::between(0, lanes - 1);
      const Bounds::Entry* entry = bounds_.find(v);
      if (!entry) return Interval::of(v->dtype.element());
      if (entry->value && ++steps_ < most_steps) return intersect(of(entry->value), entry->interval);
      return entry->interval;
    }
    if (auto* b = e.as<Binary>(); b && b->op == BinaryOp::mul && e->dtype == i64)
      return of_atom(b->a, lanes) * of_atom(b->b, lanes);
    Interval result = e->dtype.element() == i64 ? of_operation(e) : of(e);
    for (const Affine& known : bounds_.inequalities()) {
      // A single-term assumption c * e + k >= 0 bounds a Load or other opaque atom by a constant.
      if (known.terms.size() != 1 || !identical(known.terms[0].atom, e)) continue;
      std::int64_t c = known.terms[0].coefficient;
      if (c == 1) result = intersect(result, {-known.constant, {}, 1, 0});
      if (c == -1) result = intersect(result, {{}, known.constant, 1, 0});
    }
    return result;
  }

  /// The interval of a non-affine operation, before it wraps to its type.
  Interval of_operation(const Expr& e) {
    DType dtype = e->dtype.element();
    auto fitting = [&](const Interval& i) {
      Interval all = Interval::of(dtype);
      if (dtype == i64) return i;
      bool inside = i.min && i.max && dtype.bits < 64 && *i.min >= *all.min && *i.max <= *all.max;
      if (dtype.bits == 64) inside = i.min && i.max && *i.min >= 0;
      return inside ? i : all;
    };
    switch (e->kind) {
      case ExprKind::Binary: {
        auto* b = e.as<Binary>();
        if (b->a->dtype.is_float()) return Interval::of(dtype);
        if (is_comparison(b->op)) return Interval::of(boolean);
        Interval x = of(b->a), y = of(b->b);
        switch (b->op) {
          case BinaryOp::add:
            return fitting(x + y);
          case BinaryOp::sub:
            return fitting(x - y);
          case BinaryOp::mul:
            return fitting(x * y);
          case BinaryOp::floor_div:
            return fitting(unsigned_unknown(x, dtype) ? Interval::of(dtype) : floor_div(x, y));
          case BinaryOp::floor_mod:
            return fitting(unsigned_unknown(x, dtype) ? Interval::of(dtype) : floor_mod(x, y));
          case BinaryOp::min:
            return fitting(unsigned_unknown(x + y, dtype) ? Interval::of(dtype) : min(x, y));
          case BinaryOp::max:
            return fitting(unsigned_unknown(x + y, dtype) ? Interval::of(dtype) : max(x, y));
          case BinaryOp::bit_and:
            // A value that is not negative bounds the result, whatever the other is.
            if (x.min && *x.min >= 0 && x.max && !(y.max && y.min && *y.min >= 0 && *y.max < *x.max))
              return Interval::between(0, *x.max);
            if (y.min && *y.min >= 0 && y.max) return Interval::between(0, *y.max);
            return Interval::of(dtype);
          case BinaryOp::shr:
            if (const auto by = y.as_point();
                by && *by >= 0 && *by < dtype.bits && *by < 62 && !unsigned_unknown(x, dtype))
              return floor_div(x, Interval::point(std::int64_t{1} << *by));
            return Interval::of(dtype);
          case BinaryOp::logical_and:
          case BinaryOp::logical_or:
            return Interval::of(boolean);
          default:
            return Interval::of(dtype);
        }
      }
      case ExprKind::Unary: {
        auto* u = e.as<Unary>();
        if (u->a->dtype.is_float() || u->op == UnaryOp::logical_not) return Interval::of(dtype);
        Interval x = of(u->a);
        if (u->op == UnaryOp::neg) return fitting(x * Interval::point(-1));
        if (u->op == UnaryOp::abs && !unsigned_unknown(x, dtype)) {
          if (!x.is_bounded()) return Interval::of(dtype);
          return fitting(max(max(x, x * Interval::point(-1)), Interval::point(0)));
        }
        return Interval::of(dtype);
      }
      case ExprKind::Select: {
        std::vector<Affine> known;
        return of_choice(*e.as<Select>(), known);
      }
      case ExprKind::Cast: {
        auto* c = e.as<Cast>();
        if (dtype.is_bool()) return Interval::of(dtype);
        if (c->value->dtype.is_float()) return integer_interval(*c, bounds_);
        Interval x = of(c->value);
        if (dtype == i64 && c->value->dtype.bits == 64 && c->value->dtype.is_unsigned() && !x.is_bounded())
          return Interval::everything();
        return fitting(x);
      }
      case ExprKind::Broadcast:
        return of(e.as<Broadcast>()->value);
      case ExprKind::Ramp: {
        auto* r = e.as<Ramp>();
        return fitting(of(r->base) + of(r->stride) * Interval::between(0, e->dtype.lanes - 1));
      }
      case ExprKind::Shuffle: {
        auto* s = e.as<Shuffle>();
        Interval all = of(s->vectors[0]);
        for (const Expr& v : s->vectors) all = unite(all, of(v));
        return all;
      }
      case ExprKind::Call: {
        auto* c = e.as<Call>();
        if (c->callee == "population_count") return Interval::between(0, 64);
        if (c->callee == "reduce_min" || c->callee == "reduce_max") return of(c->args[0]);
        return Interval::of(dtype);
      }
      default:
        return Interval::of(dtype);
    }
  }

  /// `known` are affine forms that are >= 0 where the choice is made.
  Interval of_choice(const Select& choice, std::vector<Affine>& known) {
    return unite(of_arm(choice.when_true, choice.condition, true, known),
                 of_arm(choice.when_false, choice.condition, false, known));
  }

  /// The arm of a choice, which is known to be taken: what the condition compares may stand in it, as in a place that
  /// is turned back at both borders, select(i < 0, -i, select(i < n, i, 2 * n - 2 - i)).
  Interval of_arm(const Expr& arm, const Expr& condition, bool taken, std::vector<Affine>& known) {
    const size_t before = known.size();
    auto* b = condition.as<Binary>();
    if (b && is_comparison(b->op) && b->a->dtype == i64) append_inequalities(taken ? b->op : negated(b->op), *b, known);
    auto* inner = arm.as<Select>();
    const bool nested = inner && arm->dtype == i64 && before < most_nested && ++steps_ <= most_steps;
    Interval result = of_known(arm, known);
    if (nested) result = intersect(result, of_choice(*inner, known));
    known.resize(before);
    return result;
  }

  Interval of_known(const Expr& arm, const std::vector<Affine>& known) {
    Interval result = of(arm);
    if (arm->dtype != i64 || known.empty() || result.as_point()) return result;
    const Affine value = to_affine(arm);
    for (const Affine& form : known) {
      for (const std::int64_t sign : {1, -1}) {
        Affine rest = value;
        if (!add_scaled(rest, form, -sign) || !rest.is_constant() || may_wrap(bounds_, form) ||
            may_wrap(bounds_, value))
          continue;
        const Interval beyond = sign > 0 ? Interval{rest.constant, {}, 1, 0} : Interval{{}, rest.constant, 1, 0};
        result = intersect(result, beyond);
      }
    }
    return result;
  }

  /// A u64 of unknown size may read as negative: nothing is known of an order among such.
  static bool unsigned_unknown(const Interval& i, DType dtype) {
    return dtype.is_unsigned() && dtype.bits == 64 && !(i.min && *i.min >= 0 && i.max);
  }

  static constexpr int most_steps = 2000;
  static constexpr size_t most_nested = 8;
  const Bounds& bounds_;
  std::vector<std::pair<Expr, Interval>> memo_;
  int steps_ = 0;
};

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

void Bounds::assume_nonnegative(const Affine& a) {
  if (a.is_constant() || inequalities_.size() > 64) return;
  // One variable against a constant also narrows its interval, so that plain interval arithmetic sees it.
  if (a.terms.size() == 1) {
    auto* v = a.terms[0].atom.as<Var>();
    const Entry* known = v ? find(v) : nullptr;
    if (v && v != lane_variable().get()) {
      Interval narrowed = known ? known->interval : Interval::of(v->dtype.element());
      std::int64_t c = a.terms[0].coefficient;
      Interval bound;
      if (c > 0) bound.min = floor_div(Interval::point(-a.constant) + Interval::point(c - 1), Interval::point(c)).min;
      if (c < 0) bound.max = floor_div(Interval::point(a.constant), Interval::point(-c)).min;
      Entry entry = known ? *known : Entry{VarRef(v), {}, {}, {}, true};
      entry.interval = intersect(narrowed, bound);
      entry.narrowed = true;
      entries_.push_back(std::move(entry));
    }
  }
  inequalities_.push_back(a);
}

Interval Bounds::interval(const Expr& e) const {
  return IntervalQuery(*this).of(e);
}
Interval Bounds::interval(const Affine& a) const {
  return IntervalQuery(*this).of(a);
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

namespace {

/// Gives up, with the safe answer, on graphs that are large.
bool may_wrap(const Bounds& bounds, const Expr& e, int& steps) {
  constexpr std::int64_t safe = std::int64_t{1} << 52;
  constexpr int most_steps = 100;
  if (++steps > most_steps) return true;
  auto any = [&](const Expr& a, const Expr& b) { return may_wrap(bounds, a, steps) || may_wrap(bounds, b, steps); };
  if (auto* imm = e.as<IntImm>()) return imm->value >= safe || imm->value <= -safe;
  if (auto* v = e.as<Var>()) {
    const Expr* value = bounds.value(v);
    return value && may_wrap(bounds, *value, steps);
  }
  if (auto* r = e.as<Ramp>()) return any(r->base, r->stride);
  if (auto* b = e.as<Broadcast>()) return may_wrap(bounds, b->value, steps);
  if (auto* s = e.as<Select>()) return any(s->when_true, s->when_false);
  if (auto* u = e.as<Unary>(); u && (u->op == UnaryOp::neg || u->op == UnaryOp::abs))
    return may_wrap(bounds, u->a, steps);
  if (auto* b = e.as<Binary>()) {
    switch (b->op) {
      case BinaryOp::add:
      case BinaryOp::sub:
      case BinaryOp::mul:
      case BinaryOp::floor_div:
      case BinaryOp::floor_mod:
      case BinaryOp::min:
      case BinaryOp::max:
        return any(b->a, b->b);
      default:
        break;
    }
  }
  Interval i = bounds.interval(e);
  return !(i.min && i.max && *i.min > -safe && *i.max < safe);
}

}  // namespace

bool may_wrap(const Bounds& bounds, const Expr& e) {
  int steps = 0;
  return may_wrap(bounds, e, steps);
}

bool may_wrap(const Bounds& bounds, const Affine& a) {
  int steps = 0;
  return std::any_of(a.terms.begin(), a.terms.end(),
                     [&](const AffineTerm& t) { return may_wrap(bounds, t.atom, steps); });
}

}  // namespace lathe
