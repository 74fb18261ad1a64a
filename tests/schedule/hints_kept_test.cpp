/// What primitives make of the hints on the blocks that they touch: carried along, proved again, or a refusal.
#include <fmt/format.h>

#include "ir/analysis/regions.h"
#include "ir/passes/compact_buffers.h"
#include "ir/passes/lower_blocks.h"
#include "ir/passes/lower_reductions.h"
#include "ir/passes/place_allocations.h"
#include "ir/structural.h"
#include "ir/text/parse.h"
#include "ir/text/print.h"
#include "ir/visitor.h"
#include "schedule/primitives/annotate.h"
#include "schedule/primitives/annotate_buffer_access.h"
#include "schedule/primitives/bind.h"
#include "schedule/primitives/blockize.h"
#include "schedule/primitives/cache_read.h"
#include "schedule/primitives/cache_write.h"
#include "schedule/primitives/compute_at.h"
#include "schedule/primitives/compute_inline.h"
#include "schedule/primitives/decompose_padding.h"
#include "schedule/primitives/decompose_reduction.h"
#include "schedule/primitives/fuse.h"
#include "schedule/primitives/parallel.h"
#include "schedule/primitives/partition.h"
#include "schedule/primitives/reindex.h"
#include "schedule/primitives/reorder.h"
#include "schedule/primitives/reverse_compute_at.h"
#include "schedule/primitives/reverse_compute_inline.h"
#include "schedule/primitives/rfactor.h"
#include "schedule/primitives/set_space.h"
#include "schedule/primitives/split.h"
#include "schedule/primitives/storage_align.h"
#include "schedule/primitives/transform_layout.h"
#include "schedule/primitives/unroll.h"
#include "schedule/primitives/vectorize.h"
#include "schedule/record.h"
#include "schedule/rewrite.h"
#include "tests/schedule/support.h"

namespace lathe::testing {
namespace {

/// Three links: rows of x picked by data, a sum along them, and what becomes of it.
const char* const picked = R"(func picked(x: f32[20, 12], p: u8[8], out: f32[8, 12]) stage begin {
  block root() {
    alloc row: f32[8, 12]
    alloc total: f32[8]
    for i in [0, 8) {
      for j in [0, 12) {
        block row(space vi in [0, 8) = i, space vj in [0, 12) = j) reads x[.., vj], p[vi] writes row[vi, vj] {
          row[vi, vj] = x[cast<i64>(p[vi]) + 2 * vi, vj] + 1.0f32
        }
      }
    }
    for i1 in [0, 8) {
      for k in [0, 12) {
        block total(space vi1 in [0, 8) = i1, reduce vk in [0, 12) = k) reads row[vi1, vk], total[vi1] writes total[vi1] {
          reducer (lhs: f32) (rhs: f32) {lhs + rhs} identity {0.0f32}
          init {
            total[vi1] = 0.0f32
          }
          let l: f32 = total[vi1]
          let r: f32 = row[vi1, vk]
          total[vi1] = l + r
        }
      }
    }
    for i2 in [0, 8) {
      for j2 in [0, 12) {
        block out(space vi2 in [0, 8) = i2, space vj2 in [0, 12) = j2) reads row[vi2, vj2], total[vi2] writes out[vi2, vj2] {
          out[vi2, vj2] = row[vi2, vj2] * total[vi2]
        }
      }
    }
  }
}
)";

/// p holds 0 .. 3.
std::vector<Range> rows_of(const std::vector<Expr>& v) {
  return {{v[0] * 2, index(4)}, {v[1], index(1)}};
}
/// A hint that analysis proves: a column more on either side.
std::vector<Range> wider(const std::vector<Expr>& v) {
  return {{v[0], index(1)}, {v[1] - 1, index(3)}};
}

