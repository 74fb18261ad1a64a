#pragma once
/// How much of an array loops reach, in pieces of neighbouring elements.
#include <cstdint>
#include <utility>
#include <vector>

namespace lathe {

struct Reach {
  double pieces = 1, piece_bytes = 0;

  double bytes() const { return pieces * piece_bytes; }
  double lines(double line_bytes) const { return pieces * (1 + (piece_bytes - 1) / line_bytes); }
};

/// `steps`: how many elements loops go, at least one, and how often, more than once. Less than a line between elements
/// breaks no piece.
Reach reach_of(std::vector<std::pair<std::int64_t, std::int64_t>> steps, std::int64_t element_bytes, double line_bytes);

}  // namespace lathe
