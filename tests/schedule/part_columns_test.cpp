#include "schedule/auto/part_columns.h"

#include <fmt/format.h>

#include <algorithm>
#include <random>

#include "ir/text/parse.h"
#include "ir/text/print.h"
#include "schedule/auto/auto_schedule.h"
#include "tests/golden.h"
#include "tests/schedule/auto_support.h"
#include "tests/schedule/support.h"

namespace lathe::testing {
namespace {

/// One core, a first cache of 1 KiB, and one of `own` bytes for each core.
Device with_own_cache(std::int64_t own = 1 << 13) {
  Device device = wide();
  device.cores = 1;
  device.caches = {{1 << 10, 8, 64, false}, {own, 8, 64, false}, {1 << 26, 16, 64, true}};
  return device;
}

std::string lines_of(const ScheduleLog& log) {
  std::string lines;
  for (const std::string& decision : log.decisions) lines += decision + "\n";
  return lines;
}

/// The decisions, one a line, of a schedule that means the same.
std::string decisions(const Func& func, const Device& device = with_own_cache()) {
  ScheduleLog log;
  expect_same(func, auto_schedule(func, device, &log));
  return lines_of(log);
}

/// Is it said, or what is refused?
bool mentions(const std::string& text, const std::string& what) {
  return text.find(what) != std::string::npos;
}

/// A nest that sums a term over `row`, or `column`, into `name`.
std::string sum(const std::string& name, bool down, const std::string& term, const std::string& reads, int rows,
                int columns) {
  const std::string at = down ? "vj" : "vi";
  return fmt::format(
      R"(    for {0}_o in [0, {1}) {{ for {0}_r in [0, {2}) {{
      block {0}({3}) reads {5}, {0}[{4}] writes {0}[{4}] {{
        reducer (lhs_{0}: f32) (rhs_{0}: f32) {{lhs_{0} + rhs_{0}}} identity {{0.0f32}}
        init {{ {0}[{4}] = 0.0f32 }}
        let l_{0}: f32 = {0}[{4}]
        let r_{0}: f32 = {6}
        {0}[{4}] = l_{0} + r_{0} }} }} }}
)",
      name, down ? columns : rows, down ? rows : columns,
      down ? fmt::format("space vj in [0, {1}) = {2}_o, reduce vi in [0, {0}) = {2}_r", rows, columns, name)
           : fmt::format("space vi in [0, {0}) = {2}_o, reduce vj in [0, {1}) = {2}_r", rows, columns, name),
      at, reads, term);
}

/// A nest that makes d of x and y, element by element.
std::string rows_of(const std::string& value, const std::string& reads, int rows, int columns) {
  return fmt::format(
      R"(    for i in [0, {0}) {{ for j in [0, {1}) {{
      block d(space vi in [0, {0}) = i, space vj in [0, {1}) = j) reads {3} writes d[vi, vj] {{
        d[vi, vj] = {2} }} }} }}
)",
      rows, columns, value, reads);
}

/// A nest that makes a product of 128 rows of a, and so many of y, into `name`.
std::string product(const std::string& name, const std::string& a, int columns) {
  return fmt::format(R"(
    for m in [0, 128) {{ for n in [0, {2}) {{ for k in [0, 64) {{
      block p(space vm in [0, 128) = m, space vn in [0, {2}) = n, reduce vk in [0, 64) = k)
          reads {1}[vm, vk], y[vn, vk], {0}[vm, vn] writes {0}[vm, vn] {{
        reducer (lhs: f32) (rhs: f32) {{lhs + rhs}} identity {{0.0f32}}
        init {{ {0}[vm, vn] = 0.0f32 }}
        let l: f32 = {0}[vm, vn]
        let r: f32 = {1}[vm, vk] * y[vn, vk]
        {0}[vm, vn] = l + r }} }} }} }}
)",
                     name, a, columns);
}

