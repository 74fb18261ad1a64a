#pragma once
#include <memory>
#include <span>
#include <type_traits>
#include <vector>

#include "bindings/python/borrow.h"

namespace lathe::python {

/// A list whose first N elements lie on the stack, uninitialized until they are pushed: most calls have few, and pay
/// for no more.
template <class T, size_t N>
class SmallList {
  static_assert(std::is_trivially_copyable_v<T> && std::is_trivially_destructible_v<T>);

 public:
  SmallList() {}  // inline_ is filled by push
  void push(const T& value) {
    if (count_ < N) [[likely]] {
      std::construct_at(inline_ + count_, value);
    } else {
      if (count_ == N) more_.assign(data(), data() + N);
      more_.push_back(value);
    }
    ++count_;
  }
  T& operator[](size_t i) { return data()[i]; }
  std::span<const T> span() const { return {const_cast<SmallList*>(this)->data(), count_}; }
  size_t size() const { return count_; }

 private:
  T* data() { return more_.empty() ? inline_ : more_.data(); }

  union {
    T inline_[N];
  };
  std::vector<T> more_;
  size_t count_ = 0;
};

/// The arrays of one call, which stay where they are: their views point into them.
class ArrayList {
 public:
  ArrayList() {}  // inline_ is filled by next
  ArrayList(const ArrayList&) = delete;
  ArrayList& operator=(const ArrayList&) = delete;
  ~ArrayList() { std::destroy_n(inline_, inline_count_); }

  Borrowed& next() {
    if (inline_count_ < inline_capacity) [[likely]]
      return *std::construct_at(inline_ + inline_count_++);
    more_.push_back(std::make_unique<Borrowed>());
    return *more_.back();
  }
  void drop_last() {
    if (more_.empty()) {
      std::destroy_at(inline_ + --inline_count_);
    } else {
      more_.pop_back();
    }
  }

 private:
  static constexpr size_t inline_capacity = 6;

  union {
    Borrowed inline_[inline_capacity];
  };
  size_t inline_count_ = 0;
  std::vector<std::unique_ptr<Borrowed>> more_;
};

}  // namespace lathe::python
