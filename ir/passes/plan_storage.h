#pragma once
#include <string>
#include <vector>

#include "ir/device.h"
#include "ir/func.h"

namespace lathe {

/// What plan_storage made of one space.
struct SpacePlan {
  std::string space;
  std::int64_t bytes = 0;             ///< the peak: how far the allocations reach, alignment counted
  std::int64_t live_bound = 0;        ///< the most bytes that are alive at one time: no plan is smaller
  std::vector<std::string> at_peak;   ///< what is alive at that time, "NAME (BYTES bytes)"
  std::vector<std::string> in_place;  ///< "NEW over OLD": what takes over memory that is still read
};
using StorageReport = std::vector<SpacePlan>;

/// Lays every allocation out in its memory space.
///
///   alloc T: f32[1000]                          (no alloc; attrs shared_bytes = 8000)
///   alloc U: f32[1000]                    ->    T, U: 64-byte aligned element offsets into the workspace,
///   T = ..  U = f(T)                            the same for two that are never alive together
///
/// What is alive when comes from the order of the statements; places from lay_out (storage_layout.h), which fills gaps.
/// A buffer takes over the memory of another that is still read where each element is read for the last time before it
/// is written (share_storage.h). Alignments are kept: a place is a multiple of what its buffer asks for, and of what
/// the space's widest access and its unit want.
///
/// What a parallel iteration allocates in `global` goes to the `worker` workspace, anything else there to `global`,
/// which all threads share; their sizes go to the attrs `shared_bytes` and `worker_bytes`, alignments above 64 bytes to
/// `shared_align` and `worker_align`. Of another space NAME, `space_NAME_bytes` says how much is used. A planned Buffer
/// is listed in no block's allocs; its space and its offset, in elements, name the place. Register buffers stay as they
/// are. The first pass of `flatten`: flatten_buffers folds the offsets into indices.
///
/// Requires:
///   1. the size of each allocation has a constant bound, given the facts of the Func
///   2. each allocation lies in a space of the device
///   3. an allocation has a memory of its own in each iteration that has the allocation: of a space that exists per
///      axis it stands in a loop along that axis, of any other in none; in parallel loops there are workspaces only
///   4. what a space is planned to hold fits it
Func plan_storage(const Func& func, const Device& device, StorageReport* report = nullptr);

}  // namespace lathe