Schedule hinted() {
  Schedule s(parse_func(picked));
  annotate_buffer_access(s, {"row"}, "x", BufferAccess::read, rows_of);
  annotate_buffer_access(s, {"row"}, "row", BufferAccess::write, wider);
  annotate_buffer_access(s, {"total"}, "row", BufferAccess::read, wider);
  annotate_buffer_access(s, {"out"}, "row", BufferAccess::read, wider);
  return s;
}

/// "row reads x[vi * 2:+4, vj] checked", one a hint.
std::vector<std::string> hints_of(const Func& func) {
  std::vector<std::string> found;
  for_each_stmt(func->body, [&](const Stmt& s) {
    const Block* block = s.as<Block>();
    if (!block) return;
    for (const bool writes : {false, true})
      for (const Region& region : writes ? block->f.writes : block->f.reads)
        if (is_hint(region))
          found.push_back(fmt::format("{} {} {}", block->f.name, writes ? "writes" : "reads", print(region)));
  });
  return found;
}

const std::vector<std::string> given = {
    "row reads x[vi * 2:+4, vj] checked \"row\"", "row writes row[vi, vj - 1:+3] inferred \"row\"",
    "total reads row[vi1, vk - 1:+3] inferred \"total\"", "out reads row[vi2, vj2 - 1:+3] inferred \"out\""};

struct Kept {
  const char* name;
  std::function<void(Schedule&)> apply;
  std::vector<std::string> hints;
};
class KeepsHints : public ::testing::TestWithParam<Kept> {};

TEST_P(KeepsHints, AndTheResult) {
  Schedule s = hinted();
  const Func before = parse_func(picked);
  EXPECT_EQ(hints_of(s.func()), given);
  GetParam().apply(s);
  EXPECT_EQ(hints_of(s.func()), GetParam().hints) << print(s.func());
  expect_same(before, s.func());
  Schedule again(before);
  replay(again, s.record());
  EXPECT_TRUE(equal(again.func(), s.func()));
  expect_same(before, compact_buffers(place_allocations(lower_blocks(lower_reductions(s.func())), Device{})));
}

std::vector<std::string> with(size_t i, std::vector<std::string> instead) {
  std::vector<std::string> hints = given;
  hints.erase(hints.begin() + static_cast<std::ptrdiff_t>(i));
  hints.insert(hints.begin() + static_cast<std::ptrdiff_t>(i), instead.begin(), instead.end());
  return hints;
}

