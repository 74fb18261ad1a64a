#include "jit/layout.h"

#include <gtest/gtest.h>

#include <numeric>
#include <random>
#include <set>

namespace lathe {
namespace {

struct Layout {
  std::vector<std::int64_t> shape, strides;
  TensorView view(void* data, DType dtype = f32) const {
    return {data, dtype, static_cast<std::int32_t>(shape.size()), shape.data(),
            strides.empty() ? nullptr : strides.data()};
  }
};

std::vector<std::int64_t> offsets(const Layout& layout) {
  std::vector<std::int64_t> result{0};
  for (size_t d = 0; d < layout.shape.size(); ++d) {
    std::vector<std::int64_t> next;
    for (const std::int64_t offset : result) {
      for (std::int64_t i = 0; i < layout.shape[d]; ++i) next.push_back(offset + i * layout.strides[d]);
    }
    result = std::move(next);
  }
  return result;
}

TEST(Layout, ClassifiesStrides) {
  float data[64];
  const auto classes = [&](const Layout& layout) { return classify_strides(layout.view(data)); };
  EXPECT_EQ(classes({{3, 4}, {}}), 0u);
  EXPECT_EQ(classes({{3, 4}, {4, 1}}), 0u);
  EXPECT_EQ(classes({{1, 4}, {99, 1}}), 0u) << "an extent of 1 has any stride";
  EXPECT_EQ(classes({{0, 4}, {7, 3}}), 0u) << "an empty array has any layout";
  const StrideClasses part_of_transposed = classes({{3, 7}, {1, 9}});
  EXPECT_EQ(stride_class(part_of_transposed, 0), StrideClass::unit);
  EXPECT_EQ(stride_class(part_of_transposed, 1), StrideClass::runtime);
  const StrideClasses broadcast = classes({{3, 4}, {0, 1}});
  EXPECT_EQ(stride_class(broadcast, 0), StrideClass::zero);
  EXPECT_EQ(stride_class(broadcast, 1), StrideClass::dense);
  EXPECT_EQ(stride_class(classes({{4}, {-5}}), 0), StrideClass::runtime);
}

TEST(Layout, KnowsStepsOfTheLastDimensionForwardAndBack) {
  float data[64];
  const auto classes = [&](const Layout& layout) { return classify_strides(layout.view(data)); };
  for (const std::int64_t step : {-4, -2, -1, 2, 3}) {
    const StrideClasses known = classes({{3, 4}, {4 * std::abs(step), step}});
    EXPECT_EQ(stride_step(known), step);
    EXPECT_EQ(stride_class(known, 0), StrideClass::dense) << step;
    EXPECT_EQ(stride_class(known, 1), StrideClass::dense) << step;
  }
  const StrideClasses both = classes({{3, 4}, {-4, -1}});
  EXPECT_EQ(stride_step(both), -1);
  EXPECT_EQ(stride_class(both, 0), StrideClass::runtime);
  EXPECT_EQ(stride_class(classes({{3, 1}, {-1, 1}}), 0), StrideClass::runtime) << "the last dimension has no step";
}

TEST(Layout, KnowsTheOrderOfDenseArrays) {
  float data[64];
  const auto classes = [&](const Layout& layout) { return classify_strides(layout.view(data)); };
  const auto order = [&](const Layout& layout) {
    const StrideClasses c = classes(layout);
    std::vector<int> dimensions;
    for (size_t k = 0; is_permuted(c) && k < layout.shape.size(); ++k)
      dimensions.push_back(permuted_dimension(c, static_cast<int>(k)));
    return dimensions;
  };
  EXPECT_EQ(order({{9, 3}, {1, 9}}), (std::vector{0, 1}));
  EXPECT_EQ(order({{3, 2}, {1, 3}}), (std::vector{0, 1})) << "no step between neighbours of the last dimension";
  EXPECT_EQ(order({{2, 3, 4, 5}, {60, 1, 15, 3}}), (std::vector{1, 3, 2, 0})) << "channels last";
  EXPECT_EQ(order({{1, 3, 4, 5}, {60, 1, 15, 3}}), (std::vector{1, 3, 2, 0})) << "of one image";
  EXPECT_EQ(order({{1, 3, 4, 5}, {0, 1, 15, 3}}), (std::vector{1, 3, 2, 0})) << "whose stride says nothing";
  EXPECT_EQ(order({{2, 3, 1, 5}, {15, 1, 15, 3}}), (std::vector{1, 3, 2, 0})) << "of one row";
  EXPECT_EQ(classes({{2, 3, 1, 1}, {3, 1, 3, 3}}), 0u) << "this is row-major too";
  EXPECT_FALSE(is_permuted(classes({{3, 7}, {1, 4}}))) << "holes";
  EXPECT_FALSE(is_permuted(classes({{3, 3}, {2, 2}}))) << "no holes in what it spans, but elements that lie together";
  EXPECT_FALSE(is_permuted(classes({{3, 4}, {1, -3}})));
  EXPECT_FALSE(is_permuted(classes({{3, 4, 2}, {1, 3, 0}})));
  std::vector<std::int64_t> twos(max_permuted_rank + 1, 2), strides(twos.size());
  for (size_t d = 0; d < twos.size(); ++d) strides[d] = std::int64_t{1} << d;
  EXPECT_FALSE(is_permuted(classes({twos, strides}))) << "of too many dimensions";
  twos.pop_back();
  strides.pop_back();
  EXPECT_TRUE(is_permuted(classes({twos, strides})));
  EXPECT_EQ(permuted_strides(classes({twos, strides}), twos), strides);
}

TEST(Layout, KnowsShortSteps) {
  float data[64];
  const auto classes = [&](const Layout& layout) { return classify_strides(layout.view(data)); };
  EXPECT_EQ(stride_step(classes({{3, 4}, {4, 1}})), 1);
  const StrideClasses every_second = classes({{3, 4}, {8, 2}});
  EXPECT_EQ(stride_step(every_second), 2);
  EXPECT_EQ(stride_class(every_second, 0), StrideClass::dense);
  EXPECT_EQ(stride_class(every_second, 1), StrideClass::dense);
  const StrideClasses rows_too = classes({{3, 4, 1}, {16, 2, 77}});
  EXPECT_EQ(stride_step(rows_too), 2) << "an extent of 1 has any stride";
  EXPECT_EQ(stride_class(rows_too, 0), StrideClass::runtime);
  EXPECT_EQ(stride_step(classes({{3, 4}, {20, 5}})), 1);
  EXPECT_EQ(stride_class(classes({{3, 4}, {20, 5}}), 1), StrideClass::runtime);
  EXPECT_EQ(classes({{0, 4}, {8, 2}}), 0u) << "an empty array has any layout";
}

TEST(Layout, KnowsWhatOverlapsItselfByEnumeration) {
  std::mt19937 generator(11);
  char data[1];
  int overlapping = 0;
  for (int round = 0; round < 3000; ++round) {
    Layout layout;
    const int rank = 1 + static_cast<int>(generator() % 3);
    for (int d = 0; d < rank; ++d) {
      layout.shape.push_back(static_cast<std::int64_t>(generator() % 4));
      layout.strides.push_back(static_cast<std::int64_t>(generator() % 15) - 7);
    }
    const std::vector<std::int64_t> all = offsets(layout);
    const bool expected = std::set<std::int64_t>(all.begin(), all.end()).size() != all.size();
    EXPECT_EQ(overlaps_itself(layout.view(data, u8)), expected);
    overlapping += expected;
  }
  EXPECT_GT(overlapping, 200);
}

TEST(Layout, DisjointMeansNoSharedByte) {
  std::mt19937 generator(5);
  std::vector<char> data(400);
  int disjoint = 0;
  for (int round = 0; round < 3000; ++round) {
    Layout a, b;
    for (Layout* layout : {&a, &b}) {
      for (int d = 0; d < 2; ++d) {
        layout->shape.push_back(1 + static_cast<std::int64_t>(generator() % 4));
        layout->strides.push_back(static_cast<std::int64_t>(generator() % 11) - 5);
      }
    }
    const std::int64_t x = 100 + static_cast<std::int64_t>(generator() % 60),
                       y = 100 + static_cast<std::int64_t>(generator() % 60);
    std::set<std::int64_t> first;
    for (const std::int64_t o : offsets(a)) first.insert(x + o);
    bool shared = false;
    for (const std::int64_t o : offsets(b)) shared |= first.count(y + o) != 0;
    const AliasClass alias = alias_class(a.view(data.data() + x, u8), b.view(data.data() + y, u8));
    if (shared) {
      EXPECT_NE(alias, AliasClass::disjoint);
    }
    disjoint += alias == AliasClass::disjoint;
  }
  EXPECT_GT(disjoint, 300);
}

TEST(Layout, IdenticalIsTheSameElementsInTheSamePlaces) {
  float data[16];
  const Layout dense{{2, 3}, {}}, same{{2, 3}, {3, 1}}, transposed{{2, 3}, {1, 2}};
  EXPECT_EQ(alias_class(dense.view(data), same.view(data)), AliasClass::identical);
  EXPECT_EQ(alias_class(dense.view(data), transposed.view(data)), AliasClass::overlapping);
  EXPECT_EQ(alias_class(dense.view(data), dense.view(data + 1)), AliasClass::overlapping);
  EXPECT_EQ(alias_class(dense.view(data), dense.view(data + 6)), AliasClass::disjoint);
}

TEST(Layout, ScattersIntoAnyStrides) {
  const float dense[] = {1, 2, 3, 4, 5, 6};
  std::vector<float> memory(12, 0);
  const Layout strided{{2, 3}, {-6, 2}};
  scatter_dense(dense, strided.view(memory.data() + 6));
  EXPECT_EQ(memory, (std::vector<float>{4, 0, 5, 0, 6, 0, 1, 0, 2, 0, 3, 0}));
}

}  // namespace
}  // namespace lathe
