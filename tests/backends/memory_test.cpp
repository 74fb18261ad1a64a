#include <fmt/format.h>

#include <regex>
#include <set>

#include "ir/passes/flatten_buffers.h"
#include "ir/passes/plan_storage.h"
#include "tests/backends/harness.h"

/// Loads and stores of every shape of index, with and without masks, against the interpreter.
namespace lathe {
namespace {

using namespace testing;

std::vector<std::int64_t> shuffled(int count) {
  std::vector<std::int64_t> result(count);
  for (int i = 0; i < count; ++i) result[i] = (i * 37 + 11) % count;
  return result;
}

TEST(Memory, RampsOfEveryStride) {
  for (const char* stride : {"0", "1", "-1", "2", "3", "4", "5", "-2", "-7", "s"}) {
    for (int lanes : {2, 4, 8, 16}) {
      // Base 120 leaves room for 16 lanes at strides from -7 to 8.
      const Func func = parse_func(fmt::format(R"(
func strided(x: f32[256], out: f32[256], s: i64) stage end {{
  out[ramp(0, 1, {0})] = x[ramp(120, {1}, {0})]
  out[ramp(120, {1}, {0})] = x[ramp(0, 1, {0})] + 1.0f32x{0}
}}
)",
                                               lanes, stride));
      expect_same(func, {bytes_of(floats(256)), bytes_of(floats(256))}, {8});
    }
  }
}

TEST(Memory, MaskedAccessesTouchNoOtherLane) {
  for (const char* stride : {"0", "1", "-1", "2", "-3", "s"}) {
    for (const char* element : {"f32", "f64", "i8", "bf16", "bool", "i64"}) {
      const std::string text = fmt::format(R"(
func masked(x: {1}[32], m: bool[8], out: {1}[32], back: {1}[32], s: i64) stage end {{
  out[ramp(0, 1, 8)] = x[ramp(24, {0}, 8) if m[ramp(0, 1, 8)]]
  back[ramp(24, {0}, 8) if m[ramp(0, 1, 8)]] = x[ramp(0, 1, 8)]
}}
)",
                                           stride, element);
      const Func func = parse_func(text);
      const size_t size = buffer_params(func)[0]->dtype.bytes();
      Bytes x(32 * size), out(32 * size);
      for (size_t i = 0; i < x.size(); ++i) x[i] = std::byte(std::string(element) == "bool" ? i % 3 == 0 : i % 120);
      // The lanes that are on stay inside 32 elements for every stride; those that are off would not.
      const std::vector<std::uint8_t> mask =
          std::string(stride) == "1" || std::string(stride) == "2" || std::string(stride) == "s"
              ? std::vector<std::uint8_t>{1, 0, 1, 1, 0, 0, 0, 0}
              : std::vector<std::uint8_t>{1, 0, 1, 1, 0, 0, 1, 1};
      expect_same(func, {x, bytes_of(mask), out, out}, {2});
    }
  }
}

TEST(Memory, MaskedAccessesWithGapsTouchNothingBetween) {
  for (const int stride : {2, 3, 4}) {
    for (const char* element : {"f32", "f64", "i32", "i8", "bool"}) {
      for (const int lanes : {4, 8, 16}) {
        // From the first element to the last one.
        const int size = (lanes - 1) * stride + 1;
        const Func func = parse_func(fmt::format(R"(
func gaps(x: {1}[{3}], m: bool[{2}], out: {1}[{3}], back: {1}[{3}]) stage end {{
  out[ramp(0, 1, {2})] = x[ramp(0, {0}, {2}) if m[ramp(0, 1, {2})]]
  back[ramp(0, {0}, {2}) if m[ramp(0, 1, {2})]] = x[ramp(0, 1, {2})]
}}
)",
                                                 stride, element, lanes, size));
        const size_t bytes = buffer_params(func)[0]->dtype.bytes();
        Bytes x(static_cast<size_t>(size) * bytes), out(x.size());
        for (size_t i = 0; i < x.size(); ++i) x[i] = std::byte(std::string(element) == "bool" ? i % 3 == 0 : i % 120);
        for (const int pattern : {0xffff, 0x5bad, 0x8001, 0}) {
          std::vector<std::uint8_t> mask(static_cast<size_t>(lanes));
          for (size_t i = 0; i < mask.size(); ++i) mask[i] = static_cast<std::uint8_t>(pattern >> i & 1);
          expect_same(func, {x, bytes_of(mask), out, out});
        }
      }
    }
  }
}

