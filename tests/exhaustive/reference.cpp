#include "tests/exhaustive/reference.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace lathe::exhaustive {
namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();
constexpr mpfr_prec_t precision = 120;

void exact_sigmoid(mpfr_ptr result, mpfr_srcptr x) {
  mpfr_neg(result, x, MPFR_RNDN);
  mpfr_exp(result, result, MPFR_RNDN);
  mpfr_add_ui(result, result, 1, MPFR_RNDN);
  mpfr_ui_div(result, 1, result, MPFR_RNDN);
}

/// Cases that no distance describes: 0 for a match, infinite for a miss, negative when the distance must be taken.
double special_error(double got, bool truth_is_nan, bool truth_is_infinite, bool truth_is_zero,
                     bool truth_is_negative) {
  if (truth_is_nan || std::isnan(got)) return truth_is_nan && std::isnan(got) ? 0 : infinity;
  if (std::signbit(got) != truth_is_negative) return infinity;
  if (truth_is_infinite) return std::isinf(got) ? 0 : infinity;
  if (truth_is_zero) return got == 0 ? 0 : infinity;
  return -1;
}

/// Of a format with `digits` bits of significand, whose numbers lie below 2^limit.
double error_in_format(double got, mpfr_srcptr truth, long digits, long limit) {
  const double special =
      special_error(got, mpfr_nan_p(truth), mpfr_inf_p(truth), mpfr_zero_p(truth), mpfr_signbit(truth));
  if (special >= 0) return special;
  const long exponent = mpfr_get_exp(truth);  // |truth| is in [2^(exponent-1), 2^exponent)
  if (std::isinf(got) && exponent > limit) return 0;
  const long spacing = std::min(std::max(exponent, 3 - limit) - digits, limit - digits);
  Number value(got), difference;
  if (std::isinf(got)) mpfr_set_si_2exp(value.value, got > 0 ? 1 : -1, limit, MPFR_RNDN);
  mpfr_sub(difference.value, truth, value.value, MPFR_RNDN);
  mpfr_mul_2si(difference.value, difference.value, -spacing, MPFR_RNDN);
  return std::abs(mpfr_get_d(difference.value, MPFR_RNDN));
}

}  // namespace

const std::vector<Function>& own_functions() {
#define LATHE_FUNCTION(name) \
  {#name, UnaryOp::name, [](mpfr_ptr result, mpfr_srcptr x) { mpfr_##name(result, x, MPFR_RNDN); }}
  static const std::vector<Function> functions = {
      LATHE_FUNCTION(exp),  LATHE_FUNCTION(exp2),  LATHE_FUNCTION(log),
      LATHE_FUNCTION(log2), LATHE_FUNCTION(log10), LATHE_FUNCTION(tanh),
      LATHE_FUNCTION(erf),  LATHE_FUNCTION(sin),   LATHE_FUNCTION(cos),
      LATHE_FUNCTION(tan),  LATHE_FUNCTION(atan),  LATHE_FUNCTION(asin),
      LATHE_FUNCTION(acos), LATHE_FUNCTION(log1p), LATHE_FUNCTION(expm1),
      LATHE_FUNCTION(sinh), LATHE_FUNCTION(cosh),  {"sigmoid", UnaryOp::sigmoid, exact_sigmoid}};
#undef LATHE_FUNCTION
  return functions;
}

double error_in_ulps(float got, mpfr_srcptr truth) {
  return error_in_format(got, truth, 24, 128);
}
double error_in_ulps_f64(double got, mpfr_srcptr truth) {
  return error_in_format(got, truth, 53, 1024);
}

Number::Number() {
  mpfr_init2(value, precision);
}
Number::Number(double x) : Number() {
  mpfr_set_d(value, x, MPFR_RNDN);
}
Number::~Number() {
  mpfr_clear(value);
}

double exact_error(const Function& function, float x, float got) {
  const Number argument(x);
  Number truth;
  function.exact(truth.value, argument.value);
  return error_in_ulps(got, truth.value);
}

double exact_error(Exact2 exact, float x, float y, float got) {
  const Number first(x), second(y);
  Number truth;
  exact(truth.value, first.value, second.value, MPFR_RNDN);
  return error_in_ulps(got, truth.value);
}

}  // namespace lathe::exhaustive
