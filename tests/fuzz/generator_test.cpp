#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <set>

#include "ir/interpreter/arithmetic.h"
#include "ir/structural.h"
#include "ir/text/parse.h"
#include "ir/text/print.h"
#include "jit/trace/ops/registry.h"
#include "tests/fuzz/builder.h"
#include "tests/fuzz/compare.h"
#include "tests/fuzz/coverage.h"
#include "tests/fuzz/seeds.h"

namespace lathe::testing {
namespace {

std::string joined(const std::vector<std::string>& list) {
  return fmt::format("{}", fmt::join(list, ", "));
}

TEST(Random, NeighbouringSeedsShareNoNumber) {
  std::set<std::uint64_t> numbers;
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    Random random(seed);
    for (int k = 0; k < 100; ++k) EXPECT_TRUE(numbers.insert(random.bits()).second) << "seed " << seed;
  }
}

TEST(Generator, KnowsEveryOperatorOfTheLibrary) {
  std::set<std::string> steps;
  for (const Step& step : all_steps()) steps.insert(step.name);
  for (const ops::Operator& op : ops::operators()) EXPECT_TRUE(steps.count(std::string(op.name))) << op.name;
}

TEST(Generator, SeedGivesAlwaysTheSameProgram) {
  for (std::uint64_t seed = 0; seed < 20; ++seed) EXPECT_EQ(print(generate(seed).func), print(generate(seed).func));
}

TEST(Generator, TracedProgramsCoverTheLibrary) {
  const Seeds range = seeds(2000);
  Coverage coverage;
  for (std::uint64_t seed = range.first; seed < range.last; ++seed) coverage.add(generate(seed));
  if (range.chosen) GTEST_SKIP() << "coverage is judged over the default seeds";
  EXPECT_EQ(joined(coverage.missing({"dtype", "operator", "shape", "layout", "input"})), "");
}

TEST(Comparison, SeesOneWrongElement) {
  int floats = 0, integers = 0;
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    const GeneratedProgram program = generate(seed);
    const Outcome reference = run_interpreted(program, program.func, true);
    for (size_t k = static_cast<size_t>(program.input_count); reference.status == 0 && k < program.parameters.size();
         ++k) {
      Outcome outcome = run_interpreted(program, program.func);
      const GuardedArray& array = outcome.arrays[k];
      if (array.count() == 0) continue;
      const DType dtype = program.parameters[k].dtype;
      const std::int64_t last = array.count() - 1;
      interpreter::Cell cell = interpreter::load_element(dtype, array.element(last));
      if (dtype.is_float()) {
        const auto unit = static_cast<size_t>((array.element(last) - array.begin()) / dtype.bytes());
        const FloatBound bound = reference.bounds[k][unit];
        if (!std::isfinite(bound.radius) || !std::isfinite(cell.d)) continue;
        // Beyond the bound on the other side of where it is, and by more than the last bit of f16 and bf16.
        cell.d = bound.exact + 2 * bound.radius + std::abs(bound.exact) / 16 + 0x1p-6;
        ++floats;
      } else {
        cell.i = dtype.is_bool() ? !cell.i : cell.i ^ 1;
        ++integers;
      }
      interpreter::store_element(dtype, array.element(last), cell);
      EXPECT_NE(compare(program, reference, outcome), "") << "seed " << seed;
    }
  }
  EXPECT_GT(floats, 10);
  EXPECT_GT(integers, 10);
}

TEST(Fuzz, TracedProgramsComeBackFromText) {
  const Seeds range = seeds(2000);
  for (std::uint64_t seed = range.first; seed < range.last; ++seed) {
    const Func func = generate(seed).func;
    const std::string text = print(func);
    ASSERT_TRUE(equal(parse_func(text), func)) << "seed " << seed << "\n" << text;
  }
}

TEST(Fuzz, InterpretedProgramsStayWithinTheirOwnBounds) {
  const Seeds range = seeds(600);
  BoundSummary summary;
  int stopped = 0;
  for (std::uint64_t seed = range.first; seed < range.last; ++seed) {
    const GeneratedProgram first = generate(seed);
    BoundStatistics statistics;
    for (size_t k = 0; k < first.runs.size(); ++k) {
      const GeneratedProgram program = with_run(first, k);
      const std::string name = fmt::format("seed {} run {}", seed, k);
      Outcome outcome;
      try {
        outcome = run_interpreted(program, program.func, true);
      } catch (const Error& error) {
        FAIL() << name << ": " << error.what() << "\n" << print(program.func);
      }
      if (!program.bad_indices) {
        ASSERT_EQ(outcome.status, 0) << name << ": " << outcome.message;
      }
      stopped += outcome.status != 0;
      ASSERT_EQ(compare(program, outcome, outcome, &statistics), "") << name << "\n" << print(program.func);
    }
    summary.add(statistics);
  }
  // A bound that accepts anything tests nothing: few elements may lack one.
  if (!range.chosen) {
    EXPECT_GT(stopped, 0) << "no index out of range was met";
    EXPECT_LT(summary.elements().unbounded, summary.elements().elements / 20);
  }
  fmt::print("{} programs: {}\n", range.last - range.first, summary.text());
}

}  // namespace
}  // namespace lathe::testing