/// x, y and the weights w are given; d are rows, s and t sums down columns, and a along rows.
Func over(const std::string& nests, int rows = 128, int columns = 64) {
  const auto result = [&](const std::string& name, const std::string& shape) {
    return mentions(nests, " " + name + "[") ? fmt::format(", {}: f32[{}]", name, shape) : std::string();
  };
  std::string written;
  for (const char* name : {"d", "s", "t", "a"})
    if (mentions(nests, fmt::format(" {}[", name)))
      written += fmt::format("{}{}[..]", written.empty() ? "" : ", ", name);
  return parse_func(fmt::format(
      "func f(x: f32[{0}, {1}], y: f32[{0}, {1}], w: f32[{1}]{2}{3}{4}{5}) stage begin {{\n"
      "  block root() reads x[..], y[..], w[..], {6} writes {6} {{\n{7}  }} }}",
      rows, columns, result("d", fmt::format("{}, {}", rows, columns)), result("s", fmt::to_string(columns)),
      result("t", fmt::to_string(columns)), result("a", fmt::to_string(rows)), written, nests));
}

constexpr const char* weighted = "x[vi, vj] * w[vj]";
constexpr const char* weighted_reads = "x[vi, vj], w[vj]";

Func rows_and_sums(int rows = 128, int columns = 64) {
  return over(rows_of(weighted, weighted_reads, rows, columns) +
                  sum("s", true, "x[vi, vj] * y[vi, vj]", "x[vi, vj], y[vi, vj]", rows, columns) +
                  sum("t", true, "d[vi, vj]", "d[vi, vj]", rows, columns),
              rows, columns);
}

TEST(PartColumns, SumsColumnsBesideTheRowsThatTheyAreOf) {
  const std::string lines = decisions(rows_and_sums());
  EXPECT_TRUE(says(lines, "add up columns of s by 64 rows")) << lines;
  EXPECT_TRUE(says(lines, "sum s_rf beside d.0")) << lines;
  EXPECT_TRUE(says(lines, "add up s_rf beside d")) << lines;
  EXPECT_TRUE(says(lines, "add up t_rf beside d")) << lines;
  expect_golden(print(auto_schedule(rows_and_sums(), with_own_cache())), "auto_column_parts.tir");
}

TEST(PartColumns, SumsColumnsBesideSumsAlongTheRows) {
  for (const bool rows_first : {true, false}) {
    const std::string along = sum("a", false, "x[vi, vj]", "x[vi, vj]", 128, 64),
                      down = sum("s", true, "x[vi, vj]", "x[vi, vj]", 128, 64);
    const std::string lines = decisions(over(rows_first ? along + down : down + along));
    EXPECT_TRUE(says(lines, "sum s_rf beside a.0")) << lines;
  }
}

TEST(PartColumns, SumsSeveralColumnsBesideEachOther) {
  const Func func = over(sum("s", true, "x[vi, vj]", "x[vi, vj]", 128, 64) +
                         sum("t", true, "x[vi, vj] * y[vi, vj]", "x[vi, vj], y[vi, vj]", 128, 64));
  const std::string lines = decisions(func);
  EXPECT_TRUE(says(lines, "sum s_rf beside t_rf_init.0")) << lines;
  EXPECT_TRUE(says(lines, "add up t_rf beside s_rf")) << lines;
  EXPECT_FALSE(mentions(decisions(func, with_own_cache(1 << 15)), "add up columns"))
      << "x stays in the core's own cache";
}

TEST(PartColumns, FindsRowsThatWereJoinedToOneAxis) {
  const std::string lines = decisions(over(rows_of("x[vi, vj] + y[vi, vj]", "x[vi, vj], y[vi, vj]", 128, 64) +
                                           sum("s", true, "x[vi, vj]", "x[vi, vj]", 128, 64)));
  EXPECT_TRUE(says(lines, "sum s_rf beside d.0")) << lines;
}

TEST(PartColumns, KeepsColumnsOfAnyLengthWhole) {
  for (const int columns : {65, 79, 100}) {
    const std::string lines = decisions(rows_and_sums(128, columns), with_own_cache());
    EXPECT_TRUE(says(lines, "add up s_rf beside d")) << columns << "\n" << lines;
  }
}

