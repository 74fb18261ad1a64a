#include "ir/passes/transpose_loads.h"

#include <algorithm>
#include <cstdlib>
#include <map>
#include <optional>
#include <unordered_map>

#include "ir/analysis/affine.h"
#include "ir/analysis/narrow.h"
#include "ir/passes/straight_line.h"
#include "ir/structural.h"
#include "ir/visitor.h"

namespace lathe {
namespace {

/// Shuffles within this many bits are one instruction on today's machines; across them lanes of that size move whole.
constexpr int lane_bits = 128;
constexpr int fewest_lanes = 4;
/// The farthest place of a lane: such ones are the same in 32 bits.
constexpr std::int64_t largest_place = std::int64_t{1} << 30;
/// The bits of neighbours that go as one, at the most.
constexpr std::int64_t widest_group = 64;
/// The widest step between neighbours of a row, whose vectors are then picked out of whole ones.
constexpr std::int64_t widest_step = 4;

/// Which lanes of a column are loaded, and so which rows are: those of `from + k * step < bound`.
struct RowMask {
  Expr from, step, bound;
  Expr row(std::int64_t k) const { return lt(from + step * index(k), bound); }
};

bool same_rows(const std::optional<RowMask>& a, const std::optional<RowMask>& b) {
  if (!a || !b) return !a && !b;
  return equal(a->from, b->from) && equal(a->step, b->step) && equal(a->bound, b->bound);
}

/// The integer of each lane, where it is known.
std::optional<std::vector<std::int64_t>> lanes_of(const Expr& e) {
  const auto lanes = static_cast<size_t>(e->dtype.lanes);
  if (const std::int64_t* value = as_int(e)) return std::vector<std::int64_t>(lanes, *value);
  if (const Broadcast* node = e.as<Broadcast>()) {
    const std::int64_t* value = as_int(node->value);
    return value ? std::optional(std::vector<std::int64_t>(lanes, *value)) : std::nullopt;
  }
  if (const Ramp* node = e.as<Ramp>()) {
    const std::int64_t *base = as_int(node->base), *step = as_int(node->stride);
    if (!base || !step) return std::nullopt;
    std::vector<std::int64_t> places;
    for (size_t lane = 0; lane < lanes; ++lane) places.push_back(*base + *step * static_cast<std::int64_t>(lane));
    return places;
  }
  if (const Cast* node = e.as<Cast>()) {
    const DType from = node->value->dtype;
    return from.is_integer() && from.bits <= e->dtype.bits && e->dtype.is_signed() ? lanes_of(node->value)
                                                                                   : std::nullopt;
  }
  const Binary* node = e.as<Binary>();
  if (!node) return std::nullopt;
  auto a = lanes_of(node->a);
  const auto b = lanes_of(node->b);
  if (!a || !b) return std::nullopt;
  for (size_t lane = 0; lane < lanes; ++lane) {
    std::int64_t& value = (*a)[lane];
    const std::int64_t other = (*b)[lane];
    const bool divides = node->op == BinaryOp::floor_div || node->op == BinaryOp::floor_mod;
    if (divides && (value < 0 || other <= 0)) return std::nullopt;
    switch (node->op) {
      case BinaryOp::add:
        value += other;
        break;
      case BinaryOp::sub:
        value -= other;
        break;
      case BinaryOp::mul:
        value *= other;
        break;
      case BinaryOp::floor_div:
        value /= other;
        break;
      case BinaryOp::floor_mod:
        value %= other;
        break;
      default:
        return std::nullopt;
    }
    if (std::abs(value) > largest_place) return std::nullopt;
  }
  return a;
}

/// Where a vector begins, how far its rows lie apart, and the lanes of each: neighbours, or all the same.
struct ColumnPlace {
  Expr base, stride;
  std::int64_t group = 1, spread = 1;
};

/// Nothing of a vector that reads no column.
std::optional<ColumnPlace> column_place(const Expr& place) {
  if (const Ramp* ramp = place.as<Ramp>()) return ColumnPlace{ramp->base, ramp->stride};
  const LaneSum sum = lane_sum(place);
  const auto places = sum.varying ? lanes_of(sum.varying) : std::nullopt;
  if (!places) return std::nullopt;
  const auto count = static_cast<std::int64_t>(places->size());
  const auto run = [&](std::int64_t step) {
    std::int64_t length = 1;
    while (length < count && (*places)[length] == (*places)[0] + length * step) ++length;
    return length;
  };
  const std::int64_t group = run(1), spread = run(0), lanes = std::max(group, spread);
  if (lanes == count || count % lanes != 0) return std::nullopt;
  const std::int64_t first = (*places)[0], step = (*places)[lanes] - first;
  for (std::int64_t lane = 0; lane < count; ++lane) {
    if ((*places)[lane] != first + lane / lanes * step + (group > 1 ? lane % lanes : 0)) return std::nullopt;
  }
  const Expr base = sum.uniform ? cast(i64, sum.uniform) + index(first) : index(first);
  return ColumnPlace{base, index(step), group, spread};
}

/// The mask of groups of neighbours where it is such a comparison, or a variable that one of the Lets has for it.
std::optional<RowMask> row_mask(const Expr& mask, std::int64_t group, const std::vector<const Let*>& lets) {
  Expr value = mask;
  for (size_t i = lets.size(); i-- > 0 && value.as<Var>();) {
    if (Expr(lets[i]->variable) == value) value = lets[i]->value;
  }
  const Binary* compared = value.as<Binary>();
  const auto from = compared && compared->op == BinaryOp::lt ? column_place(compared->a) : std::nullopt;
  if (!from || from->group > 1 || from->spread != group || !(from->base->dtype == i64)) return std::nullopt;
  if (const Broadcast* bound = compared->b.as<Broadcast>())
    return RowMask{from->base, from->stride, cast(i64, bound->value)};
  if (const IntImm* bound = compared->b.as<IntImm>()) return RowMask{from->base, from->stride, index(bound->value)};
  return std::nullopt;
}

/// Loads of a buffer at one stride, and under one mask, whose starts differ by constants.
struct Family {
  const Load* first;
  ColumnPlace place;
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
    if (node->dtype.lanes < fewest_lanes || node->indices.size() != 1 || node->buffer->space == space::registers)
      return;
    const auto place = column_place(node->indices[0]);
    if (!place || place->spread > 1) return;
    const std::int64_t lanes = node->dtype.lanes / place->group;
    const std::optional<RowMask> rows = node->mask ? row_mask(node->mask, place->group, *lets_) : std::nullopt;
    if (node->mask && !rows) return;
    if (lanes < fewest_lanes || (lanes & (lanes - 1)) != 0 || (place->group & (place->group - 1)) != 0 ||
        node->dtype.lanes * node->dtype.bits > 2 * lane_bits || place->group * node->dtype.bits > widest_group)
      return;
    const std::int64_t* step = as_int(place->stride);
    if (step && std::abs(*step) < node->dtype.lanes) return;
    statement_of_.emplace(node, statement_);
    const Affine base = to_affine(place->base);
    for (Family& family : families_) {
      Affine distance = base;
      if (family.first->buffer == node->buffer && family.first->dtype == node->dtype &&
          family.place.group == place->group && equal(family.place.stride, place->stride) &&
          same_rows(family.rows, rows) && add_scaled(distance, family.base, -1) && distance.is_constant()) {
        family.at.emplace(distance.constant, node);
        return;
      }
    }
    families_.push_back({node, *place, rows, base, {{0, node}}});
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

/// The order of lanes for one of groups of so many.
std::vector<int> of_groups(const std::vector<int>& order, int group) {
  std::vector<int> lanes;
  for (const int i : order) {
    for (int e = 0; e < group; ++e) lanes.push_back(i * group + e);
  }
  return lanes;
}

/// The columns of a square whose rows are given, each element a group of so many lanes. First the rows are woven
/// together within each lane, pairs of runs of 1, 2, 4 .. elements, so that the j-th vector of a group of rows has
/// column j of each lane; then lanes are exchanged.
std::vector<Expr> columns_of(std::vector<Expr> rows, int group_lanes, Bound& bound) {
  const int n = static_cast<int>(rows.size());
  const int width = std::min(n, lane_bits / (rows[0]->dtype.bits * group_lanes));
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
          next[group + 2 * j + half] = bind(bound, "woven", Shuffle::make({a, b}, of_groups(order, group_lanes)));
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
      columns[lane * width + j] =
          bind(bound, "column", Shuffle::make({vectors[j], vectors[width + j]}, of_groups(order, group_lanes)));
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
  if (family.place.group > 1) return family.place.group;
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
    const std::int64_t group = family.place.group, lanes = family.first->dtype.lanes / group;
    const Expr& start = family.place.base;
    if (static_cast<std::int64_t>(family.at.size()) < lanes || uses_any(start, run) ||
        uses_any(family.place.stride, run))
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
        Affine step = to_affine(family.place.stride);
        const bool exact = add_scaled(at, step, k);
        const Expr place = exact ? to_expr(at) : start + index(low) + family.place.stride * index(k);
        const int count = family.first->dtype.lanes;
        const Expr mask = family.rows ? Broadcast::make(family.rows->row(k), count) : nullptr;
        rows.push_back(
            bind(bound, "row",
                 Load::make(family.first->buffer, {Ramp::make(place, index(group > 1 ? 1 : unit), count)}, mask)));
      }
      const std::vector<Expr> turned = columns_of(std::move(rows), static_cast<int>(group), bound);
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
