#include "schedule/auto/join_windows.h"

#include <fmt/format.h>

#include <algorithm>

#include "ir/analysis/remainders.h"
#include "ir/passes/pad_temporaries.h"
#include "ir/reduction.h"
#include "ir/visitor.h"
#include "schedule/access.h"
#include "schedule/auto/block_model.h"
#include "schedule/auto/fuse_rows.h"
#include "schedule/primitives/annotate.h"
#include "schedule/primitives/join_loops.h"
#include "schedule/primitives/set_space.h"
#include "schedule/primitives/unroll.h"
#include "schedule/rewrite.h"

namespace lathe {
namespace {

/// Vectors of updates and copies that rows in registers are unrolled to at the most: 3x3 by 2 over rows of 224 is 130.
constexpr double most_statements = 256;

/// Do windows that a space iter moves and a reduce iter walks overlap in this index?
bool overlap(const Block& block, const Expr& place) {
  std::int64_t stride = 0, reach = 0;
  for (const Iter& iter : block.f.iters) {
    if (!uses_var(place, iter.variable.get())) continue;
    const std::optional<std::pair<std::int64_t, Expr>> part = split_linear(place, iter.variable);
    const std::int64_t* extent = as_int(iter.domain.extent);
    if (!part || !extent) return false;
    if (iter.kind == IterKind::space) stride = std::abs(part->first);
    if (iter.kind == IterKind::reduce) reach = std::abs(part->first) * (*extent - 1);
  }
  return stride > 0 && stride <= reach;
}

/// Is it a sum over windows of a tensor, and of nothing besides?
bool sums_windows(const Block& block, const Buffer& buffer) {
  const std::optional<ReductionParts> parts = match_update(block);
  if (!parts || parts->terms.size() != 1) return false;
  const Load* load = parts->terms[0].as<Load>();
  return load && load->buffer == buffer &&
         std::any_of(load->indices.begin(), load->indices.end(), [&](const Expr& e) { return overlap(block, e); });
}

/// Does a block below `second` sum windows of what one below `first` writes?
bool feeds_windows(const Stmt& first, const Stmt& second) {
  for (const Stmt& writer : outer_blocks(first)) {
    for (const Region& region : writer.as<Block>()->f.writes) {
      for (const Stmt& reader : outer_blocks(second)) {
        if (sums_windows(*reader.as<Block>(), region.buffer)) return true;
      }
    }
  }
  return false;
}

/// The loops that stand side by side in a sequence.
std::vector<LoopRef> side_by_side(const Stmt& body) {
  std::vector<LoopRef> loops;
  const Seq* all = body.as<Seq>();
  for (size_t i = 0; all && i < all->stmts.size(); ++i) {
    if (const For* loop = all->stmts[i].as<For>()) loops.push_back({loop->variable});
  }
  return loops;
}

/// Joins two loops, and the two that are left in them then, as far as that goes; returns those that are one now,
/// outermost first.
std::vector<LoopRef> join_from_outside(RuleContext& context, LoopRef first, LoopRef second) {
  Schedule& schedule = context.schedule;
  std::vector<LoopRef> joined;
  while (constant_difference(schedule.node(first).extent, schedule.node(second).extent) == 0) {
    LoopRef both;
    const std::string decision = fmt::format("sum windows of each {} behind what they share", first.variable->name);
    if (!attempt(context, decision, [&] { both = join_loops(schedule, first, second); })) break;
    joined.push_back(both);
    const std::vector<LoopRef> inside = side_by_side(schedule.node(both).body);
    if (inside.size() != 2) break;
    first = inside[0];
    second = inside[1];
  }
  return joined;
}

/// The serial loops within a loop; nothing where the extent of one is not constant.
std::optional<std::vector<LoopRef>> serial_loops(const Schedule& schedule, const LoopRef& around) {
  std::vector<LoopRef> loops;
  bool constant = true;
  for_each_stmt(schedule.node(around).body, [&](const Stmt& s) {
    const For* loop = s.as<For>();
    if (!loop) return;
    constant &= as_int(loop->extent) != nullptr;
    if (loop->for_kind == ForKind::serial) loops.push_back({loop->variable});
  });
  return constant ? std::optional(loops) : std::nullopt;
}

/// Is what an iteration of the loop writes by `maker` all that it reads of that, and read nowhere else?
bool stays_in_iteration(const Schedule& schedule, const BlockRef& maker, const LoopRef& loop, double elements) {
  const Block& block = schedule.node(maker);
  const std::vector<BlockRef> readers = schedule.consumers(maker);
  const bool inside = std::all_of(readers.begin(), readers.end(), [&](const BlockRef& reader) {
    const std::vector<LoopRef> loops = schedule.loops(reader);
    return std::find(loops.begin(), loops.end(), loop) != loops.end();
  });
  return inside && live_bytes(schedule, block, loop) <= elements * block.f.writes[0].buffer->dtype.bytes();
}

/// Statements that come of one once all loops are unrolled but those over lanes.
double unrolled_statements(const Stmt& s) {
  if (const For* loop = s.as<For>()) {
    const std::int64_t* extent = as_int(loop->extent);
    const double inside = unrolled_statements(loop->body);
    return loop->for_kind == ForKind::vectorized || !extent ? inside : inside * static_cast<double>(*extent);
  }
  if (const Seq* all = s.as<Seq>()) {
    double sum = 0;
    for (const Stmt& below : all->stmts) sum += unrolled_statements(below);
    return sum;
  }
  return 1;
}

/// Do vectors walk the innermost loops of all blocks below?
bool are_vectors(const Schedule& schedule, const Stmt& s) {
  const std::vector<Stmt> blocks = outer_blocks(s);
  return std::all_of(blocks.begin(), blocks.end(), [&](const Stmt& block) {
    return schedule.node(schedule.loops({block.as<Block>()->f.name}).back()).for_kind == ForKind::vectorized;
  });
}

/// Is an element of the buffer read or written below at a quotient or remainder, as joined rows are? Lanes of registers
/// cannot be taken apart by these.
bool takes_rows_apart(const Stmt& s, const Buffer& buffer) {
  const auto is_taken = [](const Range& range) { return takes_apart(range.min); };
  const auto takes = [&](const Region& region) {
    return region.buffer == buffer && std::any_of(region.ranges.begin(), region.ranges.end(), is_taken);
  };
  const std::vector<Stmt> blocks = outer_blocks(s);
  return std::any_of(blocks.begin(), blocks.end(), [&](const Stmt& below) {
    const Block::Fields& f = below.as<Block>()->f;
    return std::any_of(f.reads.begin(), f.reads.end(), takes) || std::any_of(f.writes.begin(), f.writes.end(), takes);
  });
}

/// Keeps what the windows of an iteration of the innermost loop share in registers, out of which windows are picked:
/// what has just been stored in whole vectors would be read at places between them.
void keep_in_registers(RuleContext& context, const std::vector<LoopRef>& joined) {
  Schedule& schedule = context.schedule;
  double iterations = 1;
  for (const LoopRef& loop : joined) {
    const std::int64_t* extent = as_int(schedule.node(loop).extent);
    if (!extent) return;
    iterations *= static_cast<double>(*extent);
  }
  const std::optional<std::vector<LoopRef>> inside = serial_loops(schedule, joined.back());
  const Stmt body = schedule.node(joined.back()).body;
  if (!inside || !are_vectors(schedule, body) || unrolled_statements(body) > most_statements) return;
  for (const Stmt& s : outer_blocks(body)) {
    const Block& block = *s.as<Block>();
    const BlockRef ref{block.f.name};
    if (block.f.writes.size() != 1 || block.f.writes[0].buffer->space != space::global ||
        !is_allocated(schedule.func(), block.f.writes[0].buffer) || !are_summed_in_windows(schedule, ref))
      continue;
    double row = 1 / iterations;
    for (const Iter& iter : block.f.iters)
      row *= iter.kind == IterKind::space ? static_cast<double>(extent_estimate(iter.domain.extent)) : 1;
    if (row > static_cast<double>(context.device.vector_registers / 2 * vector_lanes(block, context.device)) ||
        !stays_in_iteration(schedule, ref, joined.back(), row) || takes_rows_apart(body, block.f.writes[0].buffer))
      return;
    attempt(context, fmt::format("keep {} in registers", block.f.writes[0].buffer->name), [&] {
      set_space(schedule, ref, space::registers);
      for (const LoopRef& loop : *inside) unroll(schedule, loop);
      for (const LoopRef& loop : joined) annotate(schedule, loop, masked_loads_key, 1);
    });
    return;
  }
}

}  // namespace

bool are_summed_in_windows(const Schedule& schedule, const BlockRef& block) {
  const Buffer buffer = schedule.node(block).f.writes[0].buffer;
  const std::vector<BlockRef> readers = schedule.consumers(block);
  return std::any_of(readers.begin(), readers.end(),
                     [&](const BlockRef& reader) { return sums_windows(schedule.node(reader), buffer); });
}

bool sums_shared_windows(const Schedule& schedule, const BlockRef& block) {
  const std::vector<BlockRef> makers = schedule.producers(block);
  return std::any_of(makers.begin(), makers.end(), [&](const BlockRef& maker) {
    const auto sums = [&](const BlockRef& ref) { return schedule.node(ref).f.reducer.has_value(); };
    const std::vector<BlockRef> behind = schedule.producers(maker);
    return (sums(maker) || std::any_of(behind.begin(), behind.end(), sums)) &&
           sums_windows(schedule.node(block), schedule.node(maker).f.writes[0].buffer);
  });
}

void join_windows(RuleContext& context) {
  Schedule& schedule = context.schedule;
  const auto nests = [&] {
    const Block* root = root_block(schedule.func());
    return root ? side_by_side(root->f.body) : std::vector<LoopRef>{};
  };
  std::vector<LoopRef> all = nests();
  for (size_t i = 0; i + 1 < all.size();) {
    const bool feeds = feeds_windows(path_to(schedule, all[i]).back(), path_to(schedule, all[i + 1]).back());
    const std::vector<LoopRef> joined = feeds ? join_from_outside(context, all[i], all[i + 1]) : std::vector<LoopRef>{};
    if (!joined.empty()) {
      keep_in_registers(context, joined);
      all = nests();
    } else {
      ++i;
    }
  }
}

}  // namespace lathe
