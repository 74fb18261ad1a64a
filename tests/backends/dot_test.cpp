#include <fmt/format.h>

#include <bit>
#include <limits>
#include <random>

#include "backends/cpu/cpu.h"
#include "backends/stages.h"
#include "ir/text/parse.h"
#include "schedule/auto/auto_schedule.h"
#include "tests/backends/harness.h"

/// Dot products: the intrinsic in all its forms, and products of matrices that are scheduled with it.
namespace lathe {
namespace {

using namespace testing;

Bytes random_bytes(size_t count, unsigned seed) {
  std::mt19937 random(seed);
  Bytes bytes(count);
  for (std::byte& byte : bytes) byte = static_cast<std::byte>(random());
  return bytes;
}

/// bf16 numbers from -4 to 4, whose products and sums are exact.
Bytes small_bf16(size_t count, unsigned seed) {
  std::mt19937 random(seed);
  Bytes bytes(2 * count);
  for (size_t i = 0; i < count; ++i) {
    const float value = static_cast<float>(static_cast<int>(random() % 9) - 4);
    std::memcpy(&bytes[2 * i], reinterpret_cast<const std::byte*>(&value) + 2, 2);
  }
  return bytes;
}

TEST(Dot, OfBytesIsTheSumThatItSays) {
  for (const char* a : {"i8", "u8"}) {
    for (const char* b : {"i8", "u8"}) {
      for (const int lanes : {1, 2, 3, 4, 8, 16, 32}) {
        const std::string at = lanes == 1 ? "0" : fmt::format("ramp(0, 1, {})", lanes);
        const Func func =
            parse_func(fmt::format("func f(x: {0}[{2}], y: {1}[{2}], c: i32[{3}]) stage end {{\n"
                                   "  c[{4}] = dot(c[{4}], x[ramp(0, 1, {2})], y[ramp(0, 1, {2})])\n}}",
                                   a, b, 4 * lanes, lanes, at));
        const auto n = static_cast<size_t>(lanes);
        expect_same(func, {random_bytes(4 * n, 1), random_bytes(4 * n, 2), random_bytes(4 * n, 3)});
      }
    }
  }
}

TEST(Dot, OfBytesInWordsIsTheSumThatItSays) {
  for (const char* a : {"i32", "u32"}) {
    for (const char* b : {"i32", "u32"}) {
      for (const int lanes : {1, 2, 3, 4, 8, 16, 32}) {
        const std::string at = lanes == 1 ? "0" : fmt::format("ramp(0, 1, {})", lanes);
        const std::string same = lanes == 1 ? "x[0]" : fmt::format("broadcast(x[0], {})", lanes);
        const Func func =
            parse_func(fmt::format("func f(x: {0}[{2}], y: {1}[{2}], c: i32[{2}]) stage end {{\n"
                                   "  c[{3}] = dot_bytes(dot_bytes(c[{3}], x[{3}], y[{3}]), {4}, y[{3}])\n"
                                   "}}",
                                   a, b, lanes, at, same));
        const auto n = 4 * static_cast<size_t>(lanes);
        expect_same(func, {random_bytes(n, 1), random_bytes(n, 2), random_bytes(n, 3)});
      }
    }
  }
}

TEST(Dot, OfHalvesInWordsIsTheSumThatItSays) {
  for (const int lanes : {1, 2, 3, 4, 8, 16, 32}) {
    const std::string at = lanes == 1 ? "0" : fmt::format("ramp(0, 1, {})", lanes);
    const std::string same = lanes == 1 ? "x[0]" : fmt::format("broadcast(x[0], {})", lanes);
    const Func func =
        parse_func(fmt::format("func f(x: u32[{0}], y: u32[{0}], c: f32[{0}]) stage end {{\n"
                               "  c[{1}] = dot_halves(dot_halves(c[{1}], x[{1}], y[{1}]), {2}, y[{1}])\n"
                               "}}",
                               lanes, at, same));
    const auto n = static_cast<size_t>(lanes);
    expect_same(func, {small_bf16(2 * n, 1), small_bf16(2 * n, 2), Bytes(4 * n)});
  }
}

/// Sums of products, `rounded` to bf16 as they are or after something else.
Func rounded_dots(const std::string& rounded) {
  return parse_func(fmt::format(R"(func f(x: u32[64], y: u32[64], out: bf16[16]) stage end {{
  block scope() {{
    alloc sum: f32[16] @register
    sum[ramp(0, 1, 16)] = 0.0f32x16
    for k in [0, 4) {{
      sum[ramp(0, 1, 16)] = dot_halves(sum[ramp(0, 1, 16)], x[ramp(k * 16, 1, 16)], y[ramp(k * 16, 1, 16)])
    }}
    out[ramp(0, 1, 16)] = cast<bf16>({})
  }}
}}
)",
                                rounded));
}