TEST(PartColumns, TakesPartsOfAsManyRowsAsDivideThem) {
  EXPECT_TRUE(says(decisions(rows_and_sums(200)), "add up columns of s by 50 rows"));
  EXPECT_TRUE(says(decisions(rows_and_sums(32)), "add up columns of s by 16 rows"));
  EXPECT_TRUE(says(decisions(rows_and_sums(142)), "add up columns of s by 71 rows"));
  EXPECT_FALSE(mentions(decisions(rows_and_sums(127)), "add up columns")) << "no part divides them";
  EXPECT_FALSE(mentions(decisions(rows_and_sums(24)), "add up columns")) << "too few for two parts";
  Device many = with_own_cache();
  many.cores = 4;
  EXPECT_TRUE(says(decisions(rows_and_sums(), many), "add up columns of s by 16 rows")) << "two parts for each core";
}

/// The sums of x * g over its first two axes, whose loops g keeps apart; with rows beside them, which are x * g.
Func over_two_axes(bool rows, int outer = 4, int inner = 32) {
  const std::string made = R"(
    for b in [0, @B) { for i in [0, @I) { for j in [0, 64) {
      block d(space vb in [0, @B) = b, space vi in [0, @I) = i, space vj in [0, 64) = j)
          reads x[vb, vi, vj], g[vb, vj] writes d[vb, vi, vj] {
        d[vb, vi, vj] = x[vb, vi, vj] * g[vb, vj] } } } })";
  const std::string text = R"(func f(x: f32[@B, @I, 64], g: f32[@B, 64], d: f32[@B, @I, 64], s: f32[64]) stage begin {
  block root() reads x[..], g[..], s[..] writes d[..], s[..] {)" +
                           (rows ? made : "") + R"(
    for j1 in [0, 64) { for b1 in [0, @B) { for i1 in [0, @I) {
      block s(space wj in [0, 64) = j1, reduce wb in [0, @B) = b1, reduce wi in [0, @I) = i1)
          reads x[wb, wi, wj], g[wb, wj], s[wj] writes s[wj] {
        reducer (lhs: f32) (rhs: f32) {lhs + rhs} identity {0.0f32}
        init { s[wj] = 0.0f32 }
        let l: f32 = s[wj]
        let r: f32 = x[wb, wi, wj] * g[wb, wj]
        s[wj] = l + r } } } } } })";
  return parse_func(replaced_all(replaced_all(text, "@B", fmt::to_string(outer)), "@I", fmt::to_string(inner)));
}

TEST(PartColumns, SumsOverTwoAxesBesideRows) {
  const std::string lines = decisions(over_two_axes(true));
  EXPECT_TRUE(says(lines, "add up columns of s by 32 rows")) << lines;
  EXPECT_TRUE(says(lines, "sum s_rf beside d.0")) << lines;
  EXPECT_TRUE(says(lines, "add up s_rf beside d")) << lines;
  const std::string shorter = decisions(over_two_axes(true, 2, 200));
  EXPECT_TRUE(says(shorter, "add up columns of s by 50 rows")) << shorter;
  EXPECT_TRUE(says(shorter, "sum s_rf beside d.0")) << shorter;
}

TEST(PartColumns, SumsOverTwoAxesOfWhatComesFromMemoryOneByOne) {
  Device device = with_own_cache();
  device.caches.back().bytes = std::int64_t{4} * 32 * 64 * 4 * 2;
  EXPECT_TRUE(says(decisions(over_two_axes(false), device), "add up columns of s for each b1"));
  EXPECT_FALSE(mentions(decisions(over_two_axes(false, 4, 31), device), "add up columns")) << "twice in the last cache";
  EXPECT_FALSE(mentions(decisions(over_two_axes(false, 32, 8), device), "add up columns")) << "few rows for each part";
}

TEST(PartColumns, LeavesAloneWhatGainsNothing) {
  EXPECT_FALSE(mentions(decisions(rows_and_sums(), with_own_cache(1 << 18)), "add up columns")) << "all stays near";
  EXPECT_FALSE(mentions(decisions(rows_and_sums(), with_own_cache(1 << 10)), "add up columns"))
      << "rows leave the cache";
  EXPECT_FALSE(mentions(decisions(rows_and_sums(128, 63)), "add up columns")) << "rows shorter than four vectors";
  const std::string alone = sum("s", true, "x[vi, vj]", "x[vi, vj]", 128, 64);
  EXPECT_FALSE(mentions(decisions(over(alone)), "add up columns")) << "nothing else walks them";
  EXPECT_FALSE(
      mentions(decisions(over(rows_of("y[vi, vj] * w[vj]", "y[vi, vj], w[vj]", 128, 64) + alone)), "add up columns"))
      << "other rows";
}

