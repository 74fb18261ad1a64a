#include "schedule/auto/cut_choices.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "ir/analysis/affine.h"
#include "ir/visitor.h"
#include "schedule/access.h"
#include "schedule/auto/block_model.h"
#include "schedule/auto/stream_outputs.h"
#include "schedule/complete.h"
#include "schedule/primitives/split_domain.h"
#include "schedule/rewrite.h"

namespace lathe {
namespace {

/// Every block that comes of it is compiled for itself.
constexpr std::int64_t most_parts = 8;
/// Vectors that a block has at the least, and those of a row that is cut itself.
constexpr std::int64_t least_vectors = 8, least_row_vectors = 4;
/// What a block's choices may leave of its cost for each part, at the most.
constexpr double costly_body = 8;

/// The first value of an iter for which a comparison with a constant comes out differently; nothing for other ones.
struct Threshold {
  size_t iter;
  std::int64_t point;
};

std::optional<Threshold> threshold_of(const Block& block, const Expr& condition) {
  const Binary* comparison = condition.as<Binary>();
  if (!comparison || comparison->a->dtype != i64) return std::nullopt;
  const bool less = comparison->op == BinaryOp::lt || comparison->op == BinaryOp::le;
  const bool more = comparison->op == BinaryOp::gt || comparison->op == BinaryOp::ge;
  if (!less && !more) return std::nullopt;
  // It holds where distance >= 0.
  Affine distance = to_affine(less ? comparison->b : comparison->a);
  if (!add_scaled(distance, to_affine(less ? comparison->a : comparison->b), -1)) return std::nullopt;
  if (comparison->op == BinaryOp::lt || comparison->op == BinaryOp::gt) distance.constant -= 1;
  if (distance.terms.size() != 1 || std::abs(distance.terms[0].coefficient) != 1) return std::nullopt;
  for (size_t i = 0; i < block.f.iters.size(); ++i) {
    if (distance.terms[0].atom != Expr(block.f.iters[i].variable)) continue;
    return Threshold{i, distance.terms[0].coefficient > 0 ? -distance.constant : distance.constant + 1};
  }
  return std::nullopt;
}

/// The iter along which all stores are contiguous; nothing when there is none.
std::optional<size_t> row_of(const Block& block) {
  const std::vector<Access> accesses = block_accesses(block);
  for (size_t i = 0; i < block.f.iters.size(); ++i) {
    const bool contiguous = std::all_of(accesses.begin(), accesses.end(),
                                        [&](const Access& access) { return !access.store || access.strides[i] == 1; });
    if (contiguous) return i;
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

/// Where choices change within the domains, by iters.
std::vector<std::set<std::int64_t>> points_of(const Block& block, size_t row) {
  std::vector<std::set<std::int64_t>> points(block.f.iters.size());
  const auto look = [&](const Expr& condition) {
    if (!condition) return;
    for_each_expr(condition, [&](const Expr& e) {
      const auto threshold = threshold_of(block, e);
      if (!threshold) return;
      const Range& domain = block.f.iters[threshold->iter].domain;
      const std::int64_t* extent = as_int(domain.extent);
      if (extent && is_int(domain.min, 0) && 0 < threshold->point && threshold->point < *extent)
        points[threshold->iter].insert(threshold->point);
    });
  };
  for_each_expr(block.f.body, [&](const Expr& e) {
    if (const Select* choice = e.as<Select>()) look(choice->condition);
    if (const Load* load = e.as<Load>()) look(load->mask);
    add_repeats(block, e, row, points[row]);
  });
  return points;
}

std::int64_t shortest_part(const std::set<std::int64_t>& points, std::int64_t extent) {
  std::int64_t from = 0, shortest = extent;
  for (const std::int64_t point : points) {
    shortest = std::min(shortest, point - from);
    from = point;
  }
  return std::min(shortest, extent - from);
}

/// The points that are worth cutting at: none at all where the blocks would be too small, or too many.
std::vector<std::set<std::int64_t>> points_worth_it(const Block& block, std::int64_t lanes) {
  const std::optional<size_t> row = row_of(block);
  if (!row) return {};
  std::vector<std::set<std::int64_t>> points = points_of(block, *row);
  std::int64_t parts = 1;
  double smallest = instance_count(block);
  for (size_t i = 0; i < points.size(); ++i) {
    if (points[i].empty()) continue;
    const std::int64_t extent = extent_estimate(block.f.iters[i].domain.extent);
    const std::int64_t shortest = shortest_part(points[i], extent);
    if (i == *row && shortest < least_row_vectors * lanes) {
      points[i].clear();
      continue;
    }
    parts *= static_cast<std::int64_t>(points[i].size()) + 1;
    smallest *= static_cast<double>(shortest) / static_cast<double>(extent);
  }
  const bool few =
      1 < parts && parts <= most_parts && body_cost(block.f.body) <= costly_body * static_cast<double>(parts);
  return few && smallest >= static_cast<double>(least_vectors * lanes) ? points : decltype(points){};
}

/// The loop of the iter, once the block's name and loops are those of a part.
void cut(Schedule& schedule, const BlockRef& ref, const std::vector<std::set<std::int64_t>>& points, size_t iter) {
  while (iter < points.size() && points[iter].empty()) ++iter;
  if (iter == points.size()) return;
  // From behind, so that points stay where they are and the block keeps its name.
  for (auto point = points[iter].rbegin(); point != points[iter].rend(); ++point) {
    const std::optional<LoopRef> loop = loop_of_iter(schedule, ref, iter);
    if (loop) cut(schedule, split_domain(schedule, ref, *loop, *point), points, iter + 1);
  }
  cut(schedule, ref, points, iter + 1);
}

}  // namespace

void cut_choices(RuleContext& context) {
  Schedule& schedule = context.schedule;
  for (const BlockRef& ref : schedule.blocks()) {
    const Block& block = schedule.node(ref);
    if (context.scheduled.contains(ref.name) || block.f.reducer || block.f.predicate || has_blocks(block)) continue;
    if (block.f.writes.size() != 1 || is_allocated(schedule.func(), block.f.writes[0].buffer) || is_sealed(block) ||
        may_stream(block.f.writes[0].buffer, context.device))
      continue;
    const auto points = points_worth_it(block, vector_lanes(block, context.device));
    if (points.empty()) continue;
    attempt(context, fmt::format("cut {} where it chooses by its place", ref.name),
            [&] { cut(schedule, ref, points, 0); });
  }
}

}  // namespace lathe