TEST(Dot, SumsOfHalvesAreRoundedWithoutLookingForDenormals) {
  const Device device = host_device("native");
  const std::string sum = "sum[ramp(0, 1, 16)]";
  for (const std::string& rounded : {sum, sum + " * 0.5f32x16", sum + " + 1.0f32x16"}) {
    const Func func = rounded_dots(rounded);
    expect_same(func, {small_bf16(128, 1), small_bf16(128, 2), Bytes(32)});
    if (!device.has_feature("avx512bf16")) continue;
    const std::string text = assembly_text(func, device);
    EXPECT_EQ(count(text, "vcvtneps2bf16"), 1U) << rounded;
    EXPECT_EQ(count(text, "vfpclassps"), rounded == sum ? 0U : 1U)
        << rounded << ", of which all but the first may be denormals";
  }
}

TEST(Dot, RoundsEachNumberRightBesideDenormals) {
  const float infinity = std::numeric_limits<float>::infinity();
  const auto number = [](std::uint32_t bits) { return std::bit_cast<float>(bits); };
  const std::vector<float> denormals = {1e-39F,         -1e-39F,        number(1), number(0x807fffff),
                                        number(0x8000), number(0x18000)};
  const std::vector<float> others = {1.0F,
                                     -0.0F,
                                     infinity,
                                     -infinity,
                                     number(0x7f800001),
                                     number(0xffc12345),
                                     0.1F,
                                     number(0x3f808000),
                                     number(0x3f818000),
                                     number(0x7f7fffff),
                                     number(0x00800000)};
  for (const int lanes : {4, 8, 16}) {
    std::vector<float> x;
    for (const float denormal : denormals) {
      for (int at = 0; at < lanes; ++at) {
        for (int i = 0; i < lanes; ++i) x.push_back(i == at ? denormal : others[(at + i * 3) % others.size()]);
      }
    }
    const Func func = parse_func(fmt::format(R"(func f(x: f32[{0}], out: bf16[{0}]) stage end {{
  for k in [0, {1}) {{ out[ramp(k * {2}, 1, {2})] = cast<bf16>(x[ramp(k * {2}, 1, {2})]) }}
}})",
                                             x.size(), x.size() / lanes, lanes));
    expect_same(func, {bytes_of(x), Bytes(2 * x.size())});
  }
}

TEST(Dot, WhatIsAddedUpBesideThemKeepsItsDenormals) {
  const Func func = parse_func(R"(
func f(x: f32[64], out: bf16[64]) stage end {
  block scope() {
    alloc sum: f32[16] @register
    sum[ramp(0, 1, 16)] = 0.0f32x16
    for k in [0, 4) {
      out[ramp(k * 16, 1, 16)] = cast<bf16>(sum[ramp(0, 1, 16)])
      sum[ramp(0, 1, 16)] = sum[ramp(0, 1, 16)] + x[ramp(k * 16, 1, 16)]
    }
  }
}
)");
  expect_same(func, {bytes_of(std::vector<float>(64, 1e-39F)), Bytes(128)});
}

