#include <sstream>

#include "schedule/auto/auto_schedule.h"
#include "tests/backends/harness.h"

/// Control flow, register buffers, assertions and parallel loops against the interpreter.
namespace lathe {
namespace {

using namespace testing;

/// The lines of x86's assembly that move a vector to or from the stack.
std::string vectors_on_stack(const std::string& assembly) {
  std::string found;
  std::istringstream lines(assembly);
  for (std::string line; std::getline(lines, line);) {
    const bool on_stack = line.find("(%rsp)") != std::string::npos || line.find("(%rbp)") != std::string::npos;
    if (on_stack && line.find("mm") != std::string::npos) found += line + "\n";
  }
  return found;
}

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

TEST(Registers, AccumulateThroughLoopsBranchesAndMasks) {
  const Func func = parse_func(R"(
func registers(x: f32[256], out: f32[64], n: i64) stage end {
  block() {
    alloc acc: f32[32] @register
    alloc one: f32[1] @register
    acc[ramp(0, 1, 16)] = 0.0f32x16
    acc[ramp(16, 1, 16)] = 1.0f32x16
    one[0] = 5.0f32
    for k in [0, n) {
      acc[ramp(0, 1, 16)] = acc[ramp(0, 1, 16)] + x[ramp(k * 16, 1, 16)]
      if k % 2 == 0 {
        acc[ramp(16, 1, 16)] = acc[ramp(16, 1, 16)] * x[ramp(k * 16, 1, 16)]
        one[0] = one[0] + 1.0f32
      } else {
        acc[ramp(16, 1, 16) if x[ramp(k * 16, 1, 16)] > 0.0f32x16] = acc[ramp(0, 1, 16)]
      }
      for j in [0, 2) {
        one[0] = one[0] * 0.5f32
      }
    }
    while one[0] > 0.01f32 {
      one[0] = one[0] * 0.25f32
    }
    out[ramp(0, 1, 16)] = acc[ramp(0, 1, 16)]
    out[ramp(16, 1, 16)] = acc[ramp(16, 1, 16)]
    out[32] = one[0]
  }
}
)");
  for (int n : {0, 1, 2, 7, 16}) expect_same(func, {bytes_of(floats(256)), bytes_of(floats(64))}, {n});
}

TEST(Registers, MixElementsAndVectorsOfOneBuffer) {
  const Func func = parse_func(R"(
func mixed(x: f32[64], out: f32[64]) stage end {
  block() {
    alloc r: f32[16] @register
    alloc b: bool[8] @register
    alloc h: f16[4] @register
    r[ramp(0, 1, 8)] = x[ramp(0, 1, 8)]
    r[ramp(8, 1, 8)] = x[ramp(8, 1, 8)]
    r[3] = 42.0f32
    r[ramp(1, 2, 4)] = x[ramp(20, 1, 4)]
    out[ramp(0, 1, 8)] = r[ramp(0, 1, 8)]
    out[ramp(8, 1, 8)] = r[ramp(4, 1, 8)]
    out[16] = r[15]
    out[ramp(17, 1, 4)] = r[ramp(14, -4, 4)]
    out[ramp(32, 1, 4)] = r[broadcast(2, 4)]
    b[ramp(0, 1, 8)] = x[ramp(0, 1, 8)] < x[ramp(8, 1, 8)]
    b[2] = !b[3]
    out[ramp(40, 1, 8)] = select(b[ramp(0, 1, 8)], x[ramp(0, 1, 8)], x[ramp(8, 1, 8)])
    h[ramp(0, 1, 4)] = cast<f16>(x[ramp(0, 1, 4)])
    out[ramp(50, 1, 4)] = cast<f32>(h[ramp(0, 1, 4)])
    r[0 if x[0] > 100.0f32] = 1.0f32
    out[60] = r[0]
  }
}
)");
  expect_same(func, {bytes_of(floats(64)), bytes_of(floats(64))});
}

TEST(Registers, TakeVectorsOfFewerLanesThanTheyHave) {
  const Func func = parse_func(R"(
func parts(x: f32[64], out: f32[64]) stage end {
  block() {
    alloc r: f32[8] @register
    r[ramp(0, 1, 8)] = x[ramp(0, 1, 8)]
    r[ramp(0, 1, 7)] = r[ramp(0, 1, 7)] + x[ramp(8, 1, 7)]
    r[ramp(6, -2, 3)] = x[ramp(16, 1, 3)]
    r[ramp(1, 2, 4) if x[ramp(24, 1, 4)] > 0.0f32x4] = x[ramp(32, 1, 4)]
    out[ramp(0, 1, 8)] = r[ramp(0, 1, 8)]
    r[broadcast(2, 4) if x[ramp(28, 1, 4)] > 0.0f32x4] = x[ramp(40, 1, 4)]
    out[ramp(8, 1, 8)] = r[ramp(0, 1, 8)]
  }
}
)");
  expect_same(func, {bytes_of(floats(64)), bytes_of(floats(64))});
}

TEST(Registers, TakeAPartInOneShuffleAndNotElementByElement) {
  const Func func = parse_func(R"(
func part(x: f32[8], out: f32[8]) stage end {
  block() {
    alloc r: f32[8] @register
    r[ramp(0, 1, 8)] = x[ramp(0, 1, 8)]
    r[ramp(0, 1, 7)] = r[ramp(0, 1, 7)] + x[ramp(0, 1, 7)]
    out[ramp(0, 1, 8)] = r[ramp(0, 1, 8)]
  }
}
)");
  EXPECT_EQ(llvm_ir_text(func, host_device("native")).find("insertelement"), std::string::npos);
}

TEST(Registers, NeverTouchTheStack) {
  std::string text = R"(
func tile(a: f32[n * 8], b: f32[n * 64], c: f32[384], n: i64) stage end facts {n in [0, ]} {
  block() {
    alloc acc: f32[384] @register
)";
  const Device device = host_device("native");
  // 8 by 3 vectors fill an AVX-512 register file, 2 by 2 fit everywhere.
  const int lanes = device.lanes(32), rows = device.vector_registers >= 32 ? 8 : 2,
            columns = device.vector_registers >= 32 ? 3 : 2;
  auto slot = [&](int r, int c) { return fmt::format("acc[ramp({}, 1, {})]", (r * columns + c) * lanes, lanes); };
  for (int r = 0; r < rows; ++r)
    for (int c = 0; c < columns; ++c) text += fmt::format("{} = 0.0f32x{}\n", slot(r, c), lanes);
  text += "for k in [0, n) {\n";
  for (int r = 0; r < rows; ++r)
    for (int c = 0; c < columns; ++c)
      text += fmt::format("{0} = broadcast(a[k * {1} + {2}], {3}) * b[ramp(k * {4} + {5}, 1, {3})] + {0}\n", slot(r, c),
                          rows, r, lanes, columns * lanes, c * lanes);
  text += "}\n";
  for (int r = 0; r < rows; ++r)
    for (int c = 0; c < columns; ++c)
      text += fmt::format("c[ramp({}, 1, {})] = {}\n", (r * columns + c) * lanes, lanes, slot(r, c));
  const Func func = parse_func(text + "}\n}\n");
  const std::string ir = llvm_ir_text(func, device);
  EXPECT_EQ(ir.find("alloca"), std::string::npos) << ir;
#if defined(__x86_64__)
  const std::string assembly = assembly_text(func, device);
  EXPECT_EQ(assembly.find("rsp"), std::string::npos) << assembly;
  EXPECT_EQ(assembly.find("rbp"), std::string::npos) << assembly;
#endif
}

#if defined(__x86_64__)
TEST(Registers, AreKeptAlignedOnTheStack) {
  const Device device = host_device("native");
  const int lanes = device.lanes(32);
  const auto scale = [&](int count) {
    // As many vectors as `count` are live at once.
    std::string text = fmt::format("func scale(x: f32[{0}], out: f32[{0}]) stage end {{\n", count * lanes);
    const auto vector = [&](int i) { return fmt::format("[ramp({}, 1, {})]", i * lanes, lanes); };
    for (int i = 0; i < count; ++i)
      text += fmt::format("let v{}: f32x{} = x{} * 2.0f32x{}\n", i, lanes, vector(i), lanes);
    for (int i = 0; i < count; ++i)
      text += fmt::format("out{} = v{} + v{}\n", vector(i), i, (i * 7 + count / 2) % count);
    return parse_func(text + "}\n");
  };
  const std::string spills = vectors_on_stack(assembly_text(scale(3 * device.vector_registers), device));
  EXPECT_FALSE(spills.empty());
  EXPECT_EQ(spills.find("movu"), std::string::npos) << spills;
  const std::string few = assembly_text(scale(device.vector_registers / 2), device);
  EXPECT_EQ(few.find("rbp"), std::string::npos) << "the frame takes a register only where vectors are kept: " << few;
}

TEST(Registers, AreKeptAlignedAcrossCalls) {
  const Func func = parse_func(R"(
func turn(x: f32[4096], out: f32[4096]) stage begin {
  for i in [0, 4096) {
    block turn(space vi in [0, 4096) = i) reads x[vi] writes out[vi] { out[vi] = tanh(x[vi]) * sin(x[vi]) }
  }
}
)");
  register_cpu();
  const Device device = host_device("native");
  const std::string spills =
      vectors_on_stack(assembly_text(lower(auto_schedule(func, device), device, find_pipeline("cpu")), device));
  EXPECT_FALSE(spills.empty());
  EXPECT_EQ(spills.find("movu"), std::string::npos) << spills;
}
#endif

TEST(Registers, AreNotLostToTheConstantsOfAShortLoopBehind) {
  const Device device = host_device("native");
  const int lanes = device.lanes(32), rows = device.vector_registers >= 32 ? 8 : 4,
            columns = device.vector_registers >= 32 ? 3 : 2, elements = rows * columns * lanes;
  std::string text = fmt::format(R"(
func tile(a: f32[{0}], b: f32[{1}], c: f32[{2}]) stage end attrs {{shared_bytes: 0, worker_bytes: {3}}}
    memory {{
      sums: f32[{4}] offset 0 @worker align 64
    }}
{{
  parallel for i in [0, 8) {{
    block() {{
      alloc acc: f32[{4}] @register
)",
                                 rows * 384, 384 * columns * lanes, 8 * elements, 4 * elements, elements);
  auto slot = [&](int r, int c) { return fmt::format("acc[ramp({}, 1, {})]", (r * columns + c) * lanes, lanes); };
  const auto each_slot = [&](auto line) {
    for (int r = 0; r < rows; ++r)
      for (int c = 0; c < columns; ++c) text += line(r, c) + "\n";
  };
  each_slot([&](int r, int c) { return fmt::format("{} = 0.0f32x{}", slot(r, c), lanes); });
  text += "for k in [0, 384) {\n";
  each_slot([&](int r, int c) {
    const char* update = device.fused_multiply_add ? "{0} = fma({1}, {2}, {0})" : "{0} = {1} * {2} + {0}";
    return fmt::format(fmt::runtime(update), slot(r, c), fmt::format("broadcast(a[k * {} + {}], {})", rows, r, lanes),
                       fmt::format("b[ramp(k * {} + {}, 1, {})]", columns * lanes, c * lanes, lanes));
  });
  text += "}\n";
  each_slot([&](int r, int c) {
    return fmt::format("sums[ramp({}, 1, {})] = {}", (r * columns + c) * lanes, lanes, slot(r, c));
  });
  text += fmt::format("for r in [0, {}) {{\nfor v in [0, {}) {{\n", rows, columns);
  const std::string place = fmt::format("r * {} + v * {}", columns * lanes, lanes);
  text += fmt::format("let x: f32x{0} = sums[ramp({1}, 1, {0})]\n", lanes, place);
  std::string value = "x";
  for (int k = 0; k < 24; ++k) value = fmt::format("({} * x + {}.5f32x{})", value, k, lanes);
  text += fmt::format("c[ramp(i * {} + {}, 1, {})] = {}\n}}\n}}\n}}\n}}\n}}\n", elements, place, lanes, value);
  const Func func = parse_func(text);
#if defined(__x86_64__)
  EXPECT_EQ(vectors_on_stack(assembly_text(func, device)), "");
#endif
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

class StepsTogether : public ::testing::TestWithParam<int> {};

TEST_P(StepsTogether, KeepTheirSumsInRegisters) {
  const int rows = GetParam();
  constexpr int steps = 3;
  std::string text = R"(
func tile(a: f32[1024], b: f32[4096], c: f32[48]) stage end {
  block() {
    alloc acc: f32[48] @register
)";
  const auto each_slot = [&](auto line) {
    for (int r = 0; r < rows; ++r)
      for (int v = 0; v < 2; ++v) text += line(r, v, fmt::format("acc[ramp({}, 1, 4)]", r * 8 + v * 4)) + "\n";
  };
  each_slot([](int, int, const std::string& slot) { return slot + " = 0.0f32x4"; });
  text += "for k in [0, 40) {\n";
  // Steps of a window: each but the last row's element is multiplied again in the next one, a row further on.
  for (int s = 0; s < steps; ++s) {
    each_slot([&](int r, int v, const std::string& slot) {
      return fmt::format("{0} = fma(broadcast(a[k * 20 + {1}], 4), b[ramp(k * 24 + {2}, 1, 4)], {0})", slot, r + s,
                         s * 8 + v * 4);
    });
  }
  text += "}\n";
  each_slot(
      [](int r, int v, const std::string& slot) { return fmt::format("c[ramp({}, 1, 4)] = {}", r * 8 + v * 4, slot); });
  const Func func = parse_func(text + "}\n}\n");
  expect_same(func, {bytes_of(floats(1024)), bytes_of(floats(4096)), bytes_of(std::vector<float>(48))});
#if defined(__x86_64__)
  Device device = host_device("avx2");
  device.issue_width = 2 * device.fma_per_cycle;
  if (!device.fused_multiply_add) return;
  EXPECT_EQ(vectors_on_stack(assembly_text(func, device)), "");
#endif
}

// Ten sums leave room for vectors of two steps, but not for elements of theirs besides.
INSTANTIATE_TEST_SUITE_P(Rows, StepsTogether, ::testing::Values(5, 6));

TEST(Registers, RefuseAnIndexThatIsNotConstant) {
  const Func func = parse_func(R"(
func moving(out: f32[4]) stage end {
  block() {
    alloc r: f32[4] @register
    for i in [0, 4) {
      r[i] = 1.0f32
    }
    out[0] = r[0]
  }
}
)");
  try {
    compile_to_object(func, host_device("native"));
    FAIL() << "the index was taken";
  } catch (const Refusal& refusal) {
    EXPECT_EQ(refusal.message(),
              "register buffer r needs constant indices, got [i]; unroll the loops that index it, or give the buffer "
              "another space");
  }
}

TEST(Registers, RefuseABufferLargerThanTheRegisterFile) {
  std::string text = "func large(out: f32[8]) stage end { block() { alloc r: f32[4096] @register\n";
  for (int i = 0; i < 512; ++i) text += fmt::format("r[ramp({}, 1, 8)] = out[ramp(0, 1, 8)]\n", i * 8);
  EXPECT_THROW(compile_to_object(parse_func(text + "out[ramp(0, 1, 8)] = r[ramp(8, 1, 8)] } }"), host_device("native")),
               Refusal);
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
