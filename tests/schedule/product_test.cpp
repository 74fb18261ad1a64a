#include "schedule/auto/product.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "ir/text/parse.h"
#include "schedule/schedule.h"

namespace lathe::testing {
namespace {

/// out[b, i, j] = sum over k and l of x[..] * y[..], operands of such shapes with such indices.
std::optional<Product> product_of(const std::string& x_shape, const std::string& x, const std::string& y_shape,
                                  const std::string& y) {
  const Func func = parse_func(fmt::format(R"(func sums(x: f32{0}, y: f32{2}, out: f32[4, 6, 7]) stage begin {{
  for b in [0, 4) {{ for i in [0, 6) {{ for j in [0, 7) {{ for k in [0, 3) {{ for l in [0, 5) {{
    block product(space vb in [0, 4) = b, space vi in [0, 6) = i, space vj in [0, 7) = j, reduce vk in [0, 3) = k,
                  reduce vl in [0, 5) = l)
        reads out[vb, vi, vj], x[..], y[..] writes out[vb, vi, vj] {{
      reducer (lhs: f32) (rhs: f32) {{lhs + rhs}} identity {{0.0f32}}
      init {{ out[vb, vi, vj] = 0.0f32 }}
      let l0: f32 = out[vb, vi, vj]
      let r0: f32 = x{1} * y{3}
      out[vb, vi, vj] = l0 + r0 }} }} }} }} }} }}
}})",
                                           x_shape, x, y_shape, y));
  const Schedule schedule(func);
  return find_product(schedule.node(schedule.block("product")));
}

TEST(Product, TellsAxesApartByWhatTheyDo) {
  const auto product = product_of("[4, 6, 3, 5]", "[vb, vi, vk, vl]", "[5, 4, 7, 3]", "[vl, vb, vj, vk]");
  if (!product) FAIL();
  EXPECT_EQ(product->batch, Axes{0});
  EXPECT_EQ(product->rows, Axes{1});
  EXPECT_EQ(product->columns, Axes{2});
  EXPECT_EQ(product->summed, (Axes{3, 4}));
  EXPECT_TRUE(lies_as_one(product->left, {3, 4}, *product));
  EXPECT_FALSE(lies_as_one(product->right, {3, 4}, *product));
}

TEST(Product, HasThePartsOfASumThatWasCutForABatch) {
  const auto product = product_of("[12, 6, 5]", "[vb * 3 + vk, vi, vl]", "[12, 7, 5]", "[vb * 3 + vk, vj, vl]");
  if (!product) FAIL();
  EXPECT_EQ(product->batch, Axes{0});
  EXPECT_EQ(product->summed, (Axes{3, 4}));
}

TEST(Product, IsNoneWhereWindowsSlide) {
  EXPECT_FALSE(product_of("[4, 8, 5]", "[vb, vi + vk, vl]", "[7, 3, 5]", "[vj, vk, vl]")) << "windows overlap";
  EXPECT_FALSE(product_of("[4, 18, 5]", "[vb, vi * 3 + vk, vl]", "[7, 3, 5]", "[vj, vk, vl]"))
      << "windows side by side";
  EXPECT_FALSE(product_of("[16, 6, 5]", "[vb * 4 + vk, vi, vl]", "[16, 7, 5]", "[vb * 4 + vk, vj, vl]")) << "gaps";
}

}  // namespace
}  // namespace lathe::testing
