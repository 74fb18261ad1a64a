/// What the scheduler makes of contractions over several axes, by which of them arrays have as neighbours.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <map>
#include <string>
#include <vector>

#include "ir/text/parse.h"
#include "ir/text/print.h"
#include "schedule/auto/auto_schedule.h"
#include "tests/schedule/auto_support.h"
#include "tests/schedule/support.h"

namespace lathe::testing {
namespace {

/// out[result] = sum of x[left] * y[right] in f32, a letter for each axis; what is summed in the order of `summed`. Of
/// an array that lies behind x, every `step`-th element of the last axis is taken.
Func einsum(const std::string& left, const std::string& right, const std::string& result, const std::string& summed,
            const std::map<char, int>& extents, int step = 1) {
  const auto shape = [&](const std::string& axes) {
    std::vector<int> of;
    for (const char axis : axes) of.push_back(extents.at(axis));
    return fmt::format("{}", fmt::join(of, ", "));
  };
  const auto place = [](const std::string& axes) {
    std::string text;
    for (const char axis : axes) text += fmt::format("{}v{}", text.empty() ? "" : ", ", axis);
    return text;
  };
  std::vector<int> strides(left.size(), step);
  for (size_t i = left.size(); i-- > 1;) strides[i - 1] = strides[i] * extents.at(left[i]);
  std::string loops, iters, close;
  for (const char axis : result + summed) {
    loops += fmt::format("for {0} in [0, {1}) {{ ", axis, extents.at(axis));
    iters += fmt::format("{}{} v{} in [0, {}) = {}", iters.empty() ? "" : ", ",
                         result.find(axis) != std::string::npos ? "space" : "reduce", axis, extents.at(axis), axis);
    close += " }";
  }
  return parse_func(fmt::format(
      R"(func e(x: f32[{0}] strides [{9}], y: f32[{1}], out: f32[{2}]) stage begin {{
  block root() reads x[..], y[..] writes out[..] {{ {3}
    block einsum({4}) reads out[{5}], x[{6}], y[{7}] writes out[{5}] {{
      reducer (lhs: f32) (rhs: f32) {{lhs + rhs}} identity {{0.0f32}}
      init {{ out[{5}] = 0.0f32 }}
      let l: f32 = out[{5}]
      let r: f32 = x[{6}] * y[{7}]
      out[{5}] = l + r }} {8} }} }})",
      shape(left), shape(right), shape(result), loops, iters, place(result), place(left), place(right), close,
      fmt::join(strides, ", ")));
}

Device with_cores(int cores) {
  Device device = wide();
  device.cores = cores;
  device.caches = {{32 << 10, 8, 64, false}, {1 << 20, 8, 64, false}, {32 << 20, 16, 64, true}};
  return device;
}

TEST(Einsum, CutsSumsOverAnAxisThatNothingHasAsNeighbours) {
  const Func func = einsum("dace", "ebcd", "ab", "dce", {{'a', 3}, {'b', 17}, {'c', 128}, {'d', 128}, {'e', 8}});
  EXPECT_TRUE(decides(func, with_cores(4), "cut einsum into parts of 4"));
  EXPECT_TRUE(
      decides(func, with_cores(4), "group the axes of einsum_rf: 17 x 3 x 4096, 32 times, vectors along the reduction"))
      << "d, along which y lies, has all of its steps";
}

TEST(Einsum, CutsSumsWherePartsTakeWholeLines) {
  const Func func = einsum("dcae", "decb", "ab", "dce", {{'a', 48}, {'b', 3}, {'c', 31}, {'d', 17}, {'e', 32}});
  EXPECT_TRUE(decides(func, with_cores(2), "cut einsum into parts of 1"))
      << "x lies along e, and d goes farthest through it\n"
      << decisions_on(func, with_cores(2), "einsum");
  EXPECT_TRUE(
      decides(func, with_cores(2), "group the axes of einsum_rf: 48 x 3 x 992, 17 times, vectors along the reduction"))
      << "a step of a part that has one is no axis";
}

