#pragma once
#include <algorithm>
#include <cmath>
#include <random>
#include <stdexcept>

#include "ir/analysis/interval.h"
#include "ir/expr.h"

namespace lathe::testing {

/// Values of variables at one point of an enumeration.
struct Point {
  std::vector<std::pair<const Var*, std::int64_t>> values;

  std::int64_t& operator[](const Var* v) {
    for (auto& [known, value] : values)
      if (known == v) return value;
    return values.emplace_back(v, 0).second;
  }
  std::int64_t at(const Var* v) const {
    for (auto& [known, value] : values)
      if (known == v) return value;
    throw std::out_of_range(v->name);
  }
  std::string text() const {
    std::string result;
    for (auto& [v, value] : values) result += v->name + "=" + std::to_string(value) + " ";
    return result;
  }
};

/// Evaluates integer and bool expressions by their definition in ir/expr.h, lane by lane, in 64 bits. It shares no code
/// with the analysis that it checks.
class Evaluator {
 public:
  explicit Evaluator(const Point& point) : point_(point) {}

  std::vector<std::int64_t> lanes(const Expr& e) const {
    int n = e->dtype.lanes;
    std::vector<std::int64_t> out(n);
    for (int lane = 0; lane < n; ++lane) out[lane] = at(e, lane);
    return out;
  }

  std::int64_t at(const Expr& e, int lane = 0) const {
    if (auto* imm = e.as<IntImm>()) return imm->value;
    if (auto* v = e.as<Var>()) return point_.at(v);
    if (auto* r = e.as<Ramp>()) return at(r->base) + lane * at(r->stride);
    if (auto* b = e.as<Broadcast>()) return at(b->value);
    if (auto* s = e.as<Select>()) return at(s->condition, lane) ? at(s->when_true, lane) : at(s->when_false, lane);
    if (auto* c = e.as<Cast>()) return wrap_integer(e->dtype.element(), at(c->value, lane));
    if (auto* u = e.as<Unary>()) {
      std::int64_t a = at(u->a, lane);
      switch (u->op) {
        case UnaryOp::neg:
          return wrap_integer(e->dtype.element(), -a);
        case UnaryOp::abs:
          return wrap_integer(e->dtype.element(), a < 0 ? -a : a);
        case UnaryOp::logical_not:
          return !a;
        default:
          throw std::logic_error("evaluate: unary");
      }
    }
    if (auto* b = e.as<Binary>()) {
      std::int64_t x = at(b->a, lane), y = at(b->b, lane);
      auto wrapped = [&](std::int64_t v) { return wrap_integer(e->dtype.element(), v); };
      switch (b->op) {
        case BinaryOp::add:
          return wrapped(x + y);
        case BinaryOp::sub:
          return wrapped(x - y);
        case BinaryOp::mul:
          return wrapped(x * y);
        case BinaryOp::floor_div:
          return y == 0 ? 0 : static_cast<std::int64_t>(std::floor(double(x) / double(y)));
        case BinaryOp::floor_mod:
          return y == 0 ? 0 : x - y * static_cast<std::int64_t>(std::floor(double(x) / double(y)));
        case BinaryOp::min:
          return std::min(x, y);
        case BinaryOp::max:
          return std::max(x, y);
        case BinaryOp::eq:
          return x == y;
        case BinaryOp::ne:
          return x != y;
        case BinaryOp::lt:
          return x < y;
        case BinaryOp::le:
          return x <= y;
        case BinaryOp::gt:
          return x > y;
        case BinaryOp::ge:
          return x >= y;
        case BinaryOp::logical_and:
          return x && y;
        case BinaryOp::logical_or:
          return x || y;
        default:
          throw std::logic_error("evaluate: binary");
      }
    }
    throw std::logic_error("evaluate: expression");
  }

 private:
  const Point& point_;
};

/// Variables with domains over which everything is enumerated: n in 1..13, io in [0, ceil(n/8)), ii in [0, 8), j in
/// [-5, 6), k in [0, n), and b, a multiple of 4.
struct Space {
  VarRef n = Var::make("n"), io = Var::make("io"), ii = Var::make("ii"), j = Var::make("j"), k = Var::make("k"),
         b = Var::make("b");
  Bounds bounds;

  Space() {
    bounds.bind(n, Interval{1, {}, 1, 0});
    bounds.bind(b, Interval{0, 12, 4, 0});
    bounds.bind(io, Range{index(0), floor_div(n + 7, 8)});
    bounds.bind(ii, Range{index(0), index(8)});
    bounds.bind(j, Range{index(-5), index(11)});
    bounds.bind(k, Range{index(0), n});
  }

  std::vector<VarRef> variables() const { return {n, io, ii, j, k, b}; }

