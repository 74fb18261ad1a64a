#include "tests/fuzz/builder.h"

#include <fmt/format.h>

#include <limits>

#include "ir/error.h"
#include "jit/trace/broadcast.h"
#include "jit/trace/ops/ops.h"
#include "jit/trace/promotion.h"

namespace lathe::testing {

void Builder::add_symbols() {
  static const std::vector<std::int64_t> bounds = {3, 5, 8, 9, 16, 17, 33, 40};
  const std::int64_t count = random.between(1, 3);
  runs.resize(3);
  for (std::int64_t k = 0; k < count; ++k) {
    Fact fact;
    fact.variable = Var::make(std::vector<std::string>{"n", "m", "k"}[static_cast<size_t>(k)]);
    if (random.chance(25)) fact.multiple_of = random.pick(std::vector<std::int64_t>{2, 4, 8});
    const std::int64_t unit = fact.multiple_of;
    std::int64_t bound = random.pick(bounds);
    if (most_elements > 1500) bound += random.between(1, 120);
    // In units: 0 and 1 are never symbolic.
    const std::int64_t low = unit == 1 ? 2 : 1, high = std::max(bound / unit, low);
    fact.min = low * unit;
    fact.max = high * unit;
    // Both ends, and something between.
    const std::int64_t values[] = {*fact.max, *fact.min, random.between(low, high) * unit};
    for (size_t run = 0; run < runs.size(); ++run) runs[run][fact.variable.get()] = values[run];
    symbols.push_back(fact);
  }
  // The ends of two extents in one run, too.
  const VarRef& last = symbols.back().variable;
  if (random.chance(50)) std::swap(runs[0][last.get()], runs[1][last.get()]);
}

Expr Builder::extent(std::int64_t constant) {
  if (symbols.empty() || !random.chance(50)) return index(constant);
  return random.pick(symbols).variable;
}

std::int64_t Builder::least(const Expr& extent) const {
  std::int64_t result = std::numeric_limits<std::int64_t>::max();
  for (const Environment& run : runs) result = std::min(result, evaluate(extent, run).value());
  return result;
}

std::int64_t Builder::most(const Expr& extent) const {
  std::int64_t result = 0;
  for (const Environment& run : runs) result = std::max(result, evaluate(extent, run).value());
  return result;
}

Shape Builder::shape(int most_rank) {
  static const std::vector<std::int64_t> extents = {1, 2, 3, 3, 4, 5, 7, 8, 9, 13, 16, 17, 31, 33, 40};
  std::vector<std::int64_t> constants(static_cast<size_t>(random.between(0, most_rank)));
  const auto any = [&]() -> std::int64_t& {
    return constants[static_cast<size_t>(random.between(0, static_cast<std::int64_t>(constants.size()) - 1))];
  };
  for (std::int64_t& extent : constants) extent = random.pick(extents);
  if (!constants.empty() && random.chance(6)) any() = 0;
  if (most_elements > 1500 && !constants.empty()) {
    for (int k = 0; k < 3; ++k) any() += random.between(1, 180);
  }
  Shape result;
  for (const std::int64_t extent : constants) result.push_back(this->extent(extent));
  while (!fits(result)) {
    for (size_t d = 0; d < result.size(); ++d) {
      constants[d] = (constants[d] + 1) / 2;
      // Symbols go last to first, once the constants are small.
      if (as_int(result[d]) || constants[d] <= 2) result[d] = index(constants[d]);
    }
  }
  return result;
}

bool Builder::fits(const Shape& shape) const {
  std::int64_t count = 1;
  for (const Expr& extent : shape) count *= std::max<std::int64_t>(most(extent), 1);
  return count <= most_elements;
}

DType Builder::dtype() {
  if (random.chance(40)) return f32;
  return all_dtypes[random.between(0, std::size(all_dtypes) - 1)];
}

DType Builder::float_dtype() {
  return random.chance(60) ? f32 : random.pick(std::vector<DType>{f64, f16, bf16});
}

Value Builder::input(DType dtype, Shape shape, Fill fill) {
  if (specials && fill.kind == Fill::Kind::any) fill.kind = Fill::Kind::special;
  const Tensor tensor = lathe::input(fmt::format("in{}", inputs.size()), dtype, shape);
  Parameter parameter;
  parameter.dtype = dtype;
  parameter.extents = std::move(shape);
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
  Shape shape = other.tensor.shape();
  if (fill.kind == Fill::Kind::any && random.chance(50)) {
    for (size_t k = pool.size(); k-- > 0;) {
      if (pool[k].tensor.dtype() == dtype && same_shape(pool[k].tensor.shape(), shape)) return pool[k];
    }
  }
  if (random.chance(30))
    shape.erase(shape.begin(), shape.begin() + random.between(0, static_cast<std::int64_t>(shape.size())));
  for (Expr& extent : shape) {
    if (random.chance(15)) extent = index(1);
  }
  return input(dtype, std::move(shape), fill);
}

Value Builder::as_float(const Value& value) {
  if (value.tensor.dtype().is_float()) return value;
  if (random.chance(50)) return input(float_dtype(), value.tensor.shape());
  const DType to = float_dtype();
  add("astype", ops::astype(value.tensor, to), value.reproducible);
  return pool.back();
}

Value Builder::reproducible(const Value& value) {
  return value.reproducible ? value : input(value.tensor.dtype(), value.tensor.shape());
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
