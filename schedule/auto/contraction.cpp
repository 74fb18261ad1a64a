#include "schedule/auto/contraction.h"

#include <algorithm>

#include "ir/reduction.h"

namespace lathe {
namespace {

bool contiguous_or_constant(const std::vector<Access>& accesses, size_t iter) {
  bool contiguous = false;
  for (const Access& access : accesses) {
    const std::optional<std::int64_t>& stride = access.strides[iter];
    if (stride != 0 && stride != 1) return false;
    contiguous |= stride == 1;
  }
  return contiguous;
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
  const auto reused = [&](const Access& a, size_t iter) {
    return a.strides[*vector] == 1 && (a.strides[iter] == 0 || a.runs[iter] > 1);
  };
  for (const size_t i : shape.space) {
    if (i == *vector || extent(i) < 2) continue;
    for (const Access& load : loads) {
      if (!reused(load, i) || (shape.rows && extent(i) <= extent(*shape.rows))) continue;
      shape.rows = i;
      shape.row_run = load.runs[i] > 1 ? load.runs[i] : 0;
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

}  // namespace lathe
