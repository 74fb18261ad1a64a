#pragma once
#include <cstdint>
#include <utility>
#include <vector>

#include "ir/node.h"

namespace lathe {

/// A map from nodes, by identity, for the walks that meet each node of a function once: open addressing with linear
/// probing (Knuth, volume 3, 6.4), so that an entry costs no allocation of its own. `Key` is a Ref, which keeps the
/// node alive, or a plain pointer. Entries are never taken out one by one.
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
    if (4 * (size_ + 1) > 3 * entries_.size()) grow();
    Entry& entry = slot(address(key));
    if (entry.key) return {&entry.value, false};
    entry = {key, std::move(value)};
    ++size_;
    return {&entry.value, true};
  }
  Value& operator[](const Key& key) { return *emplace(key, Value()).first; }

  std::size_t size() const { return size_; }
  void clear() {
    if (size_ != 0) entries_.assign(entries_.size(), Entry());
    size_ = 0;
  }

 private:
  struct Entry {
    Key key = nullptr;
    Value value{};
  };

  template <class T>
  static const void* address(const Ref<T>& key) {
    return key.get();
  }
  static const void* address(const void* key) { return key; }

  /// Where the key is, or belongs.
  Entry& slot(const void* key) {
    const std::size_t mask = entries_.size() - 1;
    constexpr std::uint64_t golden = 0x9e3779b97f4a7c15;
    std::size_t at = (reinterpret_cast<std::uintptr_t>(key) * golden) >> 32 & mask;
    while (entries_[at].key && address(entries_[at].key) != key) at = (at + 1) & mask;
    return entries_[at];
  }

  void grow() {
    constexpr std::size_t least = 16;
    std::vector<Entry> old =
        std::exchange(entries_, std::vector<Entry>(entries_.empty() ? least : 2 * entries_.size()));
    for (Entry& entry : old)
      if (entry.key) slot(address(entry.key)) = std::move(entry);
  }

  std::vector<Entry> entries_;  ///< a power of two of them
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