/// The alias scopes of a kernel that sums into one temporary beside another, `offset` elements behind it.
size_t scopes_of_temporaries(int offset) {
  const Func func = parse_func(fmt::format(R"(
func sums(x: f32[64], out: f32[64]) stage end
    memory {{
      mean: f32[4] offset 0 align 64
      sums: f32[4] offset {} align 64
    }}
{{
  mean[0] = x[0]
  for i in [0, 4) {{
    for j in [0, 64) {{
      sums[i] = sums[i] + (x[j] - mean[0])
    }}
    out[i] = sums[i]
  }}
}}
)",
                                           offset));
  const std::string text = llvm_ir_text(func, host_device("native"));
  std::set<std::string> scopes;
  const std::regex scope("!alias.scope !([0-9]+)");
  for (std::sregex_iterator found(text.begin(), text.end(), scope), end; found != end; ++found)
    scopes.insert((*found)[1]);
  return scopes.size();
}

TEST(Memory, TellsTemporariesApartThatShareNoByte) {
  EXPECT_EQ(scopes_of_temporaries(16), 4u);
  EXPECT_EQ(scopes_of_temporaries(0), 3u) << "the planner gives places by turns";
  EXPECT_EQ(scopes_of_temporaries(3), 3u) << "they share an element";
}

TEST(Memory, AMaskedTailMayEndAtTheBuffersLastElement) {
  const Func func = parse_func(R"(
func tail(x: f32[n], out: f32[n], n: i64) stage end facts {n in [0, ]} {
  for i in [0, (n + 15) // 16) {
    out[ramp(i * 16, 1, 16) if ramp(i * 16, 1, 16) < broadcast(n, 16)] = x[ramp(i * 16, 1, 16) if ramp(i * 16, 1, 16) < broadcast(n, 16)] * 2.0f32x16
  }
}
)");
  for (int n : {0, 1, 15, 16, 17, 31, 40}) expect_same(func, {bytes_of(floats(n)), bytes_of(floats(n))}, {n});
}

/// A value may be carried from a masked store to a load only where mask, place and what was stored since allow it.
TEST(Memory, LoadsBehindAMaskedStoreSeeWhatIsInMemory) {
  const std::string mask = "ramp(0, 1, 8) < broadcast(n, 8)";
  for (const std::string& between :
       std::vector<std::string>{"", "out[ramp(2, 1, 4)] = x[ramp(20, 1, 4)]", "back[3] = 7.0f32"}) {
    for (const std::string& load :
         {"out[ramp(0, 1, 8) if " + mask + "]", "out[ramp(1, 1, 8) if " + mask + "]", std::string("out[ramp(0, 1, 8)]"),
          std::string("out[ramp(0, 1, 8) if ramp(0, 1, 8) < broadcast(m, 8)]")}) {
      const Func func = parse_func(fmt::format(R"(
func behind(x: f32[32], out: f32[32], back: f32[32], n: i64, m: i64) stage end facts {{n in [0, 8], m in [0, 8]}} {{
  out[ramp(0, 1, 8) if {}] = x[ramp(4, 1, 8)]
  {}
  back[ramp(8, 1, 8)] = {} + 1.0f32x8
}}
)",
                                               mask, between, load));
      for (int n : {0, 3, 5, 8})
        for (int m : {0, 4, 8})
          expect_same(func, {bytes_of(floats(32)), bytes_of(floats(32)), bytes_of(floats(32))}, {n, m});
    }
  }
}

