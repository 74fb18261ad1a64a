#pragma once

namespace lathe {

/// Where the workers of parallel loops run: on other CPUs than the thread that starts the loop.
///
/// Schedulers that pack what wakes onto a CPU that is awake already, so that others may sleep (virtual machines have
/// such), let a worker share the caller's CPU until they balance, milliseconds later: as long as many a loop takes. So
/// the CPU that a caller runs on is taken out of the workers' affinity, until a caller comes from another CPU. An
/// affinity that somebody else gives a worker meanwhile stays the one that its CPU is taken out of.

/// Called by a worker as it takes part in a loop; the first time makes it known.
void join_workers();

/// Around a loop, on the thread that starts it. Loops that start while another runs leave the workers where they are.
class RoomForCaller {
 public:
  RoomForCaller();
  ~RoomForCaller();
  RoomForCaller(const RoomForCaller&) = delete;
  RoomForCaller& operator=(const RoomForCaller&) = delete;
};

}  // namespace lathe
