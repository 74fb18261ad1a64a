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
                           Extents shape = b.shape();
                           while (shape.size() < least) shape.push_back(b.random.between(1, 6));
                           return b.input(b.dtype(), shape);
                         });
}

void moved(Builder& b, const std::string& name, const Value& x, const Tensor& result) {
  b.add(name, result, x.reproducible, x.moved_only);
}

bool reshape(Builder& b) {
  const Value x = b.operand();
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
    const Extents shape = v.tensor.static_shape();
    return std::find(shape.begin(), shape.end(), 1) - shape.begin();
  };
  const Value x =
      b.operand_where([&](const Value& v) { return first_one(v) < static_cast<std::int64_t>(v.tensor.rank()); },
                      [&] { return b.input(b.dtype(), {b.random.between(1, 9), 1, 3}); });
  moved(b, "squeeze", x, ops::squeeze(x.tensor, {first_one(x)}));
  return true;
}

bool broadcast_to(Builder& b) {
  const Value x = b.operand();
  Extents shape = x.tensor.static_shape();
  for (std::int64_t& extent : shape) {
    if (extent == 1) extent = b.random.between(1, 4);
  }
  if (shape.size() < 4) shape.insert(shape.begin(), b.random.between(1, 3));
  if (!b.fits(shape)) return false;
  moved(b, "broadcast_to", x, ops::broadcast_to(x.tensor, ops::make_shape(shape)));
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
  const Extents shape = x.tensor.static_shape();
  for (const std::int64_t extent : shape) {
    if (extent > 0 && b.random.chance(20)) {
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

Value indices_for(Builder& b, std::int64_t extent, const Extents& shape) {
  const DType dtype = b.random.pick(std::vector<DType>{i64, i64, i32, i16, u8});
  const std::int64_t beyond = b.bad_indices && b.random.chance(70) ? 2 : 0;
  return b.input(dtype, shape, {Fill::Kind::index, dtype.is_unsigned() ? 0 : -extent - beyond, extent - 1 + beyond});
}

bool take(Builder& b) {
  const Value x = ranked(b, 1);
  const std::int64_t axis = b.axis(x);
  const Extents shape = x.tensor.static_shape();
  const std::int64_t extent =
      shape[static_cast<size_t>(axis < 0 ? axis + static_cast<std::int64_t>(shape.size()) : axis)];
  if (extent == 0) return false;
  Extents result = shape;
  const Value indices = indices_for(b, extent, b.random.chance(50) ? Extents{b.random.between(0, 7)} : Extents{2, 3});
  const Tensor taken = ops::take(x.tensor, indices.tensor, axis);
  if (!b.fits(taken.static_shape())) return false;
  moved(b, "take", x, taken);
  return true;
}

bool take_along_axis(Builder& b) {
  const Value x = ranked(b, 1);
  const std::int64_t axis = b.axis(x);
  Extents shape = x.tensor.static_shape();
  std::int64_t& extent = shape[static_cast<size_t>(axis < 0 ? axis + static_cast<std::int64_t>(shape.size()) : axis)];
  if (extent == 0) return false;
  const std::int64_t bound = extent;
  extent = b.random.between(1, 5);
  const Value indices = indices_for(b, bound, shape);
  moved(b, "take_along_axis", x, ops::take_along_axis(x.tensor, indices.tensor, axis));
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
  Extents shape = x.tensor.static_shape();
  if (b.random.chance(25)) {
    const Value y = b.input(x.tensor.dtype(), b.shape(2));
    b.add("concat", ops::concat({x.tensor, y.tensor}, std::nullopt), x.reproducible, x.moved_only);
    return true;
  }
  shape[static_cast<size_t>(axis < 0 ? axis + static_cast<std::int64_t>(shape.size()) : axis)] = b.random.between(0, 5);
  if (!b.fits(shape)) return false;
  std::vector<Tensor> parts = {x.tensor, b.input(x.tensor.dtype(), shape).tensor};
  if (b.random.chance(40)) parts.push_back(x.tensor);
  b.add("concat", ops::concat(parts, axis), x.reproducible, x.moved_only);
  return true;
}

bool stack(Builder& b) {
  const Value x = b.operand();
  if (x.tensor.rank() > 3) return false;
  const Value y = b.input(x.tensor.dtype(), x.tensor.static_shape());
  b.add("stack", ops::stack({x.tensor, y.tensor}, b.random.between(0, static_cast<std::int64_t>(x.tensor.rank()))),
        x.reproducible, x.moved_only);
  return true;
}

bool split(Builder& b) {
  const Value x = ranked(b, 1);
  const std::int64_t axis = b.axis(x);
  const Extents shape = x.tensor.static_shape();
  const std::int64_t extent =
      shape[static_cast<size_t>(axis < 0 ? axis + static_cast<std::int64_t>(shape.size()) : axis)];
  const std::int64_t first = b.random.between(0, extent);
  moved(b, "split", x, b.random.pick(ops::split(x.tensor, Extents{first, extent - first}, axis)));
  return true;
}

bool unstack(Builder& b) {
  const Value x = ranked(b, 1);
  const std::vector<Tensor> parts = ops::unstack(x.tensor, b.axis(x));
  if (parts.empty()) return false;
  moved(b, "unstack", x, b.random.pick(parts));
  return true;
}

bool pad(Builder& b) {
  const Value x = ranked(b, 1);
  if (x.tensor.dtype().is_bool()) return false;
  std::vector<std::pair<std::int64_t, std::int64_t>> widths;
  Extents shape = x.tensor.static_shape();
  for (std::int64_t& extent : shape) {
    widths.emplace_back(b.random.between(0, 2), b.random.between(0, 2));
    extent += widths.back().first + widths.back().second;
  }
  if (!b.fits(shape)) return false;
  moved(b, "pad", x, ops::pad(x.tensor, widths, Tensor(b.random.chance(50) ? 0 : 3)));
  return true;
}

bool roll(Builder& b) {
  const Value x = ranked(b, 1);
  const std::int64_t shift = b.random.between(-9, 9);
  moved(b, "roll", x,
        b.random.chance(30) ? ops::roll(x.tensor, {shift}, std::nullopt)
                            : ops::roll(x.tensor, {shift}, Extents{b.axis(x)}));
  return true;
}

bool triangle(Builder& b, bool lower) {
  const Value x = ranked(b, 2);
  const std::int64_t k = b.random.between(-2, 2);
  moved(b, lower ? "tril" : "triu", x, lower ? ops::tril(x.tensor, k) : ops::triu(x.tensor, k));
  return true;
}

bool full(Builder& b) {
  b.add("full", ops::full(ops::make_shape(b.shape(2)), Tensor(b.random.between(0, 5)), b.dtype()), true, true);
  return true;
}

bool constants(Builder& b, const std::string& name) {
  const Shape shape = ops::make_shape(b.shape(2));
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
