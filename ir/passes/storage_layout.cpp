#include "ir/passes/storage_layout.h"

#include <algorithm>
#include <numeric>

namespace lathe {
namespace {

/// How many times a lifetime is put into place in all, weighed by those that it meets: about 0.3 ms.
constexpr std::int64_t retry_work = 40'000;
constexpr std::int64_t most_retries = 400;

std::int64_t round_up(std::int64_t value, std::int64_t multiple) {
  return (value + multiple - 1) / multiple * multiple;
}

class Planner {
 public:
  explicit Planner(std::span<const Lifetime> lifetimes)
      : all_(lifetimes), meets_(lifetimes.size()), offsets_(lifetimes.size()), placed_(lifetimes.size()) {
    find_meetings();
  }

  StorageLayout run() {
    const std::int64_t bound = live_bound(all_).bytes;
    StorageLayout best;
    std::vector<size_t> best_order;
    const auto consider = [&](std::vector<size_t> order) {
      const std::int64_t peak = place_all(order);
      if (!best.offsets.empty() && peak >= best.peak) return;
      best = {offsets_, peak};
      best_order = std::move(order);
    };
    consider(in_order([](const Lifetime& l) { return static_cast<double>(l.bytes); }));
    if (best.peak > bound) {
      consider(in_order(
          [](const Lifetime& l) { return static_cast<double>(l.bytes) * static_cast<double>(l.last - l.first + 1); }));
    }
    if (best.peak > bound) {
      consider(in_order([](const Lifetime& l) { return static_cast<double>(l.last - l.first); }));
    }
    if (best.peak > bound) promote(best, std::move(best_order), bound);
    return best;
  }

 private:
  void find_meetings() {
    std::vector<size_t> by_start(all_.size()), alive;
    std::iota(by_start.begin(), by_start.end(), size_t{0});
    std::stable_sort(by_start.begin(), by_start.end(),
                     [&](size_t a, size_t b) { return all_[a].first < all_[b].first; });
    for (const size_t i : by_start) {
      std::erase_if(alive, [&](size_t other) { return all_[other].last < all_[i].first; });
      for (const size_t other : alive) {
        meets_[i].push_back(other);
        meets_[other].push_back(i);
      }
      work_ += 1 + 2 * static_cast<std::int64_t>(alive.size());
      alive.push_back(i);
    }
  }

  /// Largest first; of two that are alike, the one that begins earlier.
  template <class Weight>
  std::vector<size_t> in_order(Weight weight) const {
    std::vector<size_t> order(all_.size());
    std::iota(order.begin(), order.end(), size_t{0});
    std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
      const double x = weight(all_[a]), y = weight(all_[b]);
      if (x != y) return x > y;
      return all_[a].bytes != all_[b].bytes ? all_[a].bytes > all_[b].bytes : all_[a].first < all_[b].first;
    });
    return order;
  }

  std::int64_t place_all(const std::vector<size_t>& order) {
    std::fill(placed_.begin(), placed_.end(), false);
    std::int64_t peak = 0;
    for (const size_t i : order) {
      offsets_[i] = best_place(i);
      placed_[i] = true;
      peak = std::max(peak, offsets_[i] + all_[i].bytes);
    }
    return peak;
  }

  /// The smallest gap that holds it; behind all that it meets when there is none.
  std::int64_t best_place(size_t i) {
    taken_.clear();
    for (const size_t other : meets_[i]) {
      if (placed_[other]) taken_.emplace_back(offsets_[other], offsets_[other] + all_[other].bytes);
    }
    std::sort(taken_.begin(), taken_.end());
    std::int64_t end = 0, best = -1, best_gap = 0;
    for (const auto& [first, last] : taken_) {
      const std::int64_t at = round_up(end, all_[i].alignment), gap = first - end;
      if (at + all_[i].bytes <= first && (best < 0 || gap < best_gap)) {
        best = at;
        best_gap = gap;
      }
      end = std::max(end, last);
    }
    return best >= 0 ? best : round_up(end, all_[i].alignment);
  }

  void promote(StorageLayout& best, std::vector<size_t> order, std::int64_t bound) {
    offsets_ = best.offsets;
    std::vector<std::int64_t> current = best.offsets;
    std::int64_t current_peak = best.peak;
    std::uint32_t random = 1;
    const std::int64_t retries = std::min(most_retries, retry_work / std::max<std::int64_t>(work_, 1));
    for (std::int64_t k = 0; k < retries && best.peak > bound; ++k) {
      size_t at = 0;
      while (current[order[at]] + all_[order[at]].bytes != current_peak) ++at;
      // Placed first and still at the peak, it stands on others because of its alignment or size alone.
      if (at == 0) return;
      random = random * 1664525 + 1013904223;
      const size_t to = (random >> 8) % at;
      const auto begin = order.begin();
      std::rotate(begin + static_cast<std::ptrdiff_t>(to), begin + static_cast<std::ptrdiff_t>(at),
                  begin + static_cast<std::ptrdiff_t>(at) + 1);
      const std::int64_t peak = place_all(order);
      if (peak > current_peak) {
        std::rotate(begin + static_cast<std::ptrdiff_t>(to), begin + static_cast<std::ptrdiff_t>(to) + 1,
                    begin + static_cast<std::ptrdiff_t>(at) + 1);
        continue;
      }
      current = offsets_;
      current_peak = peak;
      if (peak < best.peak) best = {offsets_, peak};
    }
  }

  std::span<const Lifetime> all_;
  std::vector<std::vector<size_t>> meets_;
  std::vector<std::int64_t> offsets_;
  std::vector<bool> placed_;
  std::vector<std::pair<std::int64_t, std::int64_t>> taken_;
  std::int64_t work_ = 0;  ///< of placing all once
};

}  // namespace

StorageLayout lay_out(std::span<const Lifetime> lifetimes) {
  return Planner(lifetimes).run();
}

LiveBound live_bound(std::span<const Lifetime> lifetimes) {
  std::vector<std::pair<std::int64_t, std::int64_t>> changes;  // at a time, by so many bytes; starts before ends
  for (const Lifetime& l : lifetimes) {
    changes.emplace_back(l.first, l.bytes);
    changes.emplace_back(l.last + 1, -l.bytes);
  }
  std::sort(changes.begin(), changes.end());
  LiveBound bound;
  std::int64_t alive = 0;
  for (const auto& [time, bytes] : changes) {
    alive += bytes;
    if (alive > bound.bytes) bound = {alive, time};
  }
  return bound;
}

}  // namespace lathe
