#include "schedule/auto/choice_points.h"

#include <algorithm>
#include <utility>

#include "ir/analysis/affine.h"
#include "ir/analysis/interval.h"
#include "ir/length.h"
#include "ir/visitor.h"
#include "schedule/access.h"
#include "schedule/auto/block_memo.h"
#include "schedule/auto/block_model.h"
#include "schedule/inlining.h"
#include "schedule/rewrite.h"

namespace lathe {
namespace {

/// The first value of an iter for which a comparison with a constant comes out differently; nothing for other ones.
struct Threshold {
  size_t iter;
  std::int64_t point;
};

/// As many choices inside of each other as a place is followed through.
constexpr int most_nested = 4;

std::optional<Threshold> threshold_of(const Block& block, const Affine& distance) {
  if (distance.terms.size() != 1) return std::nullopt;
  const std::int64_t step = distance.terms[0].coefficient;
  for (size_t i = 0; i < block.f.iters.size(); ++i) {
    if (distance.terms[0].atom != Expr(block.f.iters[i].variable)) continue;
    const auto steps = floor_div(Interval::point(distance.constant), Interval::point(std::abs(step))).as_point();
    if (!steps) return std::nullopt;
    return Threshold{i, step > 0 ? -*steps : *steps + 1};
  }
  return std::nullopt;
}

/// The number whose absolute value a place is, as in padding that reflects; null for others.
Expr reflected(const Expr& e) {
  const Unary* u = e.as<Unary>();
  return u && u->op == UnaryOp::abs && u->dtype == i64 ? u->a : nullptr;
}

/// What a choice of places takes: the arms of a select, a minimum or a maximum, an absolute value or its negative.
std::optional<std::pair<Expr, Expr>> arms_of(const Expr& e) {
  if (const Select* choice = e.as<Select>()) return std::pair{choice->when_true, choice->when_false};
  if (const Expr a = reflected(e)) return std::pair{a, -a};
  const Binary* b = e.as<Binary>();
  if (b && (b->op == BinaryOp::min || b->op == BinaryOp::max)) return std::pair{b->a, b->b};
  return std::nullopt;
}

/// Adds where the sign of `distance` changes, whichever arm a choice in it takes.
void add_thresholds(const Block& block, const Affine& distance, int nested, std::vector<Threshold>& found) {
  for (const AffineTerm& term : distance.terms) {
    const auto arms = arms_of(term.atom);
    if (!arms) continue;
    if (nested == 0) return;
    for (const Expr& arm : {arms->first, arms->second}) {
      Affine taken = distance;
      if (add_term(taken, term.atom, -term.coefficient) && add_scaled(taken, to_affine(arm), term.coefficient))
        add_thresholds(block, taken, nested - 1, found);
    }
    return;
  }
  if (const auto threshold = threshold_of(block, distance)) found.push_back(*threshold);
}

/// Where a comparison of places comes out differently, a minimum or maximum of two takes the other, or what an absolute
/// value is of changes its sign.
std::vector<Threshold> thresholds_of(const Block& block, const Expr& e) {
  std::vector<Threshold> found;
  if (const Expr a = reflected(e)) {
    add_thresholds(block, to_affine(a), most_nested, found);
    return found;
  }
  const Binary* comparison = e.as<Binary>();
  if (!comparison || comparison->a->dtype != i64) return {};
  const BinaryOp op = comparison->op;
  const bool less = op == BinaryOp::lt || op == BinaryOp::le || op == BinaryOp::min || op == BinaryOp::max;
  const bool more = op == BinaryOp::gt || op == BinaryOp::ge;
  if (!less && !more) return {};
  // It holds where distance >= 0.
  Affine distance = to_affine(less ? comparison->b : comparison->a);
  if (!add_scaled(distance, to_affine(less ? comparison->a : comparison->b), -1)) return {};
  if (op == BinaryOp::lt || op == BinaryOp::gt) distance.constant -= 1;
  add_thresholds(block, distance, most_nested, found);
  return found;
}

std::optional<JoinedAxis> find_joined_axis(const Block& block) {
  std::vector<std::set<std::int64_t>> joins(block.f.iters.size());
  for_each_expr(block.f.body, [&](const Expr& e) {
    const Select* choice = e.as<Select>();
    if (!choice || is_longer(choice->condition, most_index_nodes)) return;
    const std::vector<Threshold> thresholds = thresholds_of(block, choice->condition);
    if (thresholds.empty() || !has_load(choice->when_true) || !has_load(choice->when_false)) return;
    for (const Threshold& threshold : thresholds) joins[threshold.iter].insert(threshold.point);
  });
  for (size_t i = 0; i < joins.size(); ++i) {
    if (joins[i].size() + 1 >= many_operands) return JoinedAxis{i, joins[i].size() + 1};
  }
  return std::nullopt;
}

/// Adds where a remainder begins anew along the row: x[j % 100] reads x again and again.
void add_repeats(const Block& block, const Expr& e, size_t row, std::set<std::int64_t>& points) {
  const Binary* remainder = e.as<Binary>();
  const std::int64_t* divisor = remainder && remainder->op == BinaryOp::floor_mod ? as_int(remainder->b) : nullptr;
  const std::int64_t* extent = as_int(block.f.iters[row].domain.extent);
  if (!divisor || !extent || *divisor < 1 || *extent > most_parts * *divisor) return;
  const auto place = split_linear(remainder->a, block.f.iters[row].variable);
  const std::int64_t* offset = place && place->first == 1 ? as_int(place->second) : nullptr;
  if (!offset || !is_int(block.f.iters[row].domain.min, 0)) return;
  const std::int64_t into = (*offset % *divisor + *divisor) % *divisor;
  for (std::int64_t point = *divisor - into; point < *extent; point += *divisor) points.insert(point);
}

}  // namespace

std::optional<JoinedAxis> joined_axis(const Block& block) {
  return BlockMemo::ask(block, &BlockMemo::Known::joined_axis, [&] { return find_joined_axis(block); });
}

Points points_of(const Block& block, size_t row, bool has_digits) {
  Points points{std::vector<std::set<std::int64_t>>(block.f.iters.size()), {}};
  std::set<std::int64_t> repeats;
  const auto look = [&](const Expr& condition, bool jumps, bool places) {
    if (!condition) return;
    for_each_expr(condition, [&](const Expr& e) {
      if (!places && arms_of(e)) return;
      for (const Threshold& threshold : thresholds_of(block, e)) {
        const Range& domain = block.f.iters[threshold.iter].domain;
        const std::int64_t* extent = as_int(domain.extent);
        if (!extent || !is_int(domain.min, 0) || threshold.point <= 0 || *extent <= threshold.point) continue;
        points.of_iters[threshold.iter].insert(threshold.point);
        if (jumps && threshold.iter == row) points.jumps.insert(threshold.point);
      }
    });
  };
  for_each_expr(block.f.body, [&](const Expr& e) {
    if (const Select* choice = e.as<Select>())
      look(choice->condition, has_load(choice->when_true) && has_load(choice->when_false), false);
    if (const Load* load = e.as<Load>()) {
      look(load->mask, false, false);
      // Places that turn back or stand still at a border, as in padding.
      for (const Expr& index : load->indices) look(index, true, true);
    }
    if (!has_digits) add_repeats(block, e, row, repeats);
  });
  points.repeats = !repeats.empty();
  points.jumps.merge(repeats);
  points.of_iters[row].insert(points.jumps.begin(), points.jumps.end());
  return points;
}

}  // namespace lathe
