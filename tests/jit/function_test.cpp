#include "jit/function.h"

#include <gtest/gtest.h>

#include <atomic>
#include <barrier>
#include <cmath>
#include <numeric>
#include <thread>

#include "ir/error.h"
#include "jit/cache/epoch.h"
#include "jit/cache/kernel_cache.h"
#include "jit/runtime/threads.h"
#include "jit/trace/ops/activation.h"
#include "jit/trace/ops/arithmetic.h"
#include "jit/trace/ops/indexing.h"
#include "jit/trace/ops/reduction.h"

namespace lathe {
namespace {

/// A float array with its shape.
struct Values {
  std::vector<float> data;
  std::vector<std::int64_t> shape;

  explicit Values(std::vector<std::int64_t> s, float first = 0) : shape(std::move(s)) {
    data.resize(static_cast<size_t>(std::accumulate(shape.begin(), shape.end(), std::int64_t{1}, std::multiplies<>())));
    for (size_t i = 0; i < data.size(); ++i) data[i] = first + 0.25f * static_cast<float>(i % 37);
  }
  TensorView view() { return {data.data(), f32, static_cast<std::int32_t>(shape.size()), shape.data(), nullptr}; }
};

CacheInfo counts() {
  return KernelCache::instance().info();
}

TEST(Function, ComputesWhatItTraces) {
  const Function f = jit([](Tensor x, Tensor y) { return ops::relu(x * y + literal(f32, 1.0)); });
  Values x({3, 5}, -2), y({3, 5}, 1), out({3, 5});
  f(out.view(), {x.view(), y.view()});
  for (size_t i = 0; i < out.data.size(); ++i) {
    EXPECT_EQ(out.data[i], std::max(std::fma(x.data[i], y.data[i], 1.0f), 0.0f));
  }
}

TEST(Function, CountsHitsMissesAndCompilesExactly) {
  const Function f = jit([](Tensor x) { return x + literal(f32, 3.0); }, "counted");
  Values x({6}), out({6});
  const CacheInfo before = counts();
  f(out.view(), {x.view()});
  for (int i = 0; i < 10; ++i) f(out.view(), {x.view()});
  Values x2({7}), out2({7});
  f(out2.view(), {x2.view()});
  const CacheInfo after = counts();
  EXPECT_EQ(after.hits - before.hits, 10);
  EXPECT_EQ(after.misses - before.misses, 2);
  EXPECT_EQ(after.compiles - before.compiles, 2);
}

TEST(Function, OneCompileASignatureHoweverManyThreadsAsk) {
  constexpr int threads = 16, signatures = 200;
  const Function f = jit([](Tensor x) { return x * literal(f32, 2.0) + literal(f32, 0.5); }, "raced");
  const CacheInfo before = counts();
  std::barrier start(threads);
  std::atomic<int> wrong{0};
  std::vector<std::thread> workers;
  for (int t = 0; t < threads; ++t) {
    workers.emplace_back([&] {
      start.arrive_and_wait();
      for (int n = 1; n <= signatures; ++n) {
        Values x({n}), out({n});
        f(out.view(), {x.view()});
        for (size_t i = 0; i < out.data.size(); ++i) wrong += out.data[i] != x.data[i] * 2 + 0.5f;
      }
    });
  }
  for (std::thread& worker : workers) worker.join();
  const CacheInfo after = counts();
  EXPECT_EQ(wrong, 0);
  EXPECT_EQ(after.compiles - before.compiles, signatures);
  EXPECT_EQ(after.hits + after.misses - before.hits - before.misses, threads * signatures);
}

TEST(Function, EvictionDropsKernelsWhileOthersCall) {
  const Function f = jit([](Tensor x) { return x + literal(f32, 1.0); }, "evicted");
  std::atomic<bool> stop{false};
  std::atomic<int> wrong{0};
  std::vector<std::thread> callers;
  for (int t = 0; t < 2; ++t) {
    callers.emplace_back([&, t] {
      Values x({5 + t}), out({5 + t});
      while (!stop) {
        f(out.view(), {x.view()});
        wrong += out.data[4] != x.data[4] + 1;
      }
    });
  }
  const CacheInfo before = counts();
  for (int i = 0; i < 30; ++i) {
    Values x({100 + i}), out({100 + i});
    f(out.view(), {x.view()});
    KernelCache::instance().clear();
  }
  stop = true;
  for (std::thread& caller : callers) caller.join();
  EXPECT_EQ(wrong, 0);
  EXPECT_GE(counts().evictions - before.evictions, 30);
}

TEST(Function, CapacityEvictsTheOneLookedUpLongestAgo) {
  KernelCache::instance().clear();
  KernelCache::instance().set_capacity(2);
  const Function f = jit([](Tensor x) { return x + literal(f32, 4.0); }, "capped");
  for (const int n : {3, 4, 5}) {
    Values x({n}), out({n});
    f(out.view(), {x.view()});
  }
  EXPECT_EQ(counts().kernels, 2);
  const CacheInfo before = counts();
  Values x({5}), out({5});
  f(out.view(), {x.view()});
  EXPECT_EQ(counts().compiles, before.compiles);
  Values x3({3}), out3({3});
  f(out3.view(), {x3.view()});
  EXPECT_EQ(counts().compiles, before.compiles + 1);
  KernelCache::instance().set_capacity(16384);
}

TEST(Function, AnOutputMayOverlapAnInput) {
  const Function f = jit([](Tensor x) { return x * literal(f32, 2.0); });
  Values x({64});
  std::vector<float> expected = x.data;
  for (float& v : expected) v *= 2;
  f(x.view(), {x.view()});
  EXPECT_EQ(x.data, expected);

  Values base({65});
  const std::vector<float> before = base.data;
  const std::int64_t shape[] = {64};
  f(TensorView{base.data.data() + 1, f32, 1, shape, nullptr}, {TensorView{base.data.data(), f32, 1, shape, nullptr}});
  for (size_t i = 0; i < 64; ++i) EXPECT_EQ(base.data[i + 1], before[i] * 2);
}

TEST(Function, RefusesAnOutputThatOverlapsItself) {
  const Function f = jit([](Tensor x) { return x * literal(f32, 2.0); }, "doubled");
  Values x({2, 3}), memory({4});
  const std::int64_t shape[] = {2, 3}, strides[] = {1, 1};
  try {
    f(TensorView{memory.data.data(), f32, 2, shape, strides}, {x.view()});
    FAIL() << "nothing was thrown";
  } catch (const InputError& error) {
    EXPECT_EQ(error.message(), "doubled: output 0 f32[2, 3] overlaps itself: two of its indices name one element");
  }
}

TEST(Function, AnIndexOutOfRangeNamesOperatorAxisAndIndex) {
  const Function f = jit([](Tensor x, Tensor i) { return ops::take(x, i, 0); });
  Values x({5, 2}), out({3, 2});
  std::vector<std::int64_t> indices{0, 5, 1};
  const std::int64_t shape[] = {3};
  try {
    f(out.view(), {x.view(), TensorView{indices.data(), i64, 1, shape, nullptr}});
    FAIL() << "nothing was thrown";
  } catch (const InputError& error) {
    EXPECT_EQ(error.mistake, Mistake::index);
    EXPECT_EQ(error.message(), "take: index 5 is out of range on axis 0");
  }
  indices = {4, -5, 2};
  f(out.view(), {x.view(), TensorView{indices.data(), i64, 1, shape, nullptr}});
  EXPECT_EQ(out.data[0], x.data[8]);
  EXPECT_EQ(out.data[2], x.data[0]);
}

TEST(Function, AFailedTraceLeavesNothingBehind) {
  bool fail = true;
  const Function f = Function("fickle", [&](const std::vector<Tensor>& inputs, const std::vector<Tensor>&) {
    if (fail) throw InputError(Mistake::value, "not today");
    return std::vector<Tensor>{inputs[0] + inputs[0]};
  });
  Values x({9}), out({9});
  const CacheInfo before = counts();
  EXPECT_THROW(f(out.view(), {x.view()}), InputError);
  EXPECT_EQ(counts().compiles, before.compiles);
  EXPECT_EQ(counts().kernels, before.kernels);
  fail = false;
  f(out.view(), {x.view()});
  EXPECT_EQ(out.data[3], 2 * x.data[3]);
}

TEST(Function, TheSameBitsAtAnyThreadCount) {
  const Function f = jit([](Tensor x) { return ops::sum(x, std::vector<std::int64_t>{1}); }, "summed");
  Values x({512, 1000}), one({512}), many({512});
  set_thread_count(1);
  f(one.view(), {x.view()});
  const CacheInfo before = counts();
  for (const int threads : {2, 3, 32}) {
    set_thread_count(threads);
    f(many.view(), {x.view()});
    EXPECT_EQ(one.data, many.data);
  }
  EXPECT_EQ(counts().compiles, before.compiles);
  set_thread_count(0);
}

TEST(Signature, PrintsItsFields) {
  const Function f = jit([](Tensor x) { return x + x; }, "printed");
  const std::int64_t shape[] = {3, 6}, strides[] = {1, 4};
  Values x({24});
  const TensorView input{x.data.data(), f32, 2, shape, strides};
  const EpochGuard guard;
  const std::string text = f.specialize({}, {&input, 1}).signature.to_string();
  EXPECT_NE(text.find("input     f32[3, 6] strides (unit, dense) by 4 aligned\n"), std::string::npos) << text;
  EXPECT_NE(text.find("output    f32[3, 6] strides dense in the order (1, 0) aligned\n"), std::string::npos) << text;
}

}  // namespace
}  // namespace lathe
