#pragma once
#include <algorithm>
#include <array>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "ir/node.h"

namespace lathe {

/// A map from nodes, by identity, for the walks that meet each node of a function once: open addressing with linear
/// probing (Knuth, volume 3, 6.4), so that an entry costs no allocation of its own, and few none at all. `Key` is a
/// Ref, which keeps the node alive, or a plain pointer. Entries are never taken out one by one.
template <class Key, class Value>
class NodeMap {
 public:
  /// Null when there is none; holds until the next insertion.
  Value* find(const Key& key) {
    if (size_ == 0) return nullptr;
    Entry& entry = slot(address(key));
    return entry.key ? &entry.value : nullptr;
  }
  bool contains(const Key& key) { return find(key) != nullptr; }

  /// The value that is there, or the one given, put there; and whether it is new.
  std::pair<Value*, bool> emplace(const Key& key, Value value) {
    if (4 * (size_ + 1) > 3 * entries().size()) grow();
    Entry& entry = slot(address(key));
    if (entry.key) return {&entry.value, false};
    entry = {key, std::move(value)};
    ++size_;
    return {&entry.value, true};
  }
  Value& operator[](const Key& key) { return *emplace(key, Value()).first; }

  std::size_t size() const { return size_; }
  void clear() {
    if (size_ != 0) std::fill(entries().begin(), entries().end(), Entry());
    size_ = 0;
  }

 private:
  struct Entry {
    Key key = nullptr;
    [[no_unique_address]] Value value{};
  };

  template <class T>
  static const void* address(const Ref<T>& key) {
    return key.get();
  }
  static const void* address(const void* key) { return key; }

  /// Where the key is, or belongs.
  Entry& slot(const void* key) {
    const std::span<Entry> all = entries();
    const std::size_t mask = all.size() - 1;
    constexpr std::uint64_t golden = 0x9e3779b97f4a7c15;
    std::size_t at = (reinterpret_cast<std::uintptr_t>(key) * golden) >> 32 & mask;
    while (all[at].key && address(all[at].key) != key) at = (at + 1) & mask;
    return all[at];
  }

  /// A power of two of them.
  std::span<Entry> entries() { return many_.empty() ? std::span<Entry>(few_) : std::span<Entry>(many_); }

  void grow() {
    std::vector<Entry> before(2 * entries().size());
    before.swap(many_);
    for (Entry& entry : before.empty() ? std::span<Entry>(few_) : std::span<Entry>(before))
      if (entry.key) slot(address(entry.key)) = std::move(entry);
  }

  std::array<Entry, 16> few_{};
  std::vector<Entry> many_;  ///< in their place, once they are too few
  std::size_t size_ = 0;
};

/// The nodes that a walk has met.
template <class Key>
class NodeSet {
 public:
  /// Was it not there before?
  bool insert(const Key& key) { return met_.emplace(key, {}).second; }
  bool contains(const Key& key) { return met_.contains(key); }
  void clear() { met_.clear(); }

 private:
  struct Nothing {};
  NodeMap<Key, Nothing> met_;
};

}  // namespace lathe
