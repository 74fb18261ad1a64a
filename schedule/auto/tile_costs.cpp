#include "schedule/auto/tile_costs.h"

#include <algorithm>

#include "ir/buffer.h"
#include "schedule/auto/block_model.h"
#include "schedule/auto/tile_operands.h"

namespace lathe {
namespace {

/// Cycles of a half that all lanes share and that is cast for each tile, for each of the lanes that one conversion
/// widens it in (measured on Zen 4, rows of f16 by 4, 8 and 15 columns of 8 and 24 steps); and of other scalars, which
/// are cast before they are broadcast.
constexpr double shared_cast_cycles = 0.06, scalar_cast_cycles = 1.7;

/// Cycles of casting an element that `lanes` columns share, from a narrower float, alone; 0 where none is.
double lone_cast_cycles(const Device& device, const Block& block, size_t columns, std::int64_t lanes) {
  const DType result = block.f.writes[0].buffer->dtype;
  double cycles = 0;
  for (const Access& access : block_accesses(block)) {
    const DType dtype = access.buffer->dtype;
    if (access.store || access.strides[columns] != 0 || !dtype.is_float() || dtype.bits >= result.bits) continue;
    const bool together = dtype == f16 && device.has_feature("f16c");
    cycles += together ? shared_cast_cycles * static_cast<double>(lanes) : scalar_cast_cycles;
  }
  return cycles;
}

}  // namespace

std::optional<DotAxes> dot_axes(const Block& block, const ReductionShape& shape) {
  if (!shape.vector_space && !shape.vector_reduce) return std::nullopt;
  const std::optional<size_t> columns = shape.vector_space ? shape.vector_space : shape.columns;
  if (shape.reduce.empty() || !columns || (!shape.vector_space && !shape.rows)) return std::nullopt;
  if (!shape.vector_space) return DotAxes{*shape.vector_reduce, *columns};
  if (shape.reduce.size() == 1) return DotAxes{shape.reduce[0], *columns};
  // Of several steps the one that lies along all that columns share.
  const Accesses accesses = block_accesses(block);
  for (const size_t i : shape.reduce) {
    size_t along = 0, others = 0;
    for (const Access& access : accesses) {
      if (access.buffer == block.f.writes[0].buffer || access.strides[*columns] != 0) continue;
      ++(access.strides[i] == 1 ? along : others);
    }
    if (along > 0 && others == 0) return DotAxes{i, *columns};
  }
  return std::nullopt;
}

std::optional<TileCosts> tile_costs(const RuleContext& context, const Block& block, const ReductionShape& shape) {
  const std::optional<DotAxes> axes = dot_axes(block, shape);
  if (!axes) return std::nullopt;
  const std::vector<Fact>& facts = context.schedule.func()->facts;
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
  const TiledExtents extents{shape.rows ? constant_extent(block, *shape.rows) : 1,
                             constant_extent(block, axes->columns), steps},
      dot_extents{extents.rows, extents.columns, filled};
  // Everything but rows and columns is done so many times over.
  double times = 1;
  for (const size_t i : shape.space) {
    if (i != shape.rows && i != axes->columns)
      times *= static_cast<double>(extent_estimate(block.f.iters[i].domain.extent, facts));
  }
  const RegisterTile tile = choose_tile(context.device, lanes, static_cast<int>(bits), extents);
  const std::int64_t width = std::max<std::int64_t>(1, tile.vectors * tile.lanes),
                     all =
                         std::max<std::int64_t>(1, extent_estimate(block.f.iters[axes->columns].domain.extent, facts));
  const double rows_of_tiles =
      instance_count(block, facts) / static_cast<double>(all) * static_cast<double>((all + width - 1) / width);
  return TileCosts{tile, times * tile.cycles,
                   rows_of_tiles * lone_cast_cycles(context.device, block, axes->columns, tile.lanes),
                   times * dot_product_cycles(context.device, lanes, static_cast<int>(bits), dot_extents)};
}

}  // namespace lathe
