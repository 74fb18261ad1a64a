#include <fmt/format.h>

#include <algorithm>

#include "ir/text/parse.h"
#include "ir/text/print.h"
#include "ir/visitor.h"
#include "schedule/auto/auto_schedule.h"
#include "tests/schedule/auto_support.h"
#include "tests/schedule/support.h"

namespace lathe::testing {
namespace {

/// out = x + `value` over 4096 elements.
Func elementwise(const std::string& value) {
  return parse_func(fmt::format(R"(func kernel(x: f32[4096], y: f32[4096], out: f32[4096]) stage begin {{
  block root() reads x[..], y[..] writes out[..] {{
    for i in [0, 4096) {{
      block add(space vi in [0, 4096) = i) reads x[vi], y[vi] writes out[vi] {{
        out[vi] = x[vi] + {} }} }} }} }})",
                                value));
}

/// A vector register is a cache line that loads once a cycle; a core's own caches hold `own` bytes.
Device whole_lines(std::int64_t own) {
  Device device = wide();
  device.loads_per_cycle = 1;
  device.caches = {{own, 8, 64, false}, {std::int64_t{1} << 25, 16, 64, true}};
  return device;
}

std::int64_t lanes_of(const Func& func, const Device& device) {
  std::int64_t lanes = 0;
  for_each_stmt(auto_schedule(func, device)->body, [&](const Stmt& s) {
    const For* loop = s.as<For>();
    if (loop && loop->for_kind == ForKind::vectorized) lanes = std::max(lanes, *as_int(loop->extent));
  });
  return lanes;
}

constexpr std::int64_t arrays = std::int64_t{3} * 4096 * 4, small = arrays / 4, large = arrays;

TEST(VectorLoop, TakesNoArrayOfUnknownStridesForATable) {
  Device device = wide();
  device.features = {"avx512f", "avx512vl", "avx512bw", "avx512vbmi"};
  const Func func = parse_func(
      R"(func kernel(x: u8[17, 9] strides [s, t], y: u8[17, 9], out: u8[17, 9], s: i64, t: i64) stage begin {
  for i in [0, 17) {
    for j in [0, 9) {
      block both(space vi in [0, 17) = i, space vj in [0, 9) = j) reads x[vi, vj], y[vi, vj] writes out[vi, vj] {
        out[vi, vj] = x[vi, vj] ^ y[vi, vj] } } } })");
  EXPECT_EQ(print(auto_schedule(func, device)).find(" // 9"), std::string::npos)
      << "rows do not go on into one another";
}

TEST(VectorLoop, StreamsFromBeyondTheOwnCachesInHalvesOfLines) {
  EXPECT_EQ(lanes_of(elementwise("y[vi]"), whole_lines(small)), 8);
  EXPECT_EQ(lanes_of(elementwise("y[vi]"), whole_lines(large)), 16) << "the arrays stay near";
  EXPECT_EQ(lanes_of(elementwise("1.0f32"), whole_lines(small)), 16) << "one array is read alone";
  EXPECT_EQ(lanes_of(elementwise("exp(y[vi])"), whole_lines(small)), 16) << "computing takes longer than loading";
  EXPECT_EQ(lanes_of(elementwise("y[4095 - vi]"), whole_lines(small)), 16) << "one of them is no stream";
}

