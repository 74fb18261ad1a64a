#include <fmt/format.h>

#include "ir/passes/plan_storage.h"
#include "tests/backends/harness.h"

/// Which lines kernels ask for ahead, and that this changes no result.
namespace lathe {
namespace {

using namespace testing;

TEST(Prefetch, AsksOnceForEachLineAndPastTheEndToo) {
  const Func func = parse_func(R"(
func columns(x: f32[4096], y: f32[67], out: f32[64]) stage end {
  for k in [0, 64) @{prefetch_offset: 48} {
    out[ramp(0, 1, 4)] = out[ramp(0, 1, 4)] + x[ramp(k * 64, 1, 4)] * y[ramp(k, 1, 4)]
    out[ramp(4, 1, 4)] = x[ramp(k * 64, 1, 4)] + x[ramp(k * 64 + 4, 1, 4)] + x[ramp(k * 64 + 32, 1, 4)]
  }
}
)");
  const std::string text = llvm_ir_text(func, host_device("native"));
  size_t calls = 0;
  for (size_t at = 0; (at = text.find("call void @llvm.prefetch", at)) != std::string::npos; ++at) ++calls;
  EXPECT_EQ(calls, 2u) << text;
  std::vector<float> x(4096), y(67), out(64);
  for (size_t i = 0; i < x.size(); ++i) x[i] = 0.25f * static_cast<float>(i % 31);
  for (size_t i = 0; i < y.size(); ++i) y[i] = static_cast<float>(i % 5);
  expect_same(func, {bytes_of(x), bytes_of(y), bytes_of(out)});
}

TEST(Prefetch, AsksForHalvesOfLinesAndFillsTheCacheThatIsNamed) {
  const auto asked = [](int step, const std::string& cache) {
    const std::string text = llvm_ir_text(parse_func(fmt::format(R"(
func columns(x: f32[4096], out: f32[64]) stage end {{
  for k in [0, 64) @{{prefetch_offset: 48{1}}} {{
    out[ramp(0, 1, 4)] = x[ramp(k * {0}, 1, 4)]
  }}
}}
)",
                                                                 step, cache)),
                                          host_device("native"));
    const size_t at = text.find("call void @llvm.prefetch"), end = text.find('\n', at);
    return at == std::string::npos ? "" : text.substr(at, end - at);
  };
  EXPECT_NE(asked(8, "").find("i32 0, i32 3, i32 1"), std::string::npos) << asked(8, "");
  EXPECT_NE(asked(8, ", prefetch_cache: 2").find("i32 0, i32 2, i32 1"), std::string::npos);
  EXPECT_EQ(asked(4, ""), "") << "four iterations run in a line";
}

TEST(Prefetch, AsksForNothingBehindWhatAllRowsShare) {
  const std::string text = llvm_ir_text(parse_func(R"(
func f(x: f32[4096], w: f32[256], out: f32[4096]) stage end {
  for i in [0, 16) {
    for j in [0, 16) @{prefetch_offset: 256} {
      out[ramp(i * 256 + j * 16, 1, 16)] = x[ramp(i * 256 + j * 16, 1, 16)] * w[ramp(j * 16, 1, 16)]
    }
  }
}
)"),
                                        host_device("native"));
  size_t calls = 0;
  for (size_t at = 0; (at = text.find("call void @llvm.prefetch", at)) != std::string::npos; ++at) ++calls;
  EXPECT_EQ(calls, 1u) << "w ends with the row\n" << text;
}

TEST(Prefetch, OfSingleParametersInOrderToReadOrToWrite) {
  const std::string text = llvm_ir_text(parse_func(R"(
func f(x: f32[1024], y: f32[1024], out: f32[1024]) stage end {
  for k in [0, 64) @{prefetch_param_0: 48, prefetch_param_2: 32} {
    out[ramp(k * 16, 1, 16)] = x[ramp(k * 16, 1, 16)] + y[ramp(k * 16, 1, 16)]
  }
}
)"),
                                        host_device("native"));
  EXPECT_NE(text.find("i32 0, i32 3, i32 1)"), std::string::npos) << text;
  EXPECT_NE(text.find("i32 1, i32 3, i32 1)"), std::string::npos) << text;
  size_t calls = 0;
  for (size_t at = 0; (at = text.find("call void @llvm.prefetch", at)) != std::string::npos; ++at) ++calls;
  EXPECT_EQ(calls, 2u) << "y is not asked for\n" << text;
}

/// How many prefetches a loop over 8 iterations contains, and the byte offsets that it multiplies its count with.
std::pair<size_t, std::string> asked_behind(const std::string& stores, int trips = 8) {
  const Func func = parse_func(fmt::format(R"(
func f(x: f32[64], out: f32[8192], other: f32[8192]) stage end {{
  for i in [0, 4) {{
    block tile() {{
      alloc sum: f32[16] @register
      sum[ramp(0, 1, 16)] = broadcast(0.0f32, 16)
      for k in [0, {}) @{{prefetch_stores: 1}} {{
        sum[ramp(0, 1, 16)] = sum[ramp(0, 1, 16)] + x[ramp(k, 1, 16)]
      }}
      {}
    }}
  }}
}}
)",
                                           trips, stores));
  const std::string text = llvm_ir_text(func, host_device("native"));
  size_t calls = 0;
  for (size_t at = 0; (at = text.find("call void @llvm.prefetch", at)) != std::string::npos; ++at) ++calls;
  std::vector<float> x(64), out(8192), other(8192);
  for (size_t i = 0; i < x.size(); ++i) x[i] = 0.5f * static_cast<float>(i % 7);
  expect_same(func, {bytes_of(x), bytes_of(out), bytes_of(other)});
  const size_t steps = text.find("mul nsw i64 %", text.find("%k = phi"));
  const size_t comma = text.find(", ", steps);
  return {calls, steps == std::string::npos ? "" : text.substr(comma + 2, text.find('\n', comma) - comma - 2)};
}

