#include "ir/passes/transpose_loads.h"

#include <algorithm>
#include <cstdlib>
#include <map>
#include <optional>
#include <unordered_map>

#include "ir/analysis/affine.h"
#include "ir/passes/straight_line.h"
#include "ir/structural.h"
#include "ir/visitor.h"

namespace lathe {
namespace {

/// Shuffles within this many bits are one instruction on today's machines; across them lanes of that size move whole.
constexpr int lane_bits = 128;
constexpr int fewest_lanes = 4;
/// The widest step between neighbours of a row, whose vectors are then picked out of whole ones.
constexpr std::int64_t widest_step = 4;

/// Which lanes of a column are loaded, and so which rows are: those of `from + k * step < bound`.
struct RowMask {
  Expr from, step, bound;
  Expr row(std::int64_t k) const { return lt(from + step * index(k), bound); }
};

/// The mask where it is such a comparison, or a variable that one of the Lets has for it.
std::optional<RowMask> row_mask(const Expr& mask, const std::vector<const Let*>& lets) {
  Expr value = mask;
  for (size_t i = lets.size(); i-- > 0 && value.as<Var>();) {
    if (Expr(lets[i]->variable) == value) value = lets[i]->value;
  }
  const Binary* compared = value.as<Binary>();
  const Ramp* from = compared && compared->op == BinaryOp::lt ? compared->a.as<Ramp>() : nullptr;
  if (!from || !(from->base->dtype == i64)) return std::nullopt;
  if (const Broadcast* bound = compared->b.as<Broadcast>()) return RowMask{from->base, from->stride, bound->value};
  if (const IntImm* bound = compared->b.as<IntImm>()) return RowMask{from->base, from->stride, index(bound->value)};
  return std::nullopt;
}

bool same_rows(const std::optional<RowMask>& a, const std::optional<RowMask>& b) {
  if (!a || !b) return !a && !b;
  return equal(a->from, b->from) && equal(a->step, b->step) && equal(a->bound, b->bound);
}

/// Loads of a buffer at one stride, and under one mask, whose starts differ by constants.
struct Family {
  const Load* first;
  Expr stride;
  std::optional<RowMask> rows;
  Affine base;
  std::multimap<std::int64_t, const Load*> at;  ///< by distance from the first's start
};

/// Collects the loads by columns of a run of statements.
class ColumnCollector : public Visitor {
 public:
  using Visitor::visit;
  void visit(const Expr& e) override {
    if (e && seen_.insert(e.get())) Visitor::visit(e);
  }
  void collect(const StraightStatement& statement) {
    lets_ = &statement.lets;
    for (const Let* let : statement.lets) visit(let->value);
    visit(statement.store->value);
    ++statement_;
  }
  const std::vector<Family>& families() const { return families_; }
  /// The position of the first statement that has the load.
  size_t statement_of(const Load* load) const { return statement_of_.at(load); }

 protected:
  void visit_Load(const Load* node) override {
    Visitor::visit_Load(node);
    const Ramp* ramp = node->indices.size() == 1 ? node->indices[0].as<Ramp>() : nullptr;
    const int lanes = node->dtype.lanes;
    if (!ramp || node->buffer->space == space::registers) return;
    const std::optional<RowMask> rows = node->mask ? row_mask(node->mask, *lets_) : std::nullopt;
    if (node->mask && !rows) return;
    if (lanes < fewest_lanes || (lanes & (lanes - 1)) != 0 || lanes * node->dtype.bits > 2 * lane_bits) return;
    const std::int64_t* step = as_int(ramp->stride);
    if (step && std::abs(*step) < lanes) return;
    statement_of_.emplace(node, statement_);
    const Affine base = to_affine(ramp->base);
    for (Family& family : families_) {
      Affine distance = base;
      if (family.first->buffer == node->buffer && family.first->dtype == node->dtype &&
          equal(family.stride, ramp->stride) && same_rows(family.rows, rows) && add_scaled(distance, family.base, -1) &&
          distance.is_constant()) {
        family.at.emplace(distance.constant, node);
        return;
      }
    }
    families_.push_back({node, ramp->stride, rows, base, {{0, node}}});
  }

