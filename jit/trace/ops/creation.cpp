#include "jit/trace/ops/creation.h"

#include <fmt/format.h>

#include <array>
#include <cmath>

#include "jit/trace/describe.h"
#include "jit/trace/promotion.h"

namespace lathe::ops {
namespace {

/// A view that loads nothing of its own accord.
Tensor generate(const Shape& shape, DType dtype, const std::function<Expr(const Indices&)>& f, std::string name) {
  return view(
      shape, dtype,
      [=](const Indices& i, const Expr& mask) {
        const Expr value = convert(dtype, f(i));
        return mask ? select(mask, value, constant(dtype, 0)) : value;
      },
      std::move(name));
}

void check_extents(std::string_view name, const Shape& shape) {
  for (const Expr& extent : shape) {
    const std::int64_t* value = as_int(extent);
    if (value && *value < 0) fail_value(name, fmt::format("extents are not negative: given shape {}", describe(shape)));
  }
}

Tensor arithmetic_progression(std::string name, double start, double step, std::int64_t count, DType dtype) {
  return generate(
      {index(count)}, dtype,
      [=](const Indices& i) { return constant(f64, start) + cast(f64, i[0]) * constant(f64, step); }, std::move(name));
}

}  // namespace

Tensor full(const Shape& shape, const Tensor& value, std::optional<DType> dtype) {
  check_extents("full", shape);
  if (value.rank() != 0) fail_value("full", fmt::format("takes a scalar value; given {}", describe(value)));
  const DType result = dtype.value_or(array_type("full", std::array{value}));
  return view(
      shape, result, [=](const Indices&, const Expr& mask) { return convert(result, value.at({}, mask)); }, "full");
}

Tensor zeros(const Shape& shape, DType dtype) {
  return full(shape, 0, dtype);
}
Tensor ones(const Shape& shape, DType dtype) {
  return full(shape, 1, dtype);
}
Tensor full_like(const Tensor& x, const Tensor& value, std::optional<DType> dtype) {
  return full(x.shape(), value, dtype.value_or(x.dtype()));
}
Tensor zeros_like(const Tensor& x, std::optional<DType> dtype) {
  return full_like(x, 0, dtype);
}
Tensor ones_like(const Tensor& x, std::optional<DType> dtype) {
  return full_like(x, 1, dtype);
}

Tensor eye(std::int64_t rows, std::optional<std::int64_t> columns, std::int64_t k, DType dtype) {
  const Shape shape{index(rows), index(columns.value_or(rows))};
  check_extents("eye", shape);
  return generate(shape, dtype, [=](const Indices& i) { return eq(i[1], i[0] + k); }, "eye");
}

Tensor arange_integers(std::int64_t start, std::int64_t stop, std::int64_t step, DType dtype) {
  if (step == 0) fail_value("arange", "the step is 0; expected another");
  const std::int64_t span = step > 0 ? stop - start : start - stop;
  const std::int64_t stride = step > 0 ? step : -step;
  const std::int64_t count = span > 0 ? (span + stride - 1) / stride : 0;
  return generate({index(count)}, dtype, [=](const Indices& i) { return index(start) + i[0] * step; }, "arange");
}

Tensor arange(double start, double stop, double step, DType dtype) {
  if (!(step != 0)) fail_value("arange", fmt::format("the step is {}; expected a number other than 0", step));
  const double count = std::ceil((stop - start) / step);
  if (!std::isfinite(count)) fail_value("arange", fmt::format("has no end: from {} to {} by {}", start, stop, step));
  return arithmetic_progression("arange", start, step, count > 0 ? static_cast<std::int64_t>(count) : 0, dtype);
}

Tensor linspace(double start, double stop, std::int64_t count, DType dtype, bool endpoint) {
  if (count < 0) fail_value("linspace", fmt::format("the count is not negative: given {}", count));
  const std::int64_t intervals = endpoint ? count - 1 : count;
  if (!endpoint || count < 2) {
    return arithmetic_progression("linspace", start,
                                  intervals > 0 ? (stop - start) / static_cast<double>(intervals) : 0, count, dtype);
  }
  const double step = (stop - start) / static_cast<double>(intervals);
  return generate(
      {index(count)}, dtype,
      [=](const Indices& i) {
        const Expr value = constant(f64, start) + cast(f64, i[0]) * constant(f64, step);
        return select(eq(i[0], index(count - 1)), constant(f64, stop), value);
      },
      "linspace");
}

}  // namespace lathe::ops
