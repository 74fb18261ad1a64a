#include "jit/engine/code_memory.h"

#include <llvm/ExecutionEngine/Orc/MapperJITLinkMemoryManager.h>
#include <llvm/ExecutionEngine/Orc/MemoryMapper.h>
#include <llvm/Support/Process.h>
#include <sys/mman.h>

#include <unordered_map>

namespace lathe {
namespace {

// Far more than any kernel; address space costs nothing until it is touched.
constexpr size_t slab_bytes = size_t{64} << 20;

class ReturningMapper : public llvm::orc::InProcessMemoryMapper {
 public:
  ReturningMapper(size_t page_size, CodeMemoryCounts& counts) : InProcessMemoryMapper(page_size), counts_(counts) {}

  void reserve(size_t bytes, OnReservedFunction done) override {
    counts_.reserved += static_cast<std::int64_t>(bytes);
    InProcessMemoryMapper::reserve(bytes, std::move(done));
  }

  void initialize(AllocInfo& info, OnInitializedFunction done) override {
    size_t bytes = 0;
    for (auto& segment : info.Segments)
      bytes = std::max(bytes, static_cast<size_t>(segment.Offset) + segment.ContentSize + segment.ZeroFillSize);
    const size_t page = getPageSize();
    bytes = (bytes + page - 1) / page * page;
    InProcessMemoryMapper::initialize(info, [this, bytes, done = std::move(done)](auto address) mutable {
      if (address) {
        std::lock_guard lock(mutex_);
        sizes_[address->getValue()] = bytes;
        counts_.mapped += static_cast<std::int64_t>(bytes);
      }
      done(std::move(address));
    });
  }

  // The base class makes the pages writable again, for the next kernel; what they hold goes here.
  void deinitialize(llvm::ArrayRef<llvm::orc::ExecutorAddr> allocations, OnDeinitializedFunction done) override {
    std::vector<std::pair<void*, size_t>> pages;
    {
      std::lock_guard lock(mutex_);
      for (auto address : allocations) {
        auto found = sizes_.find(address.getValue());
        if (found == sizes_.end()) continue;
        pages.emplace_back(address.toPtr<void*>(), found->second);
        counts_.mapped -= static_cast<std::int64_t>(found->second);
        sizes_.erase(found);
      }
    }
    InProcessMemoryMapper::deinitialize(allocations, [&](llvm::Error error) {
      for (auto [start, bytes] : pages) madvise(start, bytes, MADV_DONTNEED);
      done(std::move(error));
    });
  }

 private:
  CodeMemoryCounts& counts_;
  std::mutex mutex_;
  std::unordered_map<std::uint64_t, size_t> sizes_;
};

}  // namespace

std::unique_ptr<llvm::jitlink::JITLinkMemoryManager> make_code_memory(CodeMemoryCounts& counts) {
  auto mapper = std::make_unique<ReturningMapper>(llvm::sys::Process::getPageSizeEstimate(), counts);
  return std::make_unique<llvm::orc::MapperJITLinkMemoryManager>(slab_bytes, std::move(mapper));
}

}  // namespace lathe
