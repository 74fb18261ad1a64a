#pragma once
#include <cstdint>

#include "ir/abi.h"

namespace lathe {

/// This thread's context for a call that needs so much workspace, filled in and ready to pass. Its arenas live with the
/// thread and grow on first use, so a later call of the same size allocates nothing. A call made from inside a kernel's
/// own parallel body gets another context of the same thread. Null when the memory is not to be had.
class CallContext {
 public:
  CallContext(std::int64_t shared_bytes, std::int64_t worker_bytes, int threads);
  ~CallContext();
  CallContext(const CallContext&) = delete;
  CallContext& operator=(const CallContext&) = delete;

  LatheContext* get() { return context_; }

 private:
  LatheContext* context_;
};

/// Scratch of this thread, 64-byte aligned, valid until its next call with the same slot; null when memory is short.
/// Slots keep temporaries of one call apart.
void* thread_scratch(int slot, std::int64_t bytes);

/// Gives this thread's arenas back to the system.
void release_thread_arenas();

}  // namespace lathe
