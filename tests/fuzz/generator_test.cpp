#include <fmt/format.h>
#include <gtest/gtest.h>

#include <set>

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

std::string joined(const std::vector<std::string>& list) { return fmt::format("{}", fmt::join(list, ", ")); }

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
  BoundStatistics statistics;
  for (std::uint64_t seed = range.first; seed < range.last; ++seed) {
    const GeneratedProgram program = generate(seed);
    Outcome outcome;
    try {
      outcome = run_interpreted(program, program.func, true);
    } catch (const Error& error) {
      FAIL() << "seed " << seed << ": " << error.what() << "\n" << print(program.func);
    }
    ASSERT_EQ(outcome.status, 0) << "seed " << seed << ": " << outcome.message;
    ASSERT_EQ(compare(program, outcome, outcome, &statistics), "") << "seed " << seed << "\n" << print(program.func);
  }
  // A bound that accepts anything tests nothing: few elements may lack one.
  if (!range.chosen) {
    EXPECT_LT(statistics.unbounded, statistics.elements / 20) << statistics.elements;
  }
  fmt::print("{} float elements, {} without bound, worst error {:.2f} of its bound\n", statistics.elements, statistics.unbounded,
             statistics.worst);
}

}  // namespace
}  // namespace lathe::testing
