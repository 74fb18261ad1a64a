#pragma once
#include <cstdint>

#include "ir/abi.h"

namespace lathe {

/// Threads that this process may use: the smaller of its affinity mask and its cgroup's CPU quota, at least 1.
int usable_threads();

/// Worker threads of later calls: usable_threads() until set. 1 runs kernels on the calling thread alone.
int thread_count();
/// 0 brings the default back. An InputError below 0 and above most_threads, beyond which a call's workspaces, one a
/// thread, would be the first to fail.
void set_thread_count(int count);
constexpr int most_threads = 4096;

/// The parallel loop of later calls, and what its context's `host` holds; null brings the default back. Kernels already
/// running keep what they started with.
void set_parallel_for(LatheParallelFor parallel_for, void* host);
/// What a call started now would use.
LatheParallelFor current_parallel_for(void** host);

/// Whether loops may run on the threads of the OpenMP runtime that find_openmp has found (openmp.h); true until set.
/// Those that may not run on oneTBB's, as all do until one is found.
void share_openmp(bool on);
/// How many of its threads a loop of so many would share: all, as a loop starts every one and waits for it, where these
/// are as many; or fewer, where nobody has asked for more. 1 where none are shared.
int shared_threads(int count);

/// The parallel_for on oneTBB's workers (team.h). A loop within a loop runs inline on its worker.
std::int32_t tbb_parallel_for(LatheContext* context, std::int64_t n, std::int64_t grain, LatheParallelBody body,
                              void* closure);
/// What loops run on where the host has not said otherwise: threads that are shared, else oneTBB's.
std::int32_t default_parallel_for(LatheContext* context, std::int64_t n, std::int64_t grain, LatheParallelBody body,
                                  void* closure);

}  // namespace lathe
