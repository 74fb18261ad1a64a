#include "schedule/auto/turn_operands.h"

#include <fmt/format.h>

#include <algorithm>

#include "ir/buffer.h"
#include "ir/error.h"
#include "ir/visitor.h"
#include "schedule/auto/block_model.h"
#include "schedule/auto/place_operands.h"
#include "schedule/auto/reduction_chain.h"
#include "schedule/auto/register_tile.h"
#include "schedule/auto/tile_costs.h"
#include "schedule/auto/tile_operands.h"
#include "schedule/auto/turn_squares.h"
#include "schedule/auto/turned_operand.h"
#include "schedule/primitives/cache_read.h"
#include "schedule/primitives/fuse.h"
#include "schedule/primitives/reorder.h"
#include "schedule/primitives/split.h"
#include "schedule/primitives/transform_layout.h"
#include "schedule/primitives/vectorize.h"
#include "schedule/rewrite.h"

namespace lathe {
namespace {

/// What is estimated to take longer than this part is left as it is.
constexpr double worth_turning = 0.95;
/// Lanes of a copy whose loads lie far apart: more lines than a cache set has ways would push each other out.
constexpr std::int64_t turned_lanes = 8;
/// Squares side by side, so that whole lines are written, where the operand is wide enough.
constexpr SquareGroup squares_of_line{1, 2};
/// Reads of an element of interleaved columns from which on a copy pays.
constexpr double picked_reuse = 16;
/// Of what lies between rows, a tile takes one in so many at the most where rows are turned around; and how often its
/// vectors load an element from which on that pays.
constexpr double most_taken = 2, spread_reuse = 6;
/// Reads of an element of an operand from which on a copy that lies along the steps of a sum costs little, and the
/// steps from which on vectors of them gain (measured on Zen 4, 7x7 of 320 channels in 32 groups at 40, channels last:
/// 0.05 of the time).
constexpr double aligned_reuse = 16;
constexpr std::int64_t least_aligned = 4;
/// Reads of an element from which on an operand is turned around where vectors along the sum could pick what others set
/// apart, at the most so many elements (measured on Zen 4, one row by 2048x2048 of four bits each: left as they are
/// 0.34 of the time; of two bits, four elements apart, 2.3).
constexpr double turned_reuse = 2;
constexpr std::int64_t picked_apart = 2;
/// A step that is not known.
constexpr std::int64_t far_away = std::int64_t{1} << 40;

/// The operand that walks columns a few elements apart, of which `steps` are neighbours.
std::optional<TurnedOperand> operand_walking(const Block& block, size_t columns, size_t steps) {
  for (const Access& access : block_accesses(block)) {
    if (access.store || access.strides[columns].value_or(0) < 2) continue;
    for (size_t still = 0; still < block.f.iters.size(); ++still) {
      if (still != columns && block.f.iters[still].kind == IterKind::space && access.strides[still] == 0)
        return operand_along(block, steps, columns, still);
    }
  }
  return std::nullopt;
}

/// The loop over all dimensions behind `across`, of which that along memory is one, where they lie in one piece:
/// turned around they stay together.
std::optional<LoopRef> fused_behind(Schedule& schedule, const BlockRef& copy, const TurnedOperand& operand) {
  if (operand.along < operand.across || !operand.buffer->strides.empty()) return std::nullopt;
  std::optional<LoopRef> all;
  for (const LoopRef& loop : own_loops(schedule, copy)) {
    bool behind = false;
    for (size_t d = operand.across + 1; d < operand.buffer->rank(); ++d) {
      behind |= uses_var(schedule.node(copy).f.bindings[d], loop.variable.get());
    }
    if (behind) all = all ? fuse(schedule, *all, loop) : loop;
  }
  return all;
}

/// Copies the operand so that dimension `across` is its last, and where asked those behind it are the first.
BlockRef copy_turned(RuleContext& context, const BlockRef& ref, const TurnedOperand& operand,
                     bool behind_first = false) {
  Schedule& schedule = context.schedule;
  const BlockRef copy = cache_read(schedule, ref, operand.buffer->name, space::global, operand.place);
  const Buffer turned = schedule.node(copy).f.writes[0].buffer;
  if (operand.across + 1 != turned->rank()) {
    LayoutMap map = moved_last(turned->rank(), operand.across);
    if (behind_first)
      std::rotate(map.to.begin(), map.to.begin() + static_cast<std::ptrdiff_t>(operand.across), map.to.end() - 1);
    transform_layout(schedule, ref, turned->name, map);
  }
  context.scheduled.insert(copy.name);
  return copy;
}

/// The same in squares that are turned around in registers, or in vectors along that dimension where it is too short.
void turn(RuleContext& context, const BlockRef& ref, const TurnedOperand& operand, std::int64_t lanes,
          bool behind_first = false) {
  Schedule& schedule = context.schedule;
  const BlockRef copy = copy_turned(context, ref, operand, behind_first);
  const LoopRef across = loop_of_dimension(schedule, copy, operand.across);
  const std::optional<LoopRef> behind = fused_behind(schedule, copy, operand);
  const LoopRef along = behind ? *behind : loop_of_dimension(schedule, copy, operand.along);
  const std::int64_t side = widest_square(schedule.node(ref), context.device),
                     columns = *as_int(schedule.node(across).extent), rows = *as_int(schedule.node(along).extent);
  if (side > 1 && columns >= side && rows >= side) {
    turn_squares(schedule, own_loops(schedule, copy), across, along, side, squares_of_line);
    return;
  }
  std::vector<LoopRef> order = other_loops(schedule, copy, across, along);
  const auto [outer, inner] = split(schedule, across, lanes);
  order.insert(order.end(), {outer, along, inner});
  reorder(schedule, order);
  vectorize(schedule, inner);
}

/// Does the second cache hold the operand beside its copy?
bool stays_near(const Device& device, const Buffer& operand) {
  return 2 * estimated_elements(operand) * operand->dtype.bytes() <= static_cast<double>(own_cache_bytes(device));
}

bool in_squares(const TurnedOperand& operand, std::int64_t side) {
  return side > 1 && *as_int(operand.buffer->shape[operand.along]) >= side &&
         *as_int(operand.buffer->shape[operand.across]) >= side;
}

/// Is a matrix to be turned around panel by panel, under the loop that reads them? All of it would leave the second
/// cache, and be copied once more for tiles that have no time for lines that lie apart.
bool turns_by_panels(const RuleContext& context, const TurnedOperand& operand, std::int64_t side) {
  return tiles_fill_slots(context.device) && operand.buffer->rank() == 2 && operand.across < operand.along &&
         side > 1 && *as_int(operand.buffer->shape[operand.along]) >= side &&
         !stays_near(context.device, operand.buffer);
}

double turning_cycles(const Buffer& operand, bool near) {
  return (near ? near_square_cycles : far_turn_cycles) * estimated_elements(operand);
}

/// Estimated cycles of turning the operand around for tiles of so many columns.
double turning_cycles(const RuleContext& context, const TurnedOperand& operand, std::int64_t side, std::int64_t width) {
  const bool whole_panels = width > 0 && *as_int(operand.buffer->shape[operand.across]) % width == 0;
  const bool near = in_squares(operand, side) && (stays_near(context.device, operand.buffer) ||
                                                  (whole_panels && turns_by_panels(context, operand, side)));
  return turning_cycles(operand.buffer, near);
}

/// Where vectors can walk neither the output nor the reduction, since one operand lies along the one and another along
/// the other: turned around, the operand that lies along the reduction lies along the output too.
void turn_for_output(RuleContext& context, const BlockRef& ref, const ReductionShape& shape) {
  if (shape.loads < 2) return;
  const Block& block = context.schedule.node(ref);
  const Accesses accesses = block_accesses(block);
  const Buffer& result = block.f.writes[0].buffer;
  const auto is_long = [&](size_t iter) { return constant_extent(block, iter).value_or(0) > 1; };
  // Vectors along the reduction pick what others set a few elements apart: then an operand that is read once stays.
  const auto is_picked = [&](size_t reduce, const TurnedOperand& operand) {
    return instance_count(block) < turned_reuse * estimated_elements(operand.buffer) &&
           std::all_of(
               accesses.begin(), accesses.end(),
               [&](const Access& access) {
                 return access.buffer == result || std::abs(access.strides[reduce].value_or(far_away)) <= picked_apart;
               });
  };
  const auto along_reduction = [&](size_t columns) {
    std::optional<TurnedOperand> operand;
    for (size_t i = 0; i < shape.reduce.size() && !operand; ++i) {
      if (is_long(shape.reduce[i])) operand = operand_along(block, shape.reduce[i], columns, std::nullopt);
      if (operand && is_picked(shape.reduce[i], *operand)) operand.reset();
    }
    return operand;
  };
  for (const size_t columns : shape.space) {
    const std::optional<TurnedOperand> operand = is_long(columns) ? along_reduction(columns) : std::nullopt;
    if (!operand) continue;
    const bool walks = std::all_of(accesses.begin(), accesses.end(), [&](const Access& access) {
      if (access.buffer == result) return access.strides[columns] == 1;
      return access.buffer == operand->buffer || access.strides[columns] == 0 || access.strides[columns] == 1 ||
             access.runs[columns] >= shortest_run;
    });
    if (!walks) continue;
    const std::int64_t lanes = std::min<std::int64_t>(vector_lanes(block, context.device), turned_lanes);
    attempt(context, fmt::format("turn {} around for {}", operand->buffer->name, ref.name),
            [&] { turn(context, ref, *operand, lanes); });
    return;
  }
}

/// Where the rows of a tile lie apart in the operand that all lanes share, and most of what lies between them is left
/// for others than the tile, as are most taps of a transposed convolution: turned around, rows are neighbours, and
/// steps follow each other. False where there are none such.
bool turn_spread_rows(RuleContext& context, const BlockRef& ref, const ReductionShape& shape) {
  if (!shape.vector_space || !shape.rows || shape.reduce.empty()) return false;
  const Block& block = context.schedule.node(ref);
  const Accesses accesses = block_accesses(block);
  for (const Access& access : accesses) {
    const std::int64_t distance = access.strides[*shape.rows].value_or(0);
    if (access.store || access.masked || distance < 2 || access.strides[*shape.vector_space] != 0) continue;
    double taken = 1;
    bool steps_apart = false;
    for (const size_t i : shape.reduce) {
      const std::int64_t step = std::abs(access.strides[i].value_or(0));
      if (step > distance) steps_apart = true;
      if (step < distance) taken *= static_cast<double>(extent_estimate(block.f.iters[i].domain.extent));
    }
    const std::int64_t lanes = vector_lanes(block, context.device);
    // Vectors of fewer columns load an element more often.
    const std::int64_t columns = extent_estimate(block.f.iters[*shape.vector_space].domain.extent);
    const double walks = instance_count(block) / static_cast<double>(std::clamp<std::int64_t>(columns, 1, lanes));
    // Which of several reads of a buffer lies so would be another question.
    if (!steps_apart || load_count(accesses, access.buffer) > 1 || taken * most_taken > static_cast<double>(distance) ||
        walks < spread_reuse * estimated_elements(access.buffer))
      continue;
    const Load* load = load_along(block, access.buffer, {*shape.rows});
    if (!load) continue;
    const size_t last = load->indices.size() - 1;
    const TurnedOperand operand{access.buffer, last, dimension_walked(block, *load, *shape.rows),
                                place_of(block, *load)};
    if (operand.across >= last || !can_turn(operand)) continue;
    return attempt(context, fmt::format("turn rows of {} around for {}", operand.buffer->name, ref.name),
                   [&] { turn(context, ref, operand, std::min(lanes, turned_lanes), true); });
  }
  return false;
}

}  // namespace

bool align_steps(RuleContext& context, const BlockRef& ref) {
  const Block& block = context.schedule.node(ref);
  const std::optional<ReductionShape> shape = reduction_shape(block);
  if (!shape || shape->vector_space || shape->vector_reduce || shape->loads != 2) return false;
  std::vector<Access> loads;
  for (const Access& access : block_accesses(block)) {
    if (access.masked) return false;
    if (access.buffer != block.f.writes[0].buffer) loads.push_back(access);
  }
  if (loads.size() != 2) return false;
  for (const size_t steps : shape->reduce) {
    for (const bool second : {false, true}) {
      const Access &along = loads[second ? 1 : 0], &apart = loads[second ? 0 : 1];
      const std::optional<std::int64_t> elements = constant_elements(apart.buffer);
      if (extent_estimate(block.f.iters[steps].domain.extent) < least_aligned || along.strides[steps] != 1 ||
          std::abs(apart.strides[steps].value_or(0)) < 2 || !elements ||
          instance_count(block) < aligned_reuse * static_cast<double>(*elements))
        continue;
      const Load* load = load_along(block, apart.buffer, {steps});
      const size_t dimension = load ? dimension_walked(block, *load, steps) : 0;
      if (!load || dimension == load->indices.size()) continue;
      const TurnedOperand operand{load->buffer, dimension, dimension, place_of(block, *load)};
      return attempt(context, fmt::format("have {} lie along the steps of {}", load->buffer->name, ref.name),
                     [&] { copy_turned(context, ref, operand); });
    }
  }
  return false;
}

std::optional<TurnedCopy> turn_operand(RuleContext& context, const BlockRef& ref) {
  const Block& block = context.schedule.node(ref);
  const std::optional<ReductionShape> shape = reduction_shape(block);
  if (shape && !shape->vector_space && !shape->vector_reduce) turn_for_output(context, ref, *shape);
  if (shape && turn_spread_rows(context, ref, *shape)) return std::nullopt;
  const std::optional<TileCosts> costs = shape ? tile_costs(context, block, *shape) : std::nullopt;
  if (!costs) return std::nullopt;
  const auto [depth, columns] = *dot_axes(block, *shape);
  const std::int64_t lanes = vector_lanes(block, context.device);
  const double tiles = costs->tiles + costs->casts;
  if (shape->vector_space) {
    // Of columns that are a few elements apart, each tile would pick its own out of as many loads.
    const auto interleaved = shape->loads > 1 ? operand_walking(block, columns, depth) : std::nullopt;
    if (interleaved && instance_count(block) >= picked_reuse * estimated_elements(interleaved->buffer)) {
      attempt(context, fmt::format("turn {} around for {}", interleaved->buffer->name, ref.name),
              [&] { turn(context, ref, *interleaved, lanes); });
      return std::nullopt;
    }
    const auto operand = operand_along(block, columns, depth, std::nullopt);
    if (!operand || costs->dots + turning_cycles(operand->buffer, stays_near(context.device, operand->buffer)) >
                        tiles * worth_turning)
      return std::nullopt;
    // One load is turned around, be it of several of its buffer.
    const Accesses accesses = block_accesses(block);
    const bool others =
        std::all_of(accesses.begin(), accesses.end(), [&, depth = depth, columns = columns](const Access& access) {
          return access.buffer == block.f.writes[0].buffer ||
                 (access.buffer == operand->buffer && access.strides[columns] != 0) ||
                 (!access.masked && access.strides[depth] == 1);
        });
    if (!others) return std::nullopt;
    attempt(context, fmt::format("turn {} around for {}", operand->buffer->name, ref.name),
            [&] { turn(context, ref, *operand, lanes); });
    return std::nullopt;
  }
  const auto operand = operand_along(block, depth, columns, shape->rows);
  if (!operand) return std::nullopt;
  const std::int64_t side = widest_square(block, context.device);
  if (tiles + turning_cycles(context, *operand, side, costs->tile.vectors * costs->tile.lanes) >
      costs->dots * worth_turning)
    return std::nullopt;
  std::optional<TurnedCopy> turned;
  const bool by_panels = turns_by_panels(context, *operand, side);
  attempt(context, fmt::format("turn {} around for {}", operand->buffer->name, ref.name), [&] {
    if (by_panels) {
      turned = {copy_turned(context, ref, *operand), operand->across, operand->along};
    } else {
      turn(context, ref, *operand, std::min(lanes, turned_lanes));
    }
  });
  return turned;
}

void turn_copy(RuleContext& context, const BlockRef& ref, const TurnedCopy& turned, std::int64_t width) {
  Schedule& schedule = context.schedule;
  const Buffer buffer = schedule.node(turned.copy).f.writes[0].buffer;
  if (width > 0) transform_layout(schedule, ref, buffer->name, panel_layout(buffer->rank(), width, 0));
  const auto across = driving_loop(schedule, turned.copy, turned.across),
             along = driving_loop(schedule, turned.copy, turned.along);
  LATHE_CHECK(across && along, "a copy has a loop for each dimension");
  turn_squares(schedule, own_loops(schedule, turned.copy), *across, *along,
               widest_square(schedule.node(ref), context.device), squares_of_line);
}

}  // namespace lathe