/// Stores of the sum to these elements of each row of `out`, rows 1024 elements apart.
std::string stores(int rows, const std::vector<int>& columns, const std::string& mask = "") {
  std::string text;
  for (int row = 0; row < rows; ++row) {
    for (const int column : columns)
      text += fmt::format("out[ramp(i * 64 + {}, 1, 16){}] = sum[ramp(0, 1, 16)]\n", row * 1024 + column, mask);
  }
  return text;
}

TEST(PrefetchStores, AsksForAStepOfTheStoresBehindInEachIteration) {
  using Asked = std::pair<size_t, std::string>;
  EXPECT_EQ(asked_behind(stores(4, {0, 16, 32})), (Asked{3, "4096"}));
  EXPECT_EQ(asked_behind(stores(4, {0, 16, 32}), 2), (Asked{6, "8192"})) << "two rows at a time";
  EXPECT_EQ(asked_behind(stores(1, {0, 16, 32})), (Asked{1, "64"})) << "a single row";
  EXPECT_EQ(asked_behind(stores(4, {0, 8})), (Asked{1, "4096"})) << "halves of a line";
  EXPECT_EQ(asked_behind(stores(4, {0, 16}) + "other[ramp(i * 64, 1, 16)] = sum[ramp(0, 1, 16)]"), (Asked{2, "4096"}))
      << "a single store makes no walk";
}

TEST(PrefetchStores, NotForStoresThatMakeNoWalk) {
  EXPECT_EQ(asked_behind(stores(1, {0, 16, 48, 112, 240})).first, 0u);
  EXPECT_EQ(asked_behind("for j in [0, 4) { out[ramp(j * 1024, 1, 16)] = sum[ramp(0, 1, 16)] }").first, 0u)
      << "a loop of its own";
  EXPECT_EQ(asked_behind(stores(4, {0, 16}, " if ramp(i, 1, 16) < broadcast(16, 16)")).first, 0u);
}

TEST(Prefetch, OfElementsThatAllLanesTakeInOnceForEachLine) {
  const std::string text = llvm_ir_text(parse_func(R"(
func f(x: f32[8192], y: f32[1024], out: f32[1024]) stage end {
  for k in [0, 64) @{prefetch_param_0: 512, prefetch_cache: 2} {
    out[ramp(k * 16, 1, 16)] = broadcast(x[k * 128], 16) * y[ramp(k * 16, 1, 16)] + broadcast(x[k * 128 + 8], 16) + broadcast(x[k * 128 + 20], 16)
  }
}
)"),
                                        host_device("native"));
  size_t calls = 0;
  for (size_t at = 0; (at = text.find("call void @llvm.prefetch", at)) != std::string::npos; ++at) ++calls;
  EXPECT_EQ(calls, 2u) << text;
  EXPECT_NE(text.find("i32 0, i32 2, i32 1)"), std::string::npos) << text;
}

TEST(Prefetch, OfElementsThatAllLanesTakeInOfTheKernelsOwnArrays) {
  const Func func = parse_func(R"(
func f(x: f32[512], y: f32[64], out: f32[16]) stage end {
  block scale() {
    alloc rows: f32[512]
    for i in [0, 32) { rows[ramp(i * 16, 1, 16)] = x[ramp(i * 16, 1, 16)] }
    for k in [0, 64) @{prefetch_elements: 128} {
      out[ramp(0, 1, 16)] = out[ramp(0, 1, 16)] + broadcast(rows[k * 8] + rows[k * 8 + 1], 16) * broadcast(y[k], 16)
    }
  }
}
)");
  const std::string text = llvm_ir_text(plan_storage(func, Device{}), host_device("native"));
  EXPECT_EQ(count(text, "call void @llvm.prefetch"), 1u) << "one line of rows, which y is none of\n" << text;
}

TEST(Prefetch, WalksOverRowsALineAfterTheOther) {
  const auto rows = [](int walk) {
    return parse_func(fmt::format(R"(
func f(x: f32[600], y: f32[64], out: f32[48]) stage end {{
  for k in [0, 64) @{{prefetch_param_0: 192, prefetch_walk_0: {}, prefetch_cache: 2}} {{
    out[ramp(0, 1, 16)] = out[ramp(0, 1, 16)] + broadcast(x[k * 3 + 1], 16) * broadcast(y[k], 16)
    out[ramp(16, 1, 16)] = out[ramp(16, 1, 16)] + broadcast(x[k * 3 + 193], 16) * broadcast(y[k], 16)
    out[ramp(32, 1, 16)] = out[ramp(32, 1, 16)] + broadcast(x[k * 3 + 385], 16) * broadcast(y[k], 16)
  }}
}}
)",
                                  walk));
  };
  const std::string text = llvm_ir_text(rows(9), host_device("native"));
  EXPECT_EQ(count(text, "call void @llvm.prefetch"), 1u) << "nine elements a step are in one line or the next\n"
                                                         << text;
  EXPECT_NE(text.find(", 24\n"), std::string::npos) << "six elements further a step than x[k * 3 + 1] goes\n" << text;
  EXPECT_EQ(count(llvm_ir_text(rows(20), host_device("native")), "call void @llvm.prefetch"), 2u);
  std::vector<float> x(600), y(64), out(48);
  for (size_t i = 0; i < x.size(); ++i) x[i] = 0.25f * static_cast<float>(i % 31);
  for (size_t i = 0; i < y.size(); ++i) y[i] = static_cast<float>(i % 5);
  expect_same(rows(9), {bytes_of(x), bytes_of(y), bytes_of(out)});
}

}  // namespace
}  // namespace lathe
