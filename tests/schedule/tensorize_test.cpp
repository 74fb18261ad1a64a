#include <fmt/format.h>

#include "ir/error.h"
#include "ir/text/parse.h"
#include "schedule/primitives/blockize.h"
#include "schedule/primitives/decompose_reduction.h"
#include "schedule/primitives/reorder.h"
#include "schedule/primitives/split.h"
#include "schedule/primitives/tensorize.h"
#include "tests/schedule/support.h"

namespace lathe::testing {
namespace {

/// Four products of small integers, added to a larger one.
Func dot4() {
  return parse_func(R"(func dot4(a: i8[4], b: i8[4], c: i32[]) {
    for t in [0, 4) { c[] = c[] + cast<i32>(a[t]) * cast<i32>(b[t]) } })");
}

Func product() {
  return parse_func(R"(func product(a: i8[6, 8], b: i8[5, 8], out: i32[6, 5]) stage begin {
  for i in [0, 6) {
    for j in [0, 5) {
      for k in [0, 8) {
        block dot(space vi in [0, 6) = i, space vj in [0, 5) = j, reduce vk in [0, 8) = k)
            reads out[vi, vj], a[vi, vk], b[vj, vk]
            writes out[vi, vj]
        {
          reducer (lhs: i32) (rhs: i32) {lhs + rhs} identity {0i32}
          init {
            out[vi, vj] = 0i32
          }
          let l: i32 = out[vi, vj]
          let r: i32 = cast<i32>(b[vj, vk]) * cast<i32>(a[vi, vk])
          out[vi, vj] = l + r
        }
      }
    }
  }
}
)");
}

/// Tiles of `size` steps of the reduction.
BlockRef tiles(Schedule& s, std::int64_t size) {
  const auto [ko, ki] = split(s, s.loop("dot", 2), size);
  decompose_reduction(s, {"dot"}, ko);
  return blockize(s, ki);
}

TEST(Tensorize, MarksTilesThatAreAnInstructions) {
  const Func before = product();
  Schedule s(before);
  const BlockRef tile = tiles(s, 4);
  tensorize(s, tile, dot4());
  EXPECT_EQ(tensorized(s.node(tile)), "dot4");
  EXPECT_EQ(tensorized(s.node({"dot"})), "");
  expect_scheduled(s, before, "tensorize");
}

TEST(Tensorize, KnowsAMatrixByItsStrides) {
  const Func before = product();
  const Func matrix =
      parse_func(R"(func matrix(a: i8[2, 4] strides [s, 1], b: i8[4], c: i32[2] strides [u], s: i64, u: i64)
    attrs {unit: "matrix"} {
    for i in [0, 2) { for t in [0, 4) { c[i] = c[i] + cast<i32>(a[i, t]) * cast<i32>(b[t]) } } })");
  Schedule s(before);
  const auto [io, ii] = split(s, s.loop("dot", 0), 2);
  const auto [ko, ki] = split(s, s.loop("dot", 3), 4);
  reorder(s, {io, s.loop("dot", 2), ko, ii, ki});
  decompose_reduction(s, {"dot"}, ko);
  tensorize(s, blockize(s, ii), matrix);
  expect_scheduled(s, before, "tensorize_matrix");
}

TEST(Tensorize, TakesAnInitWithItsReduction) {
  const Func before = product();
  const auto whole = [](const char* kind) {
    return parse_func(fmt::format(R"(func whole(a: i8[8], b: i8[8], c: i32[1]) {{
      for t in [0, 8) {{
        block dot({} vt in [0, 8) = t) reads c[0], a[vt], b[vt] writes c[0] {{
          init {{ c[0] = 0i32 }}
          c[0] = c[0] + cast<i32>(a[vt]) * cast<i32>(b[vt])
        }}
      }}
    }})",
                                  kind));
  };
  Schedule s(before);
  const BlockRef tile = blockize(s, s.loop("dot", 2));
  expect_refused(s, [&] { tensorize(s, tile, whole("space")); }, "tensorize", 3, "tensorize_refused_3_init");
  tensorize(s, tile, whole("reduce"));
  expect_scheduled(s, before, "tensorize_init");
}

