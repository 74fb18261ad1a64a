#include "schedule/auto/block_model.h"

#include <algorithm>
#include <numeric>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "ir/analysis/exact_floats.h"
#include "ir/analysis/simplify.h"
#include "ir/analysis/window.h"
#include "ir/intrinsics.h"
#include "ir/passes/math/functions.h"
#include "ir/structural.h"
#include "ir/visitor.h"
#include "schedule/access.h"

namespace lathe {
namespace {

/// The length of aligned runs of a variable during which indices stay as they are: the greatest common divisor of all
/// c in `variable // c`, or 1 when they use it otherwise.
class RunLength : public Visitor {
 public:
  explicit RunLength(const VarRef& variable) : variable_(variable) {}
  using Visitor::visit;
  std::int64_t length = 0;

  void visit(const Expr& e) override {
    if (e->references.load(std::memory_order_relaxed) == 1 || seen_.insert(e.get())) Visitor::visit(e);
  }

 protected:
  void visit_Var(const Var* node) override {
    if (node == variable_.get()) length = 1;
  }
  void visit_Binary(const Binary* node) override {
    const std::int64_t* divisor = node->op == BinaryOp::floor_div ? as_int(node->b) : nullptr;
    if (divisor && *divisor > 0 && node->a == Expr(variable_)) {
      length = std::gcd(length, *divisor);
    } else {
      Visitor::visit_Binary(node);
    }
  }

 private:
  const VarRef& variable_;
  NodeSet<const ExprNode*> seen_;
};

std::int64_t run_length(const std::vector<Expr>& indices, const VarRef& variable) {
  RunLength runs(variable);
  for (const Expr& index : indices) runs.visit(index);
  return std::max<std::int64_t>(1, runs.length);
}

class AccessCollector : public Visitor {
 public:
  explicit AccessCollector(const Block& block) : block_(block) {}
  using Visitor::visit;

  void visit(const Expr& e) override {
    if (e && seen_.insert(e.get())) Visitor::visit(e);
  }

  std::vector<Access> found;

 protected:
  void visit_Let(const Let* node) override {
    visit(node->value);
    if (node->variable->dtype == i64) values_[node->variable.get()] = substitute(node->value, values_);
    visit(node->body);
  }
  void visit_Load(const Load* node) override {
    if (is_new(node)) add(node->buffer, node->indices, node->mask, false);
    Visitor::visit_Load(node);
  }
  void visit_Store(const Store* node) override {
    add(node->buffer, node->indices, node->mask, true);
    Visitor::visit_Store(node);
  }

 private:
  /// Of loads that are alike, as copies of what was inlined are, one counts.
  bool is_new(const Load* node) {
    std::vector<const Load*>& same = loads_[node->buffer.get()];
    const auto alike = [&](const Expr& a, const Expr& b) { return a == b || (a && b && equal(a, b)); };
    if (std::any_of(same.begin(), same.end(), [&](const Load* other) {
          return alike(node->mask, other->mask) &&
                 std::equal(node->indices.begin(), node->indices.end(), other->indices.begin(), alike);
        }))
      return false;
    same.push_back(node);
    return true;
  }

  void add(const Buffer& buffer, const std::vector<Expr>& indices, const Expr& mask, bool store) {
    Access access{buffer, store, static_cast<bool>(mask), {}, {}, {}, {}};
    const std::vector<Expr> strides = strides_of(buffer);
    Expr flat;
    for (const Iter& iter : block_.f.iters) {
      std::optional<std::int64_t> total = 0;
      for (size_t d = 0; d < indices.size() && total; ++d) {
        const auto parts = split_linear(place_of(indices[d]), iter.variable);
        const std::int64_t* stride = as_int(strides[d]);
        if (!parts) {
          total = std::nullopt;
        } else if (parts->first != 0) {
          total = stride ? std::optional(*total + parts->first * *stride) : std::nullopt;
        }
      }
      if (!total) {
        // Rows that were joined: of i // 4 and i % 4 in rows of 4 elements the sum is i.
        if (!flat) flat = flat_place(buffer, indices);
        const auto parts = split_linear(flat, iter.variable);
        if (parts) total = parts->first;
      }
      access.distances.push_back(total ? std::abs(*total) : least_distance(buffer, strides, indices, iter.variable));
      access.runs.push_back(total ? 1 : run_length(indices, iter.variable));
      access.gains.push_back(total ? std::nullopt : gain_of(indices, strides, iter.variable));
      access.strides.push_back(total);
    }
    found.push_back(std::move(access));
  }

