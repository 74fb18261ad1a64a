#include "tests/memory_harness.h"

#include <fmt/format.h>
#include <sanitizer/asan_interface.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <csetjmp>
#include <csignal>
#include <cstring>
#include <stdexcept>
#include <utility>

namespace lathe::testing {
namespace {

/// The canary of the byte at `address`: a NaN in every float type, and another in the next array, so that a copy out of
/// one array's gaps into another's shows.
std::byte canary_at(const std::byte* address, unsigned array) {
  const bool is_high = reinterpret_cast<std::uintptr_t>(address) % 2 != 0;
  return std::byte(is_high ? (array % 2 ? 0xff : 0x7f) : 0xf1 + array / 2 % 15);
}

unsigned next_array() {
  static std::atomic<unsigned> count = 0;
  return count++;
}

thread_local sigjmp_buf* landing = nullptr;
thread_local void* faulting_address = nullptr;

void on_fault(int signal, siginfo_t* info, void*) {
  if (!landing) {
    // Not ours: the default action, on return to the faulting instruction.
    std::signal(signal, SIG_DFL);
    return;
  }
  faulting_address = info->si_addr;
  siglongjmp(*landing, 1);
}

}  // namespace

GuardedArray::GuardedArray(Layout layout) : layout_(std::move(layout)), number_(next_array()) {
  const std::int64_t size = layout_.dtype.bytes();
  if (layout_.strides.empty()) {
    layout_.strides.resize(layout_.shape.size());
    std::int64_t stride = 1;
    for (size_t d = layout_.shape.size(); d-- > 0;) {
      layout_.strides[d] = stride;
      stride *= layout_.shape[d];
    }
  }
  std::int64_t lowest = 0, highest = 0;
  for (size_t d = 0; d < layout_.shape.size(); ++d) {
    count_ *= layout_.shape[d];
    const std::int64_t reach = (layout_.shape[d] - 1) * layout_.strides[d];
    (reach < 0 ? lowest : highest) += reach;
  }
  const std::int64_t bytes = count_ == 0 ? 0 : (highest - lowest + 1) * size;

  page_ = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  const std::size_t inner = (static_cast<std::size_t>(bytes) + 64 + page_ - 1) / page_ * page_;
  mapped_ = inner + 2 * page_;
  void* mapping = mmap(nullptr, mapped_, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (mapping == MAP_FAILED) throw std::runtime_error("mmap failed");
  mapping_ = static_cast<std::byte*>(mapping);
  std::byte* low = mapping_ + page_;
  std::byte* high = low + inner;
  if (mprotect(low, inner, PROT_READ | PROT_WRITE) != 0) throw std::runtime_error("mprotect failed");

  if (layout_.against == Against::low) {
    begin_ = low + (layout_.misalignment < 0 ? 0 : layout_.misalignment % 64);
  } else {
    begin_ = high - bytes;
    if (layout_.misalignment >= 0) {
      const auto past = reinterpret_cast<std::uintptr_t>(begin_) % 64;
      begin_ -= (past + 64 - static_cast<std::uintptr_t>(layout_.misalignment) % 64) % 64;
    }
  }
  end_ = begin_ + bytes;
  data_ = begin_ - lowest * size;
  if (count_ == 0) data_ = begin_;

  for (std::byte* p = low; p != high; ++p) *p = canary_at(p, number_);
  is_element_.assign(static_cast<std::size_t>(bytes), false);
  for (std::int64_t k = 0; k < count_; ++k) {
    const std::ptrdiff_t at = element(k) - begin_;
    std::fill_n(is_element_.begin() + at, size, true);
  }
}

GuardedArray::GuardedArray(GuardedArray&& other) noexcept
    : layout_(std::move(other.layout_)),
      number_(other.number_),
      mapping_(std::exchange(other.mapping_, nullptr)),
      mapped_(other.mapped_),
      page_(other.page_),
      begin_(other.begin_),
      end_(other.end_),
      data_(other.data_),
      count_(other.count_),
      is_element_(std::move(other.is_element_)) {}

GuardedArray::~GuardedArray() {
  if (!mapping_) return;
  poison_gaps(false);  // for whoever gets these addresses next
  munmap(mapping_, mapped_);
}

std::byte* GuardedArray::element(std::int64_t k) const {
  std::int64_t offset = 0;
  for (size_t d = layout_.shape.size(); d-- > 0;) {
    offset += k % layout_.shape[d] * layout_.strides[d];
    k /= layout_.shape[d];
  }
  return data_ + offset * layout_.dtype.bytes();
}

void GuardedArray::poison_gaps([[maybe_unused]] bool poisoned) const {
#if defined(__SANITIZE_ADDRESS__)
  const std::byte* low = mapping_ + page_;
  const std::byte* high = mapping_ + mapped_ - page_;
  if (!poisoned) {
    __asan_unpoison_memory_region(low, static_cast<size_t>(high - low));
    return;
  }
  const auto is_gap = [&](const std::byte* p) {
    return p < begin_ || p >= end_ || !is_element_[static_cast<std::size_t>(p - begin_)];
  };
  for (const std::byte* p = low; p != high;) {
    const std::byte* first = p;
    while (p != high && is_gap(p)) ++p;
    if (p != first) __asan_poison_memory_region(first, static_cast<size_t>(p - first));
    while (p != high && !is_gap(p)) ++p;
  }
#endif
}

std::string GuardedArray::check() const {
  const std::byte* low = mapping_ + page_;
  const std::byte* high = mapping_ + mapped_ - page_;
  for (const std::byte* p = low; p != high; ++p) {
    if (p >= begin_ && p < end_ && is_element_[static_cast<std::size_t>(p - begin_)]) continue;
    if (*p == canary_at(p, number_)) continue;
    if (p < begin_) return fmt::format("a byte {} before the array was overwritten", begin_ - p);
    if (p >= end_) return fmt::format("a byte {} past the array was overwritten", p - end_ + 1);
    return fmt::format("byte {}, in a stride gap, was overwritten", p - begin_);
  }
  return {};
}

GuardedArray guarded_bytes(std::int64_t bytes, Against against, int misalignment) {
  return GuardedArray({u8, {bytes}, {}, against, misalignment});
}

void* fault_of(const std::function<void()>& f) {
  struct sigaction action{}, segv{}, bus{};
  action.sa_sigaction = on_fault;
  action.sa_flags = SA_SIGINFO | SA_NODEFER;
  sigemptyset(&action.sa_mask);
  sigaction(SIGSEGV, &action, &segv);
  sigaction(SIGBUS, &action, &bus);
  sigjmp_buf here;
  void* result = nullptr;
  if (sigsetjmp(here, 1) == 0) {
    landing = &here;
    f();
  } else {
    result = faulting_address;
  }
  landing = nullptr;
  sigaction(SIGSEGV, &segv, nullptr);
  sigaction(SIGBUS, &bus, nullptr);
  return result;
}

}  // namespace lathe::testing
