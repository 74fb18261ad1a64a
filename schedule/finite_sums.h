#pragma once
/// Zero times an element is zero only where that is finite: what is left out because of a factor that is zero asks for
/// sums of zero times the other.
#include <string>
#include <vector>

#include "schedule/schedule.h"

namespace lathe {

/// The elements of an operand that an iteration of some loops reads.
struct FiniteOperand {
  Buffer buffer;
  std::vector<Range> ranges;  ///< over these loops and those around them
  bool exact = false;         ///< does the iteration read all elements of the ranges?

  bool operator==(const FiniteOperand& other) const;
};

/// Do the elements change with the loop?
bool uses_loop(const FiniteOperand& operand, const For& loop);

/// Nests that sum zero times the operand's elements, and say of which sums one is not finite. Loops ask for that mark
/// rather than for the sum, as a comparison of floats would take a register of those that hold tiles.
struct FiniteSum {
  std::vector<Stmt> nests;
  std::string block, marks;  ///< the names of that which sums, and of that which marks
  std::vector<Buffer> buffers;
  Expr guard;  ///< true where an element is not finite
};

/// The nests stand below the loops `around`, and make a sum for each iteration of `within` that decides which elements
/// these are. Names are others than those of `names`, sums that are not yet part of the schedule.
FiniteSum sum_of_zeros(const Schedule& schedule, const FiniteOperand& operand, const std::vector<const For*>& around,
                       const std::vector<const For*>& within, const std::vector<std::string>& names);

}  // namespace lathe
