#include "tests/backends/harness.h"

/// Control flow, assertions and parallel loops against the interpreter.
namespace lathe {
namespace {

using namespace testing;

TEST(Statements, LoopsOfAnyBounds) {
  const Func func = parse_func(R"(
func loops(x: i64[64], n: i64, m: i64) stage end {
  for i in [0, n) {
    x[i] = x[i] + i
  }
  for i in [m, +n - m) {
    for j in [0, 1) {
      x[i + j] = x[i] * 3
    }
    for j in [0, 0) {
      x[0] = 99
    }
    for j in [0, m - n) {
      x[0] = 98
    }
  }
  for i in [-3, +4) {
    x[i + 10] = i
  }
}
)");
  std::vector<std::int64_t> x(64, 5);
  for (auto [n, m] : std::vector<std::pair<int, int>>{{0, 0}, {1, 0}, {40, 7}, {3, 9}})
    expect_same(func, {bytes_of(x)}, {n, m});
}

TEST(Statements, BranchesAndWhileLoops) {
  const Func func = parse_func(R"(
func control(x: i64[16], n: i64) stage end {
  if n < 3 {
    x[0] = 1
  } else if n < 7 {
    x[0] = 2
  } else {
    let t = x[1] + 1
    x[0] = t * t
  }
  while x[2] < n && x[3] >= 0 {
    x[2] = x[2] + 1
    x[3] = x[3] - 2
  }
  if n == 4 {
    x[4] = x[0]
  }
}
)");
  for (int n : {0, 2, 4, 5, 9}) expect_same(func, {bytes_of(std::vector<std::int64_t>(16, 6))}, {n});
}

TEST(Statements, ALetBindsTheValueOfItsMoment) {
  const Func func = parse_func(R"(
func lets(x: i64[4], n: i64) stage end {
  let before = x[0]
  x[0] = before + 1
  let after = x[0]
  x[1] = before * 100 + after
  for i in [0, n) {
    let now = x[2]
    x[2] = now + after
    x[3] = now + x[2]
  }
}
)");
  expect_same(func, {bytes_of(std::vector<std::int64_t>{7, 8, 9, 10})}, {3});
}

TEST(Statements, ALoadIsReadAgainBehindAStore) {
  // One Load node, shared by several statements, with stores between.
  const Buffer x = BufferNode::make("x", i64, {index(4)});
  const Expr zero = load(x, {index(0)});
  const Expr sum = zero + load(x, {index(1)});
  const Stmt body =
      Seq::make({Store::make(x, {index(1)}, sum), Store::make(x, {index(0)}, sum), Store::make(x, {index(2)}, sum)});
  expect_same(FuncNode::make("shared", {x}, body, {}, {}, Stage::end),
              {bytes_of(std::vector<std::int64_t>{3, 5, 0, 0})});
}

TEST(Statements, LoopsOverTilesFindTheirElementsFromAnyBeginning) {
  std::string text = R"(
func tile(a: f32[4096], b: f32[4096], c: f32[192], n: i64) stage end {
  block() {
    alloc acc: f32[64] @register
)";
  const auto each_slot = [&](auto line) {
    for (int r = 0; r < 8; ++r) text += line(r, fmt::format("acc[ramp({}, 1, 8)]", r * 8)) + "\n";
  };
  int at = 0;
  const auto add_up = [&](const char* nest, const char* one, const char* eight) {
    each_slot([](int, const std::string& slot) { return slot + " = 0.0f32x8"; });
    text += nest;
    each_slot([&](int r, const std::string& slot) {
      return fmt::format("{0} = fma(broadcast(a[{2} + {1}], 8), b[ramp({3}, 1, 8)], {0})", slot, r, one, eight);
    });
    text += "}\n}\n}\n";
    each_slot([&](int r, const std::string& slot) { return fmt::format("c[ramp({}, 1, 8)] = {}", at + r * 8, slot); });
    at += 64;
  };
  const char *one = "i * 90 + j * 40 + k", *eight = "i * 160 + j * 32 + k * 16";
  add_up("for i in [1, +3) {\nfor j in [2, +2) {\nfor k in [1, +4) {\n", one, eight);
  add_up("for i in [0, n) {\nfor j in [n, +3) {\nfor k in [n + 1, +n) {\n", one, eight);
  // From the last to the first, as the taps of a transposed convolution.
  add_up("for i in [0, n) {\nfor j in [n, +3) {\nfor k in [n + 1, +n) {\n", "2000 - i * 90 - (j * 40 + k)",
         "3000 - (i * 160 - j * 32) - k * 16");
  const Func func = parse_func(text + "}\n}\n");
  std::vector<float> a(4096), b(4096);
  for (size_t i = 0; i < a.size(); ++i) {
    a[i] = static_cast<float>(i % 61) - 30;
    b[i] = static_cast<float>(i % 53) - 26;
  }
  for (const std::int64_t n : {0, 1, 4})
    expect_same(func, {bytes_of(a), bytes_of(b), bytes_of(std::vector<float>(192))}, {n});
}

TEST(Asserts, ReportTheFirstFailingLane) {
  const Func func = parse_func(R"(
func take(x: f32[8], k: i64[16], out: f32[16]) stage end {
  for i in [0, 2) {
    assert k[ramp(i * 8, 1, 8)] >= broadcast(0, 8) && k[ramp(i * 8, 1, 8)] < broadcast(8, 8), "take|0|index", k[ramp(i * 8, 1, 8)]
    out[ramp(i * 8, 1, 8)] = x[k[ramp(i * 8, 1, 8)]]
  }
}
)");
  std::vector<std::int64_t> k = {0, 1, 2, 3, 4, 5, 6, 7, 7, 6, 5, 4, 3, 2, 1, 0};
  expect_same(func, {bytes_of(floats(8)), bytes_of(k), bytes_of(floats(16))});
  k[11] = -5;
  k[13] = 100;
  expect_same(func, {bytes_of(floats(8)), bytes_of(k), bytes_of(floats(16))});
  const Outcome outcome =
      run_compiled(func, host_device("native"), {bytes_of(floats(8)), bytes_of(k), bytes_of(floats(16))});
  EXPECT_EQ(outcome.status, LATHE_INDEX_OUT_OF_RANGE);
  EXPECT_EQ(outcome.index, -5);
}

TEST(Asserts, WithoutAnIndexAreFailedAssertions) {
  const Func func = parse_func(R"(
func check(out: i64[1], n: i64) stage end {
  assert n % 4 == 0, "op|1|a multiple of 4"
  out[0] = n
}
)");
  expect_same(func, {Bytes(8)}, {8});
  expect_same(func, {Bytes(8)}, {9});
  EXPECT_EQ(run_compiled(func, host_device("native"), {Bytes(8)}, {9}).status, LATHE_ASSERTION_FAILED);
}

TEST(ParallelLoops, CaptureWhatTheyUse) {
  const Func func = parse_func(R"(
func spread(x: f32[64], out: f32[64], n: i64, s: f32) stage end {
  let scale = s * 2.0f32
  let wide = broadcast(scale, 4)
  let positive = n > 2
  for outer in [0, 2) {
    parallel for i in [1, +n) @{parallel_grain: 2} {
      out[ramp(i * 4, 1, 4)] = select(broadcast(positive, 4), x[ramp(i * 4 + outer, 1, 4)] * wide, 0.0f32x4)
      parallel for j in [0, 2) {
        out[i * 4 + j] = out[i * 4 + j] + cast<f32>(outer)
      }
    }
  }
}
)");
  std::int64_t s = 0;
  const float value = 1.5f;
  std::memcpy(&s, &value, 4);
  for (int n : {0, 1, 2, 3, 8, 14}) expect_same(func, {bytes_of(floats(64)), bytes_of(floats(64))}, {n, s});
}

TEST(ParallelLoops, StopAtAFailedAssertion) {
  const Func func = parse_func(R"(
func spread(x: i64[8], out: i64[8]) stage end {
  parallel for i in [0, 8) {
    assert x[i] < 10, "spread|0|index", x[i]
    out[i] = x[i]
  }
  out[0] = 77
}
)");
  for (int threads : {1, 2}) {
    const Outcome outcome =
        run_compiled(func, host_device("native"),
                     {bytes_of(std::vector<std::int64_t>{1, 2, 3, 44, 5, 6, 7, 8}), Bytes(64)}, {}, threads);
    EXPECT_EQ(outcome.status, LATHE_INDEX_OUT_OF_RANGE);
    EXPECT_EQ(outcome.index, 44);
    EXPECT_EQ(outcome.message, "spread|0|index");
    EXPECT_NE(values_of<std::int64_t>(outcome.buffers[1])[0], 77);
  }
}

TEST(ParallelLoops, TheLastOnesStatusIsTheKernels) {
  const Func func = parse_func(R"(
func spread(x: i64[8], out: i64[8], count: i64) stage end {
  parallel for i in [0, 8) @{parallel_grain: 2} {
    out[i] = x[i]
  }
  parallel for i in [0, count) @{parallel_grain: 2} {
    assert x[i] < 10, "spread|0|index", x[i]
    out[i] = out[i] + x[i]
  }
}
)");
  const Bytes x = bytes_of(std::vector<std::int64_t>{1, 2, 3, 4, 5, 6, 7, 80});
  for (const std::int64_t count : {0, 1, 2, 3, 7}) expect_same(func, {x, Bytes(64)}, {count});
  for (int threads : {1, 2}) {
    const Outcome outcome = run_compiled(func, host_device("native"), {x, Bytes(64)}, {8}, threads);
    EXPECT_EQ(outcome.status, LATHE_INDEX_OUT_OF_RANGE);
    EXPECT_EQ(outcome.index, 80);
  }
}

TEST(Emission, RefusesWhatTheDeviceCannotDo) {
  const Device device = host_device("native");
  EXPECT_THROW(
      compile_to_object(parse_func("func f(x: f32[4]) stage end { bound(\"x\") for i in [0, 4) { x[i] = 0.0f32 } }"),
                        device),
      Refusal);
  EXPECT_THROW(compile_to_object(parse_func("func f(x: f32[4]) stage end { x[0] = exp(x[1]) }"), device), Bug);
  EXPECT_THROW(compile_to_object(parse_func("func f(x: f32[4]) stage begin { x[0] = x[1] }"), device), Bug);
}

TEST(Emission, NamesItsSymbolAfterTheFuncAndItsHash) {
  const Device device = host_device("native");
  const Func one = parse_func("func f(x: f32[4]) stage end { x[0] = 1.0f32 }");
  const Func two = parse_func("func f(x: f32[4]) stage end { x[0] = 2.0f32 }");
  EXPECT_NE(compile_to_object(one, device).symbol, compile_to_object(two, device).symbol);
  EXPECT_EQ(compile_to_object(one, device).bytes, compile_to_object(one, device).bytes);
}

}  // namespace
}  // namespace lathe
