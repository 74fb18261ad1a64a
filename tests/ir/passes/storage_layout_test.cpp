// The planner of intervals against problems of many shapes. The checker below shares nothing with the planner: it looks
// at each pair, and counts what is alive time by time.
#include "ir/passes/storage_layout.h"

#include <gtest/gtest.h>

#include <functional>
#include <map>
#include <random>
#include <string>

namespace lathe {
namespace {

using Problem = std::vector<Lifetime>;

std::int64_t most_alive(const Problem& problem) {
  std::map<std::int64_t, std::int64_t> alive;  // only where one begins can be the peak
  for (const Lifetime& l : problem) alive[l.first] = 0;
  for (auto& [time, bytes] : alive) {
    for (const Lifetime& l : problem) bytes += l.first <= time && time <= l.last ? l.bytes : 0;
  }
  std::int64_t most = 0;
  for (const auto& [time, bytes] : alive) most = std::max(most, bytes);
  return most;
}

/// Empty, or what is wrong with the layout.
std::string check(const Problem& problem, const StorageLayout& layout) {
  if (layout.offsets.size() != problem.size()) return "another number of offsets";
  std::int64_t peak = 0;
  for (size_t i = 0; i < problem.size(); ++i) {
    const std::int64_t begin = layout.offsets[i], end = begin + problem[i].bytes;
    if (begin < 0 || begin % problem[i].alignment != 0) return "a place below 0 or out of alignment";
    peak = std::max(peak, end);
    for (size_t k = 0; k < i; ++k) {
      const bool in_time = problem[i].first <= problem[k].last && problem[k].first <= problem[i].last;
      const bool in_place = begin < layout.offsets[k] + problem[k].bytes && layout.offsets[k] < end;
      if (in_time && in_place && problem[i].bytes > 0 && problem[k].bytes > 0) {
        return std::to_string(k) + " and " + std::to_string(i) + " overlap";
      }
    }
  }
  return peak == layout.peak ? "" : "another peak than said";
}

std::int64_t rounded(double bytes) {
  return (static_cast<std::int64_t>(bytes) + 63) / 64 * 64;
}

/// Lifetimes of any length, sizes over three orders of magnitude.
Problem random_problem(std::mt19937& random, int count, int times, double mean_length) {
  std::uniform_int_distribution<int> start(0, times - 1);
  std::exponential_distribution<double> length(1 / mean_length);
  std::uniform_real_distribution<double> magnitude(6, 16);
  Problem problem;
  for (int i = 0; i < count; ++i) {
    const int first = start(random);
    problem.push_back({first, first + static_cast<int>(length(random)), rounded(std::exp2(magnitude(random))), 64});
  }
  return problem;
}

/// Each is read by the next step, and now and then by one further on.
Problem chain(std::mt19937& random, int count) {
  std::uniform_real_distribution<double> magnitude(8, 18), chance(0, 1);
  Problem problem;
  for (int i = 0; i < count; ++i) {
    const int reach = chance(random) < 0.2 ? 2 + static_cast<int>(random() % 6) : 1;
    problem.push_back({i, i + reach, rounded(std::exp2(magnitude(random))), 64});
  }
  return problem;
}

/// One value goes to several branches, whose ends come together.
Problem fan(std::mt19937& random, int fans, int branches, int depth) {
  std::uniform_real_distribution<double> magnitude(8, 16);
  Problem problem;
  std::int64_t time = 0;
  for (int f = 0; f < fans; ++f) {
    const std::int64_t begin = time, join = begin + std::int64_t{branches} * depth + 1;
    problem.push_back({begin, join - 1, rounded(std::exp2(magnitude(random))), 64});
    for (int b = 0; b < branches; ++b) {
      for (int d = 0; d < depth; ++d) {
        ++time;
        const bool last = d + 1 == depth;
        problem.push_back({time, last ? join : time + 1, rounded(std::exp2(magnitude(random))), 64});
      }
    }
    time = join;
  }
  return problem;
}

/// Builds the lifetimes of a network from its layers, in order: each makes a value and reads earlier ones.
class Net {
 public:
  int add(std::vector<int> reads, double elements) {
    const auto now = static_cast<std::int64_t>(problem.size());
    for (const int read : reads) problem[static_cast<size_t>(read)].last = now;
    problem.push_back({now, now, rounded(4 * elements), 64});
    return static_cast<int>(now);
  }
  Problem problem;
};

/// Activations of a residual network (K. He et al., 2015, table 1), `blocks` bottlenecks a stage.
Problem residual_net(const std::vector<int>& blocks, double batch, double side) {
  Net net;
  int x = net.add({}, batch * 3 * side * side);
  side /= 2;
  x = net.add({x}, batch * 64 * side * side);
  side /= 2;
  x = net.add({x}, batch * 64 * side * side);
  double width = 64;
  for (const int count : blocks) {
    for (int b = 0; b < count; ++b) {
      const bool halves = b == 0 && width > 64;
      const double before = side, after = halves ? side / 2 : side;
      const int a = net.add({x}, batch * width * before * before);
      const int c = net.add({a}, batch * width * after * after);
      const int d = net.add({c}, batch * 4 * width * after * after);
      const int skip = b == 0 ? net.add({x}, batch * 4 * width * after * after) : x;
      x = net.add({d, skip}, batch * 4 * width * after * after);
      side = after;
    }
    width *= 2;
  }
  net.add({x}, batch * 1000);
  return net.problem;
}

/// Dense blocks: each layer reads all before it (G. Huang et al., 2016).
Problem dense_net(const std::vector<int>& blocks, double growth, double side) {
  Net net;
  int x = net.add({}, 64 * side * side);
  for (const int count : blocks) {
    std::vector<int> all = {x};
    for (int i = 0; i < count; ++i) {
      const int a = net.add(all, 4 * growth * side * side);
      all.push_back(net.add({a}, growth * side * side));
    }
    side /= 2;
    x = net.add(all, (growth * count + 64) / 2 * side * side);
  }
  return net.problem;
}

/// An encoder whose levels are read again by the decoder (O. Ronneberger et al., 2015).
Problem u_net(int levels, double side, double width) {
  Net net;
  int x = net.add({}, side * side);
  std::vector<int> skips;
  for (int level = 0; level < levels; ++level) {
    x = net.add({net.add({x}, width * side * side)}, width * side * side);
    skips.push_back(x);
    side /= 2;
    width *= 2;
    x = net.add({x}, width / 2 * side * side);
  }
  x = net.add({x}, width * side * side);
  for (int level = levels; level-- > 0;) {
    side *= 2;
    width /= 2;
    x = net.add({x}, width * side * side);
    x = net.add({x, skips[static_cast<size_t>(level)]}, 2 * width * side * side);
    x = net.add({net.add({x}, width * side * side)}, width * side * side);
  }
  return net.problem;
}

/// Encoder layers (A. Vaswani et al., 2017), scores materialized.
Problem transformer(int layers, double tokens, double width, double heads) {
  Net net;
  int x = net.add({}, tokens * width);
  for (int l = 0; l < layers; ++l) {
    const int n = net.add({x}, tokens * width);
    const int q = net.add({n}, tokens * width), k = net.add({n}, tokens * width), v = net.add({n}, tokens * width);
    const int scores = net.add({q, k}, heads * tokens * tokens), weights = net.add({scores}, heads * tokens * tokens);
    const int mixed = net.add({weights, v}, tokens * width), out = net.add({mixed}, tokens * width);
    x = net.add({x, out}, tokens * width);
    const int m = net.add({x}, tokens * width), up = net.add({m}, 4 * tokens * width);
    const int act = net.add({up}, 4 * tokens * width), down = net.add({act}, tokens * width);
    x = net.add({x, down}, tokens * width);
  }
  return net.problem;
}

/// Four branches of different depth and width, concatenated (C. Szegedy et al., 2014).
Problem inception(int modules, double side) {
  Net net;
  int x = net.add({}, 192 * side * side);
  for (int m = 0; m < modules; ++m) {
    const double area = side * side, w = 32 * (1 + m / 2);
    const int a = net.add({x}, 2 * w * area);
    const int b = net.add({net.add({x}, 3 * w * area)}, 4 * w * area);
    const int c = net.add({net.add({net.add({x}, w / 2 * area)}, w * area)}, w * area);
    const int d = net.add({net.add({x}, 6 * w * area)}, w * area);
    x = net.add({a, b, c, d}, 8 * w * area);
    if (m % 3 == 2) {
      side /= 2;
      x = net.add({x}, 8 * w * side * side);
    }
  }
  return net.problem;
}

std::vector<std::pair<std::string, Problem>> problems() {
  std::vector<std::pair<std::string, Problem>> all;
  std::mt19937 random(20);
  for (int i = 0; i < 100; ++i) {
    const int count = 5 + 3 * i;
    all.emplace_back("random", random_problem(random, count, count, 2 + i % 10 * 3));
  }
  for (int i = 0; i < 60; ++i) all.emplace_back("chain", chain(random, 5 + 4 * i));
  for (int i = 0; i < 60; ++i) all.emplace_back("fan", fan(random, 1 + i / 10, 2 + i % 10, 1 + i % 4));
  for (const double side : {64, 128, 224, 320}) {
    all.emplace_back("net", residual_net({3, 4, 6, 3}, 1, side));
    all.emplace_back("net", residual_net({3, 4, 23, 3}, 8, side));
    all.emplace_back("net", dense_net({6, 12, 24, 16}, 32, side / 4));
    all.emplace_back("net", u_net(4, side, 64));
    all.emplace_back("net", inception(9, side / 8));
    all.emplace_back("net", transformer(6, side, 384, 6));
    all.emplace_back("net", transformer(12, 2 * side, 768, 12));
  }
  return all;
}

TEST(StorageLayout, LiesWithinFivePercentOfTheLiveBoundOnAverageAndNeverOverlaps) {
  std::map<std::string, std::pair<double, int>> excess;
  double sum = 0, worst = 0;
  const auto all = problems();
  ASSERT_GE(all.size(), 200u);
  for (const auto& [kind, problem] : all) {
    const StorageLayout layout = lay_out(problem);
    ASSERT_EQ(check(problem, layout), "") << kind << " of " << problem.size();
    const std::int64_t bound = most_alive(problem);
    ASSERT_EQ(live_bound(problem).bytes, bound);
    ASSERT_GE(layout.peak, bound);
    const double over = static_cast<double>(layout.peak) / static_cast<double>(bound) - 1;
    excess[kind].first += over;
    ++excess[kind].second;
    sum += over;
    worst = std::max(worst, over);
  }
  for (const auto& [kind, total] : excess) {
    std::printf("%-7s %3d problems, %.2f %% over the live bound on average\n", kind.c_str(), total.second,
                100 * total.first / total.second);
    EXPECT_LE(total.first / total.second, 0.05) << kind;
  }
  std::printf("all     %3zu problems, %.2f %% on average, %.1f %% at worst\n", all.size(),
              100 * sum / static_cast<double>(all.size()), 100 * worst);
  EXPECT_LE(sum / static_cast<double>(all.size()), 0.05);
}

TEST(StorageLayout, KeepsAlignmentsThatDiffer) {
  std::mt19937 random(3);
  for (int k = 0; k < 50; ++k) {
    Problem problem = random_problem(random, 30, 30, 5);
    for (Lifetime& l : problem) {
      l.alignment = std::int64_t{1} << random() % 13;
      l.bytes = 1 + static_cast<std::int64_t>(random() % 5000);
    }
    EXPECT_EQ(check(problem, lay_out(problem)), "");
  }
}

TEST(StorageLayout, UsesAGapThatFits) {
  // The middle one goes and a smaller one comes: it fits between the other two.
  const Problem problem = {{0, 9, 100, 1}, {0, 4, 50, 1}, {0, 9, 100, 1}, {5, 9, 40, 1}};
  EXPECT_EQ(lay_out(problem).peak, 250);
}

TEST(StorageLayout, NothingAndSizesOfZeroHaveNoPeak) {
  EXPECT_EQ(lay_out({}).peak, 0);
  EXPECT_EQ(live_bound({}).bytes, 0);
  const Problem empty = {{0, 3, 0, 64}, {1, 2, 0, 64}};
  EXPECT_EQ(check(empty, lay_out(empty)), "");
  EXPECT_EQ(lay_out(empty).peak, 0);
}

TEST(StorageLayout, TakesTwentyThousandLifetimes) {
  std::mt19937 random(4);
  const Problem problem = chain(random, 20'000);
  EXPECT_EQ(check(problem, lay_out(problem)), "");
}

TEST(StorageLayout, TheSameProblemGetsTheSameLayout) {
  std::mt19937 random(5);
  const Problem problem = random_problem(random, 200, 100, 12);
  EXPECT_EQ(lay_out(problem).offsets, lay_out(problem).offsets);
}

}  // namespace
}  // namespace lathe
