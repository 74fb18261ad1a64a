#pragma once
/// Running error analysis: beside each float goes what it would be in exact arithmetic (taken as f64), and how far a
/// faithful evaluation may lie from that. Faithful means: each operation of the program rounded to its dtype, library
/// functions within 4 ULP, and sums taken in any order and with any contraction to fma.
///
/// A sum of n terms is kept as such (Higham, Accuracy and Stability of Numerical Algorithms, 4.2: in any order the
/// error is at most (n - 1) u times the sum of the terms' magnitudes, to first order) until another operation consumes
/// it. A product of n factors keeps its relative error in any order, unless a partial product leaves the normal range.
/// Discontinuous operations on inexact values widen to the whole step, or to infinity where no bound exists.
#include "ir/interpreter/arithmetic.h"

namespace lathe::interpreter {

struct Tracked {
  double exact = 0;
  double radius = 0;     ///< of the terms of the sum
  double magnitude = 0;  ///< sum of the terms' absolute values
  double count = 1;      ///< terms
  /// Of a product: the product of its factors below 1 and of those above, between which all partial products lie, in
  /// whatever order. Zero: not a product.
  double small = 0, large = 0;
};

/// A value that is known exactly.
Tracked exactly(double value);

/// How far from `exact` a value of `dtype` may lie.
double total_radius(DType dtype, const Tracked& tracked);

Tracked track(UnaryOp op, DType dtype, const Tracked& a);
Tracked track(BinaryOp op, DType dtype, const Tracked& a, const Tracked& b);
Tracked track_fma(DType dtype, const Tracked& a, const Tracked& b, const Tracked& c);
/// A float of `from` cast to the float type `to`.
Tracked track_cast(DType to, DType from, const Tracked& a);
/// An integer or bool cast to the float type `to`.
Tracked track_cast(DType to, double integer);

}  // namespace lathe::interpreter
