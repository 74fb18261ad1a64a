#include <fmt/format.h>

#include "ir/text/parse.h"
#include "ir/text/print.h"
#include "schedule/auto/auto_schedule.h"
#include "tests/schedule/auto_support.h"
#include "tests/schedule/support.h"

namespace lathe::testing {
namespace {

/// What is decided of the sum along rows of `term`, an expression over the element, x[vi, vk].
std::string decision(const std::string& term) {
  return decisions_on(parse_func(fmt::format(
                          R"(func total(x: f32[4, 1024], out: f32[4]) stage begin {{
  block root() reads x[..], out[..] writes out[..] {{
    for i in [0, 4) {{ for k in [0, 1024) {{
      block total(space vi in [0, 4) = i, reduce vk in [0, 1024) = k) reads x[vi, vk], out[vi] writes out[vi] {{
        reducer (l: f32) (r: f32) {{l + r}} identity {{0.0f32}}
        init {{ out[vi] = 0.0f32 }}
        let sum: f32 = out[vi]
        let term: f32 = {}
        out[vi] = sum + term
      }} }} }} }} }})",
                          term)),
                      wide(), "total");
}

TEST(VectorizeReductions, HidesTheLatencyOfCheapTermsInFourChains) {
  EXPECT_NE(decision("x[vi, vk] * x[vi, vk]").find("reduce total in 4 vectors of 16 lanes\n"), std::string::npos)
      << decision("x[vi, vk] * x[vi, vk]");
}

TEST(VectorizeReductions, TakesOneChainWhereTheTermsTakeLonger) {
  EXPECT_NE(decision("sqrt(x[vi, vk] * x[vi, vk])").find("reduce total in 1 vectors of 16 lanes\n"), std::string::npos)
      << decision("sqrt(x[vi, vk] * x[vi, vk])");
}

/// out[i] = sum, or place of the greatest, of x[i, `place`] * y[i, k] over 100 k.
Func beside_rows(const std::string& place, bool tuples) {
  const char* sum = R"(reducer (l: f32) (r: f32) {{l + r}} identity {{0.0f32}}
        init {{ out[vi] = 0.0f32 }}
        let l0: f32 = out[vi]
        let r0: f32 = {0}
        out[vi] = l0 + r0)";
  const char* greatest = R"(reducer (l: f32, li: i64) (r: f32, ri: i64) {{
          select(!(r <= l) && !is_nan(l) || (l == r || is_nan(l) && is_nan(r)) && ri < li, r, l),
          select(!(r <= l) && !is_nan(l) || (l == r || is_nan(l) && is_nan(r)) && ri < li, ri, li)}}
            identity {{-inf(f32), 9223372036854775807i64}}
        init {{ best[vi] = -inf(f32) out[vi] = 9223372036854775807i64 }}
        let l0: f32 = best[vi]
        let l1: i64 = out[vi]
        let r0: f32 = {0}
        let r1: i64 = vk
        best[vi] = select(!(r0 <= l0) && !is_nan(l0) || (l0 == r0 || is_nan(l0) && is_nan(r0)) && r1 < l1, r0, l0)
        out[vi] = select(!(r0 <= l0) && !is_nan(l0) || (l0 == r0 || is_nan(l0) && is_nan(r0)) && r1 < l1, r1, l1))";
  const std::string term = fmt::format("x[vi, {}] * y[vi, vk]", place),
                    body = tuples ? fmt::format(fmt::runtime(greatest), term) : fmt::format(fmt::runtime(sum), term);
  return parse_func(fmt::format(R"(func total(x: f32[9, 600], y: f32[9, 100], out: {0}[9]) stage begin {{
  block root() reads x[..], y[..], out[..] writes out[..] {{
    {1}
    for i in [0, 9) {{ for k in [0, 100) {{
      block total(space vi in [0, 9) = i, reduce vk in [0, 100) = k)
          reads x[vi, {3}], y[vi, vk], out[vi]{2} writes out[vi]{2} {{
        {4}
      }} }} }} }} }})",
                                tuples ? "i64" : "f32", tuples ? "alloc best: f32[9]" : "", tuples ? ", best[vi]" : "",
                                place, body));
}

TEST(VectorizeReductions, PicksWhatMovesByAFewElementsBesideWholeVectors) {
  for (const char* place : {"vk * 2", "vk * 4 + 3", "99 - vk", "500 - vk * 3"}) {
    const Func sums = beside_rows(place, false), tuples = beside_rows(place, true);
    EXPECT_TRUE(says(decisions_on(sums, wide(), "total"), "reduce total in 1 vectors of 16 lanes"))
        << decisions_on(sums, wide(), "total");
    EXPECT_TRUE(says(decisions_on(tuples, wide(), "total"), "reduce tuples of total")) << place;
    expect_scheduled_well(sums);
    expect_scheduled_well(tuples);
  }
}

