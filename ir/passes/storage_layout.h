#pragma once
#include <cstdint>
#include <span>
#include <vector>

namespace lathe {

/// Something that needs `bytes` of a memory from time `first` to `last`, both inclusive, at a multiple of `alignment`.
struct Lifetime {
  std::int64_t first = 0, last = 0, bytes = 0, alignment = 1;
};

struct StorageLayout {
  std::vector<std::int64_t> offsets;  ///< in bytes, one a lifetime
  std::int64_t peak = 0;              ///< the end of what reaches highest
};

/// Gives each lifetime a place, so that no two that meet in time meet in memory, with a low peak.
///
/// Greedy, several times: in falling order of size, of size times duration and of duration, each going into the
/// smallest gap between those placed before that holds it, or to the lowest end. The lowest peak wins. While it lies
/// above the live bound, the lifetime at the peak moves up in the order and all are placed again, for a bounded amount
/// of work; what does not help is undone. Best fit and the order by size: Y. Pisarchyk and J. Lee, Efficient Memory
/// Management for Deep Neural Net Inference, 2020. The result depends on the problem only.
///
/// Cost: n log n, and a term linear in the number of pairs that meet in time.
StorageLayout lay_out(std::span<const Lifetime> lifetimes);

/// What no layout can be smaller than: the most bytes that are alive at one time, and such a time.
struct LiveBound {
  std::int64_t bytes = 0, time = 0;
};
LiveBound live_bound(std::span<const Lifetime> lifetimes);

}  // namespace lathe
