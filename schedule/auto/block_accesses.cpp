#include <algorithm>
#include <numeric>
#include <unordered_map>
#include <utility>

#include "ir/analysis/simplify.h"
#include "ir/analysis/window.h"
#include "ir/structural.h"
#include "ir/visitor.h"
#include "schedule/access.h"
#include "schedule/auto/block_memo.h"
#include "schedule/auto/block_model.h"

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

}  // namespace

Accesses block_accesses(const Block& block) {
  return BlockMemo::ask(block, &BlockMemo::Known::accesses, [&] {
    AccessCollector collector(block);
    collector.visit(block.f.body);
    return Accesses(std::move(collector.found));
  });
}

}  // namespace lathe
