#include "schedule/auto/tile_costs.h"

#include <algorithm>

#include "ir/buffer.h"
#include "schedule/auto/block_model.h"

namespace lathe {
namespace {

/// Cycles of a scalar that all lanes share and that is cast for each tile, for each of the lanes (measured on Zen 4,
/// rows of f16 by 4, 8 and 15 columns of 8 and 24 steps).
constexpr double cast_cycles = 0.06;

std::optional<std::int64_t> constant_extent(const Block& block, const std::optional<size_t>& iter) {
  if (!iter) return 1;
  const std::int64_t* value = as_int(block.f.iters[*iter].domain.extent);
  return value ? std::optional(*value) : std::nullopt;
}

/// Are elements that the columns share cast, from narrower floats, one by one?
bool cast_alone(const Block& block, size_t columns) {
  const DType result = block.f.writes[0].buffer->dtype;
  const Accesses accesses = block_accesses(block);
  return std::any_of(accesses.begin(), accesses.end(), [&](const Access& access) {
    const DType dtype = access.buffer->dtype;
    return !access.store && access.strides[columns] == 0 && dtype.is_float() && dtype.bits < result.bits;
  });
}

}  // namespace

std::optional<DotAxes> dot_axes(const ReductionShape& shape) {
  if (!shape.vector_space && !shape.vector_reduce) return std::nullopt;
  if (shape.reduce.empty() || (shape.vector_space && shape.reduce.size() != 1)) return std::nullopt;
  const std::optional<size_t> columns = shape.vector_space ? shape.vector_space : shape.columns;
  if (!columns || (!shape.vector_space && !shape.rows)) return std::nullopt;
  return DotAxes{shape.vector_space ? shape.reduce[0] : *shape.vector_reduce, *columns};
}

std::optional<TileCosts> tile_costs(const RuleContext& context, const Block& block, const ReductionShape& shape) {
  const std::optional<DotAxes> axes = dot_axes(shape);
  if (!axes) return std::nullopt;
  // Steps of the reduction, and what they take where each run along memory is filled up to whole vectors.
  const std::int64_t lanes = vector_lanes(block, context.device), bits = widest_bits(block);
  std::optional<std::int64_t> steps = constant_extent(block, axes->depth), filled = steps;
  if (shape.reduce.size() > 1 && steps) filled = (*steps + lanes - 1) / lanes * lanes;
  for (const size_t i : shape.reduce) {
    const auto extent = constant_extent(block, i);
    if (i == axes->depth) continue;
    steps = steps && extent ? std::optional(*steps * *extent) : std::nullopt;
    filled = filled && extent ? std::optional(*filled * *extent) : std::nullopt;
  }
  const TiledExtents extents{constant_extent(block, shape.rows), constant_extent(block, axes->columns), steps},
      dot_extents{extents.rows, extents.columns, filled};
  // Everything but rows and columns is done so many times over.
  double times = 1;
  for (const size_t i : shape.space) {
    if (i != shape.rows && i != axes->columns)
      times *= static_cast<double>(extent_estimate(block.f.iters[i].domain.extent));
  }
  const RegisterTile tile = choose_tile(context.device, lanes, static_cast<int>(bits), extents);
  const double casts =
      cast_alone(block, axes->columns) ? cast_cycles * instance_count(block) / static_cast<double>(tile.vectors) : 0;
  return TileCosts{tile, times * tile.cycles, casts,
                   times * dot_product_cycles(context.device, lanes, static_cast<int>(bits), dot_extents)};
}

}  // namespace lathe
