#include "schedule/auto/tile_operands.h"

#include <algorithm>

#include "ir/buffer.h"
#include "ir/reduction.h"
#include "schedule/auto/reduction_chain.h"
#include "schedule/rewrite.h"

namespace lathe {
namespace {

/// From the first to the last step of a panel, in bytes.
constexpr std::int64_t scattered_footprint = std::int64_t{512} << 10;
/// What the cost model gives two loads and a multiplication.
constexpr double plain_term_cost = 3;
/// Elements that lie further apart are loaded one by one.
constexpr std::int64_t widest_step = 5;

}  // namespace

std::optional<std::int64_t> constant_extent(const Block& block, size_t iter) {
  const std::int64_t* value = as_int(block.f.iters[iter].domain.extent);
  return value ? std::optional(*value) : std::nullopt;
}

std::optional<Access> vector_operand(const Block& reduction, size_t rows, size_t vectors) {
  for (Access& access : block_accesses(reduction)) {
    if (!access.store && !access.masked && access.strides[vectors] == 1 && access.strides[rows] == 0)
      return std::move(access);
  }
  return std::nullopt;
}

std::optional<size_t> paired_rows(const Block& reduction, const ReductionShape& shape, size_t vectors) {
  if (!shape.rows || shape.row_run > 0 || shape.column_run > 0) return std::nullopt;
  std::vector<Access> loads;
  for (Access& access : block_accesses(reduction)) {
    if (access.masked) return std::nullopt;
    if (access.store || access.buffer == reduction.f.writes[0].buffer) continue;
    if (access.strides[vectors] != 1) return std::nullopt;
    loads.push_back(std::move(access));
  }
  if (loads.size() != 2 || !constant_extent(reduction, *shape.rows) || !constant_extent(reduction, vectors))
    return std::nullopt;
  if (loads[0].strides[*shape.rows] != 0) std::swap(loads[0], loads[1]);
  const Access &shared = loads[0], &other = loads[1];
  if (shared.strides[*shape.rows] != 0 || other.strides[*shape.rows] == 0) return std::nullopt;
  std::optional<size_t> best;
  std::int64_t most = 1;
  for (const size_t i : shape.space) {
    const std::int64_t extent = constant_extent(reduction, i).value_or(0);
    if (i == vectors || i == shape.rows || extent <= most) continue;
    if (other.strides[i] != 0 || shared.strides[i].value_or(0) == 0) continue;
    best = i;
    most = extent;
  }
  return best;
}

void walk_far_steps_outside(const RuleContext& context, const Block& reduction, ReductionShape& shape) {
  std::optional<Access> largest;
  double most = static_cast<double>(own_cache_bytes(context.device));
  for (Access& access : block_accesses(reduction)) {
    const double bytes = estimated_elements(access.buffer) * access.buffer->dtype.bytes();
    if (access.store || access.buffer == reduction.f.writes[0].buffer || bytes <= most) continue;
    most = bytes;
    largest = std::move(access);
  }
  const auto distance = [&](size_t i) { return std::abs(largest->strides[i].value_or(0)); };
  if (largest) {
    std::stable_sort(shape.reduce.begin(), shape.reduce.end(),
                     [&](size_t a, size_t b) { return distance(a) > distance(b); });
  }
}

std::optional<size_t> independent_rows(const Block& reduction, const ReductionShape& shape, size_t vectors) {
  const std::vector<Access> accesses = block_accesses(reduction);
  std::optional<size_t> best;
  std::int64_t least = 0;
  for (const size_t i : shape.space) {
    const std::optional<std::int64_t> extent = constant_extent(reduction, i);
    if (i == vectors || !extent || *extent < 2) continue;
    bool shares = false;
    std::int64_t distance = 0;
    for (const Access& access : accesses) {
      const std::optional<std::int64_t>& stride = access.strides[i];
      if (!stride || access.masked) return std::nullopt;
      shares |= !access.store && *stride == 0 && access.strides[vectors] == 0;
      distance = std::max(distance, std::abs(*stride));
    }
    if (!shares) distance += std::int64_t{1} << 48;
    if (best && distance >= least) continue;
    best = i;
    least = distance;
  }
  return best;
}

double term_cycles(const Block& reduction, size_t vectors) {
  const std::optional<ReductionParts> parts = match_update(reduction);
  if (!parts) return 0;
  double cycles = -plain_term_cost;
  for (const Expr& term : parts->terms) cycles += expression_cost(term);
  for (const Stmt& let : parts->lets) cycles += expression_cost(let.as<Let>()->value);
  cycles = std::max(cycles, 0.0);
  for (const Access& access : block_accesses(reduction)) {
    const std::int64_t step = std::abs(access.strides[vectors].value_or(1));
    // As many loads as steps, and a shuffle for each but the first.
    if (!access.store && step > 1) cycles += 2 * static_cast<double>(std::min(step, widest_step) - 1);
  }
  return cycles;
}

std::vector<size_t> sharing_iters(const ReductionShape& shape, const Access& operand) {
  std::vector<size_t> found;
  for (const size_t i : shape.space) {
    if (i != shape.rows && i != shape.vector_space && operand.strides[i] == 0) found.push_back(i);
  }
  return found;
}

std::vector<size_t> sliding_iters(const Block& reduction, const ReductionShape& shape, const Access& operand) {
  std::vector<size_t> found;
  const Load* load = load_of(reduction, operand.buffer);
  if (!load) return found;
  const auto walks = [&](const Expr& index, size_t iter) {
    return uses_var(index, reduction.f.iters[iter].variable.get());
  };
  for (const size_t i : shape.space) {
    if (i == shape.rows || i == shape.vector_space) continue;
    const bool slides = std::any_of(load->indices.begin(), load->indices.end(), [&](const Expr& index) {
      return walks(index, i) &&
             std::any_of(shape.reduce.begin(), shape.reduce.end(), [&](size_t reduce) { return walks(index, reduce); });
    });
    if (slides) found.push_back(i);
  }
  return found;
}

bool lies_scattered(const Block& reduction, const ReductionShape& shape, const Access& operand) {
  std::int64_t distance = 0;
  for (const size_t i : shape.reduce) {
    const auto& stride = operand.strides[i];
    if (!stride) return false;
    distance += std::abs(*stride) * extent_estimate(reduction.f.iters[i].domain.extent);
  }
  return distance * operand.buffer->dtype.bytes() >= scattered_footprint;
}

}  // namespace lathe
