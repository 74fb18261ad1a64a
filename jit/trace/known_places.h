#pragma once
#include <optional>

#include "jit/trace/tensor.h"

namespace lathe {

/// A list of indices as an expression, where nothing but the places in the list decides them.
struct KnownPlaces {
  VarRef place;  ///< that `value` is a function of
  Expr value;    ///< an index from 0 to below the extent, by proof
};

/// What operators over `arange` make of it, as the places that resizing reads: so they need no check when the kernel
/// runs, and what reads there shows how far it goes on from one element to the next.
///
///   arange(112) * 56 // 112    ->    place * 56 // 112
///
/// For an integer tensor of one axis whose elements never fall (analysis/window.h) and lie below `extent`; nothing for
/// others.
std::optional<KnownPlaces> known_places(const Tensor& indices, const Expr& extent);

/// Do the values of an integer tensor lie from 0 to below `extent`, whatever a call gives? As far as operators over
/// elements of few bits, remainders and extremes tell. Not of places that are computed
/// alone: a list of these is read faster than it is computed wherever it is used.
bool lies_inside(const Tensor& indices, const Expr& extent);

}  // namespace lathe
