#include "tests/fuzz/compiled.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "backends/cpu/cpu.h"
#include "tests/fuzz/coverage.h"
#include "tests/fuzz/seeds.h"
#include "tests/fuzz/stages.h"

namespace lathe::testing {
namespace {

/// Interpreter against machine code. Empty, or what differs.
std::string check_compiled(const GeneratedProgram& program, const Device& device, Coverage* coverage, BoundStatistics* statistics) {
  Func end = program.func;
  try {
    const Outcome reference = run_interpreted(program, program.func, true);
    end = for_each_form(program, device, true, [&](const std::string&, const Func& func) { coverage->add(func); });
    const CompiledProgram compiled = compile_program(end, device);
    for (const Against against : {Against::high, Against::low}) {
      const std::string what = compare(program, reference, run_compiled(program, compiled, against), statistics);
      if (what.empty()) continue;
      return report(program, fmt::format("compiled, against the {} page", against == Against::high ? "high" : "low"),
                    what + "\nbounds:" + describe_bounds(program, reference), end);
    }
  } catch (const Error& error) {
    return report(program, "compiled", error.what(), end);
  }
  return {};
}

TEST(Fuzz, CompiledProgramsDoWhatTheInterpreterDoes) {
  const Device device = host_device();
  const Seeds range = seeds(2000);
  Coverage coverage;
  BoundStatistics statistics;
  int failures = 0;
  for (std::uint64_t seed = range.first; seed < range.last; ++seed) {
    const GeneratedProgram program = generate(seed);
    coverage.add(program);
    const std::string failure = check_compiled(program, device, &coverage, &statistics);
    if (failure.empty()) continue;
    if (++failures <= 3) ADD_FAILURE() << failure;
    if (failures > 3) ADD_FAILURE() << failure.substr(0, failure.find("\ntraced:"));
  }
  fmt::print("{} programs; {} float elements, {} without bound, worst error {:.2f} of its bound\n{}", range.last - range.first,
             statistics.elements, statistics.unbounded, statistics.worst, coverage.table());
  if (range.chosen) return;
  EXPECT_EQ(fmt::format("{}", fmt::join(coverage.missing(), ", ")), "") << "no program had any of these";
}

}  // namespace
}  // namespace lathe::testing
