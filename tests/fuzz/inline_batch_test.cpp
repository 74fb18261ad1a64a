#include <gtest/gtest.h>

#include "ir/error.h"
#include "ir/structural.h"
#include "ir/text/print.h"
#include "schedule/primitives/compute_inline.h"
#include "tests/fuzz/generator.h"
#include "tests/fuzz/pipelines.h"
#include "tests/fuzz/seeds.h"

namespace lathe::testing {
namespace {

/// Adds whatever a batch takes, and applies the same one by one: the Funcs and the records must be the same.
int inline_both_ways(const Func& func) {
  Schedule together(func), apart(func);
  InlineBatch batch(together);
  int added = 0;
  for (const BlockRef& block : together.blocks()) {
    if (!batch.takes(block)) continue;
    try {
      batch.add(block);
    } catch (const Refusal&) {
      EXPECT_THROW(compute_inline(apart, block), Refusal) << block.name;
      continue;
    }
    compute_inline(apart, block);
    ++added;
  }
  batch.apply();
  EXPECT_EQ(together.record(), apart.record());
  EXPECT_TRUE(equal(together.func(), apart.func())) << print(func) << print(together.func()) << print(apart.func());
  return added;
}

TEST(InlineBatch, GivesWhatOneApplicationAfterAnotherGives) {
  int added = 0, several = 0;
  const Seeds range = seeds(400);
  for (std::uint64_t seed = range.first; seed < range.last; ++seed) {
    for (const auto source : {generate, generate_pipeline}) {
      const int here = inline_both_ways(source(seed).func);
      added += here;
      several += here > 1;
      if (::testing::Test::HasFailure()) FAIL() << "seed " << seed;
    }
  }
  if (range.chosen) return;
  EXPECT_GE(added, 400);
  EXPECT_GE(several, 100);
}

}  // namespace
}  // namespace lathe::testing
