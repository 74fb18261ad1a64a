#pragma once
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "ir/dtype.h"

namespace lathe::testing {

/// Which end of an array lies against its guard page.
enum class Against { low, high };

/// An array between two pages that fault when touched. Bytes of its pages that belong to no element (the gaps of its
/// strides, and what is left of the pages) carry canaries, others in each array.
class GuardedArray {
 public:
  struct Layout {
    DType dtype;
    std::vector<std::int64_t> shape;
    std::vector<std::int64_t> strides;  ///< in elements, may be negative or zero; empty means compact row-major
    Against against = Against::high;
    /// The lowest byte lies so many bytes past a multiple of 64, as near to the guard page as that allows; negative: it
    /// touches the page, however it is then aligned.
    int misalignment = -1;
  };
  explicit GuardedArray(Layout layout);
  ~GuardedArray();
  GuardedArray(GuardedArray&& other) noexcept;
  GuardedArray(const GuardedArray&) = delete;
  GuardedArray& operator=(const GuardedArray&) = delete;

  /// The element at index 0 in every dimension: what strides count from.
  void* data() const { return data_; }
  /// The bytes that elements and gaps cover.
  std::byte* begin() const { return begin_; }
  std::byte* end() const { return end_; }
  std::int64_t count() const { return count_; }
  const Layout& layout() const { return layout_; }

  /// The address of the k-th element in row-major order.
  std::byte* element(std::int64_t k) const;

  /// From here on the address sanitizer, where the build has it, stops instrumented code at what is no element: gaps,
  /// and the rest of the pages. Or no longer. In granules of 8 bytes, so that a byte before an element may escape.
  void poison_gaps(bool poisoned) const;

  /// Empty when every canary is whole; else the first one that is not.
  std::string check() const;

 private:
  Layout layout_;
  unsigned number_;  ///< which array this is, in order of construction
  std::byte* mapping_ = nullptr;
  std::size_t mapped_ = 0, page_ = 0;
  std::byte* begin_ = nullptr;
  std::byte* end_ = nullptr;
  std::byte* data_ = nullptr;
  std::int64_t count_ = 1;
  std::vector<bool> is_element_;  ///< by byte of [begin_, end_)
};

/// Plain bytes between guard pages, such as a workspace.
GuardedArray guarded_bytes(std::int64_t bytes, Against against, int misalignment = 0);

/// Runs `f` on this thread. The address whose access faulted, or null when none did.
void* fault_of(const std::function<void()>& f);

}  // namespace lathe::testing
