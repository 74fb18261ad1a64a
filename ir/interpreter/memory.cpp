#include "ir/interpreter/memory.h"

#include <limits>

namespace lathe::interpreter {

Storage::Storage(std::string name, std::byte* begin, std::byte* end, int unit, bool initialized)
    : name(std::move(name)), begin_(begin), end_(end), unit_(unit), always_written_(initialized) {
  if (!initialized) written_.resize(unit_count());
}

void Storage::renew(std::int64_t bytes) {
  if (static_cast<std::int64_t>(own_.size()) < bytes) own_.resize(static_cast<size_t>(bytes));
  begin_ = own_.data();
  end_ = begin_ + bytes;
  ++epoch_;
  if (written_.size() < unit_count()) written_.resize(unit_count());
  access_.clear();
}

Storage::Access& Storage::access(size_t level, std::int64_t unit) {
  if (access_.size() <= level) access_.resize(level + 1);
  if (access_[level].empty()) access_[level].resize(unit_count());
  return access_[level][static_cast<size_t>(unit)];
}

double& Storage::wide(std::int64_t unit) {
  if (wide_.size() < unit_count()) wide_.resize(unit_count(), std::numeric_limits<double>::quiet_NaN());
  return wide_[static_cast<size_t>(unit)];
}

Storage::Note& Storage::note(std::int64_t unit) {
  if (notes_.size() < unit_count()) notes_.resize(unit_count());
  return notes_[static_cast<size_t>(unit)];
}

}  // namespace lathe::interpreter
