#include "ir/analysis/affine.h"

#include <algorithm>
#include <bit>

namespace lathe {
namespace {

/// Adds within +-largest_affine.
bool add_within(std::int64_t& into, std::int64_t value) {
  return !__builtin_add_overflow(into, value, &into) && into <= largest_affine && into >= -largest_affine;
}

template <class T>
int three_way(const T& a, const T& b) {
  return a < b ? -1 : b < a ? 1 : 0;
}

int compare_all(const std::vector<Expr>& a, const std::vector<Expr>& b) {
  if (a.size() != b.size()) return three_way(a.size(), b.size());
  for (size_t i = 0; i < a.size(); ++i)
    if (int c = compare_exprs(a[i], b[i])) return c;
  return 0;
}

int compare_buffers(const Buffer& a, const Buffer& b) {
  if (a == b) return 0;
  if (int c = a->name.compare(b->name)) return c;
  return std::less<const BufferNode*>()(a.get(), b.get()) ? -1 : 1;
}

bool is_sum(const Expr& e) {
  if (auto* b = e.as<Binary>()) return b->op == BinaryOp::add || b->op == BinaryOp::sub || b->op == BinaryOp::mul;
  if (auto* u = e.as<Unary>()) return u->op == UnaryOp::neg;
  return e->kind == ExprKind::Ramp || e->kind == ExprKind::Broadcast || e->kind == ExprKind::IntImm;
}

bool is_vector(const Affine& a) {
  return std::any_of(a.terms.begin(), a.terms.end(), [](const AffineTerm& t) { return t.atom->dtype.lanes > 1; });
}

/// Products first, so that `i * n + j` reads as an index does; then larger strides first.
bool precedes(const AffineTerm& a, const AffineTerm& b) {
  auto product_rank = [](const AffineTerm& t) {
    auto* m = t.atom.as<Binary>();
    return m && m->op == BinaryOp::mul ? 0 : 1;
  };
  if (int c = three_way(product_rank(a), product_rank(b))) return c < 0;
  std::int64_t left = std::abs(a.coefficient), right = std::abs(b.coefficient);
  if (left != right) return left > right;
  return compare_exprs(a.atom, b.atom) < 0;
}

Expr scaled(const Expr& atom, std::int64_t factor) {
  if (factor == 1) return atom;
  return Binary::make(BinaryOp::mul, atom, IntImm::make(atom->dtype, factor));
}

/// The sum of terms and a constant, all of the lanes of `dtype`.
Expr sum(std::vector<AffineTerm> terms, std::int64_t constant, DType dtype) {
  if (terms.empty()) return IntImm::make(dtype, constant);
  if (terms.size() > 1) {
    std::stable_sort(terms.begin(), terms.end(), precedes);
    std::stable_partition(terms.begin(), terms.end(), [](const AffineTerm& t) { return t.coefficient > 0; });
  }
  Expr result;
  if (terms[0].coefficient < 0 && (constant > 0 || terms[0].coefficient == -1)) {
    result = IntImm::make(dtype, constant);
    constant = 0;
  }
  for (const AffineTerm& t : terms) {
    if (!result)
      result = scaled(t.atom, t.coefficient);
    else if (t.coefficient > 0)
      result = Binary::make(BinaryOp::add, result, scaled(t.atom, t.coefficient));
    else
      result = Binary::make(BinaryOp::sub, result, scaled(t.atom, -t.coefficient));
  }
  if (constant > 0)
    result = Binary::make(BinaryOp::add, result, IntImm::make(dtype, constant));
  else if (constant < 0)
    result = Binary::make(BinaryOp::sub, result, IntImm::make(dtype, -constant));
  return result;
}

}  // namespace

int compare_exprs(const Expr& a, const Expr& b) {
  if (a == b) return 0;
  if (!a || !b) return three_way<int>(bool(a), bool(b));
  if (a->kind != b->kind) {
    auto rank = [](const Expr& e) { return e->kind == ExprKind::Var ? -1 : static_cast<int>(e->kind); };
    return three_way(rank(a), rank(b));
  }
  if (!(a->dtype == b->dtype)) {
    auto key = [](DType t) { return (static_cast<int>(t.code) << 24) | (t.bits << 16) | t.lanes; };
    return three_way(key(a->dtype), key(b->dtype));
  }
  switch (a->kind) {
    case ExprKind::IntImm:
      return three_way(a.as<IntImm>()->value, b.as<IntImm>()->value);
    case ExprKind::FloatImm:
      return three_way(std::bit_cast<std::uint64_t>(a.as<FloatImm>()->value),
                       std::bit_cast<std::uint64_t>(b.as<FloatImm>()->value));
    case ExprKind::Var:
      if (int c = a.as<Var>()->name.compare(b.as<Var>()->name)) return c;
      return std::less<const ExprNode*>()(a.get(), b.get()) ? -1 : 1;
    case ExprKind::Unary: {
      auto *x = a.as<Unary>(), *y = b.as<Unary>();
      if (x->op != y->op) return three_way(x->op, y->op);
      return compare_exprs(x->a, y->a);
    }
    case ExprKind::Binary: {
      auto *x = a.as<Binary>(), *y = b.as<Binary>();
      if (x->op != y->op) return three_way(x->op, y->op);
      if (int c = compare_exprs(x->a, y->a)) return c;
      return compare_exprs(x->b, y->b);
    }
    case ExprKind::Select: {
      auto *x = a.as<Select>(), *y = b.as<Select>();
      if (int c = compare_exprs(x->condition, y->condition)) return c;
      if (int c = compare_exprs(x->when_true, y->when_true)) return c;
      return compare_exprs(x->when_false, y->when_false);
    }
    case ExprKind::Cast:
      return compare_exprs(a.as<Cast>()->value, b.as<Cast>()->value);
    case ExprKind::Load: {
      auto *x = a.as<Load>(), *y = b.as<Load>();
      if (int c = compare_buffers(x->buffer, y->buffer)) return c;
      if (int c = compare_all(x->indices, y->indices)) return c;
      return compare_exprs(x->mask, y->mask);
    }
    case ExprKind::Ramp: {
      auto *x = a.as<Ramp>(), *y = b.as<Ramp>();
      if (int c = compare_exprs(x->base, y->base)) return c;
      return compare_exprs(x->stride, y->stride);
    }
    case ExprKind::Broadcast:
      return compare_exprs(a.as<Broadcast>()->value, b.as<Broadcast>()->value);
    case ExprKind::Shuffle: {
      auto *x = a.as<Shuffle>(), *y = b.as<Shuffle>();
      if (x->lanes != y->lanes) return three_way(x->lanes, y->lanes);
      return compare_all(x->vectors, y->vectors);
    }
    case ExprKind::Call: {
      auto *x = a.as<Call>(), *y = b.as<Call>();
      if (x->call_kind != y->call_kind) return three_way(x->call_kind, y->call_kind);
      if (int c = x->callee.compare(y->callee)) return c;
      return compare_all(x->args, y->args);
    }
    case ExprKind::AddressOf: {
      auto *x = a.as<AddressOf>(), *y = b.as<AddressOf>();
      if (int c = compare_buffers(x->buffer, y->buffer)) return c;
      return compare_all(x->indices, y->indices);
    }
  }
  return 0;
}

bool identical(const Expr& a, const Expr& b) {
  if (a == b) return true;
  if (!a || !b || a->kind != b->kind || a->kind == ExprKind::Var) return false;
  return compare_exprs(a, b) == 0;
}

std::int64_t Affine::coefficient(const Expr& atom) const {
  for (const AffineTerm& t : terms)
    if (identical(t.atom, atom)) return t.coefficient;
  return 0;
}

bool add_term(Affine& into, const Expr& atom, std::int64_t coefficient) {
  if (coefficient == 0) return true;
  for (size_t i = 0; i < into.terms.size(); ++i) {
    AffineTerm& t = into.terms[i];
    if (!identical(t.atom, atom)) continue;
    if (!add_within(t.coefficient, coefficient)) return false;
    if (t.coefficient == 0) into.terms.erase(into.terms.begin() + i);
    return true;
  }
  if (coefficient > largest_affine || coefficient < -largest_affine) return false;
  if (into.terms.empty()) into.terms.reserve(4);
  into.terms.push_back({atom, coefficient});
  return true;
}

bool add_scaled(Affine& into, const Affine& other, std::int64_t factor) {
  into.lanes = std::max(into.lanes, other.lanes);
  if (factor == 0) return true;
  std::int64_t c;
  for (const AffineTerm& t : other.terms)
    if (__builtin_mul_overflow(t.coefficient, factor, &c) || !add_term(into, t.atom, c)) return false;
  return !__builtin_mul_overflow(other.constant, factor, &c) && add_within(into.constant, c);
}

bool add_constant(Affine& into, std::int64_t value) {
  return add_within(into.constant, value);
}

bool multiply(Affine& into, const Affine& other) {
  constexpr size_t most_terms = 16;
  Affine result = Affine::of(0, std::max(into.lanes, other.lanes));
  if (other.is_constant()) {
    if (!add_scaled(result, into, other.constant)) return false;
  } else if (into.is_constant()) {
    if (!add_scaled(result, other, into.constant)) return false;
  } else {
    if (into.terms.size() * other.terms.size() > most_terms || is_vector(into) || is_vector(other)) return false;
    std::int64_t c;
    for (const AffineTerm& s : into.terms)
      for (const AffineTerm& t : other.terms) {
        std::vector<Expr> factors;
        append_factors(s.atom, factors);
        append_factors(t.atom, factors);
        if (std::count(factors.begin(), factors.end(), Expr(lane_variable())) > 1) return false;
        if (__builtin_mul_overflow(s.coefficient, t.coefficient, &c) ||
            !add_term(result, product(std::move(factors)), c))
          return false;
      }
    Affine left = into, right = other;
    left.constant = right.constant = 0;
    if (!add_scaled(result, left, other.constant) || !add_scaled(result, right, into.constant)) return false;
    if (__builtin_mul_overflow(into.constant, other.constant, &c) || !add_within(result.constant, c)) return false;
  }
  into = std::move(result);
  return true;
}

const VarRef& lane_variable() {
  static const VarRef lane = Var::make("lane");
  return lane;
}

void append_factors(const Expr& atom, std::vector<Expr>& factors) {
  auto* b = atom.as<Binary>();
  if (b && b->op == BinaryOp::mul && atom->dtype == i64) {
    append_factors(b->a, factors);
    append_factors(b->b, factors);
  } else {
    factors.push_back(atom);
  }
}

Expr product(std::vector<Expr> factors) {
  std::stable_sort(factors.begin(), factors.end(),
                   [](const Expr& a, const Expr& b) { return compare_exprs(a, b) < 0; });
  Expr result = factors[0];
  for (size_t i = 1; i < factors.size(); ++i) result = Binary::make(BinaryOp::mul, result, factors[i]);
  return result;
}

namespace {

Affine form_of(const Expr& e, const IntImm& imm) {
  if (imm.value > largest_affine || imm.value < -largest_affine) return Affine::atom(e);
  return Affine::of(imm.value, e->dtype.lanes);
}

}  // namespace

Affine AffineBuilder::build(const Expr& e) {
  if (auto* imm = e.as<IntImm>()) return form_of(e, *imm);
  if (e->kind == ExprKind::Var) return leaf(e);
  // Small trees, nearly all there are, never pay for the memo; shared graphs must not be walked once per path.
  constexpr int free_visits = 48;
  if (++visited_ <= free_visits) return build_new(e);
  auto found = memo_.find(e);
  if (found != memo_.end()) return found->second;
  Affine result = build_new(e);
  memo_.emplace(e, result);
  return result;
}

Affine AffineBuilder::build_new(const Expr& e) {
  if (!is_sum(e)) return leaf(e);
  if (auto* r = e.as<Ramp>()) {
    Affine base = build(r->base), stride = build(r->stride);
    base.lanes = stride.lanes = e->dtype.lanes;
    Affine lane = Affine::atom(lane_variable());
    if (multiply(stride, lane) && add_scaled(base, stride, 1)) return base;
    return Affine::atom(e);
  }
  if (auto* b = e.as<Broadcast>()) {
    Affine value = build(b->value);
    value.lanes = e->dtype.lanes;
    return value;
  }
  if (auto* u = e.as<Unary>()) {
    Affine result = Affine::of(0, e->dtype.lanes);
    return add_scaled(result, build(u->a), -1) ? result : Affine::atom(e);
  }
  auto* b = e.as<Binary>();
  Affine result = build(b->a);
  Affine right = build(b->b);
  bool fits =
      b->op == BinaryOp::mul ? multiply(result, right) : add_scaled(result, right, b->op == BinaryOp::add ? 1 : -1);
  if (fits) return result;
  return leaf(e);
}

Affine to_affine(const Expr& e) {
  if (auto* imm = e.as<IntImm>()) return form_of(e, *imm);
  return AffineBuilder().build(e);
}

Expr to_expr(const Affine& a) {
  if (a.lanes == 1) return sum(a.terms, a.constant, i64);
  Affine base, stride;
  std::vector<AffineTerm> vectors;
  base.constant = a.constant;
  for (const AffineTerm& t : a.terms) {
    if (t.atom->dtype.lanes > 1) {
      vectors.push_back(t);
      continue;
    }
    std::vector<Expr> factors;
    append_factors(t.atom, factors);
    auto lane = std::find(factors.begin(), factors.end(), Expr(lane_variable()));
    if (lane == factors.end()) {
      base.terms.push_back(t);
    } else {
      factors.erase(lane);
      if (factors.empty())
        stride.constant = t.coefficient;
      else
        stride.terms.push_back({product(std::move(factors)), t.coefficient});
    }
  }
  DType dtype = i64.with_lanes(a.lanes);
  bool flat = stride.is_constant() && stride.constant == 0;
  if (flat && base.is_constant()) return sum(vectors, base.constant, dtype);
  Expr scalar_base = to_expr(base);
  Expr affine_part = flat ? Broadcast::make(scalar_base, a.lanes) : Ramp::make(scalar_base, to_expr(stride), a.lanes);
  if (vectors.empty()) return affine_part;
  return Binary::make(BinaryOp::add, sum(vectors, 0, dtype), affine_part);
}

bool equal(const Affine& a, const Affine& b) {
  if (a.constant != b.constant || a.lanes != b.lanes || a.terms.size() != b.terms.size()) return false;
  return std::all_of(a.terms.begin(), a.terms.end(),
                     [&](const AffineTerm& t) { return b.coefficient(t.atom) == t.coefficient; });
}

}  // namespace lathe
