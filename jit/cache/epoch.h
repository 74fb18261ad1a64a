#pragma once
#include <functional>

namespace lathe {

/// Marks this thread as inside a call: what was reachable when the guard was made stays alive until it goes. Guards
/// nest. A call takes no lock and counts no reference; see Fraser, "Practical lock-freedom" (2004), chapter 5.2.
class EpochGuard {
 public:
  EpochGuard();
  ~EpochGuard();
  EpochGuard(const EpochGuard&) = delete;
  EpochGuard& operator=(const EpochGuard&) = delete;
};

/// Runs `free` once no guard that exists now is left: at a later retire or reclaim, on whatever thread makes it.
void retire(std::function<void()> free);
/// Runs what may be run.
void reclaim();

}  // namespace lathe
