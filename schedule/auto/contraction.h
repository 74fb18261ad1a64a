#pragma once
/// Reductions told apart by how their accesses walk through memory, with no name of an operator.
#include <optional>
#include <string>
#include <vector>

#include "schedule/auto/block_model.h"
#include "schedule/schedule.h"

namespace lathe {

/// Runs of columns that share an element of an operand: shorter ones would leave most lanes of a vector idle.
inline constexpr std::int64_t shortest_run = 4;

/// The least bytes of elements of whose vectors lanes are picked by one instruction.
inline constexpr std::int64_t picked_bytes = 4;

/// How a reduction uses its iters, given as positions in the block's list.
struct ReductionShape {
  std::vector<size_t> space, reduce;
  /// The space iter along which the output and an operand are contiguous and every access is contiguous or constant; or
  /// without one, and without a long vector_reduce, one along which loads move by a few elements.
  std::optional<size_t> vector_space;
  /// Where not 0, some load stands still during aligned runs of so many of vector_space, as x[f // 32, ..] does.
  std::int64_t column_run = 0;
  /// The reduce iter along which an operand is contiguous and every load is contiguous or constant.
  std::optional<size_t> vector_reduce;
  /// A space iter along which an operand that the vector iter walks is constant: what is loaded serves several of its
  /// rows.
  std::optional<size_t> rows;
  std::int64_t row_run = 0;  ///< the length of aligned runs of rows that share the operand; 0 when all do
  /// Without vector_space, a second such iter; the output is contiguous along it if along either.
  std::optional<size_t> columns;
  int loads = 0;  ///< distinct loads of the term
};

/// Nothing when the block is no reduction by a canonical update with one result.
std::optional<ReductionShape> reduction_shape(const Block& block);

/// Has a shape of which vectors can walk neither the result nor the reduction, as arrays lie, say what vectors across
/// memory could: columns along which the result is contiguous, and rows that one operand walks and the others stand
/// still in, as channels that come last in an image and first in its weights leave them.
void find_rows_across(const Block& block, ReductionShape* shape);

}  // namespace lathe