TEST(PartColumns, LeavesAloneWhatCannotBeJoined) {
  const std::string down = sum("s", true, "x[vi, vj]", "x[vi, vj]", 128, 64),
                    made = rows_of("x[vi, vj] * w[vj]", "x[vi, vj], w[vj]", 128, 64);
  EXPECT_TRUE(says(decisions(over(down + made)), "add up columns of s by 64 rows"));
  EXPECT_FALSE(mentions(
      decisions(over(down + replaced_all(made, "writes d[vi, vj] {", "writes d[vi, vj] @{fuse: 0} {"))), "add up"))
      << "kept apart by a person";
  EXPECT_FALSE(
      mentions(decisions(over(replaced_all(down, "writes s[vj] {", "writes s[vj] @{fuse: 0} {") + made)), "add up"));
  const std::string products = sum("a", false, "x[vi, vj] * w[vj]", "x[vi, vj], w[vj]", 128, 64);
  EXPECT_FALSE(mentions(decisions(over(down + products)), "add up columns")) << "tiles of a matrix by a vector";
  const std::string added = product("p", "y", 64) + rows_of("x[vi, vj] + p[vi, vj]", "x[vi, vj], p[vi, vj]", 128, 64);
  const Func adds = over("    alloc p: f32[128, 64]\n" + down + added);
  EXPECT_FALSE(mentions(decisions(adds), "add up columns")) << "tiles of a product store them";
  // Columns of x become rows of d.
  const std::string turned = R"(
    for j in [0, 64) { for i in [0, 128) {
      block d(space vj in [0, 64) = j, space vi in [0, 128) = i) reads x[vi, vj] writes d[vj, vi] {
        d[vj, vi] = x[vi, vj] * 2.0f32 } } }
)";
  const Func func = over(down + turned);
  EXPECT_FALSE(mentions(decisions(parse_func(replaced_all(print(func), "d: f32[128, 64]", "d: f32[64, 128]"))),
                        "add up columns"));
}

TEST(PartColumns, TellsWhichOfTwoAxesIsTheOuterOne) {
  std::string text = print(over_two_axes(true));
  const std::string loops = "for b1 in [0, 4) {\n        for i1 in [0, 32) {",
                    iters = "reduce wb in [0, 4) = b1, reduce wi in [0, 32) = i1";
  ASSERT_TRUE(mentions(text, loops) && mentions(text, iters)) << text;
  text = replaced_all(text, loops, "for i1 in [0, 32) {\n        for b1 in [0, 4) {");
  text = replaced_all(text, iters, "reduce wi in [0, 32) = i1, reduce wb in [0, 4) = b1");
  const std::string lines = decisions(parse_func(text));
  EXPECT_TRUE(says(lines, "add up columns of s by 32 rows")) << lines;
  EXPECT_TRUE(says(lines, "sum s_rf beside d.0")) << lines;
}

TEST(PartColumns, LeavesProductsAndOtherColumnsAlone) {
  const std::string down = sum("s", true, "x[vi, vj]", "x[vi, vj]", 128, 64);
  EXPECT_FALSE(mentions(decisions(over(down + product("d", "x", 24))), "add up columns"));
  // A square, whose columns another reduction goes down one by one, in a loop as long as that over rows.
  const std::string places = R"(
    for c in [0, 128) { for k in [0, 128) {
      block g(space vc in [0, 128) = c, reduce vk in [0, 128) = k) reads x[vk, vc], a[vc], t[vc] writes a[vc], t[vc] {
        reducer (m: f32, n: f32) (u: f32, v: f32) {select(m < u, u, m), select(m < u, v, n)} identity {-inf(f32), 0.0f32}
        init { a[vc] = -inf(f32)
               t[vc] = 0.0f32 }
        let m0: f32 = a[vc]
        let n0: f32 = t[vc]
        let u0: f32 = x[vk, vc]
        let v0: f32 = cast<f32>(vk)
        a[vc] = select(m0 < u0, u0, m0)
        t[vc] = select(m0 < u0, v0, n0) } } }
)";
  const Func square = over(sum("s", true, "x[vi, vj]", "x[vi, vj]", 128, 128) +
                               rows_of("x[vi, vj] * 2.0f32", "x[vi, vj]", 128, 128) + places,
                           128, 128);
  const std::string lines = decisions(square);
  EXPECT_TRUE(says(lines, "sum s_rf beside d.0")) << lines;
  EXPECT_FALSE(mentions(lines, "sum s_rf beside g.0")) << lines;
}

