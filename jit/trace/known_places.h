#pragma once
#include <optional>
#include <vector>

#include "jit/trace/tensor.h"

namespace lathe {

/// Indices as an expression, where nothing but the places in their tensor decides them.
struct KnownPlaces {
  std::vector<VarRef> places;  ///< one an axis, that `value` is a function of
  Expr value;                  ///< an index from 0 to below the extent, by proof
};

/// What operators over `arange` make of it, as the places that resizing reads, or windows and diagonals: so they need
/// no check when the kernel runs, and what reads there shows how far it goes on from one element to the next.
///
///   arange(112) * 56 // 112                             ->    place * 56 // 112
///   arange(301)[:, None] + arange(203)[None, :]         ->    place0 + place1
///
/// For an integer tensor whose elements lie below `extent`, and never fall along its one axis (analysis/window.h) or
/// are sums of multiples of their places; nothing for others.
std::optional<KnownPlaces> known_places(const Tensor& indices, const Expr& extent);

/// Do the values of an integer tensor lie from 0 to below `extent`, whatever a call gives? As far as operators over
/// elements of few bits, remainders and extremes tell. Not of places that are computed
/// alone: a list of these is read faster than it is computed wherever it is used.
bool lies_inside(const Tensor& indices, const Expr& extent);

}  // namespace lathe
