#include <algorithm>

#include "jit/trace/ops/ops.h"
#include "tests/fuzz/builder.h"

namespace lathe::testing {
namespace {

ops::Axes some_axes(Builder& b, const Value& x) {
  if (b.random.chance(25)) return std::nullopt;
  std::vector<std::int64_t> axes;
  for (size_t d = 0; d < x.tensor.rank(); ++d) {
    if (b.random.chance(50))
      axes.push_back(static_cast<std::int64_t>(d) -
                     (b.random.chance(30) ? static_cast<std::int64_t>(x.tensor.rank()) : 0));
  }
  if (axes.empty() && x.tensor.rank() > 0) axes.push_back(-1);
  return axes;
}

bool has_elements(const Value& x) {
  for (const Expr& extent : x.tensor.shape()) {
    if (is_int(extent, 0)) return false;
  }
  return true;
}

Value number(Builder& b) {
  return b.operand_where([](const Value& v) { return !v.tensor.dtype().is_bool(); },
                         [&] { return b.input(b.random.chance(60) ? f32 : i16, b.shape()); });
}

Value a_float(Builder& b, int least_rank = 0) {
  return b.operand_where(
      [&](const Value& v) { return v.tensor.dtype().is_float() && v.tensor.rank() >= static_cast<size_t>(least_rank); },
      [&] {
        Shape shape = b.shape();
        while (shape.size() < static_cast<size_t>(least_rank)) shape.push_back(b.extent(3));
        return b.input(b.float_dtype(), shape);
      });
}

Step fold(const std::string& name, Tensor (*f)(const Tensor&, const ops::Axes&, bool, std::optional<DType>)) {
  return {name, "reduction", [name, f](Builder& b) {
            const Value x = number(b);
            const Tensor result = f(x.tensor, some_axes(b, x), b.random.chance(30), std::nullopt);
            b.add(name, result, x.reproducible && !x.tensor.dtype().is_float());
            return true;
          }};
}

Step running(const std::string& name,
             Tensor (*f)(const Tensor&, std::optional<std::int64_t>, std::optional<DType>, bool)) {
  return {name, "reduction", [name, f](Builder& b) {
            const Value x = number(b);
            if (x.tensor.rank() == 0) return false;
            const Tensor result = f(x.tensor, b.axis(x), std::nullopt, b.random.chance(30));
            if (!b.fits(result.shape())) return false;
            b.add(name, result, x.reproducible && !x.tensor.dtype().is_float());
            return true;
          }};
}

Step extremum(const std::string& name, Tensor (*f)(const Tensor&, const ops::Axes&, bool)) {
  return {name, "reduction", [name, f](Builder& b) {
            const Value x = number(b);
            if (!has_elements(x)) return false;
            b.add(name, f(x.tensor, some_axes(b, x), b.random.chance(30)), x.reproducible);
            return true;
          }};
}

Step position(const std::string& name, Tensor (*f)(const Tensor&, std::optional<std::int64_t>, bool)) {
  return {name, "reduction", [name, f](Builder& b) {
            const Value x = b.reproducible(number(b));
            if (!has_elements(x)) return false;
            std::optional<std::int64_t> axis;
            if (x.tensor.rank() > 0 && b.random.chance(75)) axis = b.axis(x);
            b.add(name, f(x.tensor, axis, b.random.chance(30)), true);
            return true;
          }};
}

Step logic(const std::string& name, Tensor (*f)(const Tensor&, const ops::Axes&, bool)) {
  return {name, "reduction", [name, f](Builder& b) {
            const Value x = b.reproducible(b.operand());
            b.add(name, f(x.tensor, some_axes(b, x), b.random.chance(30)), true);
            return true;
          }};
}

Step moment(const std::string& name, Tensor (*f)(const Tensor&, const ops::Axes&, double, bool)) {
  return {name, "reduction", [name, f](Builder& b) {
            const Value x = a_float(b);
            b.add(name, f(x.tensor, some_axes(b, x), b.random.chance(30) ? 1 : 0, b.random.chance(30)), false);
            return true;
          }};
}

Step along_axis(const std::string& name, Tensor (*f)(const Tensor&, std::int64_t)) {
  return {name, "reduction", [name, f](Builder& b) {
            const Value x = a_float(b, 1);
            if (!has_elements(x)) return false;
            b.add(name, f(x.tensor, b.axis(x)), false);
            return true;
          }};
}

bool norm(Builder& b, bool layer) {
  const Value x = a_float(b, 1);
  const Shape last = {x.tensor.shape().back()};
  std::optional<Tensor> weight, bias;
  if (b.random.chance(60)) weight = b.input(x.tensor.dtype(), last).tensor;
  if (layer && b.random.chance(60)) bias = b.input(x.tensor.dtype(), last).tensor;
  b.add(layer ? "layer_norm" : "rms_norm",
        layer ? ops::layer_norm(x.tensor, weight, bias) : ops::rms_norm(x.tensor, weight), false);
  return true;
}

DType contraction_dtype(Builder& b) {
  return b.random.chance(65) ? b.float_dtype() : b.random.pick(std::vector<DType>{i8, i32, u16, i64, u64});
}

bool matmul(Builder& b) {
  const DType dtype = contraction_dtype(b);
  static const std::vector<std::int64_t> extents = {0, 1, 2, 3, 5, 8, 9, 16, 17, 19, 32, 33};
  // Large ones are cut into tiles and dealt to threads.
  const std::int64_t scale = b.most_elements > 1500 ? b.random.between(2, 5) : 1;
  const auto extent = [&] { return b.extent(b.random.pick(extents) * scale); };
  const Expr m = extent(), k = extent(), n = extent();
  Shape left = {m, k}, right = {k, n};
  if (b.random.chance(25)) left.insert(left.begin(), b.extent(b.random.between(1, 3)));
  if (b.random.chance(25)) right.insert(right.begin(), left.size() == 3 && b.random.chance(60) ? left[0] : index(1));
  if (b.random.chance(12)) left = {k};
  if (b.random.chance(12)) right = {k};
  // A symbol may be all of them: the interpreter would take its fourth power of steps.
  constexpr double most_steps = 2e7;
  double steps = right.size() > 1 ? static_cast<double>(b.most(right.back())) : 1;
  for (const Expr& axis : left) steps *= static_cast<double>(b.most(axis));
  if (steps > most_steps) {
    if (right.size() > 1) right.back() = index(5);
    left.back() = right[right.size() - std::min<size_t>(right.size(), 2)] = index(3);
  }
  const auto operand = [&](Shape shape) {
    if (shape.size() < 2 || b.random.chance(60)) return b.input(dtype, shape);
    // Read in place through a transposed view.
    std::swap(shape[shape.size() - 1], shape[shape.size() - 2]);
    Value x = b.input(dtype, shape);
    x.tensor = ops::matrix_transpose(x.tensor);
    b.used.push_back("matrix_transpose");
    return x;
  };
  const Value a = operand(left), c = operand(right);
  b.add("matmul", ops::matmul(a.tensor, c.tensor), !dtype.is_float());
  return true;
}

bool vecdot(Builder& b) {
  Shape shape = b.shape(3);
  if (shape.empty()) shape.push_back(b.extent(11));
  const DType dtype = contraction_dtype(b);
  const Value x = b.input(dtype, shape), y = b.input(dtype, shape);
  b.add("vecdot", ops::vecdot(x.tensor, y.tensor, b.axis(x)), !dtype.is_float());
  return true;
}

bool outer(Builder& b) {
  const DType dtype = contraction_dtype(b);
  const Value x = b.input(dtype, {b.extent(b.random.between(0, 30))}),
              y = b.input(dtype, {b.extent(b.random.between(1, 30))});
  b.add("outer", ops::outer(x.tensor, y.tensor), true);
  return true;
}

bool einsum(Builder& b) {
  struct Case {
    const char* equation;
    Shape left, right;
  };
  const Expr m = b.extent(b.random.between(1, 17)), n = b.extent(b.random.between(1, 9)),
             k = b.extent(b.random.between(0, 12)), h = b.extent(b.random.between(1, 3)), two = index(2);
  const std::vector<Case> cases = {{"ij,jk->ik", {m, k}, {k, n}},
                                   {"ij,kj->ki", {m, k}, {n, k}},
                                   {"bij,bjk->bik", {h, m, k}, {h, k, n}},
                                   {"bihd,bjhd->bhij", {two, m, h, k}, {two, n, h, k}},
                                   {"ii,i->i", {n, n}, {n}},
                                   {"ij,ij->", {m, n}, {m, n}},
                                   {"i,j->ji", {m}, {n}},
                                   {"ijk,k->ij", {m, h, k}, {k}}};
  const Case& chosen = b.random.pick(cases);
  const DType dtype = contraction_dtype(b);
  const Value x = b.input(dtype, chosen.left), y = b.input(dtype, chosen.right);
  b.add("einsum", ops::einsum(chosen.equation, x.tensor, y.tensor), !dtype.is_float());
  return true;
}

}  // namespace

std::vector<Step> reduction_steps() {
  return {
      fold("sum", ops::sum),
      fold("prod", ops::prod),
      running("cumulative_sum", ops::cumulative_sum),
      running("cumulative_prod", ops::cumulative_prod),
      {"mean", "reduction",
       [](Builder& b) {
         const Value x = a_float(b);
         b.add("mean", ops::mean(x.tensor, some_axes(b, x), b.random.chance(30)), false);
         return true;
       }},
      moment("var", ops::var),
      moment("std", ops::std),
      extremum("max", ops::max),
      extremum("min", ops::min),
      position("argmax", ops::argmax),
      position("argmin", ops::argmin),
      logic("any", ops::any),
      logic("all", ops::all),
      {"logsumexp", "reduction",
       [](Builder& b) {
         const Value x = a_float(b);
         if (!has_elements(x)) return false;
         b.add("logsumexp", ops::logsumexp(x.tensor, some_axes(b, x), b.random.chance(30)), false);
         return true;
       }},
      along_axis("softmax", ops::softmax),
      along_axis("log_softmax", ops::log_softmax),
      {"layer_norm", "reduction", [](Builder& b) { return norm(b, true); }},
      {"rms_norm", "reduction", [](Builder& b) { return norm(b, false); }},
      {"matmul", "contraction", matmul},
      {"vecdot", "contraction", vecdot},
      {"outer", "contraction", outer},
      {"einsum", "contraction", einsum},
  };
}

}  // namespace lathe::testing
