#include "schedule/auto/reach.h"

#include <algorithm>

namespace lathe {

Reach reach_of(std::vector<std::pair<std::int64_t, std::int64_t>> steps, std::int64_t element_bytes,
               double line_bytes) {
  std::sort(steps.begin(), steps.end());
  double run = 1, pieces = 1;
  const double gap = line_bytes / static_cast<double>(element_bytes);
  for (size_t i = 0; i < steps.size(); ++i) {
    auto [stride, extent] = steps[i];
    // Loops that go as far, as the steps of a window and its place do, reach what one would.
    while (i + 1 < steps.size() && steps[i + 1].first == stride) extent += steps[++i].second - 1;
    if (static_cast<double>(stride) < run + gap && pieces == 1) {
      run += static_cast<double>(stride * (extent - 1));
    } else {
      pieces *= static_cast<double>(extent);
    }
  }
  return {pieces, run * static_cast<double>(element_bytes)};
}

}  // namespace lathe