TEST(Tensorize, RefusesABlockThatIsNoTile) {
  Schedule s(product());
  expect_refused(s, [&] { tensorize(s, {"dot"}, dot4()); }, "tensorize", 1, "tensorize_refused_1");
}

TEST(Tensorize, RefusesATileThatIsMarkedAlready) {
  Schedule s(product());
  const BlockRef tile = tiles(s, 4);
  tensorize(s, tile, dot4());
  expect_refused(s, [&] { tensorize(s, tile, dot4()); }, "tensorize", 2, "tensorize_refused_2");
}

TEST(Tensorize, ShowsTheFirstNodeThatDiffers) {
  const auto described = [](const std::string& params, const std::string& update, int extent = 4) {
    return parse_func(fmt::format("func dot({}) {{ for t in [0, {}) {{ c[] = {} }} }}", params, extent, update));
  };
  const std::string bytes = "a: i8[4], b: i8[4], c: i32[]", sum = "c[] + cast<i32>(a[t]) * cast<i32>(b[t])";
  const std::vector<std::pair<std::string, Func>> cases = {
      {"extent", described("a: i8[8], b: i8[8], c: i32[]", sum, 8)},
      {"operation", described(bytes, "c[] - cast<i32>(a[t]) * cast<i32>(b[t])")},
      {"dtype", described("a: u8[4], b: i8[4], c: i32[]", sum)},
      {"index", described("a: i8[8], b: i8[4], c: i32[]", "c[] + cast<i32>(a[t * 2]) * cast<i32>(b[t])")},
      {"place", described("a: i8[4, 4], b: i8[4], c: i32[]", "c[] + cast<i32>(a[0, t]) * cast<i32>(a[1, t])")},
      {"stride", described("a: i8[4] strides [2], b: i8[4], c: i32[]", sum)},
      {"space", described("a: i8[4] @tile, b: i8[4], c: i32[]", sum)},
      {"operand", described("a: i8[4], b: i8[4], c: i32[]", "c[] + cast<i32>(a[t]) * 3i32")}};
  for (const auto& [name, intrinsic] : cases) {
    Schedule s(product());
    const BlockRef tile = tiles(s, 4);
    expect_refused(s, [&] { tensorize(s, tile, intrinsic); }, "tensorize", 3, "tensorize_refused_3_" + name);
  }
}

TEST(Tensorize, RefusesOneBufferForTwoOfWhichOneIsWritten) {
  Schedule s(parse_func(R"(func shift(x: f32[2, 8]) stage begin {
  for i in [0, 2) {
    for j in [0, 4) {
      block move(space vi in [0, 2) = i, space vj in [0, 4) = j) reads x[vi, vj + 4] writes x[vi, vj] {
        x[vi, vj] = x[vi, vj + 4]
      }
    }
  }
}
)"));
  const Func copy = parse_func("func copy(x: f32[4], y: f32[4]) { for t in [0, 4) { y[t] = x[t] } }");
  const BlockRef tile = blockize(s, s.loop("move", 1));
  expect_refused(s, [&] { tensorize(s, tile, copy); }, "tensorize", 3, "tensorize_refused_3_alias");
}

TEST(Tensorize, AsksForADescription) {
  Schedule s(product());
  const BlockRef tile = tiles(s, 4);
  const Func open = parse_func("func copy(x: f32[n], y: f32[4], n: i64) { for t in [0, 4) { y[t] = x[t] } }");
  EXPECT_THROW(tensorize(s, tile, open), InputError);
  const Buffer y = BufferNode::make("y", f32, {index(4)});
  const Stmt store = Store::make(y, {Expr(Var::make("i"))}, constant(f32, 0.0));
  EXPECT_THROW(tensorize(s, tile, FuncNode::make("free", {y}, store)), InputError);
}

}  // namespace
}  // namespace lathe::testing