INSTANTIATE_TEST_SUITE_P(
    Primitives, KeepsHints,
    ::testing::Values(
        Kept{"split", [](Schedule& s) { split(s, s.loop("row", 1), 5); }, given},
        Kept{"fuse", [](Schedule& s) { fuse(s, s.loop("row", 0), s.loop("row", 1)); }, given},
        Kept{"reorder", [](Schedule& s) { reorder(s, {s.loop("row", 1), s.loop("row", 0)}); }, given},
        Kept{"parallel", [](Schedule& s) { parallel(s, s.loop("row", 0), 1); }, given},
        Kept{"vectorize",
             [](Schedule& s) {
               annotate_buffer_access(s, {"row"}, "row", BufferAccess::write, [](const auto& v) {
                 return std::vector<Range>{{v[0], index(1)}, {v[1], index(1)}};
               });
               vectorize(s, s.loop("row", 1));
             },
             with(1, {"row writes row[vi, vj] inferred \"row\""})},
        Kept{"unroll", [](Schedule& s) { unroll(s, s.loop("row", 1)); }, given},
        Kept{"annotate", [](Schedule& s) { annotate(s, s.loop("row", 1), "note", 1); }, given},
        Kept{"partition", [](Schedule& s) { partition(s, s.loop("row", 1), 5); },
             with(2, {"row_1 reads x[vi * 2:+4, vj] checked \"row\"",
                      "row_1 writes row[vi, vj - 1:+3] inferred \"row\"", given[2]})},
        Kept{"cache_read", [](Schedule& s) { cache_read(s, {"row"}, "x", "global"); },
             with(0, {"row reads x_global[vi * 2:+4, vj] checked \"row\""})},
        Kept{"cache_read of another", [](Schedule& s) { cache_read(s, {"row"}, "p", "global"); }, given},
        Kept{"cache_write", [](Schedule& s) { cache_write(s, {"row"}, "global"); },
             with(1, {"row writes row_global[vi, vj - 1:+3] inferred \"row\""})},
        Kept{"set_space", [](Schedule& s) { set_space(s, {"row"}, "worker"); }, given},
        Kept{"storage_align", [](Schedule& s) { storage_align(s, {"row"}, "row", 0, 16, 0); }, given},
        Kept{"compute_at", [](Schedule& s) { compute_at(s, {"total"}, s.loop("out", 0)); }, given},
        Kept{"reverse_compute_at", [](Schedule& s) { reverse_compute_at(s, {"out"}, s.loop("total", 0)); }, given},
        Kept{"decompose_reduction", [](Schedule& s) { decompose_reduction(s, {"total"}, s.loop("total", 1)); }, given},
        Kept{"rfactor", [](Schedule& s) { rfactor(s, {"total"}, split(s, s.loop("total", 1), 4).second); },
             with(2, {"total_rf reads row[vi1, vko * 4 + vki - 1:+3] inferred \"total\""})},
        Kept{"blockize", [](Schedule& s) { blockize(s, s.loop("row", 1)); },
             with(0, {"row_tile reads x[vi * 2:+4, ..] checked \"row\"", "row_tile writes row[vi, ..] inferred \"row\"",
                      given[0]})},
        Kept{"bind", [](Schedule& s) { bind_loop(s, s.loop("row", 0), "lane"); }, given},
        Kept{"transform_layout of another",
             [](Schedule& s) { transform_layout(s, {"total"}, "total", parse_layout_map("i -> i // 4, i % 4")); },
             given},
        Kept{"reindex", [](Schedule& s) { reindex(s, {"out"}, "total"); }, given},
        Kept{"reindex of the buffer", [](Schedule& s) { reindex(s, {"out"}, "row"); }, with(3, {})}),
    [](const auto& info) {
      std::string name = info.param.name;
      std::replace(name.begin(), name.end(), ' ', '_');
      return name;
    });

TEST(HintsKept, ComputeInlineRefusesToTakeAProducersHints) {
  Schedule s = hinted();
  expect_refused(s, [&] { compute_inline(s, {"row"}); }, "compute_inline", 0, "hints_refused_inline");
}

TEST(HintsKept, ReverseComputeInlineRefusesToTakeAConsumersHints) {
  Schedule s(parse_func(R"(func pair(x: f32[8], y: f32[8]) stage begin {
  block root() {
    alloc t: f32[8]
    for i in [0, 8) {
      block t(space vi in [0, 8) = i) reads x[vi] writes t[vi] {
        t[vi] = x[vi] + 1.0f32
      }
    }
    for j in [0, 8) {
      block out(space vj in [0, 8) = j) reads t[vj], x[vj] writes y[vj] {
        y[vj] = t[vj] * x[vj]
      }
    }
  }
}
)"));
  annotate_buffer_access(s, {"out"}, "x", BufferAccess::read,
                         [](const auto& v) { return std::vector<Range>{{v[0] - 1, index(3)}}; });
  expect_refused(
      s, [&] { reverse_compute_inline(s, {"out"}); }, "reverse_compute_inline", 0, "hints_refused_reverse_inline");
}

TEST(HintsKept, TransformLayoutRefusesAHintedBuffer) {
  Schedule s = hinted();
  expect_refused(
      s, [&] { transform_layout(s, {"row"}, "row", parse_layout_map("i, j -> j, i")); }, "transform_layout", 1,
      "hints_refused_layout");
}

