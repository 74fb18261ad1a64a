#include <fmt/format.h>
#include <gtest/gtest.h>

#include "backends/cpu/cpu.h"
#include "backends/stages.h"
#include "ir/interpreter/interpreter.h"
#include "tests/fuzz/compiled.h"

namespace lathe::testing {
namespace {

constexpr std::int64_t n = 37;

/// for i in [first, last): out[i] = in[i] + 1, over arrays of n elements that lie as `layout` says.
GeneratedProgram increment(std::int64_t first, std::int64_t last, LayoutPlan layout = {}) {
  GeneratedProgram program;
  layout.order = {0};
  layout.dimensions.resize(1);
  for (int k = 0; k < 2; ++k) {
    Parameter p;
    p.dtype = f32;
    p.extents = {index(n)};
    p.layout = layout;
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
  program.runs.resize(1);
  return with_run(std::move(program), 0);
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

/// 4 bytes past a multiple of 64, so that canaries and not the page lie next to the array.
LayoutPlan misaligned() {
  LayoutPlan plan;
  plan.misalignment = 4;
  return plan;
}

/// Every other element; a kernel that takes the array for a compact one writes between them.
LayoutPlan spread() {
  LayoutPlan plan;
  plan.strides = LayoutPlan::Strides::constant;
  plan.dimensions.resize(1);
  plan.dimensions[0].spread = 2;
  return plan;
}

/// What compare says of a kernel whose accesses the sanitizer does not see.
std::string damage(const GeneratedProgram& program, Against against) {
  const Device device = host_device();
  Outcome reference;
  reference.arrays = make_arrays(program, against);
  reference.bounds.resize(program.parameters.size());
  return compare(program, reference,
                 run_compiled(program, compile_program(lowered(program, device), device, false), against));
}

bool ends_with(const std::string& text, const std::string& end) {
  return text.ends_with(end);
}

// The first byte that differs depends on the canary.
TEST(PlantedOverrun, CanariesShowAStoreBesideTheArray) {
  EXPECT_PRED2(ends_with, damage(increment(0, n + 1, misaligned()), Against::low), "past the array was overwritten");
  EXPECT_PRED2(ends_with, damage(increment(-1, n, misaligned()), Against::high), "before the array was overwritten");
}

TEST(PlantedOverrun, CanariesShowAStoreIntoAStrideGap) {
  EXPECT_PRED2(ends_with, damage(increment(0, n, spread()), Against::high), "in a stride gap, was overwritten");
}

TEST(PlantedOverrun, InterpreterTraps) {
  EXPECT_THROW(run_interpreted(increment(0, n + 1), increment(0, n + 1).func), Trap);
}

#if defined(__SANITIZE_ADDRESS__)
TEST(PlantedOverrun, InstrumentedKernelIsStoppedByTheAddressSanitizer) {
  const Device device = host_device();
  const auto run = [&](const GeneratedProgram& program) {
    const CompiledProgram compiled = compile_program(lowered(program, device), device);
    std::vector<float> in(n), out(n);
    void* pointers[] = {in.data(), out.data()};
    return run_on(compiled, pointers);
  };
  EXPECT_EQ(run(increment(0, n)), 0);
  EXPECT_DEATH(run(increment(0, n + 1)), "heap-buffer-overflow");
  EXPECT_DEATH(run(increment(-1, n)), "heap-buffer-overflow");
}

TEST(PlantedOverrun, InstrumentedKernelIsStoppedBesideAndWithinAGuardedArray) {
  const Device device = host_device();
  const auto run = [&](const GeneratedProgram& program) {
    run_compiled(program, compile_program(lowered(program, device), device), Against::low);
  };
  run(increment(0, n, misaligned()));
  EXPECT_DEATH(run(increment(0, n + 1, misaligned())), "use-after-poison(.|\n)*in increment run 0");
  // A gap of 4 bytes is half a granule, which has no name of its own.
  EXPECT_DEATH(run(increment(0, n, spread())), "(use-after-poison|unknown-crash)(.|\\n)*in increment run 0");
}
#endif

}  // namespace
}  // namespace lathe::testing
