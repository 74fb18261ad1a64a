#include "tests/fuzz/compiled.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "backends/cpu/cpu.h"
#include "tests/fuzz/coverage.h"
#include "tests/fuzz/seeds.h"
#include "tests/fuzz/stages.h"
#include "tests/fuzz/tir_generator.h"

namespace lathe::testing {
namespace {

/// Interpreter against machine code, in all of the program's runs. Empty, or what differs.
std::string check_compiled(const GeneratedProgram& program, const Device& device, bool schedule, Coverage* coverage,
                           BoundStatistics* statistics, int* stopped) {
  Func end = program.func;
  try {
    end = for_each_form(program, device, schedule, [&](const std::string&, const Func& func) {
      coverage->add(func);
      end = func;
    });
    const CompiledProgram compiled = compile_program(end, device);
    for (size_t k = 0; k < program.runs.size(); ++k) {
      const GeneratedProgram run = with_run(program, k);
      const Outcome reference = run_interpreted(run, run.func, true);
      *stopped += reference.status != 0;
      for (const Against against : {Against::high, Against::low}) {
        Outcome outcome = run_compiled(run, compiled, against);
        // Computed only where it is read, an index outside may not be met at all.
        if (program.bad_indices && outcome.status == 0) {
          outcome.status = reference.status;
          outcome.message = reference.message;
        }
        const std::string what = compare(run, reference, outcome, statistics);
        if (what.empty()) continue;
        return report(run, fmt::format("compiled, against the {} page", against == Against::high ? "high" : "low"),
                      what, end);
      }
    }
  } catch (const Error& error) {
    return report(program, "compiled", error.what(), end);
  }
  return {};
}

/// Traced programs are scheduled first; TIR is taken as it stands.
struct Source {
  const char* name;
  GeneratedProgram (*generate)(std::uint64_t seed);
  bool schedule;
  std::uint64_t count;
};

TEST(Fuzz, CompiledProgramsDoWhatTheInterpreterDoes) {
  const Device device = host_device();
  const Source sources[] = {{"traced", [](std::uint64_t seed) { return generate(seed); }, true, 5000},
                            {"TIR", generate_tir, false, 500}};
  Coverage coverage;
  for (const Source& source : sources) {
    const Seeds range = seeds(source.count);
    BoundSummary summary;
    int failures = 0, stopped = 0;
    for (std::uint64_t seed = range.first; seed < range.last; ++seed) {
      const GeneratedProgram program = source.generate(seed);
      coverage.add(program);
      BoundStatistics statistics;
      const std::string failure = check_compiled(program, device, source.schedule, &coverage, &statistics, &stopped);
      if (verbose()) fmt::print("{} {}\n", source.name, describe(program, statistics));
      summary.add(statistics);
      if (failure.empty()) continue;
      // One report in full would do; the heads of others find causes faster.
      ++failures;
      ADD_FAILURE() << source.name << " " << (failures <= 3 ? failure : failure.substr(0, failure.find("\ntraced:")));
    }
    fmt::print("{} {} programs, {} runs stopped by an index out of range: {}\n", range.last - range.first, source.name,
               stopped, summary.text());
    // A bound that accepts anything tests nothing.
    if (!range.chosen) {
      EXPECT_LT(summary.elements().unbounded, summary.elements().elements / 10);
      EXPECT_LT(summary.loose_programs(), summary.programs() / 20);
      EXPECT_TRUE(stopped > 0 || !source.schedule);
    }
  }
  fmt::print("{}", coverage.table());
  if (seeds(0).chosen) return;
  EXPECT_EQ(fmt::format("{}", fmt::join(coverage.missing(), ", ")), "") << "no program had any of these";
}

}  // namespace
}  // namespace lathe::testing