TEST(Memory, GathersAndScatters) {
  for (const char* element : {"f32", "f64", "i8", "u16", "bool", "f16", "i64"}) {
    const Func func = parse_func(fmt::format(R"(
func gather(x: {0}[64], k: i64[64], m: bool[64], out: {0}[64], back: {0}[64], small: i32[64]) stage end {{
  for i in [0, 8) {{
    out[ramp(i * 8, 1, 8)] = x[k[ramp(i * 8, 1, 8)] if m[ramp(i * 8, 1, 8)]]
    back[k[ramp(i * 8, 1, 8)] if m[ramp(i * 8, 1, 8)]] = x[ramp(i * 8, 1, 8)]
    out[k[i]] = x[k[i + 1]]
    out[ramp(0, 1, 4)] = x[cast<i64>(small[ramp(0, 1, 4)])]
  }}
}}
)",
                                             element));
    const size_t size = buffer_params(func)[0]->dtype.bytes();
    Bytes x(64 * size), out(64 * size);
    for (size_t i = 0; i < x.size(); ++i) x[i] = std::byte(std::string(element) == "bool" ? i % 3 == 0 : i * 7 % 120);
    std::vector<std::uint8_t> mask(64);
    for (int i = 0; i < 64; ++i) mask[i] = i % 5 != 2;
    std::vector<std::int32_t> small(64);
    for (int i = 0; i < 64; ++i) small[i] = 63 - i;
    expect_same(func, {x, bytes_of(shuffled(64)), bytes_of(mask), out, out, bytes_of(small)});
  }
}

TEST(Memory, OneElementForAllLanesIsLoadedOnce) {
  const Func func = parse_func(R"(
func one(x: f32[4], out: f32[8], n: i64) stage end facts {n in [0, 8]} {
  out[ramp(0, 1, 8) if ramp(0, 1, 8) < broadcast(n, 8)] = x[2i64x8 if ramp(0, 1, 8) < broadcast(n, 8)]
}
)");
  for (int n : {0, 1, 5, 8}) expect_same(func, {bytes_of(floats(4)), bytes_of(floats(8))}, {n});
  const std::string text = llvm_ir_text(func, host_device("native"));
  EXPECT_EQ(count(text, "= load float"), 0u) << text;
  EXPECT_EQ(count(text, "call <1 x float> @llvm.masked.load"), 1u) << text;
}

/// All lanes or none of what may not be there, as of rows that are stacked.
TEST(Memory, LanesUnderOneConditionAreOneLoad) {
  for (const char* element : {"i8", "u16", "bf16", "f16", "bool", "f32", "i64"}) {
    for (int lanes : {2, 8, 24}) {
      const Func func = parse_func(fmt::format(R"(
func rows(x: {0}[{1}], out: {0}[{2}], n: i64) stage end facts {{n in [0, 3]}} {{
  for i in [0, 4) {{
    out[ramp(i * {1}, 1, {1})] = x[ramp((i - n) * {1}, 1, {1}) if broadcast(i == n, {1})]
  }}
}}
)",
                                               element, lanes, 4 * lanes));
      const size_t size = buffer_params(func)[0]->dtype.bytes() * static_cast<size_t>(lanes);
      Bytes x(size);
      for (size_t i = 0; i < size; ++i) x[i] = std::byte(std::string(element) == "bool" ? i % 3 == 0 : i % 120 + 1);
      for (int n : {0, 3}) expect_same(func, {x, Bytes(4 * size)}, {n});
      // A masked load of a page that is not there takes long, even with all lanes off.
      if (lanes != 8 || std::string(element) == "bool") continue;
      for (const char* features : {"avx2", "native"}) {
        const std::string text = llvm_ir_text(func, host_device(features));
        EXPECT_EQ(count(text, "@llvm.masked.load"), 0u) << features << text;
      }
    }
  }
}

TEST(Memory, NoInstructionGathers) {
  const Func func = parse_func(R"(
func pick(x: f32[64], out: f32[8], s: i64, n: i64) stage end facts {n in [0, 8]} {
  out[ramp(0, 1, 8)] = x[ramp(0, s, 8) if ramp(0, 1, 8) < broadcast(n, 8)]
}
)");
  for (int n : {0, 1, 5, 8}) expect_same(func, {bytes_of(floats(64)), bytes_of(floats(8))}, {8, n});
  EXPECT_EQ(count(llvm_ir_text(func, host_device("native")), "gather"), 0u);
}

