#pragma once
/// Rows whose windows overlap, as those of a stencil do.
#include <cstdint>
#include <optional>

#include "schedule/auto/contraction.h"
#include "schedule/auto/rule.h"

namespace lathe {

/// Rows beside each other that read the same elements in different steps: row r in step k what lies r row strides and k
/// step strides on.
struct Windows {
  size_t rows = 0, steps = 0;  ///< the iters
  std::int64_t count = 1;      ///< steps of it
  std::int64_t row_stride = 0, step_stride = 0;
  std::int64_t own = 0;  ///< further operands, of which each row has its own in each step

  std::int64_t times = 1;  ///< of results of other iters
  bool far = false;        ///< operands and results exceed the caches (exceeds_caches)

  /// Vectors that so many rows load in all steps of the iter, for each vector of results and step of other iters.
  std::int64_t loads(std::int64_t row_count) const;
};

/// The windows of a reduction of few steps without an operand that rows share, whose vectors load neighbours: those of
/// which two rows share the most.
std::optional<Windows> overlapping_windows(const RuleContext& context, const Block& reduction,
                                           const ReductionShape& shape, size_t vectors);

}  // namespace lathe