TEST(HintsKept, DependencesFollowAHintThatIsWiderThanTheAccess) {
  Schedule s = hinted();
  expect_refused(s, [&] { vectorize(s, s.loop("row", 1)); }, "vectorize", 5, "hints_refused_vectorize");
}

/// The tile behind the inspector, at loop io.
Schedule inspected() {
  Schedule s(parse_func(picked));
  annotate_buffer_access(s, {"row"}, "x", BufferAccess::read, rows_of);
  const BlockRef copy = cache_read(s, {"row"}, "x", "global");
  const auto [io, ii] = split(s, s.loop("row", 0), 4);
  compute_at(s, copy, io);
  return s;
}

TEST(HintsKept, TheTileBehindAnInspectorIsScheduledLikeAnyOther) {
  const Func before = parse_func(picked);
  Schedule s = inspected();
  const auto [jo, ji] = split(s, s.loop("row", 2), 5);
  reorder(s, {jo, s.loop("row", 1), ji});
  unroll(s, ji);
  vectorize(s, s.loops({"row_1"}).back());
  vectorize(s, s.loops({"x_copy"}).back());
  expect_scheduled(s, before, "hints_inspected");
  EXPECT_EQ(hints_of(s.func()), std::vector<std::string>{"row reads x_global[vi * 2:+4, vj] checked \"row\""});
  // The copies of two tiles meet: each task gets its own once allocations are placed.
  parallel(s, s.loop("row", 0), 1);
  EXPECT_NE(print(s.func()).find("private_x_global: 1"), std::string::npos);
  expect_same(before, compact_buffers(place_allocations(lower_blocks(lower_reductions(s.func())), Device{})));
}

TEST(HintsKept, WhatReadsMoreOfTheCopyBehindAnInspectorIsRefused) {
  // The inspector has seen one access to x_global; no primitive makes another.
  Schedule s = inspected();
  const std::vector<Stmt> path = s.find(BlockRef{"row"});
  const Stmt changed = with_fields(*path.back().as<Block>(), [](Block::Fields& f) {
    const Store* store = f.body.as<Store>();
    const Buffer cache = f.reads.back().buffer;
    f.body = Store::make(store->buffer, store->indices, store->value + load(cache, {index(19), index(0)}));
  });
  expect_refused(s, [&] { s.commit(replace_last(path, changed), "edit(row)"); }, "edit", 0, "hints_refused_inspected");
}

TEST(HintsKept, ABlockThatLeavesItsInspectorIsRefused) {
  Schedule s = inspected();
  const std::vector<Stmt> path = s.find(BlockRef{"row"});
  const auto choice = std::find_if(path.begin(), path.end(), [](const Stmt& at) { return at.as<If>() != nullptr; });
  ASSERT_NE(choice, path.end());
  const Path to_choice(path.begin(), choice + 1);
  const Stmt bare = (*choice).as<If>()->then_case;
  expect_refused(s, [&] { s.commit(replace_last(to_choice, bare), "edit(row)"); }, "edit", 0, "hints_refused_left");
}

TEST(HintsKept, AProvedHintThatIsNoLongerTrueIsRefused) {
  Schedule s = hinted();
  const std::vector<Stmt> path = s.find(BlockRef{"out"});
  const Stmt changed = with_fields(*path.back().as<Block>(), [](Block::Fields& f) {
    const Store* store = f.body.as<Store>();
    const Buffer row = f.reads.back().buffer;
    f.body = Store::make(store->buffer, store->indices, load(row, {f.iters[0].variable, index(3)}));
  });
  expect_refused(s, [&] { s.commit(replace_last(path, changed), "edit(out)"); }, "edit", 0, "hints_refused_untrue");
}

