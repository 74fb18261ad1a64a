#include <algorithm>
#include <numeric>

#include "jit/trace/ops/ops.h"
#include "tests/fuzz/builder.h"

namespace lathe::testing {
namespace {

using Extents = std::vector<std::int64_t>;

Value ranked(Builder& b, size_t least) {
  return b.operand_where([&](const Value& v) { return v.tensor.rank() >= least; },
                         [&] {
                           Shape shape = b.shape();
                           while (shape.size() < least) shape.push_back(b.extent(b.random.between(1, 6)));
                           return b.input(b.dtype(), shape);
                         });
}

void moved(Builder& b, const std::string& name, const Value& x, const Tensor& result) {
  b.add(name, result, x.reproducible, x.moved_only);
}

/// Neighbouring dimensions joined, or a constant one cut in two: what symbolic shapes allow.
bool reshape_dimension(Builder& b, const Value& x) {
  Shape shape = x.tensor.shape();
  if (std::any_of(shape.begin(), shape.end(), [](const Expr& e) { return is_int(e, 0); })) return false;
  const auto d = static_cast<std::ptrdiff_t>(b.random.between(0, static_cast<std::int64_t>(shape.size()) - 1));
  const std::int64_t* constant = as_int(shape[static_cast<size_t>(d)]);
  if (b.random.chance(20)) {
    shape = {index(-1)};
  } else if (constant && *constant > 0) {
    std::int64_t factor = b.random.between(1, *constant);
    while (*constant % factor != 0) --factor;
    shape[static_cast<size_t>(d)] = index(factor);
    shape.insert(shape.begin() + d + b.random.between(0, 1),
                 b.random.chance(50) ? index(-1) : index(*constant / factor));
  } else if (d > 0) {
    shape[static_cast<size_t>(d)] = shape[static_cast<size_t>(d - 1)] * shape[static_cast<size_t>(d)];
    shape.erase(shape.begin() + d - 1);
  }
  moved(b, "reshape", x, ops::reshape_to(x.tensor, shape));
  return true;
}

bool is_static(const Value& x) {
  return std::all_of(x.tensor.shape().begin(), x.tensor.shape().end(), [](const Expr& e) { return as_int(e); });
}

/// The dimension that `axis`, perhaps negative, means.
size_t place_of(const Value& x, std::int64_t axis) {
  return static_cast<size_t>(axis < 0 ? axis + static_cast<std::int64_t>(x.tensor.rank()) : axis);
}

const Expr& extent_of(const Value& x, std::int64_t axis) {
  return x.tensor.shape()[place_of(x, axis)];
}

bool reshape(Builder& b) {
  const Value x = b.operand();
  if (!is_static(x)) return reshape_dimension(b, x);
  Extents shape = x.tensor.static_shape();
  const std::int64_t count = std::accumulate(shape.begin(), shape.end(), std::int64_t{1}, std::multiplies<>());
  // The extents' prime factors, dealt out anew.
  Extents result(static_cast<size_t>(b.random.between(1, 3)), 1);
  std::int64_t left = count;
  for (std::int64_t factor = 2; left > 1; ++factor) {
    for (; left % factor == 0; left /= factor)
      result[static_cast<size_t>(b.random.between(0, static_cast<std::int64_t>(result.size()) - 1))] *= factor;
  }
  if (count == 0) result[0] = 0;
  if (count > 0 && b.random.chance(30)) result[0] = -1;
  moved(b, "reshape", x, ops::reshape(x.tensor, result));
  return true;
}

bool permute_dims(Builder& b) {
  const Value x = ranked(b, 2);
  Extents axes(x.tensor.rank());
  std::iota(axes.begin(), axes.end(), 0);
  for (size_t d = axes.size(); d-- > 1;)
    std::swap(axes[d], axes[static_cast<size_t>(b.random.between(0, static_cast<std::int64_t>(d)))]);
  moved(b, "permute_dims", x, ops::permute_dims(x.tensor, axes));
  return true;
}

bool moveaxis(Builder& b) {
  const Value x = ranked(b, 1);
  moved(b, "moveaxis", x, ops::moveaxis(x.tensor, b.axis(x), b.axis(x)));
  return true;
}

bool expand_dims(Builder& b) {
  const Value x = b.operand();
  if (x.tensor.rank() > 4) return false;
  moved(b, "expand_dims", x,
        ops::expand_dims(x.tensor, {b.random.between(0, static_cast<std::int64_t>(x.tensor.rank()))}));
  return true;
}

bool squeeze(Builder& b) {
  const auto first_one = [](const Value& v) {
    const Shape& shape = v.tensor.shape();
    return std::find_if(shape.begin(), shape.end(), [](const Expr& e) { return is_int(e, 1); }) - shape.begin();
  };
  const Value x =
      b.operand_where([&](const Value& v) { return first_one(v) < static_cast<std::int64_t>(v.tensor.rank()); },
                      [&] { return b.input(b.dtype(), {b.extent(b.random.between(1, 9)), index(1), index(3)}); });
  moved(b, "squeeze", x, ops::squeeze(x.tensor, {first_one(x)}));
  return true;
}

bool broadcast_to(Builder& b) {
  const Value x = b.operand();
  Shape shape = x.tensor.shape();
  for (Expr& extent : shape) {
    if (is_int(extent, 1)) extent = b.extent(b.random.between(1, 4));
  }
  if (shape.size() < 4) shape.insert(shape.begin(), b.extent(b.random.between(1, 3)));
  if (!b.fits(shape)) return false;
  moved(b, "broadcast_to", x, ops::broadcast_to(x.tensor, shape));
  return true;
}

bool flip(Builder& b) {
  const Value x = ranked(b, 1);
  moved(b, "flip", x, b.random.chance(30) ? ops::flip(x.tensor) : ops::flip(x.tensor, Extents{b.axis(x)}));
  return true;
}

bool getitem(Builder& b) {
  const Value x = ranked(b, 1);
  std::vector<ops::Subscript> subscripts;
  for (const Expr& symbolic : x.tensor.shape()) {
    const std::int64_t* constant = as_int(symbolic);
    const std::int64_t extent = constant ? *constant : 0;
    if (!constant) {
      ops::Slice whole;
      whole.step = b.random.chance(50) ? 1 : -1;
      subscripts.push_back(whole);
    } else if (extent > 0 && b.random.chance(20)) {
      subscripts.push_back(b.random.between(-extent, extent - 1));
    } else {
      ops::Slice slice;
      if (b.random.chance(60)) slice.start = b.random.between(-extent - 1, extent + 1);
      if (b.random.chance(60)) slice.stop = b.random.between(-extent - 1, extent + 1);
      slice.step = b.random.pick(std::vector<std::int64_t>{1, 1, 2, 3, -1, -2});
      subscripts.push_back(slice);
    }
    if (b.random.chance(10)) subscripts.push_back(ops::NewAxis());
  }
  if (b.random.chance(25)) {
    subscripts.pop_back();
    subscripts.push_back(ops::Ellipsis());
  }
  moved(b, "getitem", x, ops::getitem(x.tensor, subscripts));
  return true;
}

/// Within the least extent that a run has.
Value indices_for(Builder& b, const Expr& symbolic, const Shape& shape) {
  const std::int64_t extent = b.least(symbolic);
  const DType dtype = b.random.pick(std::vector<DType>{i64, i64, i32, i16, u8});
  const std::int64_t beyond = b.bad_indices && b.random.chance(70) ? 2 : 0;
  return b.input(dtype, shape, {Fill::Kind::index, dtype.is_unsigned() ? 0 : -extent - beyond, extent - 1 + beyond});
}

bool take(Builder& b) {
  const Value x = ranked(b, 1);
  const std::int64_t axis = b.axis(x);
  const Expr& extent = extent_of(x, axis);
  if (is_int(extent, 0)) return false;
  const Value indices = indices_for(
      b, extent, b.random.chance(50) ? Shape{b.extent(b.random.between(0, 7))} : Shape{index(2), b.extent(3)});
  const Tensor taken = ops::take(x.tensor, indices.tensor, axis);
  if (!b.fits(taken.shape())) return false;
  moved(b, "take", x, taken);
  return true;
}

bool take_along_axis(Builder& b) {
  const Value x = ranked(b, 1);
  const std::int64_t axis = b.axis(x);
  const Expr bound = extent_of(x, axis);
  if (is_int(bound, 0)) return false;
  Shape shape = x.tensor.shape();
  shape[place_of(x, axis)] = b.extent(b.random.between(1, 5));
  if (!b.fits(shape)) return false;
  const Value indices = indices_for(b, bound, shape);
  moved(b, "take_along_axis", x, ops::take_along_axis(x.tensor, indices.tensor, axis));
  return true;
}

bool index_add(Builder& b) {
  const Value x = ranked(b, 1);
  const std::int64_t axis = b.axis(x);
  const Expr bound = extent_of(x, axis);
  if (is_int(bound, 0) || x.tensor.dtype().is_bool()) return false;
  Shape shape = x.tensor.shape();
  const Expr count = b.extent(b.random.between(0, 9));
  shape[place_of(x, axis)] = count;
  if (!b.fits(shape)) return false;
  if (b.random.chance(20)) shape.erase(shape.begin(), shape.begin() + static_cast<std::ptrdiff_t>(place_of(x, axis)));
  const Value indices = indices_for(b, bound, {count}), source = b.input(x.tensor.dtype(), shape);
  b.add("index_add", ops::index_add(x.tensor, indices.tensor, source.tensor, axis),
        x.reproducible && !x.tensor.dtype().is_float());
  return true;
}

bool one_hot(Builder& b) {
  const Value indices = b.input(b.random.chance(50) ? i64 : i32, b.shape(2), {Fill::Kind::index, -1, 6});
  const std::int64_t classes = b.random.between(1, 6);
  b.add("one_hot", ops::one_hot(indices.tensor, classes, b.dtype()), true);
  return true;
}

bool concat(Builder& b) {
  const Value x = ranked(b, 1);
  const std::int64_t axis = b.axis(x);
  Shape shape = x.tensor.shape();
  if (b.random.chance(25)) {
    const Value y = b.input(x.tensor.dtype(), b.shape(2));
    b.add("concat", ops::concat({x.tensor, y.tensor}, std::nullopt), x.reproducible, x.moved_only);
    return true;
  }
  shape[place_of(x, axis)] = b.extent(b.random.between(0, 5));
  if (!b.fits(shape)) return false;
  std::vector<Tensor> parts = {x.tensor, b.input(x.tensor.dtype(), shape).tensor};
  if (b.random.chance(40)) parts.push_back(x.tensor);
  b.add("concat", ops::concat(parts, axis), x.reproducible, x.moved_only);
  return true;
}

bool stack(Builder& b) {
  const Value x = b.operand();
  if (x.tensor.rank() > 3) return false;
  const Value y = b.input(x.tensor.dtype(), x.tensor.shape());
  b.add("stack", ops::stack({x.tensor, y.tensor}, b.random.between(0, static_cast<std::int64_t>(x.tensor.rank()))),
        x.reproducible, x.moved_only);
  return true;
}

bool split(Builder& b) {
  const Value x = ranked(b, 1);
  const std::int64_t axis = b.axis(x);
  const std::int64_t* extent = as_int(extent_of(x, axis));
  if (!extent) return false;
  const std::int64_t first = b.random.between(0, *extent);
  moved(b, "split", x, b.random.pick(ops::split(x.tensor, Extents{first, *extent - first}, axis)));
  return true;
}

bool unstack(Builder& b) {
  const Value x = ranked(b, 1);
  const std::int64_t axis = b.axis(x);
  if (!as_int(extent_of(x, axis))) return false;
  const std::vector<Tensor> parts = ops::unstack(x.tensor, axis);
  if (parts.empty()) return false;
  moved(b, "unstack", x, b.random.pick(parts));
  return true;
}

bool pad(Builder& b) {
  const Value x = ranked(b, 1);
  if (x.tensor.dtype().is_bool()) return false;
  std::vector<std::pair<std::int64_t, std::int64_t>> widths;
  Shape shape = x.tensor.shape();
  for (Expr& extent : shape) {
    widths.emplace_back(b.random.between(0, 2), b.random.between(0, 2));
    extent = extent + (widths.back().first + widths.back().second);
  }
  if (!b.fits(shape)) return false;
  moved(b, "pad", x, ops::pad(x.tensor, widths, Tensor(b.random.chance(50) ? 0 : 3)));
  return true;
}

bool roll(Builder& b) {
  const Value x = ranked(b, 1);
  const std::int64_t shift = b.random.between(-9, 9);
  const std::int64_t axis = b.axis(x);
  const bool flat = b.random.chance(30);
  if (flat ? !is_static(x) : !as_int(extent_of(x, axis))) return false;
  moved(b, "roll", x, flat ? ops::roll(x.tensor, {shift}, std::nullopt) : ops::roll(x.tensor, {shift}, Extents{axis}));
  return true;
}

bool triangle(Builder& b, bool lower) {
  const Value x = ranked(b, 2);
  const std::int64_t k = b.random.between(-2, 2);
  moved(b, lower ? "tril" : "triu", x, lower ? ops::tril(x.tensor, k) : ops::triu(x.tensor, k));
  return true;
}

bool full(Builder& b) {
  b.add("full", ops::full(b.shape(2), Tensor(b.random.between(0, 5)), b.dtype()), true, true);
  return true;
}

bool constants(Builder& b, const std::string& name) {
  const Shape shape = b.shape(2);
  b.add(name, name == "zeros" ? ops::zeros(shape, b.dtype()) : ops::ones(shape, b.dtype()), true, true);
  return true;
}

bool constants_like(Builder& b, const std::string& name) {
  const Value x = b.operand();
  const Tensor result = name == "zeros_like"  ? ops::zeros_like(x.tensor)
                        : name == "ones_like" ? ops::ones_like(x.tensor)
                                              : ops::full_like(x.tensor, Tensor(b.random.between(0, 1)), b.dtype());
  b.add(name, result, true, true);
  return true;
}

bool eye(Builder& b) {
  b.add("eye", ops::eye(b.random.between(0, 6), b.random.between(1, 6), b.random.between(-1, 1), b.dtype()), true,
        true);
  return true;
}

bool arange(Builder& b) {
  if (b.random.chance(30)) {
    b.add("arange", ops::arange(0.5, 4.0, 0.25, f32), true);
  } else {
    b.add("arange",
          ops::arange(b.random.between(-5, 5), b.random.between(0, 20), b.random.pick(Extents{1, 2, 3, -1}),
                      b.random.chance(50) ? i64 : i32),
          true);
  }
  return true;
}

bool linspace(Builder& b) {
  b.add("linspace",
        ops::linspace(-1, 2.5, b.random.between(0, 12), b.random.chance(70) ? f32 : f64, b.random.chance(70)), true);
  return true;
}

}  // namespace

std::vector<Step> view_steps() {
  std::vector<Step> steps;
  const auto add = [&](const std::string& name, std::function<bool(Builder&)> apply) {
    steps.push_back({name, "view", std::move(apply)});
  };
  add("reshape", reshape);
  add("permute_dims", permute_dims);
  add("moveaxis", moveaxis);
  add("expand_dims", expand_dims);
  add("squeeze", squeeze);
  add("broadcast_to", broadcast_to);
  add("flip", flip);
  add("getitem", getitem);
  add("take", take);
  add("take_along_axis", take_along_axis);
  add("index_add", index_add);
  add("one_hot", one_hot);
  add("concat", concat);
  add("stack", stack);
  add("split", split);
  add("unstack", unstack);
  add("pad", pad);
  add("roll", roll);
  add("tril", [](Builder& b) { return triangle(b, true); });
  add("triu", [](Builder& b) { return triangle(b, false); });
  add("full", full);
  for (const char* name : {"zeros", "ones"}) add(name, [name](Builder& b) { return constants(b, name); });
  for (const char* name : {"full_like", "zeros_like", "ones_like"})
    add(name, [name](Builder& b) { return constants_like(b, name); });
  add("eye", eye);
  add("arange", arange);
  add("linspace", linspace);
  return steps;
}

}  // namespace lathe::testing