TEST(VectorLoop, TakesTwoVectorsOfAFunctionAtOnceWhereTheyAreNarrow) {
  const auto lanes = [](int bits, const char* value, int elements) {
    Device device = narrow();
    device.vector_bits = bits;
    const Func func = parse_func(fmt::format(R"(func kernel(x: f32[{0}], out: f32[{0}]) stage begin {{
  for i in [0, {0}) {{
    block map(space vi in [0, {0}) = i) reads x[vi] writes out[vi] {{ out[vi] = {1} }} }} }})",
                                             elements, value));
    expect_same(func, auto_schedule(func, device));
    return lanes_of(func, device);
  };
  EXPECT_EQ(lanes(256, "tanh(x[vi])", 4096), 16);
  EXPECT_EQ(lanes(128, "tanh(x[vi])", 4096), 8);
  EXPECT_EQ(lanes(512, "tanh(x[vi])", 4096), 16) << "as many bits in one";
  EXPECT_EQ(lanes(256, "x[vi] * 2.0f32", 4096), 8) << "no chain of steps";
  EXPECT_EQ(lanes(256, "tanh(x[vi])", 48), 8) << "few iterations";
  EXPECT_EQ(lanes(256, "tanh(x[vi])", 64), 16);
  EXPECT_EQ(lanes(256, "tanh(x[vi])", 104), 8) << "half a pair would be computed in vain";
  EXPECT_EQ(lanes(256, "tanh(x[vi])", 136), 16) << "one of eighteen vectors in vain";
}

TEST(VectorLoop, ReducesFunctionsInTwoVectorsAtOnce) {
  const auto widest = [](int bits, const char* value, int elements) {
    Device device = narrow();
    device.vector_bits = bits;
    const Func func = parse_func(fmt::format(R"(func kernel(x: f32[6, {0}], out: f32[6]) stage begin {{
  for i in [0, 6) {{ for k in [0, {0}) {{
    block sum(space vi in [0, 6) = i, reduce vk in [0, {0}) = k) reads x[vi, vk], out[vi] writes out[vi] {{
      reducer (lhs: f32) (rhs: f32) {{lhs + rhs}} identity {{0.0f32}}
      init {{ out[vi] = 0.0f32 }}
      let sum: f32 = out[vi]
      let term: f32 = {1}
      out[vi] = sum + term }} }} }} }})",
                                             elements, value));
    return lanes_of(func, device);
  };
  EXPECT_EQ(widest(256, "exp(x[vi, vk])", 992), 16);
  EXPECT_EQ(widest(256, "exp(x[vi, vk])", 1000), 8) << "no vector is in part yet";
  EXPECT_EQ(widest(256, "exp(x[vi, vk])", 1001), 16);
  EXPECT_EQ(widest(512, "exp(x[vi, vk])", 992), 16);
  EXPECT_EQ(widest(256, "x[vi, vk]", 992), 8) << "chains of additions overlap already";
}

TEST(VectorLoop, WholeRegistersWhereTheyLoadAtFullRate) {
  Device device = whole_lines(small);
  device.loads_per_cycle = 2;
  EXPECT_EQ(lanes_of(elementwise("y[vi]"), device), 16);
  device = narrow();
  device.loads_per_cycle = 1;
  device.caches = whole_lines(small).caches;
  EXPECT_EQ(lanes_of(elementwise("y[vi]"), device), 4) << "a line is several registers already";
}

TEST(VectorLoop, HalvesComputeTheSame) {
  expect_same(elementwise("y[vi]"), auto_schedule(elementwise("y[vi]"), whole_lines(small)));
}

/// out[f, j] = x[f, place], of 24 rows.
Func sampled(const std::string& place) {
  return parse_func(fmt::format(R"(func kernel(x: f32[24, 100], g: f32[80], out: f32[24, 80]) stage begin {{
  block root() reads x[..], g[..] writes out[..] {{
    for f in [0, 24) {{ for j in [0, 80) {{
      block sample(space vf in [0, 24) = f, space vj in [0, 80) = j) reads x[vf, ..], g[vj] writes out[vf, vj] {{
        out[vf, vj] = x[vf, {}] * g[vj] }} }} }} }} }})",
                                place));
}

/// The extent of the loop around the vectors.
std::int64_t around_vectors(const Func& func) {
  std::int64_t extent = 0;
  for_each_stmt(auto_schedule(func, wide())->body, [&](const Stmt& s) {
    const For* loop = s.as<For>();
    const For* inner = loop ? loop->body.as<For>() : nullptr;
    if (inner && inner->for_kind == ForKind::vectorized) extent = *as_int(loop->extent);
  });
  return extent;
}

