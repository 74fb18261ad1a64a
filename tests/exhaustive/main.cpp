/// Checks the vector math against MPFR: every f32 input of each one-argument function, and seeded pairs for pow. Prints
/// the largest error of each with its argument, and fails above 2 ULP. With --stride only every N-th input (a prime is
/// best), and as many times fewer pairs.
#include <fmt/format.h>

#include <atomic>
#include <bit>
#include <chrono>
#include <cmath>
#include <cstring>
#include <functional>
#include <limits>
#include <mutex>
#include <random>
#include <string>
#include <thread>
#include <tuple>
#include <vector>

#include "backends/cpu/cpu.h"
#include "tests/exhaustive/kernel.h"
#include "tests/exhaustive/reference.h"

// The compiler makes vectors of a loop only when asked, and only of the baseline's width. The choice between clones
// runs before a sanitizer is ready, so a sanitized build does without.
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && !defined(__SANITIZE_ADDRESS__) && \
    !defined(__SANITIZE_THREAD__)
#define LATHE_EVERY_VECTOR_WIDTH \
  __attribute__((optimize("O3"), target_clones("arch=skylake-avx512", "avx2", "default")))
#else
#define LATHE_EVERY_VECTOR_WIDTH
#endif

namespace lathe::exhaustive {
namespace {

constexpr double allowed = 2.0;
constexpr std::int64_t block = 1 << 12;

struct Worst {
  double error = 0;
  float x = 0, y = 0, got = 0;
};

/// Calls f(block number, the thread's own worst) for every block on all threads; the greatest of the worsts.
Worst over_blocks(std::int64_t blocks, const std::function<void(std::int64_t, Worst&)>& f) {
  std::atomic<std::int64_t> next = 0;
  std::mutex mutex;
  Worst worst;
  std::vector<std::thread> threads;
  for (unsigned t = 0; t < std::max(1u, std::thread::hardware_concurrency()); ++t) {
    threads.emplace_back([&] {
      Worst own;
      for (std::int64_t i; (i = next++) < blocks;) f(i, own);
      mpfr_free_cache();  // each thread has its own constants
      std::lock_guard lock(mutex);
      if (own.error > worst.error) worst = own;
    });
  }
  for (std::thread& thread : threads) thread.join();
  return worst;
}

/// What a block of results is measured against first: the same function in f64, an f64 ULP being 2^-29 of an f32's.
/// MPFR has the word wherever that could be the greatest error yet, and on one input in `sampled` anyway, which keeps
/// the f64 function honest.
constexpr double doubt = 0x1p-20;
constexpr std::int64_t sampled = 4096;

/// The errors of `got` against `truth` in units of the f32 spacing at the truth; 0 where got is the truth rounded. Not
/// below anything (infinite or NaN) where no distance describes the difference.
LATHE_EVERY_VECTOR_WIDTH
void measure(const float* got, const double* truth, double* error) {
  for (std::int64_t i = 0; i < block; ++i) {
    const auto rounded = static_cast<float>(truth[i]);
    const auto image = static_cast<std::int64_t>(std::bit_cast<std::uint64_t>(truth[i]));
    std::int64_t spacing = (image >> 52 & 0x7ff) - 1046;
    spacing = spacing < -149 ? -149 : spacing;
    spacing = spacing > 104 ? 104 : spacing;
    const double inverse = std::bit_cast<double>((1023 - spacing) << 52);
    const double difference = std::abs(static_cast<double>(got[i]) - truth[i]) * inverse;
    const bool same = (std::bit_cast<std::uint32_t>(rounded) == std::bit_cast<std::uint32_t>(got[i])) |
                      ((rounded != rounded) & (got[i] != got[i]));
    error[i] = same ? 0 : truth[i] == 0 ? std::numeric_limits<double>::infinity() : difference;
  }
}

/// The greatest error of a block, by MPFR: exact(i) gives it for one input.
template <class Exact>
void take(Worst& worst, const float* got, const double* truth, std::int64_t number, const Exact& exact) {
  std::vector<double> error(block);
  measure(got, truth, error.data());
  for (std::int64_t i = 0; i < block; ++i) {
    const bool sample = (number * block + i) % sampled == 0;
    if ((error[i] == 0 || error[i] <= worst.error - doubt) && !sample) continue;  // 0: the truth rounded
    const Worst found = exact(i);
    if (found.error > worst.error) worst = found;
  }
}

/// Arguments that a stride would miss.
const std::vector<float> special = {0.0f,
                                    -0.0f,
                                    1.0f,
                                    -1.0f,
                                    2.0f,
                                    -2.0f,
                                    0.5f,
                                    3.0f,
                                    -3.0f,
                                    1e-45f,
                                    -1e-45f,
                                    INFINITY,
                                    -INFINITY,
                                    NAN,
                                    2.5f,
                                    -2.5f,
                                    1e10f,
                                    -1e5f,
                                    100001,
                                    88.72f,
                                    88.73f,
                                    -87.4f,
                                    -103.9f,
                                    -104,
                                    128,
                                    -149,
                                    -150,
                                    -151,
                                    9.02f,
                                    16,
                                    -16,
                                    3.9f,
                                    -5,
                                    0x1p24f,
                                    0x1p23f,
                                    0x1p-126f,
                                    0x1.fffffep23f,
                                    0x1.fffffep127f,
                                    -0x1.fffffep127f,
                                    0x1.fffffep-1f,
                                    0x1.000002p0f,
                                    0x1.fffffcp-127f,
                                    -0x1.fffffcp-127f};

Worst check_function(const Function& function, const Device& device, std::int64_t stride) {
  const Device host = host_device();
  const ElementwiseKernel kernel(function.op, f32, device, device.lanes(32));
  const ElementwiseKernel reference(function.op, f64, host, host.lanes(64));
  const std::int64_t inputs = (std::int64_t{1} << 32) / stride;
  return over_blocks((inputs + block - 1) / block, [&](std::int64_t number, Worst& worst) {
    std::vector<float> in(block), out(block);
    std::vector<double> wide(block), truth(block);
    for (std::int64_t i = 0; i < block; ++i)
      in[i] = std::bit_cast<float>(static_cast<std::uint32_t>((number * block + i) * stride));
    if (stride > 1 && number == 0) std::copy(special.begin(), special.end(), in.begin());
    kernel(out.data(), {in.data()}, block);
    std::copy(in.begin(), in.end(), wide.begin());
    reference(truth.data(), {wide.data()}, block);
    take(worst, out.data(), truth.data(), number,
         [&](std::int64_t i) { return Worst{exact_error(function, in[i], out[i]), in[i], 0, out[i]}; });
  });
}

/// A pair of one of the kinds in which pow behaves differently.
std::pair<float, float> pow_arguments(std::mt19937_64& random) {
  const std::uint64_t bits = random();
  const auto any = [&](std::uint64_t b) { return std::bit_cast<float>(static_cast<std::uint32_t>(b)); };
  const auto pick = [&](std::uint64_t b) { return special[b % special.size()]; };
  const float uniform = static_cast<float>(static_cast<std::int32_t>(bits >> 32)) * 0x1p-31f;  // in [-1, 1)
  switch (bits % 8) {
    case 0:
      return {any(bits >> 32), any(random())};
    case 1:
      return {pick(bits >> 8), pick(bits >> 32)};
    case 2:
      return {pick(bits >> 8), any(random())};
    case 3:
      return {any(bits >> 32), pick(bits >> 8)};
    case 4:
      return {any(bits >> 32), std::round(static_cast<float>(random() % 64) - 32)};
    case 5:
      return {1.0f + uniform * 0x1p-8f,
              std::ldexp(static_cast<float>(random() % 65536) - 32768, static_cast<int>(random() % 8))};
    default: {
      // A result spread evenly over the exponents, denormals and both overflows included.
      const float x = std::bit_cast<float>(static_cast<std::uint32_t>(random() & 0x7fffffff));
      return {x, uniform * 160 / std::log2(x)};
    }
  }
}

/// Points in every direction, near to the axes and to the diagonals too.
std::pair<float, float> atan2_arguments(std::mt19937_64& random) {
  const auto any = [&] { return std::bit_cast<float>(static_cast<std::uint32_t>(random())); };
  const auto pick = [&] { return special[random() % special.size()]; };
  switch (random() % 8) {
    case 0:
      return {any(), any()};
    case 1:
      return {pick(), pick()};
    case 2:
      return {pick(), any()};
    case 3:
      return {any(), pick()};
    default: {
      const float x = any(), uniform = static_cast<float>(static_cast<std::int32_t>(random() >> 32)) * 0x1p-31f;
      return {x * std::ldexp(uniform, 4 - static_cast<int>(random() % 24)), x};
    }
  }
}

/// Of a function of two arguments, on pairs that are drawn.
Worst check_pairs(BinaryOp op, Exact2 exact, std::pair<float, float> (*arguments)(std::mt19937_64&),
                  const Device& device, std::int64_t pairs) {
  const Device host = host_device();
  const ElementwiseKernel kernel(op, f32, device, device.lanes(32));
  const ElementwiseKernel reference(op, f64, host, host.lanes(64));
  return over_blocks((pairs + block - 1) / block, [&](std::int64_t number, Worst& worst) {
    std::mt19937_64 random(20240601 + static_cast<std::uint64_t>(number));
    std::vector<float> x(block), y(block), out(block);
    std::vector<double> truth(block);
    for (std::int64_t i = 0; i < block; ++i) std::tie(x[i], y[i]) = arguments(random);
    kernel(out.data(), {x.data(), y.data()}, block);
    const std::vector<double> wide_x(x.begin(), x.end()), wide_y(y.begin(), y.end());
    reference(truth.data(), {wide_x.data(), wide_y.data()}, block);
    take(worst, out.data(), truth.data(), number,
         [&](std::int64_t i) { return Worst{exact_error(exact, x[i], y[i], out[i]), x[i], y[i], out[i]}; });
  });
}

}  // namespace

int run(std::int64_t stride, const std::string& only) {
  const std::string levels[] = {"native", "baseline", "avx2"};
  bool failed = false;
  std::string last;
  for (const std::string& level : levels) {
    const Device device = host_device(level);
    if (device.fingerprint() == last) continue;
    last = device.fingerprint();
    const auto report = [&](const std::string& name, const std::function<Worst()>& check, bool two) {
      if (!only.empty() && only != name) return;
      const auto start = std::chrono::steady_clock::now();
      const Worst worst = check();
      const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
      failed |= !(worst.error <= allowed);
      fmt::print("{:9} {:8} {:2} lanes  largest error {:.4f} ULP at {}{} = {:a}  {:.0f} s{}\n", level, name,
                 device.lanes(32), worst.error, fmt::format("{:a}", worst.x), two ? fmt::format(", {:a}", worst.y) : "",
                 worst.got, seconds, worst.error <= allowed ? "" : "  FAILED");
      std::fflush(stdout);
    };
    for (const Function& function : own_functions()) {
      report(function.name, [&] { return check_function(function, device, stride); }, false);
    }
    const std::int64_t pairs = 1'000'000'000 / stride;
    report("pow", [&] { return check_pairs(BinaryOp::pow, mpfr_pow, pow_arguments, device, pairs); }, true);
    report("atan2", [&] { return check_pairs(BinaryOp::atan2, mpfr_atan2, atan2_arguments, device, pairs); }, true);
  }
  return failed ? 1 : 0;
}

}  // namespace lathe::exhaustive

int main(int argc, char** argv) {
  std::int64_t stride = 1;
  std::string only;
  for (int i = 1; i < argc; ++i) {
    if (!std::strcmp(argv[i], "--stride") && i + 1 < argc) {
      stride = std::strtoll(argv[++i], nullptr, 10);
    } else if (!std::strcmp(argv[i], "--function") && i + 1 < argc) {
      only = argv[++i];
    } else {
      stride = 0;
    }
  }
  if (stride < 1) {
    fmt::print(stderr, "usage: test_exhaustive [--stride N] [--function NAME]\n");
    return 2;
  }
  return lathe::exhaustive::run(stride, only);
}
