#include "jit/trace/ops/scan.h"

#include <fmt/format.h>

#include <array>

#include "ir/reduction.h"
#include "jit/trace/broadcast.h"
#include "jit/trace/describe.h"
#include "jit/trace/ops/arithmetic.h"
#include "jit/trace/ops/reduction.h"
#include "jit/trace/promotion.h"

namespace lathe::ops {
namespace {

Tensor accumulate(std::string_view name, BinaryOp op, const Tensor& x, std::optional<std::int64_t> axis,
                  std::optional<DType> dtype, bool include_initial) {
  const DType given = result_type(name, std::array{x}, op == BinaryOp::add ? accepts_any : accepts_number);
  const DType result = accumulated_type(name, given, dtype);
  if (!axis && x.rank() != 1) {
    fail_value(name, fmt::format("given {}; expected axis=, which only a 1-d tensor may leave out", describe(x)));
  }
  const size_t along = normalize_axis(name, axis.value_or(0), x.rank());
  const Reducer reducer = simple_reducer(op, arithmetic_type(result));
  Shape shape = x.shape();
  if (include_initial) shape[along] = shape[along] + 1;
  const auto term = [&](const Indices& i) {
    const auto element = [&](const Indices& at, const Expr& mask) {
      return convert(arithmetic_type(result), convert(result, x.at(at, mask)));
    };
    if (!include_initial) return element(i, nullptr);
    if (is_int(shape[along], 1)) return reducer.identities[0];
    Indices before = i;
    before[along] = i[along] - 1;
    const Expr behind_first = ge(i[along], index(1));
    return select(behind_first, element(before, behind_first), reducer.identities[0]);
  };
  const Tensor sums = scan(shape, along, reducer, term, std::string(name));
  return dtype ? astype(sums, result) : round_result(sums, result);
}

}  // namespace

Tensor cumulative_sum(const Tensor& x, std::optional<std::int64_t> axis, std::optional<DType> dtype,
                      bool include_initial) {
  return accumulate("cumulative_sum", BinaryOp::add, x, axis, dtype, include_initial);
}

Tensor cumulative_prod(const Tensor& x, std::optional<std::int64_t> axis, std::optional<DType> dtype,
                       bool include_initial) {
  return accumulate("cumulative_prod", BinaryOp::mul, x, axis, dtype, include_initial);
}

}  // namespace lathe::ops
