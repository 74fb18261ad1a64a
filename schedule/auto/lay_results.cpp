#include "schedule/auto/lay_results.h"

#include <fmt/format.h>

#include <algorithm>

#include "schedule/auto/block_model.h"
#include "schedule/auto/contraction.h"
#include "schedule/auto/reduction_chain.h"
#include "schedule/auto/tile_operands.h"
#include "schedule/auto/vector_loop.h"
#include "schedule/primitives/cache_padding.h"
#include "schedule/primitives/cache_read.h"
#include "schedule/primitives/cache_write.h"
#include "schedule/primitives/transform_layout.h"
#include "schedule/rewrite.h"

namespace lathe {
namespace {

/// Instances for each element of the result from which on turning it around costs little beside them.
constexpr double least_steps = 4;
/// What stands in the way along the vectors, such as weights by channels, is this much less than the instances: a copy
/// of it costs little.
constexpr double small_part = 8;

/// Reads of an element for which a copy of an operand is made where nothing tiles its products otherwise (measured on
/// Zen 4: 3x3 by 2 of channels last to three filters, which read each 6.75 times, in 0.16 of the time).
constexpr double worthy_reuse = 2;

/// Does a rule find an axis for whole vectors as arrays lie?
bool has_vectors(const Block& block, const ReductionShape& shape, std::int64_t lanes) {
  if (shape.vector_space || (shape.rows && shape.columns)) return true;
  return shape.vector_reduce && extent_estimate(block.f.iters[*shape.vector_reduce].domain.extent) >= lanes;
}

/// For how many results an element of the access is read, along iters that it stands still in.
std::int64_t results_of(const Block& block, const ReductionShape& shape, const Access& access) {
  std::int64_t results = 1;
  for (const size_t i : shape.space) {
    if (access.strides[i].value_or(0) == 0) results *= extent_estimate(block.f.iters[i].domain.extent);
  }
  return results;
}

/// Results that elements are read for, at the most, where vectors walk these: groups of results side by side, as the
/// columns that words are unpacked to. What more share is for tiles, which turn an operand around.
constexpr std::int64_t few_results = 8;

/// Could vectors walk all that the block reads along `iter`, and fill at least one?
bool walks_operands(const Block& block, const ReductionShape& shape, size_t iter, std::int64_t lanes,
                    double instances) {
  if (extent_estimate(block.f.iters[iter].domain.extent) < lanes) return false;
  bool walked = false;
  for (const Access& access : block_accesses(block)) {
    if (access.buffer == block.f.writes[0].buffer) continue;
    const std::optional<std::int64_t> stride = access.strides[iter];
    if (!stride) return false;
    if (*stride == 1) {
      walked |= results_of(block, shape, access) <= few_results;
    } else if (*stride != 0 && small_part * estimated_elements(access.buffer) > instances) {
      return false;
    }
  }
  return walked;
}

/// Instances for each element that is turned around from which on vectors of channels are faster than rows that fill no
/// vector (measured on Zen 4: 5x5 over 672 channels of 14 0.83 of the time, 7x7 over 768 0.85, 5x5 over 960 of 7 0.95;
/// over rows of 28 and more, where they fill one, 0.9 to 1.6; on Zen 3, whose masks are vectors, 1.2 to 1.45 over rows
/// of 5 to 8, and of rows by steps 1.3 to 2).
constexpr double many_steps = 10;
/// Narrower elements are turned around in smaller squares than pay.
constexpr std::int64_t turned_bytes = 4;

/// An operand, and the dimension of it that an iter walks.
struct Walked {
  Buffer buffer;
  size_t dimension;
  bool padded = false;
};

/// The dimension of what `load` reads that an iter walks, where it is one.
std::optional<size_t> walked_dimension(const Load& load, const VarRef& iter) {
  std::optional<size_t> found;
  for (size_t d = 0; d < load.indices.size(); ++d) {
    if (!uses_var(load.indices[d], iter.get())) continue;
    if (found) return std::nullopt;
    found = d;
  }
  return found;
}

/// The largest operand in the way of vectors along `iter`, along which results are contiguous, where others are small
/// beside the instances: a copy of them costs little.
std::optional<Walked> operand_in_the_way(const Block& block, size_t iter, double instances) {
  const Buffer& result = block.f.writes[0].buffer;
  std::optional<Walked> found;
  double largest = 0;
  for (const Access& access : block_accesses(block)) {
    const std::optional<std::int64_t> stride = access.strides[iter];
    if (access.buffer == result ? stride != 1 : !stride || access.masked) return std::nullopt;
    if (access.buffer == result || *stride == 0 || *stride == 1) continue;
    const Load* load = load_of(block, access.buffer);
    const auto dimension = load ? walked_dimension(*load, block.f.iters[iter].variable) : std::nullopt;
    const double elements = estimated_elements(access.buffer);
    const double smaller = std::min(found ? largest : 0, elements);
    if (!dimension || small_part * smaller > instances) return std::nullopt;
    if (elements <= largest) continue;
    found = {access.buffer, *dimension};
    largest = elements;
  }
  return found && found->dimension + 1 < found->buffer->rank() ? found : std::nullopt;
}

/// Does each result have elements of its own, of an operand whose rows lie along those of the result?
bool walks_windows(const Block& block, const ReductionShape& shape, const Access& access, size_t row) {
  const Load* load = load_of(block, access.buffer);
  return load && access.buffer->dtype.bytes() >= turned_bytes && access.strides[row] == 1 &&
         uses_var(load->indices.back(), block.f.iters[row].variable.get()) && results_of(block, shape, access) == 1;
}

/// The operand whose channels are to come last, and their dimension.
std::optional<Walked> channels_to_turn(const RuleContext& context, const Block& block, const ReductionShape& shape) {
  const std::int64_t lanes = vector_lanes(block, context.device);
  const double instances = instance_count(block), results = estimated_elements(block.f.writes[0].buffer);
  const auto extent = [&](size_t i) { return constant_extent(block, i).value_or(0); };
  const Accesses accesses = block_accesses(block);
  const auto row = std::find_if(shape.space.begin(), shape.space.end(),
                                [&](size_t i) { return extent(i) > 1 && stores_in_a_row(accesses, i); });
  if (row == shape.space.end() || shape.loads < 2 || instances < least_steps * results) return std::nullopt;
  std::optional<Walked> found;
  for (const Access& access : accesses) {
    if (access.store || access.buffer == block.f.writes[0].buffer) continue;
    if (!walks_windows(block, shape, access, *row)) {
      if (small_part * estimated_elements(access.buffer) > instances) return std::nullopt;
      continue;
    }
    const double turned = estimated_elements(access.buffer) + results;
    // Rows that fill no vector, whose loads cross lines besides, where masks cost little beside these.
    const bool awkward = extent(*row) <= lanes && instances >= many_steps * turned && context.device.mask_registers > 0;
    if (found || !constant_elements(access.buffer) || !awkward) return std::nullopt;
    const Load* load = load_of(block, access.buffer);
    for (const size_t i : shape.space) {
      const auto dimension = std::find(load->indices.begin(), load->indices.end(), Expr(block.f.iters[i].variable));
      // Whole vectors, but for the last of many.
      const std::int64_t idle = (lanes - extent(i) % lanes) % lanes;
      if (extent(i) < lanes || idle * static_cast<std::int64_t>(small_part) > extent(i) ||
          !dimension_of(block.f.writes[0], block, i) || dimension >= load->indices.end() - 1)
        continue;
      found = {access.buffer, static_cast<size_t>(dimension - load->indices.begin()), access.masked};
    }
    if (!found) return std::nullopt;
  }
  return found;
}

}  // namespace

void turn_channels(RuleContext& context, const BlockRef& ref) {
  Schedule& schedule = context.schedule;
  const Block& block = schedule.node(ref);
  const std::optional<ReductionShape> shape = reduction_shape(block);
  const std::optional<Walked> operand = shape ? channels_to_turn(context, block, *shape) : std::nullopt;
  if (!operand) return;
  std::string turned;
  const bool done =
      attempt(context, fmt::format("turn the channels of {} around for {}", operand->buffer->name, ref.name), [&] {
        const BlockRef copy = cache_read(schedule, ref, operand->buffer->name, space::global);
        const Buffer made = schedule.node(copy).f.writes[0].buffer;
        turned = made->name;
        transform_layout(schedule, ref, turned, moved_last(made->rank(), operand->dimension));
      });
  // Whole vectors are padded at the price of a copy, in less code than choices at each read.
  if (done && operand->padded)
    attempt(context, fmt::format("pad {} once for {}", turned, ref.name),
            [&] { cache_padding(schedule, ref, turned, space::global); });
}

bool lay_operand(RuleContext& context, const BlockRef& ref) {
  Schedule& schedule = context.schedule;
  const Block& block = schedule.node(ref);
  const std::optional<ReductionShape> shape = reduction_shape(block);
  if (!shape || shape->loads < 2 || has_vectors(block, *shape, vector_lanes(block, context.device))) return false;
  const std::vector<Fact>& facts = schedule.func()->facts;
  const double instances = instance_count(block, facts);
  for (const size_t iter : shape->space) {
    const std::optional<Walked> operand = operand_in_the_way(block, iter, instances);
    if (!operand || instances < worthy_reuse * estimated_elements(operand->buffer, facts)) continue;
    return attempt(context, fmt::format("lay {} as the results of {} lie", operand->buffer->name, ref.name), [&] {
      std::string laid = operand->buffer->name;
      const size_t rank = operand->buffer->rank();
      if (!is_allocated(schedule.func(), operand->buffer)) {
        const BlockRef copy = cache_read(schedule, ref, laid, space::global);
        laid = schedule.node(copy).f.writes[0].buffer->name;
      }
      transform_layout(schedule, ref, laid, moved_last(rank, operand->dimension));
    });
  }
  return false;
}

void lay_results(RuleContext& context, const BlockRef& ref) {
  Schedule& schedule = context.schedule;
  const Block& block = schedule.node(ref);
  const std::optional<ReductionShape> shape = reduction_shape(block);
  const std::int64_t lanes = vector_lanes(block, context.device);
  if (!shape || has_vectors(block, *shape, lanes)) return;
  const std::vector<Fact>& facts = schedule.func()->facts;
  const double instances = instance_count(block, facts);
  if (instances < least_steps * estimated_elements(block.f.writes[0].buffer, facts)) return;
  for (const size_t iter : shape->space) {
    const std::optional<size_t> dimension = dimension_of(block.f.writes[0], block, iter);
    if (!dimension || !walks_operands(block, *shape, iter, lanes, instances)) continue;
    attempt(context, fmt::format("lay the results of {} as its operand lies", ref.name), [&] {
      Buffer result = schedule.node(ref).f.writes[0].buffer;
      if (!is_allocated(schedule.func(), result)) {
        cache_write(schedule, ref, space::global);
        result = schedule.node(ref).f.writes[0].buffer;
      }
      transform_layout(schedule, ref, result->name, moved_last(result->rank(), *dimension));
    });
    return;
  }
}

}  // namespace lathe