TEST(VectorLoop, WorksCostlyPlacesOutOnceForSeveralRows) {
  const Func costly = sampled("cast<i64>(min(max(floor(sqrt(abs(g[vj])) * 32.0f32 - 0.5f32), 0.0f32), 99.0f32))");
  EXPECT_EQ(around_vectors(costly), 12) << "the most rows up to sixteen that divide 24";
  expect_scheduled_well(costly);
  EXPECT_EQ(around_vectors(sampled("cast<i64>(g[vj])")), 5) << "a place that costs little is found anew";
}

/// out[i, j] = `value` of x at index[i, j], which is checked before.
Func picked(const std::string& value) {
  return parse_func(fmt::format(R"(func kernel(x: f32[500], y: i64[12, 100], out: f32[12, 100]) stage begin {{
  block root() reads x[..], y[..] writes out[..] {{
    alloc index: i64[12, 100]
    for i in [0, 12) {{ for j in [0, 100) {{
      block check(space vi in [0, 12) = i, space vj in [0, 100) = j) reads y[vi, vj] writes index[vi, vj] {{
        assert y[vi, vj] >= 0 && y[vi, vj] < 500, "take|axis 0|index", y[vi, vj]
        index[vi, vj] = y[vi, vj] }} }} }}
    for i in [0, 12) {{ for j in [0, 100) {{
      block take(space vi in [0, 12) = i, space vj in [0, 100) = j) reads x[..], index[vi, vj] writes out[vi, vj] {{
        out[vi, vj] = {} }} }} }} }} }})",
                                value));
}

TEST(VectorLoop, ChecksOfIndicesLeaveFunctionsTheirVectors) {
  const std::string copied = "x[min(max(index[vi, vj], 0), 499)]", function = "exp(" + copied + ")";
  EXPECT_EQ(lanes_of(picked(function), wide()), 8);
  EXPECT_EQ(lanes_of(picked(copied), whole_lines(4096)), 8);
  EXPECT_EQ(lanes_of(picked(copied), whole_lines(1024)), 0) << "half of the cache does not hold a row of places";
  expect_scheduled_well(picked(function));
  const std::string text = print(auto_schedule(picked(function), wide()));
  EXPECT_EQ(text.find("for i in [0, 12)"), text.rfind("for i in [0, 12)")) << "a row of places stays near\n" << text;
}

TEST(VectorLoop, AnIndexThatStandsStillTakesNoLanes) {
  const auto rows = [](const std::string& place) {
    return parse_func(fmt::format(R"(func kernel(x: f32[50, 96], y: i64[96], out: f32[96, 96]) stage begin {{
  block root() reads x[..], y[..] writes out[..] {{
    for i in [0, 96) {{ for j in [0, 96) {{
      block take(space vi in [0, 96) = i, space vj in [0, 96) = j) reads x[..], y[..] writes out[vi, vj] {{
        out[vi, vj] = x[min(max(y[{}], 0), 49), vj] * 2.0f32 }} }} }} }} }})",
                                  place));
  };
  EXPECT_EQ(lanes_of(rows("vi"), wide()), 16);
  EXPECT_EQ(lanes_of(rows("vj"), wide()), 8) << "each lane has a place of its own";
  expect_scheduled_well(rows("vi"));
}

TEST(VectorLoop, CountsLoadsThatAreAlikeOnce) {
  // Four copies of an affine function of a channel, as inlining it into a pool of 2x2 makes them.
  const std::string value =
      "max(max((x[vc, vi * 2, vj * 2] - a[vc]) * b[vc], (x[vc, vi * 2, vj * 2 + 1] - a[vc]) * b[vc]), "
      "max((x[vc, vi * 2 + 1, vj * 2] - a[vc]) * b[vc], (x[vc, vi * 2 + 1, vj * 2 + 1] - a[vc]) * b[vc]))";
  const Func pool = parse_func(
      fmt::format(R"(func kernel(x: f32[32, 56, 56], a: f32[32], b: f32[32], out: f32[32, 28, 28]) stage begin {{
  block root() reads x[..], a[..], b[..] writes out[..] {{
    for c in [0, 32) {{ for i in [0, 28) {{ for j in [0, 28) {{
      block pool(space vc in [0, 32) = c, space vi in [0, 28) = i, space vj in [0, 28) = j) reads x[..], a[..], b[..] writes out[vc, vi, vj] {{
        out[vc, vi, vj] = {} }} }} }} }} }} }})",
                  value));
  EXPECT_NE(decisions_on(pool, wide(), "pool").find("vectorize pool over j"), std::string::npos)
      << decisions_on(pool, wide(), "pool");
  expect_scheduled_well(pool);
}

