#pragma once

namespace lathe {

/// The threads of the OpenMP runtime that another library of this process computes with, as PyTorch does.
///
/// Such threads spin for milliseconds behind each loop of theirs, on the CPUs that other workers would need: behind an
/// operator of PyTorch's, a loop of ours on two CPUs would take as long as on one. On the very same threads it starts
/// at once.

/// Finds the runtime that `library`, by its file's name, calls; the library must be loaded already. False where it is
/// not, or calls none. The first that is found stays. `count` names a function of the library, int(), that says how
/// many threads it uses on the thread that calls, where it keeps that itself; null asks the runtime.
bool find_openmp(const char* library, const char* count = nullptr);

/// Threads that a loop which this thread started now would have: 1 where there are none but itself, as in a forked
/// process, which has none of the threads while the runtime believes it has.
int openmp_threads();

/// work(data, 0) on this thread and work(data, 1) to work(data, openmp_threads() - 1) on others, each at most once.
/// Returns when all are done.
void run_with_openmp(void (*work)(void*, int), void* data);

}  // namespace lathe