TEST(VectorizeReductions, FetchesNothingUnderMasksOfALengthThatIsNotKnown) {
  std::string text = print(beside_rows("vk * 5", false));
  for (const auto& [from, to] : {std::pair("[0, 100)", "[0, n)"),
                                 {"f32[9, 100]", "f32[n, 9]"},
                                 {"y[vi, vk]", "y[vk, vi]"},
                                 {"out: f32[9])", "out: f32[9], n: i64)"},
                                 {"stage begin", "stage begin facts {n in [1, 100]}"}})
    text = replaced_all(text, from, to);
  const Func symbolic = parse_func(text);
  ScheduleLog log;
  auto_schedule(symbolic, wide(), &log);
  for (const std::string& decision : log.decisions) EXPECT_EQ(decision.find("reduce total in"), std::string::npos);
}

TEST(VectorizeReductions, HasLoopsOverResultsOutsideOfWhatRegistersHold) {
  const Func func = parse_func(R"(func sums(a: f32[9, 6, 40], b: f32[9, 6, 40], s: f32[9]) stage begin {
  for j in [0, 6) { for z in [0, 9) { for i in [0, 40) {
    block total(reduce vj in [0, 6) = j, space vz in [0, 9) = z, reduce vi in [0, 40) = i)
        reads a[vz, vj, vi], b[vz, vj, vi], s[vz] writes s[vz] {
      reducer (lhs: f32) (rhs: f32) {lhs + rhs} identity {0.0f32}
      init { s[vz] = 0.0f32 }
      let l: f32 = s[vz]
      let r: f32 = a[vz, vj, vi] * b[vz, vj, vi]
      s[vz] = l + r } } } } })");
  EXPECT_TRUE(says(decisions_on(func, wide(), "total"), "reduce total in"));
  const std::string text = print(auto_schedule(func, wide()));
  EXPECT_LT(text.find("in [0, 9)"), text.find("in [0, 6)")) << text;
  expect_scheduled_well(func);
}

TEST(VectorizeReductions, FetchesWhatMovesByWideStepsBesideWholeVectorsInAFewLanes) {
  const Func func = beside_rows("vk * 5", false);
  EXPECT_TRUE(says(decisions_on(func, wide(), "total"), "reduce total in 4 vectors of 4 lanes"))
      << decisions_on(func, wide(), "total");
  expect_scheduled_well(func);
}

Func sums_of_rows(const char* update, const char* identity) {
  return parse_func(fmt::format(R"(func sums(x: f32[8, 20000], out: f32[8]) stage begin {{
  for i in [0, 8) {{ for k in [0, 20000) {{
    block total(space vi in [0, 8) = i, reduce vk in [0, 20000) = k) reads out[vi], x[vi, vk] writes out[vi] {{
      reducer (lhs: f32) (rhs: f32) {{{0}}} identity {{{1}}}
      init {{ out[vi] = {1} }}
      let lhs: f32 = out[vi]
      let rhs: f32 = x[vi, vk]
      out[vi] = {0}
    }} }} }} }})",
                                update, identity));
}

TEST(VectorizeReductions, TakesSeveralVectorsOfAMaximumAtOnce) {
  const auto steps = [](const char* update, const char* identity, const std::string& columns, const Device& device) {
    const Func func = parse_func(replaced_all(print(sums_of_rows(update, identity)), "20000", columns));
    const std::string text = print(auto_schedule(func, device));
    const size_t at = text.find("total_rf(");
    int unrolled = 0;
    for (size_t i = text.find("unrolled for"); i < at; i = text.find("unrolled for", i + 1)) ++unrolled;
    return unrolled;
  };
  Device unmasked = wide();
  unmasked.mask_registers = 0;
  EXPECT_EQ(steps("max(lhs, rhs)", "-inf(f32)", "1024", wide()), 2);
  EXPECT_EQ(steps("max(lhs, rhs)", "-inf(f32)", "864", wide()), 2) << "27 steps, three at once";
  EXPECT_EQ(steps("max(lhs, rhs)", "-inf(f32)", "800", wide()), 1) << "25 steps";
  EXPECT_EQ(steps("max(lhs, rhs)", "-inf(f32)", "1024", unmasked), 1);
  unmasked.features = {"avx"};
  EXPECT_EQ(steps("max(lhs, rhs)", "-inf(f32)", "1024", unmasked), 2);
  EXPECT_EQ(steps("min(lhs, rhs)", "inf(f32)", "1024", unmasked), 1);
  EXPECT_EQ(steps("lhs + rhs", "0.0f32", "1024", wide()), 1);
}