  /// Calls f at every `stride`-th of some 1,400 points, starting at `first`: another sample each time keeps tests
  /// quick.
  template <class F>
  void each_point(int first, int stride, F&& f) const {
    Point point;
    int number = 0;
    for (std::int64_t vn : {1, 2, 5, 8, 9, 13})
      for (std::int64_t vio = 0; vio < (vn + 7) / 8; ++vio)
        for (std::int64_t vii : {0, 1, 5, 7})
          for (std::int64_t vj : {-5, -1, 0, 3, 5})
            for (std::int64_t vk : {std::int64_t{0}, vn / 2, vn - 1})
              for (std::int64_t vb : {0, 4, 12}) {
                if (number++ % stride != first % stride) continue;
                point[n.get()] = vn, point[io.get()] = vio, point[ii.get()] = vii;
                point[j.get()] = vj, point[k.get()] = vk, point[b.get()] = vb;
                f(point);
              }
  }
};

/// Seeded random index expressions over a Space.
class RandomExprs {
 public:
  RandomExprs(const Space& space, std::uint64_t seed) : space_(space), random_(seed) {}

  int below(int n) { return static_cast<int>(random_() % n); }

  Expr constant(int lanes) {
    static const int choices[] = {0, 1, 2, 3, 4, 7, 8, 16, -1, -3, -8, 5};
    return IntImm::make(i64.with_lanes(lanes), choices[below(12)]);
  }

  Expr number(int depth, int lanes = 1) {
    if (depth <= 0 || below(8) == 0) {
      if (below(4) == 0) return constant(lanes);
      if (lanes > 1 && below(2) == 0) return Ramp::make(number(depth - 1), IntImm::make(i64, below(6) - 1), lanes);
      auto variables = space_.variables();
      Expr v = variables[below(static_cast<int>(variables.size()))];
      return lanes > 1 ? Broadcast::make(v, lanes) : v;
    }
    auto two = [&](BinaryOp op) { return Binary::make(op, number(depth - 1, lanes), number(depth - 1, lanes)); };
    auto by_constant = [&](BinaryOp op) {
      static const int divisors[] = {2, 3, 4, 8, 16, 1, -4, 0};
      return Binary::make(op, number(depth - 1, lanes),
                          IntImm::make(i64.with_lanes(lanes), divisors[below(below(4) ? 5 : 8)]));
    };
    auto by_n = [&](BinaryOp op) {
      Expr n = space_.n;
      return Binary::make(op, number(depth - 1, lanes), lanes > 1 ? Broadcast::make(n, lanes) : n);
    };
    switch (below(14)) {
      case 0:
      case 1:
      case 2:
        return two(BinaryOp::add);
      case 3:
        return two(BinaryOp::sub);
      case 4:
      case 5:
        return Binary::make(BinaryOp::mul, number(depth - 1, lanes), constant(lanes));
      case 6:
        return by_constant(BinaryOp::floor_div);
      case 7:
        return by_constant(BinaryOp::floor_mod);
      case 8:
        return below(2) ? by_n(BinaryOp::floor_div) : by_n(BinaryOp::floor_mod);
      case 9:
        return two(BinaryOp::min);
      case 10:
        return two(BinaryOp::max);
      case 11:
        return Select::make(condition(depth - 1, lanes), number(depth - 1, lanes), number(depth - 1, lanes));
      case 12:
        return by_n(BinaryOp::mul);
      default:
        return Unary::make(UnaryOp::neg, number(depth - 1, lanes));
    }
  }

  Expr condition(int depth, int lanes = 1) {
    switch (below(depth > 0 ? 9 : 6)) {
      case 0:
        return Binary::make(BinaryOp::lt, number(depth - 1, lanes), number(depth - 1, lanes));
      case 1:
        return Binary::make(BinaryOp::le, number(depth - 1, lanes), number(depth - 1, lanes));
      case 2:
        return Binary::make(BinaryOp::gt, number(depth - 1, lanes), number(depth - 1, lanes));
      case 3:
        return Binary::make(BinaryOp::ge, number(depth - 1, lanes), number(depth - 1, lanes));
      case 4:
        return Binary::make(BinaryOp::eq, number(depth - 1, lanes), number(depth - 1, lanes));
      case 5:
        return Binary::make(BinaryOp::ne, number(depth - 1, lanes), number(depth - 1, lanes));
      case 6:
        return Binary::make(BinaryOp::logical_and, condition(depth - 1, lanes), condition(depth - 1, lanes));
      case 7:
        return Binary::make(BinaryOp::logical_or, condition(depth - 1, lanes), condition(depth - 1, lanes));
      default:
        return Unary::make(UnaryOp::logical_not, condition(depth - 1, lanes));
    }
  }

 private:
  const Space& space_;
  std::mt19937_64 random_;
};

}  // namespace lathe::testing