 private:
  std::vector<Family> families_;
  const std::vector<const Let*>* lets_ = nullptr;
  NodeSet<const ExprNode*> seen_;
  std::unordered_map<const Load*, size_t> statement_of_;
  size_t statement_ = 0;
};

using Bound = std::vector<std::pair<VarRef, Expr>>;

Expr bind(Bound& bound, const char* name, Expr value) {
  const VarRef variable = Var::make(name, value->dtype);
  bound.emplace_back(variable, std::move(value));
  return variable;
}

/// The columns of a square whose rows are given. First the rows are woven together within each lane, pairs of runs of
/// 1, 2, 4 .. elements, so that the j-th vector of a group of rows has column j of each lane; then lanes are exchanged.
std::vector<Expr> columns_of(std::vector<Expr> rows, Bound& bound) {
  const int n = static_cast<int>(rows.size());
  const int width = std::min(n, lane_bits / rows[0]->dtype.bits);
  std::vector<Expr> vectors = std::move(rows);
  for (int run = 1; run < width; run *= 2) {
    std::vector<Expr> next(vectors.size());
    for (int group = 0; group < n; group += 2 * run) {
      for (int j = 0; j < run; ++j) {
        const Expr &a = vectors[group + j], &b = vectors[group + run + j];
        for (const int half : {0, 1}) {
          std::vector<int> order;
          for (int lane = 0; lane < n; lane += width) {
            for (int i = 0; i < width; i += 2 * run) {
              const int from = lane + half * width / 2 + i / 2;
              for (int e = 0; e < run; ++e) order.push_back(from + e);
              for (int e = 0; e < run; ++e) order.push_back(n + from + e);
            }
          }
          next[group + 2 * j + half] = bind(bound, "woven", Shuffle::make({a, b}, std::move(order)));
        }
      }
    }
    vectors = std::move(next);
  }
  if (width == n) return vectors;
  std::vector<Expr> columns(vectors.size());
  for (int j = 0; j < width; ++j) {
    for (const int lane : {0, 1}) {
      std::vector<int> order;
      for (const int source : {0, 1}) {
        for (int e = 0; e < width; ++e) order.push_back(source * n + lane * width + e);
      }
      columns[lane * width + j] = bind(bound, "column", Shuffle::make({vectors[j], vectors[width + j]}, order));
    }
  }
  return columns;
}

class LoadReplacer : public Mutator {
 public:
  explicit LoadReplacer(const std::unordered_map<const Load*, Expr>& columns) : columns_(columns) {}
  using Mutator::mutate;

 protected:
  Expr mutate_Load(const Expr& e, const Load* node) override {
    const auto found = columns_.find(node);
    return found == columns_.end() ? Mutator::mutate_Load(e, node) : found->second;
  }

 private:
  const std::unordered_map<const Load*, Expr>& columns_;
};

bool uses_any(const Expr& e, const std::vector<StraightStatement>& run) {
  return std::any_of(run.begin(), run.end(), [&](const StraightStatement& one) {
    return std::any_of(one.lets.begin(), one.lets.end(),
                       [&](const Let* let) { return uses_var(e, let->variable.get()); });
  });
}

/// The step from a column to the next one, where there is one.
std::int64_t column_step(const Family& family, std::multimap<std::int64_t, const Load*>::const_iterator from) {
  const auto next = family.at.upper_bound(from->first);
  const std::int64_t step = next == family.at.end() ? 1 : next->first - from->first;
  return step <= widest_step ? step : 1;
}

/// The run with its whole squares read by rows; null when it has none.
Stmt by_rows(const std::vector<StraightStatement>& run) {
  ColumnCollector collector;
  for (const StraightStatement& one : run) collector.collect(one);
  std::vector<Bound> before(run.size());
  std::unordered_map<const Load*, Expr> columns;
  for (const Family& family : collector.families()) {
    const std::int64_t lanes = family.first->dtype.lanes;
    const Expr start = family.first->indices[0].as<Ramp>()->base;
    if (static_cast<std::int64_t>(family.at.size()) < lanes || uses_any(start, run) || uses_any(family.stride, run))
      continue;
    if (family.rows && (uses_any(family.rows->from, run) || uses_any(family.rows->bound, run))) continue;
    for (auto from = family.at.begin(); from != family.at.end();) {
      const std::int64_t low = from->first, unit = column_step(family, from);
      std::int64_t covered = 0;
      auto end = from;
      while (end != family.at.end() && end->first - low <= covered && end->first - low < lanes * unit) {
        covered = end->first - low + unit;
        ++end;
      }
      if (covered < lanes * unit ||
          std::any_of(from, end, [&](const auto& at) { return (at.first - low) % unit != 0; })) {
        from = end;
        continue;
      }
      // As late as can be: rows and columns fill registers.
      size_t first_use = run.size();
      for (auto load = from; load != end; ++load) first_use = std::min(first_use, collector.statement_of(load->second));
      Bound& bound = before[first_use];
      std::vector<Expr> rows;
      for (std::int64_t k = 0; k < lanes; ++k) {
        Affine at = family.base;
        at.constant += low;
        Affine step = to_affine(family.stride);
        const bool exact = add_scaled(at, step, k);
        const Expr place = exact ? to_expr(at) : start + index(low) + family.stride * index(k);
        const auto count = static_cast<int>(lanes);
        const Expr mask = family.rows ? Broadcast::make(family.rows->row(k), count) : nullptr;
        rows.push_back(
            bind(bound, "row", Load::make(family.first->buffer, {Ramp::make(place, index(unit), count)}, mask)));
      }
      const std::vector<Expr> turned = columns_of(std::move(rows), bound);
      for (; from != end; ++from) columns[from->second] = turned[static_cast<size_t>((from->first - low) / unit)];
    }
  }
  if (columns.empty()) return nullptr;
  LoadReplacer replacer(columns);
  std::vector<Stmt> behind;
  for (size_t i = run.size(); i-- > 0;) {
    behind.insert(behind.begin(), replacer.mutate(run[i].stmt));
    if (before[i].empty()) continue;
    behind = {below_lets(before[i], Seq::make(std::move(behind)))};
  }
  return Seq::make(std::move(behind));
}

}  // namespace

Func transpose_loads(const Func& func) {
  return rewrite_straight_runs(func, by_rows);
}

}  // namespace lathe
