#include "ir/analysis/nest_site.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "ir/text/parse.h"

namespace lathe {
namespace {

/// Stores to x at an index over the loops b and r, and over others within that are written out before the block.
class Stores {
 public:
  explicit Stores(const std::string& place, const std::string& within = "") {
    const auto loops = static_cast<size_t>(std::count(within.begin(), within.end(), '{'));
    func_ = parse_func(fmt::format(R"(func f(N: i64, x: f32[N]) stage begin {{
  block root() writes x[..] {{
    for b in [0, 8) {{ for r in [0, 4) {{ {}
      block w(space v in [0, N) = {}) writes x[v] {{ x[v] = 0.0f32 }} {} }} }} }} }})",
                                   within, place, std::string(loops, '}')));
    for (Stmt at = func_->body.as<Block>()->f.body; nest.size() < 2; at = nest.back()->body)
      nest.push_back(at.as<For>());
    Bounds inside(func_);
    for (const For* loop : nest) inside.bind(loop->variable, Range{loop->min, loop->extent});
    sites_ = collect_sites(nest.back()->body, inside, [](const Buffer&) { return true; });
  }

  /// Of the store in an iteration of b and r, and in another that lies so from it.
  bool apart(Direction b, Direction r) const { return plainly_apart(nest, {b, r}, sites_.front(), sites_.front()); }

  std::vector<const For*> nest;

 private:
  Func func_;
  std::vector<Site> sites_;
};

constexpr Direction equal = Direction::equal, later = Direction::later, earlier = Direction::earlier,
                    any = Direction::any;

TEST(PlainlyApart, WhereOneLoopMovesAPoint) {
  const Stores point("b * 4 + r");
  EXPECT_TRUE(point.apart(later, equal));
  EXPECT_TRUE(point.apart(earlier, equal));
  EXPECT_TRUE(point.apart(equal, later));
  EXPECT_TRUE(point.apart(equal, earlier));
  EXPECT_FALSE(point.apart(equal, equal)) << "the same place";
  EXPECT_FALSE(Stores("b * 4").apart(equal, later)) << "r moves nothing";
}

TEST(PlainlyApart, OnlyWhereAllOtherLoopsStandStill) {
  const Stores point("b * 4 + r");
  EXPECT_FALSE(point.apart(later, later));
  EXPECT_FALSE(point.apart(later, earlier)) << "4 - 3 is not looked at";
  EXPECT_FALSE(point.apart(later, any));
  EXPECT_FALSE(point.apart(any, equal));
  EXPECT_TRUE(Stores("b * 4").apart(later, any)) << "r is not in the place";
}

TEST(PlainlyApart, WhereLoopsWithinAddLessThanAStep) {
  const std::string place = "b * 64 + r * 16 + l";
  const auto within = [](int first, int end) { return fmt::format("for l in [{}, {}) {{", first, end); };
  for (const Direction way : {later, earlier}) {
    EXPECT_TRUE(Stores(place, within(0, 16)).apart(equal, way));
    EXPECT_TRUE(Stores(place, within(40, 56)).apart(equal, way)) << "wherever they begin";
    EXPECT_FALSE(Stores(place, within(0, 17)).apart(equal, way)) << "tiles touch";
    EXPECT_TRUE(Stores(place, within(0, 64)).apart(way, equal));
    EXPECT_FALSE(Stores(place, within(0, 65)).apart(way, equal));
    EXPECT_TRUE(Stores("b * 64 + r * 16 - l", within(0, 16)).apart(equal, way)) << "backwards";
    EXPECT_FALSE(Stores("b * 64 + r * 16 - l", within(0, 17)).apart(equal, way));
  }
  EXPECT_TRUE(Stores(place, within(3, 4)).apart(equal, later)) << "one iteration adds the same to both";
}

TEST(PlainlyApart, WhereSeveralLoopsWithinAddLessThanAStep) {
  const std::string place = "b * 64 + r * 16 + u * 4 + l";
  EXPECT_TRUE(Stores(place, "for u in [0, 4) { for l in [0, 4) {").apart(equal, later));
  EXPECT_FALSE(Stores(place, "for u in [0, 4) { for l in [0, 5) {").apart(equal, later));
}

TEST(PlainlyApart, NotWhereLoopsWithinAreOfUnknownLength) {
  EXPECT_FALSE(Stores("b * 64 + l", "for l in [0, N) {").apart(later, equal));
  EXPECT_FALSE(Stores("b * N + l", "for l in [0, 4) {").apart(later, equal)) << "steps of unknown length";
}

}  // namespace
}  // namespace lathe
