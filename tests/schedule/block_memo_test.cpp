#include "schedule/auto/block_memo.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <functional>

#include "ir/text/parse.h"
#include "ir/visitor.h"
#include "schedule/auto/rule.h"
#include "schedule/rewrite.h"

namespace lathe::testing {
namespace {

/// The sums of exp(x) over the rows, or what `body` makes of `l` and `r`.
Func sums(const std::string& term = "exp(x[vi, vj])", const std::string& combined = "lhs + rhs",
          const std::string& update = "l + r") {
  return parse_func(fmt::format(R"(func f(x: f32[16, 32], out: f32[32]) stage begin {{
  block root() reads x[..], out[..] writes out[..] {{
    for j in [0, 32) {{ for i in [0, 16) {{
      block sum(space vj in [0, 32) = j, reduce vi in [0, 16) = i) reads x[vi, vj], out[vj] writes out[vj] {{
        reducer (lhs: f32) (rhs: f32) {{{1}}} identity {{0.0f32}}
        init {{ out[vj] = 0.0f32 }}
        let l: f32 = out[vj]
        let r: f32 = {0}
        out[vj] = {2} }} }} }} }} }})",
                                term, combined, update));
}

Stmt block_of(const Func& func) {
  Stmt found;
  for_each_stmt(func->body, [&](const Stmt& s) {
    if (s.as<Block>() && !s.as<Block>()->f.iters.empty()) found = s;
  });
  return found;
}

/// What is asked of blocks, as text.
std::string answers(const Stmt& s) {
  const Block& block = *s.as<Block>();
  std::string text = fmt::format("cost {} sealed {}", body_cost(block), is_sealed(block));
  for (const Access& access : block_accesses(block)) {
    text += fmt::format(" {}{}:", access.buffer->name, access.store ? " stored" : "");
    for (size_t i = 0; i < access.strides.size(); ++i)
      text += fmt::format(" {} {} {}", access.strides[i].value_or(-99), access.distances[i], access.runs[i]);
  }
  const std::optional<ReductionShape> shape = reduction_shape(block);
  if (!shape) return text + " no reduction";
  return text + fmt::format(" over {} and {}, vectors {} {}, {} loads", shape->space.size(), shape->reduce.size(),
                            shape->vector_space.value_or(99), shape->vector_reduce.value_or(99), shape->loads);
}

Stmt changed(const Stmt& s, const std::function<void(Block::Fields&)>& change) {
  return with_fields(*s.as<Block>(), change);
}

TEST(BlockMemo, AnswersAsWithoutOneWhateverChanges) {
  const Stmt block = block_of(sums());
  const auto other = [](const std::string& term, const std::string& combined = "lhs + rhs",
                        const std::string& update = "l + r") { return block_of(sums(term, combined, update)); };
  const std::vector<Stmt> blocks = {
      block,
      other("x[vi, vj]"),
      other("x[vi, vj]", "lhs * rhs", "l * r"),
      changed(block, [&](Block::Fields& f) { f.body = other("x[vi, 0]").as<Block>()->f.body; }),
      changed(block, [](Block::Fields& f) { f.init = nullptr; }),
      changed(block, [](Block::Fields& f) { f.iters[0].domain.extent = index(1); }),
      changed(block, [](Block::Fields& f) { f.iters[1].kind = IterKind::ordered; }),
      changed(block, [](Block::Fields& f) { f.iters[1].kind = IterKind::opaque; }),
      changed(block, [](Block::Fields& f) { f.reducer.reset(); }),
      changed(block, [&](Block::Fields& f) { f.reducer = other("x[vi, vj]", "lhs * rhs").as<Block>()->f.reducer; }),
  };
  std::vector<std::string> expected;
  for (const Stmt& one : blocks) expected.push_back(answers(one));
  const BlockMemo memo;
  for (int round = 0; round < 2; ++round) {
    for (size_t i = 0; i < blocks.size(); ++i) EXPECT_EQ(answers(blocks[i]), expected[i]) << i;
  }
}

TEST(BlockMemo, FindsOnceWhatLoopsAroundABlockDoNotChange) {
  const BlockMemo memo;
  const Stmt block = block_of(sums());
  int found = 0;
  const auto ask = [&](const Stmt& s) {
    return BlockMemo::ask(*s.as<Block>(), &BlockMemo::Known::cost, [&] { return static_cast<double>(++found); });
  };
  EXPECT_EQ(ask(block), 1);
  EXPECT_EQ(ask(changed(block, [](Block::Fields& f) { f.bindings[0] = f.bindings[0] + 1; })), 1);
  EXPECT_EQ(ask(block_of(sums())), 2) << "another body";
}

TEST(BlockMemo, KeepsTheLatestBlocks) {
  const BlockMemo memo;
  std::vector<Stmt> blocks;
  for (int i = 0; i < 100; ++i) blocks.push_back(block_of(sums(fmt::format("x[vi, vj] + {}.0f32", i))));
  int found = 0;
  const auto ask = [&](const Stmt& s) {
    return BlockMemo::ask(*s.as<Block>(), &BlockMemo::Known::cost, [&] { return static_cast<double>(++found); });
  };
  for (const Stmt& s : blocks) ask(s);
  EXPECT_EQ(ask(blocks.back()), 100);
  EXPECT_EQ(ask(blocks.front()), 101) << "long gone";
}

}  // namespace
}  // namespace lathe::testing