TEST(Dot, HalvesAreJoinedWhereverTheyLie) {
  for (const int lanes : {1, 3, 4, 8, 16}) {
    for (const int step : {1, 2}) {
      const auto part = [&](int t) {
        const int first = t * (step == 2 ? 1 : 16);
        return lanes == 1 ? fmt::format("x[{}]", first) : fmt::format("x[ramp({}, {}, {})]", first, step, lanes);
      };
      const Func func =
          parse_func(fmt::format("func f(x: bf16[64], y: u32[16]) stage end {{\n"
                                 "  y[{}] = join_halves<u32{}>({}, {})\n}}",
                                 lanes == 1 ? "0" : fmt::format("ramp(0, 1, {})", lanes),
                                 lanes == 1 ? "" : fmt::format("x{}", lanes), part(0), part(1)));
      expect_same(func, {random_bytes(128, 1), random_bytes(64, 2)});
    }
  }
}

TEST(Dot, HalvesAreJoinedUnderAMask) {
  for (const int lanes : {1, 4, 16}) {
    const auto part = [&](int first) {
      return lanes == 1 ? fmt::format("x[{} if n < 9]", first)
                        : fmt::format("x[ramp({0}, 2, {1}) if ramp(n, 1, {1}) < broadcast(9, {1})]", first, lanes);
    };
    const Func func =
        parse_func(fmt::format("func f(x: bf16[64], y: u32[16]) stage end {{\n"
                               "  for n in [0, 11) {{ y[{}] = join_halves<u32{}>({}, {}) }}\n}}",
                               lanes == 1 ? "0" : fmt::format("ramp(0, 1, {})", lanes),
                               lanes == 1 ? "" : fmt::format("x{}", lanes), part(0), part(1)));
    expect_same(func, {random_bytes(128, 1), random_bytes(64, 2)});
  }
}

TEST(Dot, BytesAreJoinedWhereverTheyLie) {
  const auto joined = [](const char* bytes, const char* dtype, const char* word, int lanes, int step) {
    const auto part = [&](int t) {
      const std::string at = lanes == 1 ? fmt::format("{}", t * (step == 4 ? 1 : 16))
                                        : fmt::format("ramp({}, {}, {})", t * (step == 4 ? 1 : 16), step, lanes);
      return fmt::format(fmt::runtime(bytes), at, lanes == 1 ? "128u8" : fmt::format("broadcast(128u8, {})", lanes));
    };
    return parse_func(
        fmt::format("func f(x: {0}[64], y: {1}[16]) stage end {{\n"
                    "  y[{2}] = join_bytes<{1}{3}>({4}, {5}, {6}, {7})\n}}",
                    dtype, word, lanes == 1 ? "0" : fmt::format("ramp(0, 1, {})", lanes),
                    lanes == 1 ? "" : fmt::format("x{}", lanes), part(0), part(1), part(2), part(3)));
  };
  for (const int lanes : {1, 3, 4, 8, 16}) {
    for (const int step : {1, 4}) {
      expect_same(joined("x[{0}]", "u8", "u32", lanes, step), {random_bytes(64, 1), random_bytes(64, 2)});
      expect_same(joined("x[{0}]", "i8", "i32", lanes, step), {random_bytes(64, 1), random_bytes(64, 2)});
      expect_same(joined("x[{0}] ^ {1}", "u8", "i32", lanes, step), {random_bytes(64, 1), random_bytes(64, 2)});
    }
  }
}

