#include <fmt/format.h>
#include <gtest/gtest.h>

#include "backends/cpu/cpu.h"
#include "backends/stages.h"
#include "ir/interpreter/interpreter.h"
#include "tests/fuzz/compiled.h"

namespace lathe::testing {
namespace {

constexpr std::int64_t n = 37;

/// for i in [first, last): out[i] = in[i] + 1, over arrays of n elements.
GeneratedProgram increment(std::int64_t first, std::int64_t last) {
  GeneratedProgram program;
  for (int k = 0; k < 2; ++k) {
    Parameter p;
    p.dtype = f32;
    p.shape = {n};
    p.strides = {1};
    program.parameters.push_back(p);
  }
  program.input_count = 1;
  program.bitwise = {false};
  const Buffer in = BufferNode::make("in", f32, {index(n)}), out = BufferNode::make("out", f32, {index(n)});
  const VarRef i = Var::make("i");
  const Stmt body = Store::make(out, {i}, load(in, {i}) + constant(f32, 1));
  program.func =
      FuncNode::make("increment", {in, out}, For::make(i, index(first), index(last - first), ForKind::serial, body), {},
                     {}, Stage::flatten);
  return program;
}

Func lowered(const GeneratedProgram& program, const Device& device) {
  register_cpu();
  return lower(program.func, device, find_pipeline("cpu"));
}

TEST(PlantedOverrun, KernelWithinItsArraysIsLeftAlone) {
  const Device device = host_device();
  const GeneratedProgram program = increment(0, n);
  const CompiledProgram compiled = compile_program(lowered(program, device), device);
  for (const Against against : {Against::low, Against::high}) {
    const Outcome outcome = run_compiled(program, compiled, against);
    EXPECT_EQ(outcome.status, 0) << outcome.message;
    EXPECT_EQ(compare(program, run_interpreted(program, program.func, true), outcome), "");
  }
}

TEST(PlantedOverrun, OneElementPastTheEndHitsTheGuardPage) {
  const Device device = host_device();
  const GeneratedProgram program = increment(0, n + 1);
  const Outcome outcome = run_compiled(program, compile_program(lowered(program, device), device), Against::high);
  EXPECT_EQ(outcome.message, "a fault 148 bytes from the start of parameter 0, which has 148");
}

TEST(PlantedOverrun, OneElementBeforeTheStartHitsTheGuardPage) {
  const Device device = host_device();
  const GeneratedProgram program = increment(-1, n);
  const Outcome outcome = run_compiled(program, compile_program(lowered(program, device), device), Against::low);
  EXPECT_EQ(outcome.message, "a fault -4 bytes from the start of parameter 0, which has 148");
}

TEST(PlantedOverrun, InterpreterTraps) {
  EXPECT_THROW(run_interpreted(increment(0, n + 1), increment(0, n + 1).func), Trap);
}

#if defined(__SANITIZE_ADDRESS__)
TEST(PlantedOverrun, InstrumentedKernelIsStoppedByTheAddressSanitizer) {
  const Device device = host_device();
  const auto run = [&](const GeneratedProgram& program) {
    const CompiledProgram compiled = compile_program(lowered(program, device), device, true);
    std::vector<float> in(n), out(n);
    void* pointers[] = {in.data(), out.data()};
    return run_on(compiled, pointers);
  };
  EXPECT_EQ(run(increment(0, n)), 0);
  EXPECT_DEATH(run(increment(0, n + 1)), "heap-buffer-overflow");
  EXPECT_DEATH(run(increment(-1, n)), "heap-buffer-overflow");
}
#endif

}  // namespace
}  // namespace lathe::testing
