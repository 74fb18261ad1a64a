#pragma once

namespace lathe {

/// What a thread that waits in a loop does in each round, so that its core's other thread, and the line it looks at,
/// are left alone meanwhile.
inline void relax() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

/// work(data, 0) on this thread, and work(data, 1) to work(data, count - 1) on others at the same time, each at most
/// once. Who has not come by the time that work(data, 0) returns is not waited for: that call must do what no other one
/// does.
///
/// The others are oneTBB's. Waking one takes tens of microseconds, as long as many a loop, so that one that has come
/// stands by for the next call for a while, awake.
void run_with_team(int count, void (*work)(void*, int), void* data);

}  // namespace lathe
