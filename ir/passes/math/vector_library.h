#pragma once
#include <functional>
#include <span>
#include <string>

#include "ir/passes/math/builder.h"

/// The functions that lowered kernels call in SLEEF, with the error bound in tenths of a ULP that SLEEF's names carry.
/// X(name, bound)
// clang-format off
#define LATHE_SLEEF_UNARY(X)                                                                                          \
  X(exp2, u10)                                                                                                        \
  X(log, u10) X(log2, u10) X(log10, u10) X(sin, u10) X(cos, u10) X(tan, u10) X(asin, u10) X(acos, u10) X(atan, u10)   \
      X(asinh, u10) X(acosh, u10) X(atanh, u10) X(erf, u10)
// clang-format on
#define LATHE_SLEEF_BINARY(X) X(pow, u10) X(atan2, u10) X(hypot, u05) X(fmod, )

/// The instruction sets that SLEEF is built for, by its own names.
/// X(set, lanes of f32, lanes of f64)
#define LATHE_SLEEF_X86_SETS(X) \
  X(avx512f, 16, 8) X(avx2, 8, 4) X(avx2128, 4, 2) X(sse4, 4, 2) X(sse2, 4, 2) X(purecfma, 1, 1) X(purec, 1, 1)
#define LATHE_SLEEF_ARM_SETS(X) X(advsimd, 4, 2) X(purecfma, 1, 1) X(purec, 1, 1)

namespace lathe::math {

/// A call of SLEEF's `name` ("exp", "fmod") on f32 or f64 of any lane count: cut into the widest vectors that the
/// device has, the last one padded with copies of a lane of its own.
Expr library_call(const Builder& b, const std::string& name, const std::vector<Expr>& args);

/// The remainder of x / y toward zero, exact whatever the quotient; one call a lane. For f64.
Expr exact_remainder(const Expr& x, const Expr& y);

/// What the names above mean, lane by lane, for an interpreter: every name that a lowered Func can call.
void for_each_library_meaning(
    const std::function<void(const std::string& name, std::function<double(std::span<const double>)> meaning)>& f);

}  // namespace lathe::math

extern "C" {
/// fmod by long division on the integers that the operands are; called only where SLEEF's fmod gives up.
double lathe_exact_remainder(double x, double y);
}
