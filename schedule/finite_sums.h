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

/// A nest that sums zero times the operand's elements.
struct FiniteSum {
  Stmt nest;
  std::string block;  ///< the name of that in it
  Buffer sums;
  Expr guard;  ///< true where one of them is not finite
};

/// The nest stands below the loops `around`, and makes a sum for each iteration of `within` that decides which elements
/// these are.
FiniteSum sum_of_zeros(const Schedule& schedule, const FiniteOperand& operand, const std::vector<const For*>& around,
                       const std::vector<const For*>& within);

}  // namespace lathe