TEST(VectorizeReductions, ReadsSeveralLongRowsSideBySideWhereOneIsReadSlower) {
  Device device = wide();
  device.caches = {{4096, 8, 64, false}, {32768, 16, 64, false}};
  const Func sums = sums_of_rows("lhs + rhs", "0.0f32"), least = sums_of_rows("min(lhs, rhs)", "inf(f32)");
  EXPECT_NE(decisions_on(sums, device, "total").find("reduce total in 4 vectors of 16 lanes\n"), std::string::npos);
  device.read_streams = 2;
  EXPECT_NE(
      decisions_on(sums, device, "total").find("reduce 2 rows of total side by side in 2 vectors of 16 lanes each\n"),
      std::string::npos)
      << decisions_on(sums, device, "total");
  EXPECT_NE(decisions_on(least, device, "total").find("reduce 2 rows of total side by side"), std::string::npos);
  // As many rows as cores: each has a single one, of which a pair of lines at a time is read.
  device.cores = 8;
  EXPECT_NE(decisions_on(sums, device, "total").find("reduce total in 2 vectors of 16 lanes\n"), std::string::npos)
      << decisions_on(sums, device, "total");
  EXPECT_NE(decisions_on(least, device, "total").find("reduce total in 4 vectors"), std::string::npos)
      << "each takes several instructions, which wait for each other";
  device.caches[1].bytes = 1 << 20;
  EXPECT_NE(decisions_on(sums, device, "total").find("reduce total in 4 vectors"), std::string::npos);
}

TEST(VectorizeReductions, StreamsFromBeyondTheOwnCachesInHalvesOfLines) {
  Device device = wide();
  device.caches = {{4096, 8, 64, false}, {32768, 16, 64, false}};
  device.loads_per_cycle = 1;
  const Func sums = sums_of_rows("lhs + rhs", "0.0f32");
  EXPECT_NE(decisions_on(sums, device, "total").find("reduce total in 8 vectors of 8 lanes\n"), std::string::npos)
      << decisions_on(sums, device, "total");
  const Func least = sums_of_rows("min(lhs, rhs)", "inf(f32)");
  EXPECT_NE(decisions_on(least, device, "total").find("vectors of 16 lanes\n"), std::string::npos)
      << "three instructions for each vector take longer than loading it";
  device.caches[1].bytes = 1 << 20;
  EXPECT_NE(decisions_on(sums, device, "total").find("reduce total in 4 vectors of 16 lanes\n"), std::string::npos);
}

TEST(VectorizeReductions, ComputeOnTheWayWhatAStepReducesAlone) {
  // The greatest of what is costly and read again, over rows of 28, which are joined.
  const Func func = parse_func(R"(func norm(x: f32[4, 6, 28, 28], out: f32[4, 6, 28, 28], s: f32[6]) {
  block root() reads x[..] writes out[..], s[..] {
    alloc y: f32[4, 6, 28, 28]
    for a in [0, 4) { for b in [0, 6) { for c in [0, 28) { for d in [0, 28) {
      block y(space va in [0, 4) = a, space vb in [0, 6) = b, space vc in [0, 28) = c, space vd in [0, 28) = d) reads x[va, vb, vc, vd] writes y[va, vb, vc, vd] {
        y[va, vb, vc, vd] = exp(x[va, vb, vc, vd]) } } } } }
    for b in [0, 6) { for a in [0, 4) { for c in [0, 28) { for d in [0, 28) {
      block sum(space vb in [0, 6) = b, reduce va in [0, 4) = a, reduce vc in [0, 28) = c, reduce vd in [0, 28) = d) reads s[vb], y[va, vb, vc, vd] writes s[vb] {
        reducer (lhs: f32) (rhs: f32) {max(lhs, rhs)} identity {-inf(f32)}
        init { s[vb] = -inf(f32) }
        let l: f32 = s[vb]
        let r: f32 = y[va, vb, vc, vd]
        s[vb] = max(l, r) } } } } }
    for a in [0, 4) { for b in [0, 6) { for c in [0, 28) { for d in [0, 28) {
      block out(space va in [0, 4) = a, space vb in [0, 6) = b, space vc in [0, 28) = c, space vd in [0, 28) = d) reads y[va, vb, vc, vd], s[vb] writes out[va, vb, vc, vd] {
        out[va, vb, vc, vd] = y[va, vb, vc, vd] / s[vb] } } } } }
  } }
)");
  const std::string decisions = decisions_on(func, wide(), "sum");
  EXPECT_EQ(decisions.find("\nreduce sum in 16 lanes while y is computed"), std::string::npos) << decisions;
  expect_scheduled_well(func);
}

}  // namespace
}  // namespace lathe::testing
