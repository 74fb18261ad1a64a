#include <sstream>

#include "schedule/auto/auto_schedule.h"
#include "tests/backends/harness.h"

/// Register buffers against the interpreter, and what of them is kept on the stack.
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

/// The rows of a tile, and whether a condition may leave its steps out.
class StepsTogether : public ::testing::TestWithParam<std::pair<int, bool>> {};

TEST_P(StepsTogether, KeepTheirSumsInRegisters) {
  const auto [rows, conditional] = GetParam();
  constexpr int steps = 3;
  std::string text = R"(
func tile(a: f32[1024], b: f32[4096], odd: bool[1], c: f32[48]) stage end {
  block() {
    alloc acc: f32[48] @register
)";
  const auto each_slot = [&, count = rows](auto line) {
    for (int r = 0; r < count; ++r)
      for (int v = 0; v < 2; ++v) text += line(r, v, fmt::format("acc[ramp({}, 1, 4)]", r * 8 + v * 4)) + "\n";
  };
  each_slot([](int, int, const std::string& slot) { return slot + " = 0.0f32x4"; });
  text += "for k in [0, 40) {\n";
  if (conditional) text += "if k < 38 || odd[0] {\n";
  // Steps of a window: each but the last row's element is multiplied again in the next one, a row further on.
  for (int s = 0; s < steps; ++s) {
    each_slot([&](int r, int v, const std::string& slot) {
      return fmt::format("{0} = fma(broadcast(a[k * 20 + {1}], 4), b[ramp(k * 24 + {2}, 1, 4)], {0})", slot, r + s,
                         s * 8 + v * 4);
    });
  }
  text += conditional ? "}\n}\n" : "}\n";
  each_slot(
      [](int r, int v, const std::string& slot) { return fmt::format("c[ramp({}, 1, 4)] = {}", r * 8 + v * 4, slot); });
  const Func func = parse_func(text + "}\n}\n");
  for (const char odd : {0, 1}) {
    expect_same(func, {bytes_of(floats(1024)), bytes_of(floats(4096)), bytes_of(std::vector<char>{odd}),
                       bytes_of(std::vector<float>(48))});
  }
#if defined(__x86_64__)
  Device device = host_device("avx2");
  device.issue_width = 2 * device.fma_per_cycle;
  if (!device.fused_multiply_add) return;
  EXPECT_EQ(vectors_on_stack(assembly_text(func, device)), "");
#endif
}

// Ten sums leave room for vectors of two steps, but not for elements of theirs besides.
INSTANTIATE_TEST_SUITE_P(Rows, StepsTogether,
                         ::testing::Values(std::pair(5, false), std::pair(6, false), std::pair(5, true)));

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

}  // namespace
}  // namespace lathe
