#include "schedule/commutes.h"

#include <fmt/format.h>

#include "ir/text/parse.h"
#include "ir/visitor.h"
#include "tests/schedule/support.h"

namespace lathe::testing {
namespace {

/// The reducer of values and places whose results are `value` and `place`, over l, r: f32 and i, j: i64.
Reducer reducer(const std::string& value, const std::string& place) {
  const Func func = parse_func(fmt::format(R"(func f(x: f32[4], v: f32[], p: i64[]) stage begin {{
  block root() reads x[..] writes v[..], p[..] {{
    for k in [0, 4) {{
      block best(reduce vk in [0, 4) = k) reads x[vk], v[], p[] writes v[], p[] {{
        reducer (l: f32, i) (r: f32, j) {{{}, {}}} identity {{-inf(f32), 9223372036854775807}}
        init {{
          v[] = -inf(f32)
          p[] = 9223372036854775807
        }}
        v[] = x[vk]
        p[] = vk
      }}
    }}
  }}
}}
)",
                                           value, place));
  Reducer found;
  for_each_stmt(func->body, [&](const Stmt& s) {
    const Block* block = s.as<Block>();
    if (block && block->f.reducer) found = *block->f.reducer;
  });
  return found;
}

Reducer chosen(const std::string& condition) {
  return reducer("select(" + condition + ", r, l)", "select(" + condition + ", j, i)");
}

TEST(Commutes, TheGreatestAndItsFirstPlaceDo) {
  EXPECT_TRUE(commutes(chosen("r > l || is_nan(r) && !is_nan(l) || (l == r || is_nan(l) && is_nan(r)) && j < i")));
}

TEST(Commutes, WithoutCareForTiesOrNaNsTheyDoNot) {
  EXPECT_FALSE(commutes(chosen("r > l")));
  EXPECT_FALSE(commutes(chosen("r >= l")));
  EXPECT_FALSE(commutes(chosen("r > l || l == r && j < i")));
  EXPECT_FALSE(commutes(reducer("r", "j")));
}

TEST(Commutes, NothingIsProvedOfArithmeticConstantsOrMixedComparisons) {
  EXPECT_FALSE(commutes(reducer("l + r", "select(i < j, i, j)")));
  EXPECT_FALSE(commutes(reducer("select(l < 1.0f32 && r < 1.0f32, l, l)", "select(i < j, i, j)")));
  EXPECT_FALSE(commutes(reducer("select(select(i < j, l, r) < select(i < j, r, l), l, r)", "select(i < j, i, j)")));
}

TEST(Commutes, DifferencesWhoseSignDoesNotMatterDo) {
  EXPECT_TRUE(commutes(reducer("max(l, r) + log1p(exp(-abs(l - r)))", "max(j, i)")));
  EXPECT_TRUE(commutes(reducer("l + r + (l - r) * (l - r)", "abs(i - j)")));
  EXPECT_TRUE(commutes(reducer("hypot(l, r)", "max(i, j)")));
  EXPECT_FALSE(commutes(reducer("abs(l - r * 2.0f32)", "i + j")));
  EXPECT_FALSE(commutes(reducer("(l - r) * (r - l) * (l - r)", "i + j")));
  EXPECT_FALSE(commutes(reducer("l + r", "select(l == r, i, j)"))) << "what is equal has places of its own";
}

TEST(Commutes, ResultsThatAreTheSameWithTheirOperandsExchangedDo) {
  EXPECT_TRUE(commutes(reducer("l + r", "max(j, i)")));
  EXPECT_FALSE(commutes(reducer("1.0f32 + l + r", "i + j"))) << "another grouping";
  EXPECT_TRUE(
      commutes(reducer("max(l, r) + log(exp(l - max(r, l)) + exp(r - max(l, r)))", "select(i == j, i * j, 0)")));
  EXPECT_FALSE(commutes(reducer("l - r", "i + j")));
  EXPECT_FALSE(commutes(reducer("l + r", "select(i < j, i, i)")));
  EXPECT_FALSE(commutes(reducer("l * r + l", "i + j")));
}

}  // namespace
}  // namespace lathe::testing