TEST(VectorLoop, AnElementKeptForAPixelLeavesThePixelsTheirVectors) {
  const Func func = parse_func(R"(func pixels(x: f32[40, 64], out: f32[40, 64, 3]) stage begin {
  block root() reads x[..] writes out[..] {
    alloc y: f32[40, 64]
    for i in [0, 40) { for j in [0, 64) { block y(space vi in [0, 40) = i, space vj in [0, 64) = j) reads x[vi, vj] writes y[vi, vj] {
      y[vi, vj] = exp(x[vi, vj]) } } }
    for i in [0, 40) { for j in [0, 64) { for k in [0, 3) {
      block out(space vi in [0, 40) = i, space vj in [0, 64) = j, space vk in [0, 3) = k) reads y[vi, vj] writes out[vi, vj, vk] {
        out[vi, vj, vk] = y[vi, vj] * cast<f32>(vk) } } } }
  } })");
  EXPECT_NE(decisions_on(func, wide(), "y").find("keep y out of j"), std::string::npos)
      << decisions_on(func, wide(), "y");
  expect_scheduled_well(func);
}

TEST(VectorLoop, LeavesNarrowLanesNoMaskForWhereTheMachineHasNone) {
  const auto leaves = [](const char* dtype, const char* extent, const Device& device) {
    const Func func = parse_func(fmt::format(R"(func f(x: {0}[7, {1}], out: {0}[7, {1}], n: i64) {{
  for i in [0, 7) {{ for j in [0, {1}) {{
    block add(space vi in [0, 7) = i, space vj in [0, {1}) = j) reads x[vi, vj] writes out[vi, vj] {{
      out[vi, vj] = x[vi, vj] + x[vi, vj] }} }} }} }})",
                                             dtype, extent));
    return print(auto_schedule(func, device)).find("unmasked: 1") != std::string::npos;
  };
  EXPECT_TRUE(leaves("u8", "n", narrow()));
  EXPECT_TRUE(leaves("f16", "n", narrow()));
  EXPECT_FALSE(leaves("f32", "n", narrow()));
  EXPECT_FALSE(leaves("u8", "n", wide()));
  EXPECT_FALSE(leaves("u8", "100", narrow())) << "which lanes are left is known";
}

TEST(VectorLoop, UnrollsRowsOfTwoVectorsWhoseLanesAreChosen) {
  const auto unrolls = [](int columns, const std::string& value) {
    const Func func = parse_func(fmt::format(R"(func pad(x: f32[30, {0}], out: f32[30, {0}]) stage begin {{
  for i in [0, 30) {{ for j in [0, {0}) {{
    block copy(space vi in [0, 30) = i, space vj in [0, {0}) = j) reads x[..] writes out[vi, vj] {{
      out[vi, vj] = {1} }} }} }} }})",
                                             columns, value));
    const Func scheduled = auto_schedule(func, wide());
    expect_same(func, scheduled);
    return print(scheduled).find("unrolled for jo") != std::string::npos;
  };
  const std::string choice = "select(1 < vj, x[vi, vj - 2 if 1 < vj], 0.0f32)";
  EXPECT_TRUE(unrolls(24, choice));
  EXPECT_FALSE(unrolls(15, choice)) << "one vector";
  EXPECT_FALSE(unrolls(24, "x[vi, vj]")) << "nothing is chosen";
  EXPECT_FALSE(unrolls(24, "select(1 < vi, x[vi - 2, vj if 1 < vi], 0.0f32)")) << "by rows";
}

