// What a call costs when its kernel is there: three rank-4 tensors, fresh pointers each call.
#include <benchmark/benchmark.h>

#include <random>

#include "bench/support.h"
#include "jit/cache/epoch.h"
#include "jit/runtime/threads.h"
#include "jit/trace/ops/arithmetic.h"

namespace {

using namespace lathe;
using bench::Floats;

Function make_add() {
  set_thread_count(1);
  return jit([](Tensor a, Tensor b) { return a + b; }, "add");
}

void hit(benchmark::State& state) {
  const Function add = make_add();
  std::vector<Floats> arrays;
  arrays.reserve(12);
  for (unsigned i = 0; i < 12; ++i) arrays.emplace_back(std::vector<std::int64_t>{1, 1, 2, 4}, i);
  add(arrays[2].view(), {arrays[0].view(), arrays[1].view()});
  size_t i = 0;
  for (auto _ : state) {
    add(arrays[i + 2].view(), {arrays[i].view(), arrays[i + 1].view()});
    i = i == 9 ? 0 : i + 3;
  }
}
BENCHMARK(hit);

void bound(benchmark::State& state) {
  const Function add = make_add();
  const Floats a({1, 1, 2, 4}), b({1, 1, 2, 4}), out({1, 1, 2, 4});
  const TensorView inputs[] = {a.view(), b.view()}, outputs[] = {out.view()};
  const EpochGuard guard;
  const Specialization& specialization = add.specialize(outputs, inputs);
  for (auto _ : state) add.run(specialization, outputs, inputs);
}
BENCHMARK(bound);

void kernel_alone(benchmark::State& state) {
  const Function add = make_add();
  const Floats a({1, 1, 2, 4}), b({1, 1, 2, 4}), out({1, 1, 2, 4});
  const TensorView inputs[] = {a.view(), b.view()}, outputs[] = {out.view()};
  const EpochGuard guard;
  const Specialization& specialization = add.specialize(outputs, inputs);
  LatheContext context{};
  context.thread_count = 1;
  void* buffers[] = {a.data(), b.data(), out.data()};
  for (auto _ : state) specialization.kernel->entry(&context, buffers, nullptr);
}
BENCHMARK(kernel_alone);

void hit_64_signatures(benchmark::State& state) {
  const Function add = make_add();
  std::vector<Floats> arrays;
  for (int n = 1; n <= 64; ++n) {
    for (unsigned i = 0; i < 3; ++i) arrays.emplace_back(std::vector<std::int64_t>{1, 1, 2, n}, i);
  }
  std::vector<size_t> order(1024);
  std::mt19937 generator(7);
  for (size_t& o : order) o = 3 * (generator() % 64);
  for (size_t i = 0; i < arrays.size(); i += 3) add(arrays[i + 2].view(), {arrays[i].view(), arrays[i + 1].view()});
  size_t next = 0;
  for (auto _ : state) {
    const size_t i = order[next];
    next = (next + 1) % order.size();
    add(arrays[i + 2].view(), {arrays[i].view(), arrays[i + 1].view()});
  }
}
BENCHMARK(hit_64_signatures);

}  // namespace
