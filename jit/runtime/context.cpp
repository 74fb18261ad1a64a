#include "jit/runtime/context.h"

#include <cstdlib>
#include <memory>
#include <vector>

#include "jit/runtime/threads.h"

namespace lathe {
namespace {

constexpr std::int64_t alignment = 64;

std::int64_t round_up(std::int64_t bytes) {
  return (bytes + alignment - 1) / alignment * alignment;
}

/// One growing block of memory.
class Arena {
 public:
  Arena() = default;
  ~Arena() { std::free(memory_); }
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;

  void* reserve(std::int64_t bytes) {
    if (bytes <= capacity_) return memory_;
    release();
    memory_ = std::aligned_alloc(alignment, static_cast<size_t>(round_up(bytes)));
    if (memory_) capacity_ = round_up(bytes);
    return memory_;
  }

  void release() {
    std::free(memory_);
    memory_ = nullptr;
    capacity_ = 0;
  }

 private:
  void* memory_ = nullptr;
  std::int64_t capacity_ = 0;
};

struct Frame {
  LatheContext context{};
  Arena shared, workers;
};

struct ThreadState {
  std::vector<std::unique_ptr<Frame>> frames;  // one a nesting level
  size_t depth = 0;
  std::vector<std::unique_ptr<Arena>> scratch;
};

thread_local ThreadState state;

}  // namespace

CallContext::CallContext(std::int64_t shared_bytes, std::int64_t worker_bytes, int threads) {
  if (state.depth == state.frames.size()) state.frames.push_back(std::make_unique<Frame>());
  Frame& frame = *state.frames[state.depth++];
  context_ = &frame.context;
  context_->abi_version = LATHE_ABI_VERSION;
  context_->thread_count = threads;
  context_->parallel_for = current_parallel_for(&context_->host);
  context_->error = {nullptr, 0};
  context_->worker_stride = round_up(worker_bytes);
  context_->shared_workspace = shared_bytes ? frame.shared.reserve(shared_bytes) : nullptr;
  context_->worker_workspace = worker_bytes ? frame.workers.reserve(context_->worker_stride * threads) : nullptr;
  if ((shared_bytes && !context_->shared_workspace) || (worker_bytes && !context_->worker_workspace))
    context_ = nullptr;
}

CallContext::~CallContext() {
  --state.depth;
}

void* thread_scratch(int slot, std::int64_t bytes) {
  while (state.scratch.size() <= static_cast<size_t>(slot)) state.scratch.push_back(std::make_unique<Arena>());
  return state.scratch[slot]->reserve(bytes);
}

void release_thread_arenas() {
  for (const auto& frame : state.frames) {
    frame->shared.release();
    frame->workers.release();
  }
  for (const auto& arena : state.scratch) arena->release();
}

}  // namespace lathe
