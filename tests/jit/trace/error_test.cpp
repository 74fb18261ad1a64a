#include "tests/golden.h"
#include "tests/jit/trace/harness.h"

namespace lathe::test {
namespace {

Tensor f(std::vector<std::int64_t> shape, const char* name = "x") {
  return input(name, f32, ops::make_shape(shape));
}
Tensor i(std::vector<std::int64_t> shape) {
  return input("i", i32, ops::make_shape(shape));
}

/// Every message of the library in one golden file, each preceded by the call that it answers.
class Messages {
 public:
  template <class F>
  void add(const std::string& call, const F& fails, Mistake mistake = Mistake::value) {
    static constexpr const char* names[] = {"value", "type", "index", "syntax"};
    text += call + "\n  " + names[static_cast<int>(mistake)] + ": " + error_of(fails, mistake) + "\n";
  }
  std::string text;
};

#define MESSAGE(call) messages.add(#call, [&] { call; })
#define TYPE_MESSAGE(call) messages.add(#call, [&] { call; }, Mistake::type)
#define INDEX_MESSAGE(call) messages.add(#call, [&] { call; }, Mistake::index)

TEST(Errors, SayWhatWasGivenAndWhatWasExpected) {
  using namespace ops;
  Messages messages;
  MESSAGE(f({3, 4}) + f({5}));
  MESSAGE(where(less(f({2}), 0), f({3}), 1.0));
  TYPE_MESSAGE(add(f({2}), i({2})));
  TYPE_MESSAGE(add(i({2}), 1.5));
  TYPE_MESSAGE(add(less(f({2}), 0), 1));
  TYPE_MESSAGE(exp(i({2})));
  TYPE_MESSAGE(exp(Tensor(2)));
  TYPE_MESSAGE(divide(i({2}), 2));
  TYPE_MESSAGE(bitwise_and(f({2}), f({2})));
  TYPE_MESSAGE(where(i({2}), 1.0, 2.0));
  TYPE_MESSAGE(nextafter(i({2}), i({2})));
  TYPE_MESSAGE(mean(i({2})));
  TYPE_MESSAGE(var(i({2})));
  TYPE_MESSAGE(prod(less(f({2}), 0)));
  TYPE_MESSAGE(sum(f({2}), std::nullopt, false, boolean));
  TYPE_MESSAGE(softmax(i({2})));
  MESSAGE(sum(f({2, 3}), {{2}}));
  MESSAGE(sum(f({2, 3}), {{1, -1}}));
  MESSAGE(softmax(f({})));
  MESSAGE(max(f({0, 3}), {{0}}));
  MESSAGE(argmax(f({0})));
  MESSAGE(layer_norm(f({2, 3}), f({4})));
  MESSAGE(rms_norm(f({3}), f({2, 3})));
  MESSAGE(matmul(f({2, 3}), f({4, 2})));
  MESSAGE(matmul(f({2, 3}), f({4})));
  MESSAGE(matmul(f({}), f({2})));
  MESSAGE(matmul(f({2, 2, 3}), f({3, 3, 2})));
  TYPE_MESSAGE(matmul(f({2, 3}), i({3, 2})));
  MESSAGE(einsum("ij,jk->il", f({2, 3}), f({3, 2})));
  MESSAGE(einsum("ij->i", f({2, 3}), f({3, 2})));
  MESSAGE(einsum("..j,jk", f({2, 3}), f({3, 2})));
  MESSAGE(einsum("...j...,jk", f({2, 3}), f({3, 2})));
  MESSAGE(einsum("ij,jk->ii", f({2, 3}), f({3, 2})));
  MESSAGE(einsum("i1,1k", f({2, 3}), f({3, 2})));
  MESSAGE(einsum("ijk,jk", f({2, 3}), f({3, 2})));
  MESSAGE(einsum("ij,jk", f({2, 3}), f({4, 2})));
  TYPE_MESSAGE(einsum("ij->ji", {less(f({2, 3}), 0)}));
  TYPE_MESSAGE(einsum("i,i,i", {f({2}), f({2}), i({2})}));
  MESSAGE(vecdot(f({3}), f({4})));
  MESSAGE(outer(f({3}), f({4, 1})));
  MESSAGE(reshape(f({2, 3}), {4}));
  MESSAGE(reshape(f({2, 3}), {-1, -1}));
  MESSAGE(reshape(f({2, 3}), {4, -1}));
  MESSAGE(reshape(f({2, 3}), {-2, 3}));
  MESSAGE(permute_dims(f({2, 3}), {0}));
  MESSAGE(permute_dims(f({2, 3}), {0, 0}));
  MESSAGE(matrix_transpose(f({2})));
  MESSAGE(squeeze(f({2, 1}), {0}));
  MESSAGE(expand_dims(f({2}), {3}));
  MESSAGE(broadcast_to(f({2, 3}), make_shape({3, 3})));
  INDEX_MESSAGE(getitem(f({2, 3}), {0, 3}));
  INDEX_MESSAGE(getitem(f({2}), {0, 0}));
  MESSAGE(getitem(f({2}), {Slice{0, 2, 0}}));
  MESSAGE(getitem(f({2}), {Ellipsis(), Ellipsis()}));
  TYPE_MESSAGE(take(f({2}), f({2}), 0));
  MESSAGE(take(f({2}), i({2}), 1));
  MESSAGE(take_along_axis(f({2, 2}), i({2})));
  TYPE_MESSAGE(index_add(f({2}), f({2}), f({2})));
  TYPE_MESSAGE(index_add(less(f({2}), 0), i({2}), less(f({2}), 0)));
  MESSAGE(index_add(f({2, 3}), i({2, 2}), f({2, 3})));
  MESSAGE(index_add(f({2, 3}), i({4}), f({4, 2})));
  MESSAGE(index_add(f({0, 3}), i({4}), f({4, 3})));
  TYPE_MESSAGE(one_hot(f({2}), 3));
  MESSAGE(concat({f({2, 3}), f({2, 4})}, 0));
  MESSAGE(concat({}));
  TYPE_MESSAGE(concat({f({2}), i({2})}));
  MESSAGE(stack({f({2}), f({3})}));
  MESSAGE(split(f({5}), 2));
  MESSAGE(split(f({5}), std::vector<std::int64_t>{2, 2}));
  MESSAGE(pad(f({2, 3}), {{1, 1}, {1, 1}, {1, 1}}));
  MESSAGE(pad(f({2}), {{-1, 0}}));
  TYPE_MESSAGE(pad(i({2}), {{1, 0}}, 0.5));
  MESSAGE(roll(f({2}), {1, 2}, {{0}}));
  MESSAGE(tril(f({2})));
  MESSAGE(full(make_shape({-1}), 0));
  MESSAGE(full(make_shape({2}), f({2})));
  MESSAGE(arange(0, 5, 0));
  MESSAGE(linspace(0, 1, -1));
  MESSAGE(outer(f({1 << 30}), f({1 << 30})));
  testing::expect_golden(messages.text, "errors.txt");
}

TEST(Errors, ATraceThatFailedLeavesTheNextOneUntouched) {
  error_of([] { compute({index(2)}, [](const Indices& at) { return f({2}, "x").at({at[0], at[0]}); }); });
  EXPECT_EQ(values(run({iota(f32, {3})}, [](auto& x) { return x[0] + 1; })), (std::vector<double>{1, 2, 3}));
}

}  // namespace
}  // namespace lathe::test
