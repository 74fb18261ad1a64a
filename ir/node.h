#pragma once
#include <atomic>
#include <cstdint>
#include <functional>
#include <type_traits>
#include <utility>

namespace lathe {

/// Base of everything immutable and shared. A node never changes after its `make` returns, so any thread may read it.
struct Node {
  Node() = default;
  Node(const Node&) = delete;
  Node& operator=(const Node&) = delete;
  virtual ~Node() = default;

  mutable std::atomic<std::uint32_t> references{0};
};

/// A counted pointer to an immutable node. `==` compares identity; structural comparison is ir/structural.h.
template <class T>
class Ref {
 public:
  Ref() = default;
  Ref(std::nullptr_t) {}
  explicit Ref(const T* node) : node_(node) { retain(); }
  Ref(const Ref& other) : node_(other.node_) { retain(); }
  Ref(Ref&& other) noexcept : node_(std::exchange(other.node_, nullptr)) {}
  template <class U>
    requires(std::is_base_of_v<T, U> && !std::is_same_v<T, U>)
  Ref(const Ref<U>& other) : node_(other.get()) {
    retain();
  }
  ~Ref() { release(); }
  Ref& operator=(Ref other) noexcept {
    std::swap(node_, other.node_);
    return *this;
  }

  const T* get() const { return node_; }
  const T* operator->() const { return node_; }
  const T& operator*() const { return *node_; }
  explicit operator bool() const { return node_ != nullptr; }
  friend bool operator==(const Ref& a, const Ref& b) { return a.node_ == b.node_; }

  /// This node as a `U`, or null when it is of another kind. `U::node_kind` is the kind's enum value.
  template <class U>
  const U* as() const {
    return node_ && node_->kind == U::node_kind ? static_cast<const U*>(node_) : nullptr;
  }

 private:
  void retain() const {
    if (node_) node_->references.fetch_add(1, std::memory_order_relaxed);
  }
  void release() const {
    if (node_ && node_->references.fetch_sub(1, std::memory_order_acq_rel) == 1) delete node_;
  }

  const T* node_ = nullptr;
};

}  // namespace lathe

template <class T>
struct std::hash<lathe::Ref<T>> {
  std::size_t operator()(const lathe::Ref<T>& ref) const { return std::hash<const T*>()(ref.get()); }
};