TEST(Dot, OfWordsAndHalvesIsTheSumThatItSays) {
  for (const int lanes : {1, 4, 8, 16, 32}) {
    const std::string at = lanes == 1 ? "0" : fmt::format("ramp(0, 1, {})", lanes);
    const auto n = static_cast<size_t>(lanes);
    const auto func = [&](const char* factor, const char* sum) {
      return parse_func(
          fmt::format("func f(x: {0}[{2}], y: {0}[{2}], c: {1}[{3}]) stage end {{\n"
                      "  c[{4}] = dot(c[{4}], x[ramp(0, 1, {2})], y[ramp(0, 1, {2})])\n}}",
                      factor, sum, 2 * lanes, lanes, at));
    };
    expect_same(func("i16", "i32"), {random_bytes(4 * n, 1), random_bytes(4 * n, 2), random_bytes(4 * n, 3)});
    expect_same(func("bf16", "f32"), {small_bf16(2 * n, 1), small_bf16(2 * n, 2), Bytes(4 * n)});
  }
}

TEST(Dot, TakesAFactorThatIsTheSameInEveryLane) {
  const Func func = parse_func(R"(func f(x: i8[4], y: i8[64], c: i32[16]) stage end {
  c[ramp(0, 1, 16)] = dot(c[ramp(0, 1, 16)], shuffle([x[ramp(0, 1, 4)]], [0, 1, 2, 3, 0, 1, 2, 3, 0, 1, 2, 3, 0, 1, 2, 3,
      0, 1, 2, 3, 0, 1, 2, 3, 0, 1, 2, 3, 0, 1, 2, 3, 0, 1, 2, 3, 0, 1, 2, 3, 0, 1, 2, 3, 0, 1, 2, 3,
      0, 1, 2, 3, 0, 1, 2, 3, 0, 1, 2, 3, 0, 1, 2, 3]), y[ramp(0, 1, 64)])
})");
  expect_same(func, {random_bytes(4, 1), random_bytes(64, 2), random_bytes(64, 3)});
}

TEST(Dot, WovenVectorsLieSideBySide) {
  const Func func = parse_func(R"(func f(x: i8[32], y: i8[32]) stage end {
  y[ramp(0, 1, 32)] = shuffle([x[ramp(0, 1, 8)], x[ramp(8, 1, 8)], x[ramp(16, 1, 8)], x[ramp(24, 1, 8)]],
      [0, 8, 16, 24, 1, 9, 17, 25, 2, 10, 18, 26, 3, 11, 19, 27, 4, 12, 20, 28, 5, 13, 21, 29, 6, 14, 22, 30, 7, 15, 23, 31])
})");
  expect_same(func, {random_bytes(32, 1), Bytes(32)});
}

TEST(Emission, SumsOfProductsOfBytesAreWhole) {
  for (const int lanes : {4, 8, 16, 32}) {
    const Func func = parse_func(fmt::format(R"(func f(x: u8[{0}], y: i8[{0}], c: i32[1]) stage end {{
  c[0] = reduce_add(cast<i32>(x[ramp(0, 1, {0})]) * cast<i32>(y[ramp(0, 1, {0})]))
}})",
                                             lanes));
    const auto n = static_cast<size_t>(lanes);
    expect_same(func, {random_bytes(n, 1), random_bytes(n, 2), Bytes(4)});
  }
}

Func product(const char* a, const char* b, const char* c, int m, int n, int k) {
  return parse_func(fmt::format(R"(func product(x: {0}[{3}, {5}], y: {1}[{5}, {4}], out: {2}[{3}, {4}]) stage begin {{
  for i in [0, {3}) {{ for j in [0, {4}) {{ for k in [0, {5}) {{
    block dot(space vi in [0, {3}) = i, space vj in [0, {4}) = j, reduce vk in [0, {5}) = k)
        reads x[vi, vk], y[vk, vj], out[vi, vj] writes out[vi, vj] {{
      reducer (lhs: {2}) (rhs: {2}) {{lhs + rhs}} identity {{0{6}}}
      init {{ out[vi, vj] = 0{6} }}
      let l: {2} = out[vi, vj]
      let r: {2} = cast<{2}>(x[vi, vk]) * cast<{2}>(y[vk, vj])
      out[vi, vj] = l + r }} }} }} }} }})",
                                a, b, c, m, n, k, std::string(c) == "f32" ? ".0f32" : c));
}