  /// Strides, where constants: of the others the span of those before them, the nearest dimension first.
  static std::vector<std::int64_t> least_apart(const Buffer& buffer, const std::vector<Expr>& strides) {
    std::vector<std::int64_t> apart(strides.size());
    std::int64_t span = 1;
    const auto lie = [&](size_t d, std::int64_t step) {
      apart[d] = step;
      span = std::max(span, step * extent_estimate(buffer->shape[d]));
    };
    for (size_t d = 0; d < strides.size(); ++d) {
      if (const std::int64_t* stride = as_int(strides[d])) lie(d, std::abs(*stride));
    }
    for (size_t d = strides.size(); d-- > 0;) {
      if (!as_int(strides[d])) lie(d, span);
    }
    return apart;
  }

  /// With what its variables were let be.
  Expr place_of(const Expr& index) const { return values_.empty() ? index : substitute(index, values_); }

  /// Access::distances of an iter without a constant stride.
  std::int64_t least_distance(const Buffer& buffer, const std::vector<Expr>& strides, const std::vector<Expr>& indices,
                              const VarRef& variable) const {
    const std::vector<std::int64_t> apart = least_apart(buffer, strides);
    std::int64_t distance = 0;
    for (size_t d = 0; d < indices.size(); ++d) {
      const auto parts = split_linear(place_of(indices[d]), variable);
      if (!parts) return 0;
      distance += std::abs(parts->first) * apart[d];
    }
    return distance;
  }

  Expr flat_place(const Buffer& buffer, const std::vector<Expr>& indices) {
    return simplify(substitute(flat_index(buffer, indices), values_), bounds());
  }

  std::optional<std::int64_t> gain_of(const std::vector<Expr>& indices, const std::vector<Expr>& strides,
                                      const VarRef& variable) {
    std::int64_t total = 0;
    for (size_t d = 0; d < indices.size(); ++d) {
      const auto gain = greatest_gain(place_of(indices[d]), variable, Access::gain_steps, bounds());
      const std::int64_t* stride = as_int(strides[d]);
      if (gain == 0) continue;
      if (!gain || !stride || *stride != 1) return std::nullopt;
      total += *gain;
    }
    return total;
  }

  const Bounds& bounds() {
    if (bounds_) return *bounds_;
    bounds_.emplace();
    for (const Iter& iter : block_.f.iters) bounds_->bind(iter.variable, iter.domain);
    return *bounds_;
  }

