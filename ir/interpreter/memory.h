#pragma once
/// The memory that a run sees, with what each element needs for the checks beside it.
#include <cstdint>
#include <string>
#include <vector>

#include "ir/interpreter/bounds.h"

namespace lathe::interpreter {

/// A piece of memory: a parameter's, an allocation's, or a workspace. Its unit is one element (one byte in a workspace,
/// whose bytes serve buffers of different types).
class Storage {
 public:
  /// The caller's memory; `initialized` says whether it may be read before it is written.
  Storage(std::string name, std::byte* begin, std::byte* end, int unit, bool initialized);
  /// Own memory.
  Storage(std::string name, int unit) : Storage(std::move(name), nullptr, nullptr, unit, false) {}

  /// Makes the contents undefined, and at least `bytes` long.
  void renew(std::int64_t bytes);
  /// Makes the contents undefined.
  void renew_contents() { ++epoch_; }

  bool holds(const std::byte* address, std::int64_t bytes) const {
    return address >= begin_ && end_ - address >= bytes;
  }
  std::int64_t unit_of(const std::byte* address) const { return (address - begin_) / unit_; }
  /// How many units an element of `bytes` covers.
  std::int64_t units(std::int64_t bytes) const { return bytes / unit_; }

  bool is_written(std::int64_t unit) const { return always_written_ || written_[static_cast<size_t>(unit)] == epoch_; }
  void set_written(std::int64_t unit) {
    if (!always_written_) written_[static_cast<size_t>(unit)] = epoch_;
  }

  /// Who touched a unit during the running parallel loop of one nesting level: ids of iterations.
  struct Access {
    std::uint32_t writer = 0, reader = 0;
  };
  Access& access(size_t level, std::int64_t unit);

  /// A float as it was before it was rounded to memory, kept by unit for exact runs. It counts only while its rounding
  /// is still what memory holds.
  double& wide(std::int64_t unit);

  /// The same for error analysis: it counts while memory holds `value`.
  struct Note {
    Tracked tracked;
    double value = 0;
  };
  Note& note(std::int64_t unit);

  const std::string name;
  std::byte* begin() const { return begin_; }
  std::byte* end() const { return end_; }
  /// The number of parallel loops that ran when it was allocated: deeper ones share it among their iterations.
  size_t parallel_depth = 0;

 private:
  size_t unit_count() const { return static_cast<size_t>((end_ - begin_ + unit_ - 1) / unit_); }

  std::vector<std::byte> own_;
  std::byte* begin_;
  std::byte* end_;
  int unit_;
  bool always_written_;
  std::uint32_t epoch_ = 1;
  std::vector<std::uint32_t> written_;
  std::vector<std::vector<Access>> access_;
  std::vector<double> wide_;
  std::vector<Note> notes_;
};

/// A buffer while the program runs: where its elements are.
struct Array {
  Storage* storage = nullptr;
  DType dtype;
  std::byte* base = nullptr;  ///< what indices count from; the offset of a multi-dimensional access is added to it
  std::int64_t offset = 0;    ///< in elements, for multi-dimensional accesses
  std::vector<std::int64_t> shape, strides;
};

}  // namespace lathe::interpreter
