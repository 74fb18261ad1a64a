#include <fmt/format.h>

#include "ir/text/parse.h"
#include "ir/text/print.h"
#include "schedule/auto/auto_schedule.h"
#include "tests/schedule/auto_support.h"
#include "tests/schedule/support.h"

namespace lathe::testing {
namespace {

/// out[i, j] = sum over k and p of x[i, k * digits + p] times digit p of word k of w[j].
Func digits_of_words(int rows, int columns, int words, int digits, const char* type) {
  const int bits = type == std::string("u8") ? 8 : 32;
  return parse_func(fmt::format(
      R"(func digits(x: f32[{0}, {4}], w: {5}[{1}, {2}], out: f32[{0}, {1}]) stage begin {{
  for i in [0, {0}) {{ for j in [0, {1}) {{ for k in [0, {2}) {{ for p in [0, {3}) {{
    block digits(space vi in [0, {0}) = i, space vj in [0, {1}) = j, reduce vk in [0, {2}) = k, reduce vp in [0, {3}) = p)
        reads out[vi, vj], x[vi, vk * {3} + vp], w[vj, vk] writes out[vi, vj] {{
      reducer (lhs: f32) (rhs: f32) {{lhs + rhs}} identity {{0.0f32}}
      init {{ out[vi, vj] = 0.0f32 }}
      let l: f32 = out[vi, vj]
      let r: f32 = x[vi, vk * {3} + vp] * cast<f32>(cast<i32>(w[vj, vk]) >> cast<i32>(vp * {6}) & {7}i32)
      out[vi, vj] = l + r }} }} }} }} }} }})",
      rows, columns, words, digits, words * digits, type, bits / digits, (1LL << (bits / digits)) - 1));
}

bool unfolds(const Func& func, const Device& device) {
  return decides(func, device, "unfold the digits that digits picks along p");
}

TEST(UnfoldDigits, OfWordsThatLieSideBySide) {
  for (const int digits : {2, 4, 8}) {
    for (const int rows : {1, 3}) {
      SCOPED_TRACE(fmt::format("{} digits, {} rows", digits, rows));
      const Func func = digits_of_words(rows, 20, 33, digits, "u8");
      EXPECT_TRUE(unfolds(func, wide()));
      expect_scheduled_well(func);
    }
  }
  EXPECT_TRUE(unfolds(digits_of_words(1, 20, 33, 4, "i32"), wide()));
  EXPECT_FALSE(unfolds(digits_of_words(1, 20, 33, 8, "i32"), wide())) << "they fill half a vector by themselves";
}

TEST(UnfoldDigits, OfAxesThatAreDigitsOfOne) {
  const auto flat_sums = [&](int rows) {
    const std::string text = print(digits_of_words(rows, 20, 32, 2, "u8"));
    const auto replaced = [](std::string from, const std::string& a, const std::string& b) {
      EXPECT_NE(from.find(a), std::string::npos) << a;
      return replaced_all(std::move(from), a, b);
    };
    std::string flat = replaced(text, "for p in [0, 2) {", "for p in [0, 1) {");
    flat = replaced(flat, "for k in [0, 32)", "for k in [0, 64)");
    flat = replaced(flat, "reduce vk in [0, 32)", "reduce vk in [0, 64)");
    flat = replaced(flat, "reduce vp in [0, 2)", "reduce vp in [0, 1)");
    flat = replaced(flat, "vk * 2 + vp", "vk + vp");
    flat = replaced(flat, "w[vj, vk]", "w[vj, vk // 2]");
    flat = replaced(flat, "vp * 4", "vk % 2 * 4");
    return parse_func(flat);
  };
  for (const int rows : {1, 3}) {
    const std::string decisions = decisions_on(flat_sums(rows), wide(), "");
    EXPECT_NE(decisions.find("unfold the digits that digits picks along"), std::string::npos) << decisions;
  }
}

TEST(UnfoldDigits, LeavesWordsWhereTheyLieWhichAreReadOnce) {
  const auto turns = [](int digits) {
    return decides(digits_of_words(1, 64, 64, digits, "u8"), wide(), "turn w around for digits");
  };
  EXPECT_FALSE(turns(2)) << "vectors along the words pick every second element of x";
  EXPECT_TRUE(turns(4));
}

}  // namespace
}  // namespace lathe::testing
