#include "tests/fuzz/bound_statistics.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace lathe::testing {

double scale_of(const std::vector<FloatBound>& bounds) {
  double scale = 0;
  for (const FloatBound& bound : bounds) {
    if (std::isfinite(bound.exact)) scale = std::max(scale, std::abs(bound.exact));
  }
  return scale > 0 ? scale : 1;
}

void BoundStatistics::add(const FloatBound& bound, double value, double scale) {
  ++elements;
  if (std::isinf(bound.radius)) {
    ++unbounded;
    ++loose;
    return;
  }
  if (bound.radius > scale / 16) ++loose;
  radius = std::max(radius, bound.radius);
  if (bound.radius > 0 && std::isfinite(bound.exact)) {
    worst = std::max(worst, std::abs(value - bound.exact) / bound.radius);
  }
}

std::string BoundStatistics::text() const {
  if (elements == 0) return "bit for bit";
  std::string result = fmt::format("bound {:.3g}, largest error {:.2f} of it", radius, worst);
  if (loose) result += fmt::format(", {} of {} floats loosely bound, {} not at all", loose, elements, unbounded);
  return result;
}

void BoundSummary::add(const BoundStatistics& program) {
  if (program.elements == 0) return;
  worst_.push_back(program.worst);
  loose_programs_ += program.is_loose();
  total_.elements += program.elements;
  total_.unbounded += program.unbounded;
  total_.loose += program.loose;
  total_.radius = std::max(total_.radius, program.radius);
  total_.worst = std::max(total_.worst, program.worst);
}

std::string BoundSummary::text() const {
  if (worst_.empty()) return "no program has floats";
  std::vector<double> sorted = worst_;
  std::sort(sorted.begin(), sorted.end());
  return fmt::format(
      "{} with floats, {} of them loosely bound; largest error as a part of its bound: median {:.2f}, at most {:.2f}; "
      "{} floats, {} loosely bound, {} of those not at all",
      sorted.size(), loose_programs_, sorted[sorted.size() / 2], sorted.back(), total_.elements, total_.loose,
      total_.unbounded);
}

}  // namespace lathe::testing
