#pragma once
#include <array>
#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

#include "jit/layout.h"

namespace lathe {

/// What tells one call's layouts from another's, as words that are cheap to make, hash and compare: the first level of
/// the cache. Extents of outputs are not in it (they follow from the inputs), and compact outputs, large ones at a
/// cache line, add nothing; but where an input is turned, results that the call leaves to the Function may be permuted
/// (jit/memory_order.h), so that given outputs are told apart from those.
class CallKey {
 public:
  CallKey(std::span<const TensorView> outputs, std::span<const TensorView> inputs,
          std::span<const ScalarValue> scalars) {
    push(inputs.size() | static_cast<std::uint64_t>(scalars.size()) << 32);
    for (const TensorView& view : inputs) {
      push_header(view, is_aligned(view));
      for (int d = 0; d < view.rank; ++d) push(static_cast<std::uint64_t>(view.shape[d]));
    }
    for (const ScalarValue& scalar : scalars) {
      push(type_bits(scalar.dtype) | static_cast<std::uint64_t>(scalar.weak) << 32);
    }
    bool plain = !turned_;
    for (const TensorView& view : outputs) {
      plain = plain && (is_at_line(view) || (is_aligned(view) && !may_stream(view))) && classify_strides(view) == 0;
    }
    if (plain) return;
    for (const TensorView& view : outputs) push_header(view, static_cast<std::uint64_t>(classify_output(view)));
  }

  static AlignmentClass classify_input(const TensorView& view) {
    return is_aligned(view) ? AlignmentClass::element : AlignmentClass::none;
  }
  static AlignmentClass classify_output(const TensorView& view) {
    if (is_at_line(view) && may_stream(view)) return AlignmentClass::line;
    return classify_input(view);
  }
  static bool is_at_line(const TensorView& view) {
    return reinterpret_cast<std::uintptr_t>(view.data) % std::uintptr_t{line_bytes} == 0;
  }

  std::span<const std::uint64_t> words() const {
    return overflow_.empty() ? std::span(inline_.data(), size_) : std::span<const std::uint64_t>(overflow_);
  }

  std::uint64_t hash() const { return hash_words(words()); }

  /// A multiplicative mix, each word's high half folded in (constants of MurmurHash3's finalizer).
  static std::uint64_t hash_words(std::span<const std::uint64_t> words) {
    std::uint64_t h = 0x9e3779b97f4a7c15;
    for (const std::uint64_t word : words) {
      h = (h ^ word) * 0xff51afd7ed558ccd;
      h ^= h >> 32;
    }
    return h;
  }

  bool equals(const std::vector<std::uint64_t>& other) const {
    const auto mine = words();
    return mine.size() == other.size() && std::memcmp(mine.data(), other.data(), mine.size_bytes()) == 0;
  }

 private:
  static std::uint64_t type_bits(DType dtype) {
    return static_cast<std::uint64_t>(dtype.code) | static_cast<std::uint64_t>(dtype.bits) << 8 |
           static_cast<std::uint64_t>(dtype.lanes) << 16;
  }

  static bool is_aligned(const TensorView& view) {
    return reinterpret_cast<std::uintptr_t>(view.data) % static_cast<std::uintptr_t>(view.dtype.bytes()) == 0;
  }
  static bool may_stream(const TensorView& view) { return dense_bytes(view) >= least_streamed_bytes(); }

  void push_header(const TensorView& view, std::uint64_t alignment) {
    const StrideClasses classes = classify_strides(view);
    push(type_bits(view.dtype) | static_cast<std::uint64_t>(view.rank) << 32 | alignment << 40 |
         static_cast<std::uint64_t>(classes != 0) << 42);
    if (classes == 0) return;
    push(classes);
    turned_ |= is_turned(classes);
  }

  void push(std::uint64_t word) {
    if (overflow_.empty() && size_ < inline_.size()) {
      inline_[size_++] = word;
      return;
    }
    if (overflow_.empty()) overflow_.assign(inline_.begin(), inline_.end());
    overflow_.push_back(word);
  }

  std::array<std::uint64_t, 96> inline_;
  size_t size_ = 0;
  bool turned_ = false;  ///< some array is
  std::vector<std::uint64_t> overflow_;
};

}  // namespace lathe