  const Block& block_;
  std::optional<Bounds> bounds_;
  Substitution values_;
  NodeSet<const ExprNode*> seen_;
  std::unordered_map<const BufferNode*, std::vector<const Load*>> loads_;
};

double unary_cost(UnaryOp op, DType dtype) {
  switch (op) {
    case UnaryOp::neg:
    case UnaryOp::bit_not:
    case UnaryOp::logical_not:
    case UnaryOp::abs:
    case UnaryOp::floor:
    case UnaryOp::ceil:
    case UnaryOp::trunc:
    case UnaryOp::round:
    case UnaryOp::is_nan:
    case UnaryOp::is_inf:
    case UnaryOp::is_finite:
    case UnaryOp::signbit:
      return 1;
    case UnaryOp::sqrt:
    case UnaryOp::rsqrt:
      return 8;
    case UnaryOp::exp:
    case UnaryOp::exp2:
    case UnaryOp::log:
    case UnaryOp::log2:
      return dtype.bits == 32 ? 16 : 40;
    default:
      return dtype.bits == 32 ? 24 : 60;
  }
}

/// A power by a constant that takes a few products or a root.
bool is_power_by_products(const Binary& power) {
  if (power.op != BinaryOp::pow) return false;
  if (as_int(power.b)) return true;
  const FloatImm* exponent = power.b.as<FloatImm>();
  return exponent && math::is_constant_power(power.dtype, exponent->value);
}

double binary_cost(BinaryOp op, DType dtype, bool by_products) {
  switch (op) {
    case BinaryOp::div:
      return 6;
    case BinaryOp::floor_div:
    case BinaryOp::floor_mod:
      return dtype.is_float() ? 10 : 20;
    case BinaryOp::pow:
      return by_products ? 4 : 50;
    case BinaryOp::atan2:
    case BinaryOp::hypot:
      return 40;
    case BinaryOp::nextafter:
      return 8;
    default:
      return 1;
  }
}

/// Rounding to bf16: by hand, since the instruction for it flushes subnormal numbers.
constexpr double narrowing_cost = 9;

bool is_rounded(const Cast& cast) {
  return cast.dtype.element() == bf16 && cast.value->dtype.is_float() && !fits_exactly(cast.value, cast.dtype);
}

/// Adds up costs of value computations; index arithmetic is taken for free, as it is shared along a vector.
class CostSum : public Visitor {
 public:
  using Visitor::visit;
  void visit(const Expr& e) override {
    if (!e || !seen_.insert(e.get())) return;
    switch (e->kind) {
      case ExprKind::Load:
        total += 1;
        if (const Load* load = e.as<Load>(); load->mask) total += 1;
        for (const Expr& index : e.as<Load>()->indices) {
          for_each_expr(index, [&](const Expr& sub) { total += sub.as<Load>() ? 4 : 0; });
        }
        return;
      case ExprKind::Unary:
        total += unary_cost(e.as<Unary>()->op, e->dtype);
        break;
      case ExprKind::Binary:
        total +=
            e->dtype == i64 ? 0.5 : binary_cost(e.as<Binary>()->op, e->dtype, is_power_by_products(*e.as<Binary>()));
        break;
      case ExprKind::Select:
        total += 1;
        break;
      case ExprKind::Cast:
        total += is_rounded(*e.as<Cast>()) ? narrowing_cost : 1;
        break;
      case ExprKind::Call:
        total += e.as<Call>()->call_kind == CallKind::intrinsic ? 1 : 60;
        break;
      default:
        break;
    }
    Visitor::visit(e);
  }
  double total = 0;

 protected:
  void visit_Store(const Store* node) override {
    total += 1;
    visit(node->value);
  }

 private:
  NodeSet<const ExprNode*> seen_;
};

thread_local AccessMemo* memo = nullptr;

/// The buffers whose elements a body computes with, not with where they lead to.
class ValueLoads : public Visitor {
 public:
  using Visitor::visit;
  void visit(const Expr& e) override {
    if (e && seen_.insert(e.get())) Visitor::visit(e);
  }
  std::unordered_set<const BufferNode*> buffers;

 protected:
  void visit_Load(const Load* node) override { buffers.insert(node->buffer.get()); }
  void visit_Store(const Store* node) override { visit(node->value); }