size_t area(int rows, int columns) {
  return static_cast<size_t>(rows) * static_cast<size_t>(columns);
}

Func scheduled_and_lowered(const Func& func, const Device& device) {
  register_cpu();
  return lower(auto_schedule(func, device), device, find_pipeline("cpu"));
}

TEST(Dot, ProductsOfMatricesOfBytesAreExact) {
  for (const char* a : {"i8", "u8"}) {
    for (const char* b : {"i8", "u8"}) {
      for (const auto& [m, n, k] :
           {std::tuple(8, 32, 16), {9, 33, 13}, {4, 7, 5}, {17, 16, 127}, {64, 48, 4}, {5, 2, 3}}) {
        const Func func = product(a, b, "i32", m, n, k);
        const Bytes x = random_bytes(area(m, k), 1), y = random_bytes(area(k, n), 2);
        const Bytes out(4 * area(m, n));
        const Outcome expected = run_interpreted(func, {x, y, out});
        for (auto& [name, device] : devices()) {
          const Func lowered = scheduled_and_lowered(func, device);
          EXPECT_EQ(run_interpreted(lowered, {x, y, out}).buffers[2], expected.buffers[2]) << name;
          EXPECT_EQ(run_compiled(lowered, device, {x, y, out}).buffers[2], expected.buffers[2])
              << name << " " << a << " " << b << " " << m << " " << n << " " << k;
        }
      }
    }
  }
}

TEST(Dot, ProductsOfMatricesOfBf16AreExactWhereRoundingIsNot) {
  for (const auto& [m, n, k] : {std::tuple(8, 32, 16), {9, 33, 13}, {17, 16, 127}, {64, 48, 2}}) {
    const Func func = product("bf16", "bf16", "f32", m, n, k);
    const Bytes x = small_bf16(area(m, k), 1), y = small_bf16(area(k, n), 2);
    const Bytes out(4 * area(m, n));
    const Outcome expected = run_interpreted(func, {x, y, out});
    for (auto& [name, device] : devices()) {
      const Func lowered = scheduled_and_lowered(func, device);
      EXPECT_EQ(run_compiled(lowered, device, {x, y, out}).buffers[2], expected.buffers[2]) << name << m << n << k;
    }
  }
}

Func convolution(const char* a, const char* b, int channels, int size, int filters, int taps, int stride) {
  const int rows = (size - taps) / stride + 1;
  const std::string sum = std::string(a) == "bf16" ? "f32" : "i32", zero = sum == "f32" ? "0.0f32" : "0i32";
  return parse_func(fmt::format(
      R"(func f(x: {0}[{2}, {3}, {3}], w: {1}[{4}, {2}, {5}, {5}], out: {8}[{4}, {7}, {7}]) stage begin {{
  for f in [0, {4}) {{ for i in [0, {7}) {{ for j in [0, {7}) {{
    for c in [0, {2}) {{ for r in [0, {5}) {{ for s in [0, {5}) {{
    block sum(space vf in [0, {4}) = f, space vi in [0, {7}) = i, space vj in [0, {7}) = j, reduce vc in [0, {2}) = c,
        reduce vr in [0, {5}) = r, reduce vs in [0, {5}) = s)
        reads x[vc, vi * {6} + vr, vj * {6} + vs], w[vf, vc, vr, vs], out[vf, vi, vj] writes out[vf, vi, vj] {{
      reducer (lhs: {8}) (rhs: {8}) {{lhs + rhs}} identity {{{9}}}
      init {{ out[vf, vi, vj] = {9} }}
      let sums: {8} = out[vf, vi, vj]
      let term: {8} = cast<{8}>(x[vc, vi * {6} + vr, vj * {6} + vs]) * cast<{8}>(w[vf, vc, vr, vs])
      out[vf, vi, vj] = sums + term }} }} }} }} }} }} }} }})",
      a, b, channels, size, filters, taps, stride, rows, sum, zero));
}