TEST(HintsKept, ComputeAtRefusesACheckedHintWithoutARoot) {
  // The producer computes: without its buffer there is nothing to read.
  Schedule s(parse_func(R"(func computed(x: f32[20], p: u8[8], out: f32[8]) stage begin {
  block root() {
    alloc t: f32[20]
    for i in [0, 20) {
      block t(space vi in [0, 20) = i) reads x[vi] writes t[vi] {
        t[vi] = x[vi] + 1.0f32
      }
    }
    for j in [0, 8) {
      block out(space vj in [0, 8) = j) reads t[..], p[vj] writes out[vj] {
        out[vj] = t[cast<i64>(p[vj]) + 2 * vj]
      }
    }
  }
}
)"));
  annotate_buffer_access(s, {"out"}, "t", BufferAccess::read,
                         [](const auto& v) { return std::vector<Range>{{v[0] * 2, index(4)}}; });
  expect_refused(s, [&] { compute_at(s, {"t"}, s.loop("out", 0)); }, "compute_at", 6, "compute_at_refused_6_computes");
}

TEST(HintsKept, ComputeAtRefusesACheckedHintWhoseIndexTheLoopComputes) {
  Schedule s(parse_func(R"(func decided(x: f32[20], p: u8[8], out: f32[8]) stage begin {
  block root() {
    alloc q: u8[8]
    for j in [0, 8) {
      block q(space vi in [0, 8) = j) reads p[vi] writes q[vi] {
        q[vi] = p[vi]
      }
      block out(space vj in [0, 8) = j) reads x[..], q[vj] writes out[vj] {
        out[vj] = x[cast<i64>(q[vj]) + 2 * vj]
      }
    }
  }
}
)"));
  annotate_buffer_access(s, {"out"}, "x", BufferAccess::read,
                         [](const auto& v) { return std::vector<Range>{{v[0] * 2, index(4)}}; });
  const BlockRef copy = cache_read(s, {"out"}, "x", "global");
  expect_refused(s, [&] { compute_at(s, copy, s.loop("out", 0)); }, "compute_at", 6, "compute_at_refused_6_decides");
}

/// x, and a copy of it, of which a copy is taken again; x is cleared before the loop that reads, or behind it.
Func overwritten(bool before) {
  const std::string clear = R"(    for i in [0, 20) {
      block clear(space vi in [0, 20) = i) writes x[vi] {
        x[vi] = 0.0f32
      }
    }
)";
  return parse_func(R"(func overwritten(y: f32[20], p: u8[8], x: f32[20], out: f32[8]) stage begin {
  block root() {
    alloc kept: f32[20]
    for i in [0, 20) {
      block set(space vi in [0, 20) = i) reads y[vi] writes x[vi] {
        x[vi] = y[vi] + 1.0f32
      }
    }
    for i in [0, 20) {
      block keep(space vi in [0, 20) = i) reads x[vi] writes kept[vi] {
        kept[vi] = x[vi]
      }
    }
)" + (before ? clear : "") +
                    R"(    for j in [0, 8) {
      block out(space vj in [0, 8) = j) reads kept[..], p[vj] writes out[vj] {
        out[vj] = kept[cast<i64>(p[vj]) + 2 * vj]
      }
    }
)" + (before ? "" : clear) +
                    "  }\n}\n");
}

TEST(HintsKept, ComputeAtRefusesACheckedHintWhoseRootIsOverwritten) {
  for (const bool before : {false, true}) {
    Schedule s(overwritten(before));
    annotate_buffer_access(s, {"out"}, "kept", BufferAccess::read,
                           [](const auto& v) { return std::vector<Range>{{v[0] * 2, index(4)}}; });
    const BlockRef copy = cache_read(s, {"out"}, "kept", "global");
    const auto apply = [&] { compute_at(s, copy, s.loop("out", 0)); };
    if (before) {
      expect_refused(s, apply, "compute_at", 6, "compute_at_refused_6_overwritten");
    } else {
      apply();
      expect_scheduled(s, overwritten(before), "hints_root_overwritten_later");
    }
  }
}

}  // namespace
}  // namespace lathe::testing