TEST(Einsum, CutsSumsIntoAsManyPartsAsAnAxisHas) {
  const Func func = einsum("aecd", "dcbe", "ab", "dce", {{'a', 13}, {'b', 13}, {'c', 17}, {'d', 32}, {'e', 64}});
  EXPECT_TRUE(decides(func, with_cores(2), "cut einsum into parts of 1"))
      << "17 parts of c, where 8 are enough: y lies along e, and x along d\n"
      << decisions_on(func, with_cores(2), "einsum");
}

TEST(Einsum, TakesNoPartsThatLeaveTheSecondCache) {
  const auto parts = [](int batch, int steps) {
    const Func func = einsum("bsd", "bse", "de", "bs", {{'b', batch}, {'s', steps}, {'d', 96}, {'e', 16}});
    return decides(func, with_cores(1), "take einsum in parts of 1 steps");
  };
  EXPECT_TRUE(parts(256, 256)) << "98 KB";
  EXPECT_FALSE(parts(16, 4096)) << "1.5 MB";
}

TEST(ShareReductions, SumsPiecesOfMemoryInTheirOrder) {
  const auto cuts_images = [](int images, int pixels) {
    const Func func = parse_func(fmt::format(R"(func f(x: f32[{0}, 16, {1}], out: f32[16]) stage begin {{
  block root() reads x[..] writes out[..] {{
    for c in [0, 16) {{ for n in [0, {0}) {{ for p in [0, {1}) {{
      block total(space vc in [0, 16) = c, reduce vn in [0, {0}) = n, reduce vp in [0, {1}) = p)
          reads out[vc], x[vn, vc, vp] writes out[vc] {{
        reducer (lhs: f32) (rhs: f32) {{lhs + rhs}} identity {{0.0f32}}
        init {{ out[vc] = 0.0f32 }}
        let old: f32 = out[vc]
        let new: f32 = x[vn, vc, vp]
        out[vc] = old + new }} }} }} }} }} }})",
                                             images, pixels));
    return decides(func, with_cores(2), "cut total into parts of 1");
  };
  EXPECT_TRUE(cuts_images(29, 12544)) << "a sum of each channel of each image, of three quarters of the last cache";
  EXPECT_FALSE(cuts_images(8, 12544)) << "which keeps all of it";
  EXPECT_FALSE(cuts_images(5, 160000)) << "pieces of 640 KB are followed";
}

TEST(Einsum, PrefersDotProductsAlongOneOfSeveralAxesToVectorsAcross) {
  const Func func = einsum("eabd", "cde", "bca", "ed", {{'a', 64}, {'b', 16}, {'c', 4}, {'d', 200}, {'e', 2}});
  EXPECT_FALSE(decides(func, with_cores(1), "lay the vectors of einsum across memory"));
  EXPECT_TRUE(decides(func, with_cores(1), "tile einsum: 4 x 4 dot products of 16 lanes"))
      << decisions_on(func, with_cores(1), "einsum");
}

TEST(Einsum, GroupsAxesWhereVectorsWouldBePicked) {
  const Func func = einsum("ebad", "ecd", "bca", "ed", {{'a', 256}, {'b', 5}, {'c', 256}, {'d', 4}, {'e', 17}});
  EXPECT_TRUE(decides(func, with_cores(1), "group the axes of einsum: 256 x 256 x 68, 5 times"));
}

TEST(Einsum, TurnsResultsAroundAsTheyLie) {
  const Func func =
      einsum("bfa", "dafec", "decba", "f", {{'a', 3}, {'b', 17}, {'c', 8}, {'d', 4}, {'e', 64}, {'f', 16}});
  EXPECT_TRUE(decides(func, with_cores(1), "group the axes of einsum: 17 x 512 x 16, 12 times"))
      << "vectors along the longest rows\n"
      << decisions_on(func, with_cores(1), "einsum");
  EXPECT_TRUE(decides(func, with_cores(1), "join the loops of einsum_copy that squares walk"))
      << "17 results by 3 of the batch are one there";
}