TEST(Dot, ConvolutionsOfBytesAreExact) {
  for (const char* a : {"i8", "u8"}) {
    for (const char* b : {"i8", "u8"}) {
      for (const auto& [channels, size, filters, taps, stride] :
           {std::tuple(8, 9, 10, 3, 1), {3, 12, 9, 3, 2}, {13, 6, 17, 2, 1}, {4, 20, 16, 1, 1}}) {
        const Func func = convolution(a, b, channels, size, filters, taps, stride);
        const auto shape = buffer_params(func);
        const auto bytes = [](const Buffer& buffer) {
          size_t count = static_cast<size_t>(buffer->dtype.bytes());
          for (const Expr& extent : buffer->shape) count *= static_cast<size_t>(*as_int(extent));
          return count;
        };
        const std::vector<Bytes> arrays = {random_bytes(bytes(shape[0]), 1), random_bytes(bytes(shape[1]), 2),
                                           Bytes(bytes(shape[2]))};
        const Outcome expected = run_interpreted(func, arrays);
        for (auto& [name, device] : devices()) {
          const Func lowered = scheduled_and_lowered(func, device);
          if (!device.intrinsics.empty()) {
            EXPECT_NE(print(lowered).find("dot_bytes("), std::string::npos) << name;
          }
          EXPECT_EQ(run_interpreted(lowered, arrays).buffers[2], expected.buffers[2]) << name;
          EXPECT_EQ(run_compiled(lowered, device, arrays).buffers[2], expected.buffers[2])
              << name << " " << a << " " << b << " " << channels << " " << size << " " << taps << " " << stride;
        }
      }
    }
  }
}

TEST(Dot, ConvolutionsOfBf16AreExactWhereRoundingIsNot) {
  for (const auto& [channels, size, filters, taps, stride] :
       {std::tuple(8, 9, 10, 3, 1), {3, 12, 9, 3, 2}, {13, 6, 17, 2, 1}, {4, 20, 16, 1, 1}}) {
    const Func func = convolution("bf16", "bf16", channels, size, filters, taps, stride);
    const auto shape = buffer_params(func);
    const auto elements = [](const Buffer& buffer) {
      size_t count = 1;
      for (const Expr& extent : buffer->shape) count *= static_cast<size_t>(*as_int(extent));
      return count;
    };
    const std::vector<Bytes> arrays = {small_bf16(elements(shape[0]), 1), small_bf16(elements(shape[1]), 2),
                                       Bytes(4 * elements(shape[2]))};
    const Outcome expected = run_interpreted(func, arrays);
    for (auto& [name, device] : devices()) {
      const Func lowered = scheduled_and_lowered(func, device);
      if (device.has_feature("avx512bf16")) {
        EXPECT_NE(print(lowered).find("dot_halves("), std::string::npos) << name;
      }
      EXPECT_EQ(run_interpreted(lowered, arrays).buffers[2], expected.buffers[2]) << name;
      EXPECT_EQ(run_compiled(lowered, device, arrays).buffers[2], expected.buffers[2]) << name << " " << channels;
    }
  }
}

TEST(Dot, TilesOfBytesBecomeInstructions) {
  const Func func = product("i8", "i8", "i32", 16, 32, 64);
  for (auto& [name, device] : devices()) {
    if (device.intrinsics.empty()) continue;
    const std::string lowered = print(scheduled_and_lowered(func, device));
    EXPECT_NE(lowered.find("dot("), std::string::npos) << name << "\n" << lowered;
    EXPECT_EQ(lowered.find("tensorize"), std::string::npos) << name << "\n" << lowered;
  }
}

}  // namespace
}  // namespace lathe
