#include <fmt/format.h>

#include "ir/text/parse.h"
#include "tests/schedule/auto_support.h"
#include "tests/schedule/support.h"

namespace lathe::testing {
namespace {

/// Sums down columns that lie side by side, of rows one after the other or `apart`.
Func sums(int groups, int rows, int columns, int apart) {
  return parse_func(
      fmt::format(R"(func total(x: f32[{0}, {1}, {2}] strides [{4}, {3}, 1], out: f32[{0}, {2}]) stage begin {{
  block root() reads x[..], out[..] writes out[..] {{
    for b in [0, {0}) {{ for j in [0, {2}) {{ for k in [0, {1}) {{
      block total(space vb in [0, {0}) = b, space vj in [0, {2}) = j, reduce vk in [0, {1}) = k)
          reads x[vb, vk, vj], out[vb, vj] writes out[vb, vj] {{
        reducer (l: f32) (r: f32) {{l + r}} identity {{0.0f32}}
        init {{ out[vb, vj] = 0.0f32 }}
        let sum: f32 = out[vb, vj]
        let term: f32 = x[vb, vk, vj]
        out[vb, vj] = sum + term
      }} }} }} }} }} }})",
                  groups, rows, columns, apart, rows * apart));
}

TEST(NarrowColumns, TwoTakeVectorsAlongTheirRows) {
  for (const int groups : {1, 3}) {
    const Func many = sums(groups, 301, 2, 2), few = sums(groups, 47, 2, 2);
    EXPECT_TRUE(says(decisions_on(many, wide(), "total"), "reduce total along rows of 2 in 8 vectors of 16 lanes"));
    EXPECT_TRUE(says(decisions_on(few, wide(), "total"), "reduce total along rows of 2 in 1 vectors of 16 lanes"));
    expect_scheduled_well(many);
    expect_scheduled_well(few);
  }
}

TEST(NarrowColumns, OthersAreNotTakenSo) {
  for (const auto& [rows, columns, apart] : {std::tuple{301, 3, 3}, {301, 2, 5}, {9, 2, 2}}) {
    EXPECT_FALSE(decides(sums(1, rows, columns, apart), wide(), "reduce total along rows of"))
        << rows << 'x' << columns;
  }
}

}  // namespace
}  // namespace lathe::testing
