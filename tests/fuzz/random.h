#pragma once
#include <cstdint>
#include <vector>

namespace lathe::testing {

/// Seeded numbers, the same on every platform and library (splitmix64: Steele, Lea, Flood 2014). The seed is mixed
/// first: the generator walks its state in steps of one constant, so that seeds a few steps apart would give one
/// sequence.
class Random {
 public:
  explicit Random(std::uint64_t seed) : state_(mix(seed * 0xd1342543de82ef95u + 0x1234567)) {}

  std::uint64_t bits() { return mix(state_ += 0x9e3779b97f4a7c15u); }
  /// In [low, high], both inclusive.
  std::int64_t between(std::int64_t low, std::int64_t high) {
    return low + static_cast<std::int64_t>(bits() % static_cast<std::uint64_t>(high - low + 1));
  }
  bool chance(int percent) { return between(1, 100) <= percent; }
  /// In [0, 1).
  double unit() { return static_cast<double>(bits() >> 11) * 0x1p-53; }
  template <class T>
  const T& pick(const std::vector<T>& list) {
    return list[static_cast<size_t>(between(0, static_cast<std::int64_t>(list.size()) - 1))];
  }

 private:
  static std::uint64_t mix(std::uint64_t z) {
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
  }

  std::uint64_t state_;
};

}  // namespace lathe::testing
