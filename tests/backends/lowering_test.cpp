// Whole operators through schedule and lowering: after every pass the Func verifies, prints and parses back to itself,
// and computes what the traced Func computes; so does the compiled kernel.
#include <cmath>
#include <random>

#include "backends/stages.h"
#include "ir/analysis/simplify.h"
#include "ir/analysis/verify.h"
#include "ir/structural.h"
#include "ir/visitor.h"
#include "jit/trace/ops/ops.h"
#include "schedule/auto/auto_schedule.h"
#include "tests/backends/harness.h"

namespace lathe {
namespace {

using namespace testing;
using namespace ops;

Tensor in(const std::string& name, std::initializer_list<std::int64_t> extents, DType dtype = f32) {
  Shape shape;
  for (std::int64_t extent : extents) shape.push_back(index(extent));
  return input(name, dtype, shape);
}

struct Program {
  std::string name;
  std::vector<Tensor> inputs, outputs;
};

std::vector<Program> programs() {
  std::vector<Program> all;
  auto add_program = [&](const std::string& name, std::vector<Tensor> inputs, std::vector<Tensor> outputs) {
    all.push_back({name, std::move(inputs), std::move(outputs)});
  };
  for (std::int64_t n : {1, 15, 64, 130}) {
    Tensor x = in("x", {3, n}), y = in("y", {n});
    add_program("gelu_of_affine_" + std::to_string(n), {x, y}, {gelu(add(multiply(x, y), literal(f32, 1.0)))});
    add_program("softmax_" + std::to_string(n), {x}, {softmax(x)});
    add_program("softmax_of_columns_" + std::to_string(n), {x}, {softmax(x, 0)});
    Tensor w = in("w", {n}), b = in("b", {n});
    add_program("layer_norm_" + std::to_string(n), {x, w, b}, {layer_norm(x, w, b)});
  }
  auto linear = [&](const std::string& name, std::int64_t m, std::int64_t k, std::int64_t n) {
    Tensor x = in("x", {m, k}), w = in("w", {n, k}), b = in("b", {n});
    add_program("linear_" + name, {x, w, b}, {add(matmul(x, permute_dims(w, {1, 0})), b)});
  };
  auto product = [&](const std::string& name, std::int64_t m, std::int64_t k, std::int64_t n) {
    Tensor x = in("x", {m, k}), y = in("y", {k, n});
    add_program("matmul_" + name, {x, y}, {matmul(x, y)});
  };
  linear("odd", 13, 19, 37);
  linear("even", 16, 32, 48);
  product("odd", 17, 23, 51);
  product("even", 32, 64, 96);
  product("row", 1, 40, 65);
  product("column", 40, 33, 1);
  product("empty_sum", 4, 0, 20);
  product("empty", 0, 4, 20);
  {
    Tensor q = in("q", {2, 2, 5, 16}), k = in("k", {2, 2, 5, 16}), v = in("v", {2, 2, 5, 16}),
           mask = in("mask", {2, 1, 1, 5});
    Tensor scores = add(multiply(matmul(q, permute_dims(k, {0, 1, 3, 2})), literal(f32, 0.25)), mask);
    add_program("attention", {q, k, v, mask}, {matmul(softmax(scores), v)});
  }
  {
    Tensor x = in("x", {7, 33}), y = in("y", {7, 20});
    add_program("concat_and_pad", {x, y}, {pad(concat({x, y}, 1), {{1, 0}, {2, 3}})});
    add_program("views", {x}, {roll(flip(permute_dims(x, {1, 0})), {3}, std::vector<std::int64_t>{0})});
    add_program("argmax_rows", {x}, {argmax(x, 1)});
    add_program("argmin_columns", {x}, {argmin(x, 0)});
    add_program("sum_all", {x}, {sum(x)});
    add_program("two_outputs", {x}, {mean(x, std::vector<std::int64_t>{0}), var(x, std::vector<std::int64_t>{1})});
    add_program("triangle", {x}, {tril(x, 2)});
  }
  {
    Tensor table = in("table", {9, 21}), at = in("at", {5}, i64);
    add_program("take", {table, at}, {take(table, at, 0)});
    Tensor i = in("i", {6, 19}, i32), j = in("j", {6, 19}, i32);
    add_program("integers", {i, j}, {add(floor_divide(i, j), multiply(remainder(i, j), j))});
    add_program("bytes", {i}, {astype(i, u8), sum(astype(i, i8), std::vector<std::int64_t>{1})});
    add_program("logic", {i, j}, {logical_or(less(i, j), equal(i, literal(i32, std::int64_t{0}))), any(greater(i, j))});
  }
  return all;
}

std::int64_t value_of(const Expr& extent, const Substitution& scalars) {
  Expr value = simplify(substitute(extent, scalars));
  return *as_int(value);
}

Bytes random_bytes(const Buffer& buffer, std::mt19937& random, const Substitution& scalars = {}) {
  std::int64_t count = 1;
  for (const Expr& extent : buffer->shape) count *= value_of(extent, scalars);
  Bytes bytes(static_cast<size_t>(count * buffer->dtype.bytes()));
  for (std::int64_t i = 0; i < count; ++i) {
    std::byte* at = bytes.data() + i * buffer->dtype.bytes();
    if (buffer->dtype == f32) {
      float value = std::normal_distribution<float>()(random);
      std::memcpy(at, &value, sizeof value);
    } else {
      std::int64_t value = static_cast<std::int64_t>(random() % 7) - 3;
      std::memcpy(at, &value, static_cast<size_t>(buffer->dtype.bytes()));
    }
  }
  return bytes;
}

/// Integers must agree bit for bit; floats to 2e-5 of their size, for fma and other summation orders.
::testing::AssertionResult agree(const Func& func, const Outcome& expected, const Outcome& actual) {
  if (expected.status != actual.status || expected.message != actual.message) {
    return ::testing::AssertionFailure() << "status " << actual.status << " " << actual.message;
  }
  if (expected.status != 0) return ::testing::AssertionSuccess();
  std::vector<Buffer> buffers = buffer_params(func);
  for (size_t k = 0; k < buffers.size(); ++k) {
    if (buffers[k]->dtype != f32) {
      if (expected.buffers[k] != actual.buffers[k]) return ::testing::AssertionFailure() << buffers[k]->name;
      continue;
    }
    std::vector<float> a = values_of<float>(expected.buffers[k]), b = values_of<float>(actual.buffers[k]);
    for (size_t i = 0; i < a.size(); ++i) {
      if (std::abs(a[i] - b[i]) <= 2e-5f * (1 + std::abs(a[i]))) continue;
      return ::testing::AssertionFailure() << buffers[k]->name << "[" << i << "] is " << b[i] << ", expected " << a[i];
    }
  }
  return ::testing::AssertionSuccess();
}

/// As run_interpreted, but a read of what was never written traps.
Outcome run_strictly(const Func& func, std::vector<Bytes> buffers, const std::vector<std::int64_t>& scalars = {}) {
  std::vector<HostBuffer> host;
  for (Bytes& bytes : buffers) host.push_back({bytes.data(), bytes.data(), bytes.data() + bytes.size()});
  Outcome outcome;
  outcome.status = interpret(func, host, scalars, {}, &outcome.message, &outcome.index);
  outcome.buffers = std::move(buffers);
  return outcome;
}

bool calls_extern(const Func& func) {
  bool found = false;
  for_each_expr(func->body, [&](const Expr& e) {
    const Call* call = e.as<Call>();
    found |= call && call->call_kind == CallKind::extern_scalar;
  });
  return found;
}

class Lowering : public ::testing::TestWithParam<Program> {};

TEST_P(Lowering, KeepsTheMeaningAfterEveryPass) {
  register_cpu();
  const Pipeline pipeline = find_pipeline("cpu");
  Func traced = make_func("f", GetParam().inputs, GetParam().outputs);
  std::mt19937 random(7);
  std::vector<Bytes> arguments;
  for (const Buffer& buffer : buffer_params(traced)) arguments.push_back(random_bytes(buffer, random));
  const Outcome expected = run_strictly(traced, arguments);
  for (auto& [name, device] : devices()) {
    SCOPED_TRACE(name);
    Func scheduled = auto_schedule(traced, device);
    ASSERT_TRUE(agree(traced, expected, run_strictly(scheduled, arguments))) << "scheduled\n" << print(scheduled);
    LowerOptions options;
    options.after_pass = [&](Stage, const std::string& pass, const Func& func, bool changed) {
      if (!changed || HasFatalFailure()) return;
      std::string text = print(func);
      ASSERT_TRUE(equal(parse_func(text), func)) << "after " << pass << "\n" << text;
      for (const Finding& finding : verify(func)) {
        ASSERT_FALSE(finding.proved_wrong)
            << "after " << pass << ": " << finding.rule << ": " << finding.message << "\n"
            << text;
      }
      if (calls_extern(func)) return;
      ASSERT_TRUE(agree(traced, expected, run_strictly(func, arguments))) << "after " << pass << "\n" << text;
    };
    Func lowered = lower(scheduled, device, pipeline, options);
    ASSERT_FALSE(HasFatalFailure());
    for (int threads : {1, 2}) {
      EXPECT_TRUE(agree(traced, expected, run_compiled(lowered, device, arguments, {}, threads))) << print(lowered);
    }
  }
}

/// `n` is a scalar parameter: one kernel for every length.
struct SymbolicProgram {
  std::string name;
  std::function<Func(const VarRef& n)> trace;
};

std::vector<SymbolicProgram> symbolic_programs() {
  auto one = [](Tensor x, Tensor result) { return make_func("f", {x}, {result}); };
  return {{"gelu",
           [=](const VarRef& n) {
             Tensor x = input("x", f32, {index(3), n});
             return one(x, gelu(x));
           }},
          {"softmax",
           [=](const VarRef& n) {
             Tensor x = input("x", f32, {n, index(19)});
             return one(x, softmax(x));
           }},
          {"sum_of_rows",
           [=](const VarRef& n) {
             Tensor x = input("x", f32, {index(5), n});
             return one(x, sum(x, std::vector<std::int64_t>{1}));
           }},
          {"sum_of_columns",
           [=](const VarRef& n) {
             Tensor x = input("x", f32, {index(5), n});
             return one(x, sum(x, std::vector<std::int64_t>{0}));
           }},
          {"matmul",
           [](const VarRef& n) {
             Tensor x = input("x", f32, {n, index(24)}), y = input("y", f32, {index(24), index(37)});
             return make_func("f", {x, y}, {matmul(x, y)});
           }},
          {"matmul_of_any_depth", [](const VarRef& n) {
             Tensor x = input("x", f32, {index(9), n}), y = input("y", f32, {n, index(20)});
             return make_func("f", {x, y}, {matmul(x, y)});
           }}};
}

class SymbolicLowering : public ::testing::TestWithParam<SymbolicProgram> {};

TEST_P(SymbolicLowering, OneKernelServesEveryLength) {
  register_cpu();
  Func traced = GetParam().trace(Var::make("n"));
  for (auto& [name, device] : devices()) {
    SCOPED_TRACE(name);
    Func lowered = lower(auto_schedule(traced, device), device, find_pipeline("cpu"));
    for (std::int64_t n : {0, 1, 7, 16, 40, 129}) {
      Substitution scalars{{scalar_params(traced)[0].get(), index(n)}};
      std::mt19937 random(7);
      std::vector<Bytes> arguments;
      for (const Buffer& buffer : buffer_params(traced)) arguments.push_back(random_bytes(buffer, random, scalars));
      const Outcome expected = run_strictly(traced, arguments, {n});
      ASSERT_TRUE(agree(traced, expected, run_strictly(lowered, arguments, {n}))) << "n " << n << "\n"
                                                                                  << print(lowered);
      EXPECT_TRUE(agree(traced, expected, run_compiled(lowered, device, arguments, {n}))) << "n " << n << "\n"
                                                                                          << print(lowered);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Operators, SymbolicLowering, ::testing::ValuesIn(symbolic_programs()),
                         [](const auto& info) { return info.param.name; });

INSTANTIATE_TEST_SUITE_P(Operators, Lowering, ::testing::ValuesIn(programs()),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace lathe
