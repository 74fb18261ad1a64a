#include "tests/fuzz/builder.h"

#include <fmt/format.h>

#include "ir/error.h"
#include "jit/trace/ops/ops.h"
#include "jit/trace/promotion.h"

namespace lathe::testing {

std::vector<std::int64_t> Builder::shape(int most_rank) {
  static const std::vector<std::int64_t> extents = {1, 2, 3, 3, 4, 5, 7, 8, 9, 13, 16, 17, 31, 33, 40};
  std::vector<std::int64_t> result(static_cast<size_t>(random.between(0, most_rank)));
  for (std::int64_t& extent : result) extent = random.pick(extents);
  if (!result.empty() && random.chance(6))
    result[static_cast<size_t>(random.between(0, static_cast<std::int64_t>(result.size()) - 1))] = 0;
  if (most_elements > 1500 && !result.empty()) {
    for (int k = 0; k < 3; ++k)
      result[static_cast<size_t>(random.between(0, static_cast<std::int64_t>(result.size()) - 1))] +=
          random.between(1, 180);
  }
  while (!fits(result)) {
    for (std::int64_t& extent : result) extent = (extent + 1) / 2;
  }
  return result;
}

bool Builder::fits(const std::vector<std::int64_t>& shape) const {
  std::int64_t count = 1;
  for (const std::int64_t extent : shape) count *= std::max<std::int64_t>(extent, 1);
  return count <= most_elements;
}

DType Builder::dtype() {
  if (random.chance(40)) return f32;
  return all_dtypes[random.between(0, std::size(all_dtypes) - 1)];
}

DType Builder::float_dtype() {
  return random.chance(60) ? f32 : random.pick(std::vector<DType>{f64, f16, bf16});
}

Value Builder::input(DType dtype, std::vector<std::int64_t> shape, Fill fill) {
  if (specials && fill.kind == Fill::Kind::any) fill.kind = Fill::Kind::special;
  const Tensor tensor = lathe::input(fmt::format("in{}", inputs.size()), dtype, ops::make_shape(shape));
  Parameter parameter;
  parameter.dtype = dtype;
  parameter.shape = std::move(shape);
  parameter.fill = fill;
  inputs.push_back(tensor);
  parameters.push_back(std::move(parameter));
  pool.push_back({tensor, true, true});
  return pool.back();
}

Value Builder::operand() {
  if (pool.empty() || (inputs.size() < 4 && random.chance(15))) return input(dtype(), shape());
  // The latest values more often, so that chains grow.
  if (random.chance(60)) return pool.back();
  return random.pick(pool);
}

Value Builder::operand_where(const std::function<bool(const Value&)>& wanted, const std::function<Value()>& otherwise) {
  std::vector<Value> suitable;
  for (const Value& value : pool) {
    if (wanted(value)) suitable.push_back(value);
  }
  if (suitable.empty() || (inputs.size() < 4 && random.chance(20))) return otherwise();
  return random.chance(60) ? suitable.back() : random.pick(suitable);
}

Value Builder::partner(const Value& other, Fill fill) {
  return partner(other, other.tensor.dtype(), fill);
}

Value Builder::partner(const Value& other, DType dtype, Fill fill) {
  std::vector<std::int64_t> shape = other.tensor.static_shape();
  if (fill.kind == Fill::Kind::any && random.chance(50)) {
    for (size_t k = pool.size(); k-- > 0;) {
      if (pool[k].tensor.dtype() == dtype && pool[k].tensor.static_shape() == shape) return pool[k];
    }
  }
  if (random.chance(30))
    shape.erase(shape.begin(), shape.begin() + random.between(0, static_cast<std::int64_t>(shape.size())));
  for (std::int64_t& extent : shape) {
    if (random.chance(15)) extent = 1;
  }
  return input(dtype, std::move(shape), fill);
}

Value Builder::as_float(const Value& value) {
  if (value.tensor.dtype().is_float()) return value;
  if (random.chance(50)) return input(float_dtype(), value.tensor.static_shape());
  const DType to = float_dtype();
  add("astype", ops::astype(value.tensor, to), value.reproducible);
  return pool.back();
}

Value Builder::reproducible(const Value& value) {
  return value.reproducible ? value : input(value.tensor.dtype(), value.tensor.static_shape());
}

void Builder::add(const std::string& name, const Tensor& tensor, bool reproducible, bool moved_only) {
  used.push_back(name);
  pool.push_back({tensor, reproducible, moved_only});
}

const std::vector<Step>& all_steps() {
  static const std::vector<Step> steps = [] {
    std::vector<Step> all;
    for (auto part : {elementwise_steps(), reduction_steps(), view_steps()})
      all.insert(all.end(), part.begin(), part.end());
    return all;
  }();
  return steps;
}

}  // namespace lathe::testing
