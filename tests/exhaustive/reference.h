#pragma once
#include <mpfr.h>

#include <string>
#include <vector>

#include "ir/expr.h"

namespace lathe::exhaustive {

/// A one-argument function of the vector math, and its true values.
struct Function {
  std::string name;
  UnaryOp op;
  void (*exact)(mpfr_ptr result, mpfr_srcptr x);  ///< by MPFR, at the result's precision
};

/// The functions that are our own in f32 (ir/passes/math).
const std::vector<Function>& own_functions();

/// The distance of `got` from the true value, in units of the f32 spacing at the true value (2^-149 among denormals).
/// Infinity counts as 2^128, so that an overflow where the true value rounds to infinity costs nothing. Infinite where
/// one is NaN and the other not, where an exact zero or infinity is missed, and where the sign is wrong.
double error_in_ulps(float got, mpfr_srcptr truth);

/// The same in f64, where infinity counts as 2^1024 and denormals are 2^-1074 apart.
double error_in_ulps_f64(double got, mpfr_srcptr truth);

/// A number with enough bits that its rounding does not show in the errors above.
struct Number {
  Number();
  explicit Number(double x);
  Number(const Number&) = delete;
  Number& operator=(const Number&) = delete;
  ~Number();
  mpfr_t value;
};

/// The same against MPFR's value of the function.
double exact_error(const Function& function, float x, float got);
/// .. of a function of two arguments.
using Exact2 = int (*)(mpfr_ptr, mpfr_srcptr, mpfr_srcptr, mpfr_rnd_t);
double exact_error(Exact2 exact, float x, float y, float got);

}  // namespace lathe::exhaustive