TEST(PartColumns, LeavesAloneWhatWaitsForTheSums) {
  const std::string down = sum("s", true, "x[vi, vj]", "x[vi, vj]", 128, 64);
  EXPECT_FALSE(
      mentions(decisions(over(down + rows_of("x[vi, vj] - s[vj]", "x[vi, vj], s[vj]", 128, 64))), "add up columns"))
      << "rows less their mean";
  EXPECT_FALSE(mentions(decisions(over(down + sum("t", true, "x[vi, vj] * s[vj]", "x[vi, vj], s[vj]", 128, 64))),
                        "add up columns"))
      << "sums of what other sums weigh";
}

TEST(PartColumns, AsksForTheNextRowWhereBlocksOfRowsWouldFitToo) {
  const Func func = over(rows_of("exp(x[vi, vj]) * w[vj]", weighted_reads, 128, 1100) +
                             sum("s", true, "x[vi, vj]", "x[vi, vj]", 128, 1100),
                         128, 1100);
  Device device = with_own_cache(1 << 19);
  device.cores = 4;
  device.caches.back().bytes = 1 << 20;
  ScheduleLog log;
  auto_schedule(func, device, &log);
  const std::string lines = lines_of(log);
  EXPECT_TRUE(says(lines, "sum s_rf beside d.0")) << lines;
  EXPECT_TRUE(says(lines, "have d ask for x 1100 elements ahead")) << lines;
}

/// Nests over x and y in random order: elements made of them, sums along rows and down columns, each of what came
/// before too.
Func random_nests(std::mt19937& random, int rows, int columns) {
  const auto draw = [&](size_t count) { return std::uniform_int_distribution<size_t>(0, count - 1)(random); };
  std::vector<std::string> names{"d", "s", "t", "a"};
  std::shuffle(names.begin(), names.end(), random);
  names.resize(2 + draw(3));
  std::vector<std::string> operands{"x[vi, vj]", "y[vi, vj]", "x[vi, vj]", "w[vj]"};
  std::string nests;
  for (const std::string& name : names) {
    const std::string first = operands[draw(operands.size())], second = operands[draw(operands.size())];
    const std::string term = fmt::format("{} {} {}", first, draw(2) == 0 ? "+" : "*", second),
                      reads = first == second ? first : first + ", " + second;
    nests += name == "d" ? rows_of(term, reads, rows, columns) : sum(name, name != "a", term, reads, rows, columns);
    operands.push_back(name == "d" ? "d[vi, vj]" : name == "a" ? "a[vi]" : name + "[vj]");
  }
  return over(nests, rows, columns);
}

TEST(PartColumns, KeepsTheMeaningOfRandomNests) {
  std::mt19937 random(5);
  int cut = 0, joined = 0, together = 0;
  for (int round = 0; round < 150; ++round) {
    const int rows = 16 * std::uniform_int_distribution(2, 8)(random),
              columns = std::uniform_int_distribution(64, 90)(random);
    const std::string lines = decisions(random_nests(random, rows, columns));
    cut += says(lines, "add up columns of");
    joined += says(lines, "sum s_rf beside") || says(lines, "sum t_rf beside");
    together += says(lines, "add up s_rf beside") || says(lines, "add up t_rf beside");
  }
  EXPECT_GT(cut, 30);
  EXPECT_GT(joined, 30);
  EXPECT_GT(together, 15);
}

}  // namespace
}  // namespace lathe::testing
