#include "schedule/auto/skip_borders.h"

#include <fmt/format.h>

#include <algorithm>

#include "ir/analysis/comparison.h"
#include "ir/conjuncts.h"
#include "ir/visitor.h"
#include "schedule/auto/block_model.h"
#include "schedule/auto/join_short_sums.h"
#include "schedule/auto/reduction_chain.h"
#include "schedule/auto/tile_operands.h"
#include "schedule/primitives/skip_masked.h"
#include "schedule/primitives/unroll.h"
#include "schedule/rewrite.h"
#include "schedule/zero_borders.h"

namespace lathe {
namespace {

/// The least part of the steps that is worth a condition, and looking whether the other operand is finite.
constexpr double least_left_out = 1.0 / 32;
/// Updates up to which the steps along a window's row become one body.
constexpr std::int64_t most_updates = 64;
/// Registers that these may lack, as not all are wanted at a time (measured on Zen 4, 3x3 of 256 to 40 channels, at 16
/// 1.05 of the speed without, lacking 3; at 17 0.7, lacking 5; of 96 to 192 channels 1.02 and at 18 0.87, at 20 0.63).
constexpr std::int64_t most_spilled = 4;
/// The part of the steps that pays for any (7x7 at 8, 0.21 of them, lacking 9: 1.25 of the speed).
constexpr double left_out_for_any = 1.0 / 8;
/// Pairs of a result and a step that are looked at.
constexpr std::int64_t most_pairs = 1 << 16;

/// Where results along one iter read by steps along another within the border: all distances are at least 0.
struct Border {
  size_t space, reduce;
  struct Distance {
    std::int64_t of_space, of_reduce, constant;
  };
  std::vector<Distance> distances;
};

/// The conditions under which a term may be other than zero.
std::vector<Expr> conditions_of_terms(const Schedule& schedule, const Block& block) {
  std::vector<Expr> found;
  for_each_expr(block.f.body, [&](const Expr& e) {
    std::vector<Expr> more;
    if (const Load* load = e.as<Load>(); load && !load->mask) {
      more = nonzero_conditions(schedule, load->buffer, load->indices);
    } else if (const Select* choice = e.as<Select>()) {
      more = conjuncts_of(choice->condition);
    }
    found.insert(found.end(), more.begin(), more.end());
  });
  return found;
}

/// A distance that one iter over results and one over steps make up; nothing for any other, and their places.
struct Placed {
  std::optional<size_t> space, reduce;
  Border::Distance distance;
};
Placed placed(const Block& block, const Affine& form) {
  Placed found{{}, {}, {0, 0, form.constant}};
  if (form.terms.size() != 2) return found;
  for (const AffineTerm& term : form.terms) {
    const std::optional<size_t> iter = iter_at(block, term.atom);
    if (!iter) continue;
    const bool of_reduce = block.f.iters[*iter].kind == IterKind::reduce;
    (of_reduce ? found.reduce : found.space) = iter;
    (of_reduce ? found.distance.of_reduce : found.distance.of_space) = term.coefficient;
  }
  return found;
}

std::vector<Border> borders_of(const Schedule& schedule, const Block& block) {
  std::vector<Affine> distances;
  for (const Expr& condition : conditions_of_terms(schedule, block)) {
    const Binary* comparison = condition.as<Binary>();
    if (comparison && comparison->op != BinaryOp::eq) append_inequalities(comparison->op, *comparison, distances);
  }
  std::vector<Border> borders;
  for (const Affine& form : distances) {
    const auto [space, reduce, distance] = placed(block, form);
    if (!space || !reduce) continue;
    const auto same = std::find_if(borders.begin(), borders.end(), [&, s = *space, r = *reduce](const Border& border) {
      return border.space == s && border.reduce == r;
    });
    if (same == borders.end()) {
      borders.push_back({*space, *reduce, {distance}});
    } else {
      same->distances.push_back(distance);
    }
  }
  return borders;
}

/// The part of all steps, for tiles of so many results along the iter, that read nothing within the border.
double left_out(const Block& block, const Border& border, std::int64_t tile) {
  const auto results = constant_extent(block, border.space), steps = constant_extent(block, border.reduce);
  if (!results || !steps || *results * *steps > most_pairs || *results * *steps == 0) return 0;
  std::int64_t outside = 0, all = 0;
  for (std::int64_t first = 0; first < *results; first += tile) {
    const std::int64_t last = std::min(first + tile, *results) - 1;
    for (std::int64_t step = 0; step < *steps; ++step, ++all) {
      outside += std::any_of(border.distances.begin(), border.distances.end(), [&](const Border::Distance& distance) {
        const std::int64_t most = std::max(distance.of_space * first, distance.of_space * last);
        return most + distance.of_reduce * step + distance.constant < 0;
      });
    }
  }
  return static_cast<double>(outside) / static_cast<double>(all);
}

/// Do the sums of a tile and what the steps along a window's row share stay in registers, as one body holds them: the
/// elements of the row that all lanes share, each loaded once, and a step's of the other operand?
bool stays_in_registers(const RuleContext& context, const Block& block, const BorderedTile& tile, std::int64_t taps) {
  const Accesses accesses = block_accesses(block);
  if (std::none_of(accesses.begin(), accesses.end(), [&](const Access& access) {
        return !access.store && access.strides[tile.vector_iter].value_or(0) == 0 &&
               access.strides[*tile.row_iter] != 0;
      }))
    return true;
  const std::int64_t lanes = vector_lanes(block, context.device), vectors = (tile.width + lanes - 1) / lanes;
  return tile.rows * vectors + tile.rows + taps - 1 + vectors <= context.device.vector_registers + most_spilled;
}

/// Is it better to make the steps along a window's row one body, which leaves out those that each result reads of the
/// border?
bool pays_in_one_body(const RuleContext& context, const Block& block, const BorderedTile& tile, const Border& border) {
  const std::int64_t taps = constant_extent(block, border.reduce).value_or(most_updates + 1);
  if (taps * tile.rows > most_updates) return false;
  const double part = left_out(block, border, 1);
  return part >= least_left_out && (part >= left_out_for_any || stays_in_registers(context, block, tile, taps));
}

}  // namespace

void skip_borders(RuleContext& context, const BlockRef& reduction, const BorderedTile& tile) {
  Schedule& schedule = context.schedule;
  const Block& block = schedule.node(reduction);
  std::vector<LoopRef> loops;
  std::optional<LoopRef> row_steps;
  for (const Border& border : borders_of(schedule, block)) {
    const std::optional<LoopRef> steps = driving_loop(schedule, reduction, border.reduce);
    if (!steps || std::find(tile.steps.begin(), tile.steps.end(), *steps) == tile.steps.end()) continue;
    const bool of_rows = border.space == tile.row_iter, of_vectors = border.space == tile.vector_iter;
    const std::int64_t together = of_rows ? tile.rows : of_vectors ? tile.width : 1;
    if (of_rows && tile.row && *steps == tile.steps.back() && constant_extent(block, border.space) == tile.rows &&
        pays_in_one_body(context, block, tile, border)) {
      row_steps = steps;
    } else if (schedule.node(*steps).for_kind == ForKind::serial &&
               left_out(block, border, together) >= least_left_out) {
      loops.push_back(*steps);
    }
  }
  if (row_steps) loops.push_back(*tile.row);
  if (loops.empty()) return;
  attempt(context, fmt::format("leave out what {} reads of borders", reduction.name), [&] {
    if (row_steps && schedule.node(*row_steps).for_kind == ForKind::serial) unroll(schedule, *row_steps);
    for (const BlockRef& sums : skip_masked(schedule, reduction, loops)) join_short_sum(context, sums);
  });
}

}  // namespace lathe
