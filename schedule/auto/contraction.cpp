#include "schedule/auto/contraction.h"

#include <algorithm>
#include <cmath>

#include "ir/reduction.h"

namespace lathe {
namespace {

constexpr std::int64_t most_rows = 14, most_vectors = 8;
/// What a further body costs, as cycles of one step of the reduction: each is compiled.
constexpr double body_penalty = 0.02;

bool contiguous_or_constant(const std::vector<Access>& accesses, size_t iter) {
  bool contiguous = false;
  for (const Access& access : accesses) {
    const std::optional<std::int64_t>& stride = access.strides[iter];
    if (stride != 0 && stride != 1) return false;
    contiguous |= stride == 1;
  }
  return contiguous;
}

double step_cycles(const Device& device, std::int64_t rows, std::int64_t vectors) {
  if (rows == 0 || vectors == 0) return 0;
  const auto chains = static_cast<double>(rows * vectors);
  const double arithmetic = chains / device.fma_per_cycle;
  const double loads = static_cast<double>(vectors + rows) / device.loads_per_cycle;
  // A tile of few chains waits for the last result of each before it can add to it again.
  return std::max({arithmetic, loads, static_cast<double>(device.fma_latency)}) + 0.25;
}

}  // namespace

std::optional<ReductionShape> reduction_shape(const Block& block) {
  const std::optional<ReductionParts> parts = match_update(block);
  if (!parts || parts->outputs.size() != 1 || !block.f.init) return std::nullopt;
  ReductionShape shape;
  for (size_t i = 0; i < block.f.iters.size(); ++i) {
    if (block.f.iters[i].kind == IterKind::space) {
      shape.space.push_back(i);
    } else if (block.f.iters[i].kind == IterKind::reduce) {
      shape.reduce.push_back(i);
    } else {
      return std::nullopt;
    }
  }
  std::vector<Access> loads, output;
  for (Access& access : block_accesses(block)) {
    (access.buffer == parts->outputs[0].buffer ? output : loads).push_back(std::move(access));
  }
  shape.loads = static_cast<int>(loads.size());
  const auto extent = [&](size_t i) { return extent_estimate(block.f.iters[i].domain.extent); };
  for (const size_t i : shape.space) {
    const bool stores = std::all_of(output.begin(), output.end(), [&](const Access& a) { return a.strides[i] == 1; });
    if (stores && extent(i) > 1 && contiguous_or_constant(loads, i)) {
      if (!shape.vector_space || extent(i) > extent(*shape.vector_space)) shape.vector_space = i;
    }
  }
  for (const size_t i : shape.reduce) {
    if (extent(i) > 1 && contiguous_or_constant(loads, i)) {
      if (!shape.vector_reduce || extent(i) > extent(*shape.vector_reduce)) shape.vector_reduce = i;
    }
  }
  // Does a load that walks along the vector iter stay where it is when `iter` moves?
  const size_t* vector = shape.vector_space    ? &*shape.vector_space
                         : shape.vector_reduce ? &*shape.vector_reduce
                                               : nullptr;
  if (!vector) return shape;
  const auto reused = [&](const Access& a, size_t iter) { return a.strides[*vector] == 1 && a.strides[iter] == 0; };
  for (const size_t i : shape.space) {
    if (i == *vector || extent(i) < 2) continue;
    for (const Access& load : loads) {
      if (reused(load, i) && (!shape.rows || extent(i) > extent(*shape.rows))) shape.rows = i;
    }
  }
  if (shape.vector_space || !shape.rows) return shape;
  for (const size_t i : shape.space) {
    if (i == *shape.rows || extent(i) < 2) continue;
    for (const Access& load : loads) {
      const bool other = reused(load, i) && load.strides[*shape.rows] != 0;
      if (other && (!shape.columns || extent(i) > extent(*shape.columns))) shape.columns = i;
    }
  }
  // Of the two, the one along which the output is contiguous is the columns'.
  const bool contiguous_rows =
      std::all_of(output.begin(), output.end(), [&](const Access& a) { return a.strides[*shape.rows] == 1; });
  if (contiguous_rows) std::swap(shape.rows, shape.columns);
  return shape;
}

RegisterTile choose_tile(const Device& device, std::int64_t lanes, std::optional<std::int64_t> rows,
                         std::optional<std::int64_t> columns) {
  // Without fused multiply-add a product needs a register of its own.
  const std::int64_t registers = device.vector_registers - (device.fused_multiply_add ? 1 : 2);
  const std::int64_t all_rows = rows.value_or(assumed_extent * 16 + 1),
                     all_columns = columns.value_or(assumed_extent * 16 + 1);
  RegisterTile best;
  double best_cycles = 0;
  for (std::int64_t v = 1; v <= most_vectors; ++v) {
    for (std::int64_t r = 1; r <= std::min(most_rows, all_rows); ++r) {
      if (r * v + v > registers) continue;
      const std::int64_t panels = all_columns / (v * lanes), rest = (all_columns % (v * lanes) + lanes - 1) / lanes;
      const std::int64_t strips = all_rows / r, last = all_rows % r;
      if (panels == 0 && rest < v) continue;
      double cycles = static_cast<double>(panels * strips) * step_cycles(device, r, v) +
                      static_cast<double>(panels) * step_cycles(device, last, v) +
                      static_cast<double>(strips) * step_cycles(device, r, rest) + step_cycles(device, last, rest);
      const int bodies = (rest ? 2 : 1) * (last ? 2 : 1);
      cycles *= 1 + body_penalty * (bodies - 1);
      if (best_cycles == 0 || cycles < best_cycles * 0.999) {
        best_cycles = cycles;
        best = {r, v};
      }
    }
  }
  return best;
}

}  // namespace lathe
