#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "ir/interpreter/interpreter.h"

namespace lathe::testing {

/// The magnitude that an error in an output is judged by: its largest finite exact value, or 1 when all are zero.
double scale_of(const std::vector<FloatBound>& bounds);

/// How tight the bounds of one program's floats are, and how near to them the errors came.
struct BoundStatistics {
  std::int64_t elements = 0;   ///< floats that were compared within a bound
  std::int64_t unbounded = 0;  ///< of those: no bound was found
  /// Of those, unbounded ones included: the bound is wider than a sixteenth of the output's scale, so that a wrong
  /// constant or a term left out may well go unseen.
  std::int64_t loose = 0;
  double radius = 0;  ///< the widest bound
  double worst = 0;   ///< the largest error as a part of its bound

  void add(const FloatBound& bound, double value, double scale);
  /// Most of its floats may be anything, more or less.
  bool is_loose() const { return 2 * loose > elements; }
  std::string text() const;
};

/// Those of many programs.
class BoundSummary {
 public:
  void add(const BoundStatistics& program);

  std::int64_t programs() const { return static_cast<std::int64_t>(worst_.size()); }  ///< with floats to compare
  std::int64_t loose_programs() const { return loose_programs_; }
  const BoundStatistics& elements() const { return total_; }
  std::string text() const;

 private:
  std::vector<double> worst_;
  std::int64_t loose_programs_ = 0;
  BoundStatistics total_;
};

}  // namespace lathe::testing
