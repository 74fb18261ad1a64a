#include <fmt/format.h>

#include <map>

#include "jit/trace/ops/registry.h"
#include "tests/golden.h"
#include "tests/jit/trace/harness.h"

namespace lathe::test {
namespace {

using Sample = std::function<Tensor(const Tensor&)>;

/// One use of each operator that has parameters of its own, on a 2x2 tensor.
const std::map<std::string_view, Sample>& samples() {
  static const std::vector<std::int64_t> axis{1};
  static const Shape shape = ops::make_shape({2, 2});
  static const std::map<std::string_view, Sample> all = {
      {"clip", [](auto& x) { return ops::clip(x, x, x); }},
      {"where", [](auto& x) { return ops::where(ops::equal(x, x), x, x); }},
      {"astype", [](auto& x) { return ops::astype(x, x.dtype() == f64 ? f32 : f64); }},
      {"sum", [](auto& x) { return ops::sum(x, axis); }},
      {"prod", [](auto& x) { return ops::prod(x, axis); }},
      {"cumulative_sum", [](auto& x) { return ops::cumulative_sum(x, 1); }},
      {"cumulative_prod", [](auto& x) { return ops::cumulative_prod(x, 1); }},
      {"mean", [](auto& x) { return ops::mean(x, axis); }},
      {"var", [](auto& x) { return ops::var(x, axis); }},
      {"std", [](auto& x) { return ops::std(x, axis); }},
      {"max", [](auto& x) { return ops::max(x, axis); }},
      {"min", [](auto& x) { return ops::min(x, axis); }},
      {"argmax", [](auto& x) { return ops::argmax(x, 1); }},
      {"argmin", [](auto& x) { return ops::argmin(x, 1); }},
      {"any", [](auto& x) { return ops::any(x, axis); }},
      {"all", [](auto& x) { return ops::all(x, axis); }},
      {"logsumexp", [](auto& x) { return ops::logsumexp(x, axis); }},
      {"softmax", [](auto& x) { return ops::softmax(x); }},
      {"log_softmax", [](auto& x) { return ops::log_softmax(x); }},
      {"layer_norm", [](auto& x) { return ops::layer_norm(x); }},
      {"rms_norm", [](auto& x) { return ops::rms_norm(x); }},
      {"vecdot", [](auto& x) { return ops::vecdot(x, x); }},
      {"outer", [](auto& x) { return ops::outer(ops::reshape(x, {-1}), ops::reshape(x, {-1})); }},
      {"einsum", [](auto& x) { return ops::einsum("ij,jk->ik", x, x); }},
      {"reshape", [](auto& x) { return ops::reshape(x, {-1}); }},
      {"permute_dims", [](auto& x) { return ops::permute_dims(x, {1, 0}); }},
      {"moveaxis", [](auto& x) { return ops::moveaxis(x, 0, 1); }},
      {"expand_dims", [](auto& x) { return ops::expand_dims(x, {0}); }},
      {"squeeze", [](auto& x) { return ops::squeeze(ops::expand_dims(x, {0}), {0}); }},
      {"broadcast_to", [](auto& x) { return ops::broadcast_to(x, ops::make_shape({3, 2, 2})); }},
      {"flip", [](auto& x) { return ops::flip(x); }},
      {"getitem", [](auto& x) { return ops::getitem(x, {0}); }},
      {"take", [](auto& x) { return ops::take(x, ops::arange(0, 2), 0); }},
      {"take_along_axis", [](auto& x) { return ops::take_along_axis(x, ops::zeros(shape, i64)); }},
      {"index_add", [](auto& x) { return ops::index_add(x, ops::arange(0, 2), x); }},
      {"one_hot", [](auto& x) { return ops::one_hot(x, 2); }},
      {"concat", [](auto& x) { return ops::concat({x, x}); }},
      {"stack", [](auto& x) { return ops::stack({x, x}); }},
      {"split", [](auto& x) { return ops::split(x, 2)[0]; }},
      {"unstack", [](auto& x) { return ops::unstack(x)[0]; }},
      {"pad", [](auto& x) { return ops::pad(x, {{1, 1}}); }},
      {"roll", [](auto& x) { return ops::roll(x, {1}, {{0}}); }},
      {"tril", [](auto& x) { return ops::tril(x); }},
      {"triu", [](auto& x) { return ops::triu(x); }},
      {"full", [](auto& x) { return ops::full(shape, 1, x.dtype()); }},
      {"zeros", [](auto& x) { return ops::zeros(shape, x.dtype()); }},
      {"ones", [](auto& x) { return ops::ones(shape, x.dtype()); }},
      {"full_like", [](auto& x) { return ops::full_like(x, 1); }},
      {"zeros_like", [](auto& x) { return ops::zeros_like(x); }},
      {"ones_like", [](auto& x) { return ops::ones_like(x); }},
      {"eye", [](auto& x) { return ops::eye(2, 2, 0, x.dtype()); }},
      {"arange", [](auto& x) { return ops::arange(0, 2, 1, x.dtype()); }},
      {"linspace", [](auto& x) { return ops::linspace(0, 1, 2, x.dtype()); }},
  };
  return all;
}

Tensor apply(const ops::Operator& op, const Tensor& x) {
  if (const auto sample = samples().find(op.name); sample != samples().end()) return sample->second(x);
  if (const auto* one = std::get_if<ops::UnaryOperator>(&op.call)) return (*one)(x);
  if (const auto* two = std::get_if<ops::BinaryOperator>(&op.call)) return (*two)(x, x);
  throw Bug(fmt::format("operator {} has no sample", op.name));
}

/// The result's dtype, after a run of the interpreter, or "TypeError".
std::string cell(const ops::Operator& op, DType dtype) {
  try {
    return to_string(run({array(dtype, {2, 2}, {1, 0, 1, 1})}, [&](auto& x) { return apply(op, x[0]); }).dtype);
  } catch (const InputError& error) {
    EXPECT_EQ(error.mistake, Mistake::type) << error.what();
    EXPECT_NE(std::string(error.what()).find(op.name), std::string::npos) << error.what();
    return "TypeError";
  }
}

TEST(OperatorTable, EveryOperatorGivesADtypeOrATypeErrorForEachDtype) {
  std::string text =
      "What each operator gives when all its operands have one dtype; TypeError: it does not take that dtype.\n";
  std::string_view family;
  for (const ops::Operator& op : ops::operators()) {
    if (op.family != family) {
      family = op.family;
      text += fmt::format("\n## {}\n\n| operator |", family);
      for (DType dtype : all_dtypes) text += fmt::format(" {} |", to_string(dtype));
      text += "\n|---|";
      for (size_t k = 0; k < std::size(all_dtypes); ++k) text += "---|";
      text += "\n";
    }
    text += fmt::format("| {} |", op.name);
    for (DType dtype : all_dtypes) text += fmt::format(" {} |", cell(op, dtype));
    text += "\n";
  }
  testing::expect_golden(text, "operator_dtypes.md");
}

}  // namespace
}  // namespace lathe::test