TEST(Memory, ScatteredLanesThatMeetKeepTheirOrder) {
  const Func func = parse_func(R"(
func meet(k: i64[8], out: i32[8]) stage end {
  out[k[ramp(0, 1, 8)]] = cast<i32>(ramp(0, 1, 8))
  out[ramp(6, 0, 8)] = cast<i32>(ramp(10, 1, 8))
}
)");
  expect_same(func, {bytes_of(std::vector<std::int64_t>{0, 1, 0, 3, 3, 0, 5, 5}), Bytes(32)});
}

TEST(Memory, WorkspacesOfTheCallAndOfTheWorker) {
  const Func func = parse_func(R"(
func spaces(x: f32[64], out: f32[64]) stage end attrs {shared_bytes: 256, worker_bytes: 128}
    memory {
      t: f32[64] @global align 64
      w: f32[32] @worker align 64
    }
{
  for i in [0, 64) {
    t[i] = x[i] * 2.0f32
  }
  parallel for j in [0, 2) @{parallel_grain: 1} {
    for i in [0, 32) {
      w[i] = t[j * 32 + i] + 1.0f32
    }
    for i in [0, 32) {
      out[j * 32 + i] = w[31 - i]
    }
  }
}
)");
  expect_same(func, {bytes_of(floats(64)), bytes_of(floats(64))});
}

TEST(Memory, WorkspacesLieAtTheAlignmentThatTheirBuffersWant) {
  const Func func = parse_func(R"(
func aligned(x: f32[64], out: f32[64]) stage before_flatten
{
  block () {
    alloc t: f32[64] align 1024
    for i in [0, 64) {
      t[i] = x[63 - i] * 2.0f32
    }
    parallel for j in [0, 2) @{parallel_grain: 1} {
      block () {
        alloc w: f32[32] align 512
        for i in [0, 32) {
          w[31 - i] = t[j * 32 + i] + 1.0f32
        }
        assert (&w[0] & 511u64) == 0u64, "aligned|w|its address"
        assert (&t[0] & 1023u64) == 0u64, "aligned|t|its address"
        for i in [0, 32) {
          out[j * 32 + i] = w[i]
        }
      }
    }
  }
}
)");
  const Func planned = plan_storage(func, Device{});
  EXPECT_EQ(std::get<std::int64_t>(planned->attrs.at("shared_align")), 1024);
  EXPECT_EQ(std::get<std::int64_t>(planned->attrs.at("worker_align")), 512);
  EXPECT_EQ(std::get<std::int64_t>(planned->attrs.at("shared_bytes")), 256 + 1024 - 64);
  const Func flat = with_stage(flatten_buffers(planned), Stage::end);
  const std::vector<float> x = floats(64);
  std::vector<float> expected(64);
  for (int i = 0; i < 64; ++i) expected[i / 32 * 32 + 31 - i % 32] = x[63 - i] * 2.0f + 1.0f;
  for (auto& [name, device] : devices()) {
    const Outcome outcome = run_compiled(flat, device, {bytes_of(x), bytes_of(x)}, {}, 2);
    EXPECT_EQ(outcome.status, 0) << name << outcome.message;
    EXPECT_EQ(outcome.buffers[1], bytes_of(expected)) << name;
  }
}

TEST(Memory, ShufflesTakeOperandsOfAnyWidths) {
  const Func func = parse_func(R"(
func shuffled(x: f32[16], out: f32[64]) stage end {
  out[ramp(0, 1, 8)] = shuffle([x[ramp(0, 1, 4)], x[ramp(8, 1, 4)]], [0, 4, 1, 5, 2, 6, 3, 7])
  out[ramp(8, 1, 4)] = shuffle([x[ramp(0, 1, 8)], x[ramp(8, 1, 2)]], [9, 8, 1, 0])
  out[ramp(16, 1, 4)] = shuffle([x[0], x[1], x[2], x[3]], [3, 2, 1, 0])
  out[ramp(24, 1, 8)] = shuffle([x[ramp(0, 1, 4)], x[9], x[ramp(4, 1, 2)]], [6, 5, 4, 3, 2, 1, 0, 4])
  out[32] = shuffle([x[ramp(0, 1, 8)], x[12]], [8])
  out[33] = shuffle([x[ramp(0, 1, 8)], x[ramp(8, 1, 4)]], [10])
}
)");
  expect_same(func, {bytes_of(floats(16)), Bytes(256)});
}