TEST(Einsum, LaysCopiesOutByPanelsThatNoVectorStraddles) {
  const auto by_panels = [](int run) {
    const Func func = einsum("bcea", "deab", "bcda", "e", {{'a', 17}, {'b', run}, {'c', 12}, {'d', 24}, {'e', 48}});
    EXPECT_TRUE(
        decides(func, with_cores(1), fmt::format("group the axes of einsum: 12 x 24 x 48, {} times", 17 * run)));
    return decides(func, with_cores(1), "lay x_reindex out by panels of ");
  };
  EXPECT_TRUE(by_panels(16));
  EXPECT_FALSE(by_panels(17)) << "columns joined from runs of 17";
}

TEST(Einsum, TakesRowsThatGoOnInOnePieceOfMemory) {
  const auto unrolls = [](const Func& func, const std::string& loop) {
    return print(auto_schedule(func, with_cores(1))).find("unrolled for " + loop + " in [0, ") != std::string::npos;
  };
  EXPECT_TRUE(unrolls(
      einsum("abfce", "edf", "bdca", "fe", {{'a', 13}, {'b', 96}, {'c', 12}, {'d', 7}, {'e', 17}, {'f', 16}}), "c"))
      << "c goes on from what f and e walk: 13 KB, where b takes pieces of 68 bytes";
  EXPECT_TRUE(
      unrolls(einsum("bace", "ed", "cbad", "e", {{'a', 7}, {'b', 200}, {'c', 96}, {'d', 12}, {'e', 16}}), "b_a"))
      << "rows of c would store 67 KB apart, as much as they load";
}

TEST(Einsum, TakesNoMoreRowsOfOneSetThanItHasWays) {
  const auto takes = [](int rows, int steps) {
    const Func func =
        einsum("afb", "dfcae", "becda", "f", {{'a', 48}, {'b', 16}, {'c', 2}, {'d', 12}, {'e', 2}, {'f', steps}});
    return decides(func, with_cores(1), fmt::format("tile einsum: {} rows x 1 vectors of 16 lanes", rows));
  };
  EXPECT_TRUE(takes(6, 96)) << "rows of y 18 pages apart";
  EXPECT_TRUE(takes(12, 97));
}

TEST(Einsum, CopiesScatteredOperandsThatSeveralPanelsRead) {
  const auto copies = [](int columns) {
    const Func func =
        einsum("bdea", "edc", "bac", "de", {{'a', 13}, {'b', 128}, {'c', columns}, {'d', 50}, {'e', 24}}, 2);
    return decides(func, with_cores(1), "copy x, which is scattered, for einsum");
  };
  EXPECT_FALSE(copies(7)) << "each element of x is a scalar of one tile";
  EXPECT_TRUE(copies(100));
  const Func again = einsum("edc", "edba", "cba", "de", {{'a', 24}, {'b', 32}, {'c', 50}, {'d', 50}, {'e', 17}}, 2);
  EXPECT_TRUE(decides(again, with_cores(1), "copy x, which is scattered, for einsum")) << "once for each b, else";
}

TEST(Einsum, AsksForTheNextRunsOfDotProductsThatLieApart) {
  const auto asks = [](int steps, int run) {
    const Func func = einsum("ead", "ebcd", "bca", "ed", {{'a', 3}, {'b', 50}, {'c', 64}, {'d', run}, {'e', steps}});
    return decides(func, with_cores(1), "ask for what the next tile of ");
  };
  EXPECT_TRUE(asks(48, 8)) << "48 runs of 32 bytes, 100 KB apart";
  EXPECT_TRUE(asks(48, 40)) << "runs of several vectors";
  EXPECT_FALSE(asks(48, 512)) << "hardware follows long ones";
  EXPECT_FALSE(asks(4, 8)) << "the second cache holds all of y";
}

}  // namespace
}  // namespace lathe::testing
