#include <cmath>

#include "jit/compile.h"
#include "jit/run.h"
#include "tests/jit/trace/harness.h"

namespace lathe::test {
namespace {

struct Chain {
  const char* name;
  std::function<Tensor(const Tensor&)> f;
};

/// Computes read through views, and views of computes: where masks, selects and index maps meet inlining and vectors.
const Chain chains[] = {
    {"pad", [](auto& x) { return ops::pad(ops::square(x), {{1, 2}}, 1) + 1; }},
    {"tril", [](auto& x) { return ops::tril(ops::negative(x)) + 1; }},
    {"roll", [](auto& x) { return ops::roll(ops::square(x), {3, 5}, {{0, 1}}) + x; }},
    {"concat", [](auto& x) { return ops::concat({ops::square(x), x + 1, x}, 1) + 1; }},
    {"concat rows", [](auto& x) { return ops::concat({ops::square(x), x + 1, x}, 0); }},
    {"stack", [](auto& x) { return ops::stack({ops::square(x), ops::flip(x + 1), x}, -1) + 1; }},
    {"take", [](auto& x) { return ops::take(ops::square(x), ops::arange(-2, 3), 1) + 1; }},
    {"reshape", [](auto& x) { return ops::reshape(ops::matrix_transpose(ops::square(x)), {-1, 3}) + 1; }},
    {"slice", [](auto& x) { return ops::getitem(ops::square(x), {ops::Slice{{}, {}, -2}, ops::Slice{1, {}, 3}}) + 1; }},
    {"sum of pad", [](auto& x) { return ops::sum(ops::pad(ops::square(x), {{1, 2}}, 1), {{1}}); }},
    {"sum of concat", [](auto& x) { return ops::sum(ops::concat({ops::square(x), x + 1, x}, 1), {{0}}); }},
    {"sum of take", [](auto& x) { return ops::sum(ops::take(ops::square(x), ops::arange(-2, 3), 1), {{1}}); }},
    {"sum of flip", [](auto& x) { return ops::sum(ops::flip(ops::square(x)), {{1}}); }},
    {"matmul of pads",
     [](auto& x) { return ops::matmul(ops::pad(x + 1, {{1, 2}}, 1), ops::matrix_transpose(ops::pad(x, {{1, 2}}))); }},
    {"attention",
     [](auto& x) {
       const Tensor q = ops::expand_dims(x, {0});
       return ops::matmul(ops::softmax(ops::matmul(q, ops::matrix_transpose(q))), q);
     }},
    {"standardize", [](auto& x) { return (x - ops::mean(x, {{0}}, true)) / ops::std(x, {{0}}, 0, true); }},
};

TensorView view_of(Array& a) {
  return {.data = a.bytes.data(),
          .dtype = a.dtype,
          .rank = static_cast<std::int32_t>(a.shape.size()),
          .shape = a.shape.data()};
}

double tolerance(DType dtype) {
  return dtype == f64 ? 1e-12 : dtype == f32 ? 1e-5 : dtype == f16 ? 2e-3 : 2e-2;
}

void expect_compiled_as_interpreted(const Chain& chain, DType dtype, std::vector<std::int64_t> shape) {
  Array x = empty(dtype, std::move(shape));
  for (size_t k = 0; k < x.size(); ++k) {
    const double value = dtype.is_bool() ? k % 3 == 0 : double(k * 37 % 100) / (dtype.is_float() ? 64 : 1);
    put(dtype, &x.bytes[k * static_cast<size_t>(dtype.bytes())], value);
  }
  Func func;
  try {
    func = trace({x}, [&](const std::vector<Tensor>& v) { return std::vector{chain.f(v[0])}; });
  } catch (const InputError& error) {
    EXPECT_EQ(error.mistake, Mistake::type) << error.what();
    return;
  }
  const Buffer result = buffer_params(func)[1];
  std::vector<std::int64_t> extents;
  for (const Expr& extent : result->shape) extents.push_back(*as_int(extent));
  Array expected = empty(result->dtype, extents), actual = expected;
  run_interpreted(Parameters(func), std::vector{view_of(x), view_of(expected)}, {});
  run_kernel(Parameters(func), *compile(func, compile_device()), std::vector{view_of(x), view_of(actual)}, {});
  const std::vector<double> wanted = values(expected), given = values(actual);
  for (size_t k = 0; k < wanted.size(); ++k) {
    const double slack = result->dtype.is_float() ? tolerance(result->dtype) * (std::abs(wanted[k]) + 1) : 0;
    ASSERT_NEAR(given[k], wanted[k], slack) << "element " << k << "\n" << print(func);
  }
}

TEST(ViewChains, CompileToWhatTheInterpreterComputes) {
  for (const Chain& chain : chains) {
    for (DType dtype : all_dtypes) {
      for (const std::vector<std::int64_t>& shape : {std::vector<std::int64_t>{9, 10}, {3, 40}}) {
        SCOPED_TRACE(std::string(chain.name) + " " + to_string(dtype));
        expect_compiled_as_interpreted(chain, dtype, shape);
      }
    }
  }
}

}  // namespace
}  // namespace lathe::test
