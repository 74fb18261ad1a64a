#include <gtest/gtest.h>

#include "ir/error.h"
#include "ir/structural.h"
#include "ir/text/print.h"
#include "schedule/primitives/compute_inline.h"
#include "tests/fuzz/compare.h"
#include "tests/fuzz/generator.h"
#include "tests/fuzz/pipelines.h"
#include "tests/fuzz/seeds.h"

namespace lathe::testing {
namespace {

/// Adds whatever a batch takes, and applies the same one by one, the last first: the records must be the same, and what
/// the Funcs compute; `alike` counts Funcs that are the same.
int inline_both_ways(const GeneratedProgram& program, int& alike) {
  const Func& func = program.func;
  Schedule together(func), apart(func);
  InlineBatch batch(together);
  std::vector<BlockRef> added;
  for (const BlockRef& block : together.blocks()) {
    if (!batch.takes(block)) continue;
    try {
      batch.add(block);
    } catch (const Refusal&) {
      EXPECT_THROW(compute_inline(apart, block), Refusal) << block.name;
      continue;
    }
    added.push_back(block);
  }
  batch.apply();
  for (size_t i = added.size(); i-- > 0;) compute_inline(apart, added[i]);
  EXPECT_EQ(together.record(), apart.record());
  alike += equal(together.func(), apart.func());
  const Outcome reference = run_interpreted(program, func, true);
  for (const Func& after : {together.func(), apart.func()})
    EXPECT_EQ(compare(program, reference, run_interpreted(program, after)), "") << print(func) << print(after);
  return static_cast<int>(added.size());
}

TEST(InlineBatch, GivesWhatOneApplicationAfterAnotherGives) {
  int added = 0, several = 0, alike = 0, programs = 0;
  const Seeds range = seeds(400);
  for (std::uint64_t seed = range.first; seed < range.last; ++seed) {
    for (const auto source : {generate, generate_pipeline}) {
      const int here = inline_both_ways(source(seed), alike);
      ++programs;
      added += here;
      several += here > 1;
      if (::testing::Test::HasFailure()) FAIL() << "seed " << seed;
    }
  }
  if (range.chosen) return;
  EXPECT_GE(added, 400);
  EXPECT_GE(several, 100);
  EXPECT_GE(alike, programs * 9 / 10);
}

}  // namespace
}  // namespace lathe::testing