TEST(Memory, ScalarParametersOfEveryDType) {
  const Func func = parse_func(R"(
func scalars(out: f64[8], a: f32, b: f64, c: i8, d: u8, e: bool, f: f16, g: bf16, h: u64) stage end {
  out[0] = cast<f64>(a)
  out[1] = b
  out[2] = cast<f64>(c)
  out[3] = cast<f64>(d)
  out[4] = cast<f64>(e)
  out[5] = cast<f64>(f)
  out[6] = cast<f64>(g)
  out[7] = cast<f64>(h)
}
)");
  auto bits = [](auto value) {
    std::int64_t word = 0;
    std::memcpy(&word, &value, sizeof value);
    return word;
  };
  expect_same(func, {Bytes(64)}, {bits(1.5f), bits(-2.5), -3, 250, 1, 0x3e00, 0x4040, -1});
}

TEST(Loads, SeeEveryStoreThatCameBeforeThem) {
  const Func func = parse_func(R"(
func again(x: f32[64], i: i64[8], out: f32[64], n: i64) stage end {
  out[ramp(0, 1, 4)] = x[ramp(0, 1, 4)]
  out[ramp(8, 1, 4)] = out[ramp(0, 1, 4)] + x[ramp(0, 1, 4)]
  out[ramp(0, 1, 4)] = out[ramp(0, 1, 4)] * 2.0f32x4 + out[ramp(8, 1, 4)]
  out[ramp(12, 1, 4)] = out[ramp(0, 1, 4)]
  i[ramp(0, 1, 4)] = i[ramp(i[0], 1, 4)] + 1i64x4
  i[i[0]] = i[0] + 1
  i[i[0]] = i[0] + 2
  if n > 1 {
    out[16] = out[0] + x[5]
  } else {
    out[17] = out[0] + x[5]
  }
  out[18] = out[16] + x[5]
  for k in [0, n) {
    out[0] = out[0] + x[k]
    out[19 + k] = out[0] + x[5]
    for j in [0, 2) {
      out[0] = out[0] * 0.5f32
    }
    out[30 + k] = out[0]
  }
  out[40] = out[0]
}
)");
  for (int n : {0, 1, 2, 5})
    expect_same(
        func, {bytes_of(floats(64)), bytes_of(std::vector<std::int64_t>{1, 0, 1, 2, 1, 0, 2, 1}), bytes_of(floats(64))},
        {n});
}

TEST(Loads, OfOneAddressAndWhatTheyAreAddedToAreMadeOnceForAllCopies) {
  const Func func = parse_func(R"(
func copies(x: f32[4096], y: f32[4096], out: f32[4096]) stage end {
  for k in [0, 7) {
    for j in [0, 9) {
      let a: f32x4 = broadcast(x[k * 100 + j * 3], 4) {
        out[ramp(k * 40 + j * 8, 1, 4)] = a * y[ramp(k * 10 + j, 1, 4)]
      }
      let c: f32x4 = broadcast(x[k * 100 + j * 3], 4)
      out[ramp(k * 40 + j * 8 + 4, 1, 4)] = c * y[ramp(k * 10 + j + 4, 1, 4)]
    }
  }
}
)");
  const std::string text = llvm_ir_text(func, host_device("native"));
  const auto count = [&](const std::string& what) {
    size_t found = 0;
    for (size_t at = 0; (at = text.find(what, at)) != std::string::npos; ++at) ++found;
    return found;
  };
  EXPECT_EQ(count("load float,"), 1u) << text;
  EXPECT_EQ(count("insertelement"), 1u) << text;
  EXPECT_EQ(count("getelementptr inbounds float,"), 3u) << text;
  expect_same(func, {bytes_of(floats(4096)), bytes_of(floats(4096)), bytes_of(floats(4096))});
}

}  // namespace
}  // namespace lathe