 private:
  NodeSet<const ExprNode*> seen_;
};

}  // namespace

AccessMemo::AccessMemo() : around_(std::exchange(memo, this)) {}

AccessMemo::~AccessMemo() {
  memo = around_;
}

std::vector<Access> block_accesses(const Block& block) {
  if (memo) {
    const auto found = std::find_if(memo->known_.begin(), memo->known_.end(),
                                    [&](const AccessMemo::Known& known) { return known.block.get() == &block; });
    if (found != memo->known_.end()) return found->accesses;
  }
  AccessCollector collector(block);
  collector.visit(block.f.body);
  // A block that nobody counts may be gone, and another stand in its place.
  if (!memo || block.references.load(std::memory_order_relaxed) == 0) return std::move(collector.found);
  AccessMemo::Known known{Stmt(&block), collector.found};
  if (memo->known_.size() < AccessMemo::most) {
    memo->known_.push_back(std::move(known));
  } else {
    memo->known_[memo->oldest_++ % AccessMemo::most] = std::move(known);
  }
  return std::move(collector.found);
}

std::int64_t extent_estimate(const Expr& extent, const std::vector<Fact>& facts) {
  if (const std::int64_t* value = as_int(extent)) return *value;
  if (const Var* variable = extent.as<Var>()) {
    std::int64_t value = assumed_extent;
    for (const Fact& fact : facts) {
      if (fact.variable.get() != variable) continue;
      if (fact.max) value = std::min(value, *fact.max);
      if (fact.min) value = std::max(value, *fact.min);
    }
    return value;
  }
  const Binary* node = extent.as<Binary>();
  if (!node) return assumed_extent;
  const std::int64_t a = extent_estimate(node->a, facts), b = extent_estimate(node->b, facts);
  switch (node->op) {
    case BinaryOp::add:
      return a + b;
    case BinaryOp::sub:
      return std::max<std::int64_t>(a - b, 0);
    case BinaryOp::mul:
      return a * b;
    case BinaryOp::floor_div:
      return a / std::max<std::int64_t>(b, 1);
    case BinaryOp::floor_mod:
      return a % std::max<std::int64_t>(b, 1);
    case BinaryOp::min:
      return std::min(a, b);
    case BinaryOp::max:
      return std::max(a, b);
    default:
      return assumed_extent;
  }
}

std::optional<std::int64_t> greatest_extent(const Expr& extent, const Func& func) {
  if (const std::int64_t* value = as_int(extent)) return *value;
  return Bounds(func).interval(extent).max;
}

double instance_count(const Block& block, const std::vector<Fact>& facts) {
  double count = 1;
  for (const Iter& iter : block.f.iters) count *= static_cast<double>(extent_estimate(iter.domain.extent, facts));
  return count;
}

double estimated_elements(const Buffer& buffer, const std::vector<Fact>& facts) {
  double elements = 1;
  for (const Expr& extent : buffer->shape) elements *= static_cast<double>(extent_estimate(extent, facts));
  return elements;
}

std::optional<std::int64_t> constant_elements(const Buffer& buffer) {
  std::int64_t elements = 1;
  for (const Expr& extent : buffer->shape) {
    const std::int64_t* value = as_int(extent);
    if (!value) return std::nullopt;
    elements *= *value;
  }
  return elements;
}

double expression_cost(const Expr& e) {
  CostSum sum;
  sum.visit(e);
  return sum.total;
}

double body_cost(const Stmt& body) {
  CostSum sum;
  sum.visit(body);
  return sum.total;
}

double instance_nanoseconds(const Block& block, bool vector) {
  // A unit of expression_cost in vector code of 16 lanes at about 4 GHz, two instructions a cycle; in scalar code.
  constexpr double vector_unit = 0.02, scalar_unit = 0.2;
  // What a reduction accumulates in stays in registers, and tiles share what they load.
  const double cost = body_cost(block.f.body) - (block.f.reducer ? 4 : 0);
  return std::max(cost, 1.0) * (vector ? vector_unit : scalar_unit);
}

int widest_bits(const Block& block, const std::function<bool(const Buffer&)>& counts) {
  int bits = 8;
  const auto widen = [&](DType dtype) { bits = std::max(bits, static_cast<int>(dtype.bits)); };
  for (const Region& region : block.f.reads) {
    if (!counts || counts(region.buffer)) widen(region.buffer->dtype);
  }
  for (const Region& region : block.f.writes) widen(region.buffer->dtype);
  for_each_expr(block.f.body, [&](const Expr& e) {
    if (e->dtype != i64) widen(e->dtype);
  });
  return bits;
}

bool takes_shared_elements(const Block& block) {
  bool pairs = false;
  for_each_expr(block.f.body, [&](const Expr& e) { pairs |= as_intrinsic(e, "dot_halves") != nullptr; });
  return !pairs;
}

int vector_lanes(const Block& block, const Device& device) {
  return std::max(1, device.lanes(widest_bits(block)));
}

int vector_lanes(const Block& block, const Device& device, const std::vector<Access>& accesses, size_t iter) {
  const int bits = widest_bits(block);
  if (bits < i64.bits) return std::max(1, device.lanes(bits));
  ValueLoads values;
  values.visit(block.f.body);
  const auto varies = [&](const Buffer& buffer) {
    return values.buffers.contains(buffer.get()) || std::any_of(accesses.begin(), accesses.end(), [&](const Access& a) {
             return a.buffer == buffer && a.strides[iter] != 0;
           });
  };
  return std::max(1, device.lanes(widest_bits(block, varies)));
}

}  // namespace lathe