/// As it is scheduled for 512-bit vectors.
std::string scheduled(const Func& func) {
  return print(auto_schedule(func, wide()));
}

/// A function of rows of `columns`, whose elements of one operand lie apart so that no loops join.
Func function_of_rows(int columns, const std::string& value) {
  return parse_func(fmt::format(
      R"(func f(x: f32[40, {0}] strides [2, 0], y: f32[40, {0}], out: f32[40, {0}]) stage begin {{
  block root() reads x[..], y[..] writes out[..] {{
    for i in [0, 40) {{ for j in [0, {0}) {{
      block f(space vi in [0, 40) = i, space vj in [0, {0}) = j) reads x[vi, vj], y[vi, vj] writes out[vi, vj] {{
        out[vi, vj] = {1} }} }} }} }} }})",
      columns, value));
}

TEST(VectorLoop, FillsVectorsOfAFunctionWhereRowsAreShort) {
  const std::string function = "exp(x[vi, vj]) * tanh(y[vi, vj])";
  expect_scheduled_well(function_of_rows(2, function));
  EXPECT_NE(scheduled(function_of_rows(2, function)).find("vectorized for ii in [0, 16)"), std::string::npos);
  EXPECT_NE(scheduled(function_of_rows(16, function)).find("vectorized for ji in [0, 16)"), std::string::npos)
      << "rows fill vectors";
  EXPECT_NE(scheduled(function_of_rows(2, "x[vi, vj] + y[vi, vj]")).find("vectorized for ji in [0, 2)"),
            std::string::npos)
      << "nothing gains by full vectors";
}

TEST(VectorLoop, WalksShortRowsThatFollowEachOtherAsOne) {
  const auto points = [](const std::string& value) {
    return parse_func(fmt::format(R"(func f(x: f32[400, 3], out: f32[400, 3]) stage begin {{
  for i in [0, 400) {{ for j in [0, 3) {{
    block f(space vi in [0, 400) = i, space vj in [0, 3) = j) reads x[vi, vj] writes out[vi, vj] {{
      out[vi, vj] = {} }} }} }} }})",
                                  value));
  };
  const Func whole = points("exp(x[vi, vj])");
  EXPECT_NE(scheduled(whole).find("vectorized for i_ji in [0, 16)"), std::string::npos) << scheduled(whole);
  expect_scheduled_well(whole);
  const Func chosen = points("select(vj < 1, exp(x[vi, vj]), x[vi, vj])");
  EXPECT_EQ(scheduled(chosen).find("i_j"), std::string::npos) << "each lane would divide its place";
  expect_scheduled_well(chosen);
}

/// A function along a row of unknown length, whose steps are as well.
Func row_of_steps(const std::string& facts, const std::string& value) {
  return parse_func(fmt::format(
      R"(func f(x: f32[n] strides [s], out: f32[n] strides [t], n: i64, s: i64, t: i64) stage begin {}
{{
  block root() reads x[..] writes out[..] {{
    for i in [0, n) {{
      block f(space vi in [0, n) = i) reads x[vi] writes out[vi] {{ out[vi] = {} }} }} }} }})",
      facts, value));
}

TEST(VectorLoop, TakesFewLanesOfPlacesAlongRowsOfUnknownLength) {
  const std::string few = "vectorized for ii in [0, 8) @{unmasked: 1}",
                    all = "vectorized for ii in [0, 16) @{unmasked: 1}";
  const std::string dear = "exp(x[vi]) * tanh(x[vi])";
  EXPECT_NE(scheduled(row_of_steps("facts {n in [2, 40]}", dear)).find(few), std::string::npos);
  EXPECT_NE(scheduled(row_of_steps("facts {n in [2, 40]}", "exp(x[vi])")).find(few), std::string::npos);
  EXPECT_NE(scheduled(row_of_steps("", dear)).find(all), std::string::npos) << "a long row's functions fill vectors";
}

}  // namespace
}  // namespace lathe::testing
