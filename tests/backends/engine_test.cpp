#include "jit/engine/engine.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <barrier>
#include <fstream>
#include <thread>

#include "backends/cpu/cpu.h"
#include "ir/error.h"
#include "ir/text/parse.h"
#include "jit/engine/symbols.h"

// LLVM's own way to give up; its headers stay in their rooms.
namespace llvm {
[[noreturn]] void report_fatal_error(const char* reason, bool crash_report);
}

namespace lathe {
namespace {

Func writes(int value) {
  return parse_func(fmt::format("func constant(out: i64[1]) stage end {{ out[0] = {} }}", value));
}

std::int64_t run(const LoadedKernel& kernel) {
  std::int64_t out = 0;
  void* buffers[] = {&out};
  LatheContext context{};
  EXPECT_EQ(kernel.entry()(&context, buffers, nullptr), LATHE_OK);
  return out;
}

TEST(Engine, LoadsOneObjectTwiceAndUnloadsEachAlone) {
  const ObjectCode object = compile_to_object(writes(5), host_device());
  Engine& engine = Engine::instance();
  const std::int64_t before = engine.loaded_kernels();
  auto first = engine.link(object), second = engine.link(object);
  EXPECT_NE(first->entry(), second->entry());
  EXPECT_EQ(engine.loaded_kernels(), before + 2);
  first.reset();
  EXPECT_EQ(run(*second), 5);
  second.reset();
  EXPECT_EQ(engine.loaded_kernels(), before);
}

TEST(Engine, ReturnsThePagesOfWhatIsUnloaded) {
  const ObjectCode object = compile_to_object(writes(6), host_device());
  Engine& engine = Engine::instance();
  engine.link(object);
  const std::int64_t mapped = engine.mapped_bytes(), reserved = engine.reserved_bytes();
  for (int i = 0; i < 500; ++i) engine.link(object);
  EXPECT_EQ(engine.mapped_bytes(), mapped);
  EXPECT_EQ(engine.reserved_bytes(), reserved) << "freed addresses are not used again";
}

// A thread keeps LLVM's passes from kernel to kernel: nothing of one may show in the next.
TEST(Engine, CompilesTheSameBytesOnAUsedThreadAndOnAFreshOne) {
  const Device device = host_device();
  const Func loop = parse_func(
      "func sums(x: f32[64, 24], y: f32[64], out: f32[64]) stage end {\n"
      "  parallel for i in [0, 64) {\n"
      "    assert y[i] > 0.0f32, \"y: index out of range\", i\n"
      "    out[i] = 0.0f32\n"
      "    for j in [0, 24) { out[i] = out[i] + sqrt(x[i * 24 + j]) }\n"
      "  }\n"
      "}");
  const auto on_a_fresh_thread = [&](const Func& func) {
    std::vector<char> bytes;
    std::thread([&] { bytes = compile_to_object(func, device).bytes; }).join();
    return bytes;
  };
  const std::vector<char> small = on_a_fresh_thread(writes(1)), large = on_a_fresh_thread(loop);
  std::thread([&] {
    for (int round = 0; round < 3; ++round) {
      EXPECT_EQ(compile_to_object(writes(1), device).bytes, small) << "round " << round;
      EXPECT_EQ(compile_to_object(loop, device).bytes, large) << "round " << round;
      EXPECT_FALSE(assembly_text(loop, device).empty());
    }
  }).join();
}

TEST(Engine, MapsNoPageWritableAndExecutable) {
  std::vector<std::shared_ptr<LoadedKernel>> kernels;
  for (int i = 0; i < 20; ++i) kernels.push_back(Engine::instance().link(compile_to_object(writes(i), host_device())));
  std::ifstream maps("/proc/self/maps");
  int executable = 0;
  for (std::string line; std::getline(maps, line);) {
    const std::string rights = line.substr(line.find(' ') + 1, 4);
    EXPECT_FALSE(rights[1] == 'w' && rights[2] == 'x') << line;
    executable += rights[2] == 'x';
  }
  EXPECT_GT(executable, 0);
  for (int i = 0; i < 20; ++i) EXPECT_EQ(run(*kernels[i]), i);
}

TEST(Engine, CompilesAndLinksFromManyThreadsAtOnce) {
  constexpr int threads = 8, kernels = 12;
  std::barrier start(threads);
  std::vector<std::thread> pool;
  std::atomic<int> wrong{0};
  for (int t = 0; t < threads; ++t)
    pool.emplace_back([&, t] {
      start.arrive_and_wait();
      for (int k = 0; k < kernels; ++k) {
        const int value = t * 1000 + k;
        auto kernel = Engine::instance().link(compile_to_object(writes(value), host_device()));
        if (run(*kernel) != value) ++wrong;
      }
    });
  for (std::thread& thread : pool) thread.join();
  EXPECT_EQ(wrong, 0);
}

double triple(double x) {
  return 3 * x;
}

TEST(Engine, BindsExternalsByAddress) {
  register_symbol("test_triple", reinterpret_cast<void*>(&triple));
  const Func func = parse_func("func f(out: f64[1]) stage end { out[0] = extern<f64> \"test_triple\"(out[0]) }");
  const ObjectCode object = compile_to_object(func, host_device());
  EXPECT_EQ(std::count(object.externals.begin(), object.externals.end(), "test_triple"), 1);
  auto kernel = Engine::instance().link(object);
  double out = 1.5;
  void* buffers[] = {&out};
  LatheContext context{};
  EXPECT_EQ(kernel->entry()(&context, buffers, nullptr), LATHE_OK);
  EXPECT_EQ(out, 4.5);
}

TEST(Engine, NamesAnExternalThatNothingProvides) {
  const Func func = parse_func("func f(out: f64[1]) stage end { out[0] = extern<f64> \"no_such_function\"(out[0]) }");
  const ObjectCode object = compile_to_object(func, host_device());
  const std::int64_t before = Engine::instance().loaded_kernels();
  try {
    Engine::instance().link(object);
    FAIL() << "linked";
  } catch (const InputError& error) {
    EXPECT_EQ(error.message(), "kernel " + object.symbol +
                                   " calls 'no_such_function', which nothing provides: register_symbol binds a name");
  }
  EXPECT_EQ(Engine::instance().loaded_kernels(), before);
  EXPECT_EQ(run(*Engine::instance().link(compile_to_object(writes(1), host_device()))), 1);
}

TEST(Engine, TakesAFatalErrorInsideLlvmForABug) {
  EXPECT_EQ(run(*Engine::instance().link(compile_to_object(writes(2), host_device()))), 2);
  try {
    llvm::report_fatal_error("cannot select", false);
    FAIL() << "returned";
  } catch (const Bug& bug) {
    EXPECT_NE(bug.message().find("LLVM cannot go on: cannot select"), std::string::npos) << bug.message();
  }
  EXPECT_EQ(run(*Engine::instance().link(compile_to_object(writes(3), host_device()))), 3);
}

#if defined(__SANITIZE_ADDRESS__)
TEST(AddressSanitizer, CatchesAKernelThatReadsOneElementTooFar) {
  const Func func = parse_func("func far(x: f32[n + 1], out: f32[1], n: i64) stage end { out[0] = x[n] }");
  auto kernel = Engine::instance().link(compile_to_object(func, host_device()));
  std::vector<float> x(8), out(1);
  void* buffers[] = {x.data(), out.data()};
  LatheContext context{};
  std::int64_t inside = 7, outside = 8;
  EXPECT_EQ(kernel->entry()(&context, buffers, &inside), LATHE_OK);
  EXPECT_DEATH(kernel->entry()(&context, buffers, &outside), "heap-buffer-overflow");
}

TEST(AddressSanitizer, CatchesAVectorStoreThatEndsOneElementTooFar) {
  const Func func = parse_func("func far(out: f32[n], n: i64) stage end { out[ramp(n - 8, 1, 8)] = 1.0f32x8 }");
  auto kernel = Engine::instance().link(compile_to_object(func, host_device()));
  std::vector<float> out(8);
  void* buffers[] = {out.data()};
  LatheContext context{};
  std::int64_t inside = 8, outside = 9;
  EXPECT_EQ(kernel->entry()(&context, buffers, &inside), LATHE_OK);
  EXPECT_DEATH(kernel->entry()(&context, buffers, &outside), "heap-buffer-overflow");
}
#endif

}  // namespace
}  // namespace lathe
