#include "schedule/auto/tile_reader.h"

#include <algorithm>

#include "schedule/rewrite.h"

namespace lathe {
namespace {

/// Elements between neighbours that a vector stores, up to which whole vectors with gaps are stored.
constexpr std::int64_t widest_gap = 4;

/// A reader that computes so much more than the reduction makes, as one that joins its results with others, wants a
/// loop nest of its own: its tiles would walk past the results (200 rows of a product joined with 312 of another on
/// Cascade Lake: the nest of the first took three times as long).
constexpr double most_walked = 1.25;

/// Is the reader contiguous along an iter of the reduction, or nearly so?
bool stores_along(const Block& reduction, const Block& reader, size_t vectors) {
  for (const auto& [iter, loop] : matched_loops(reduction, reader)) {
    if (iter != vectors) continue;
    for (size_t i = 0; i < reader.f.iters.size(); ++i) {
      if (reader.f.bindings[i] != Expr(loop.variable)) continue;
      for (const Access& access : block_accesses(reader)) {
        const std::int64_t stride = access.strides[i].value_or(0);
        if (access.store && (stride < 1 || stride > widest_gap)) return false;
      }
    }
  }
  return true;
}

}  // namespace

std::vector<std::pair<size_t, LoopRef>> matched_loops(const Block& reduction, const Block& reader) {
  std::vector<std::pair<size_t, LoopRef>> found;
  const Region& written = reduction.f.writes[0];
  const Region* read = nullptr;
  for (const Region& region : reader.f.reads) {
    if (region.buffer != written.buffer) continue;
    if (read) return {};
    read = &region;
  }
  if (!read) return {};
  for (size_t d = 0; d < written.ranges.size(); ++d) {
    if (is_int(written.ranges[d].min, 0) && is_int(written.buffer->shape[d], 1)) continue;
    std::optional<size_t> own;
    for (size_t i = 0; i < reduction.f.iters.size(); ++i) {
      if (written.ranges[d].min == Expr(reduction.f.iters[i].variable)) own = i;
    }
    // Elements of several places would be taken from a tile by an index that is not constant.
    if (!is_int(read->ranges[d].extent, 1)) return {};
    const Var* loop = nullptr;
    for (size_t i = 0; i < reader.f.iters.size(); ++i) {
      if (read->ranges[d].min == Expr(reader.f.iters[i].variable)) loop = reader.f.bindings[i].as<Var>();
    }
    if (!own) return {};
    if (!loop) {
      // An extent of 1 has no loop that matters.
      if (is_int(reduction.f.iters[*own].domain.extent, 1)) continue;
      return {};
    }
    for (const auto& [other, taken] : found) {
      if (taken.variable.get() == loop) return {};
    }
    found.emplace_back(*own, LoopRef{VarRef(loop)});
  }
  return found;
}

std::optional<BlockRef> element_wise_reader(const RuleContext& context, const BlockRef& ref,
                                            const ReductionShape& shape, const std::optional<size_t>& vectors) {
  const Schedule& schedule = context.schedule;
  const Block& reduction = schedule.node(ref);
  const std::vector<BlockRef> readers = schedule.consumers(ref);
  if (readers.size() != 1 || !is_allocated(schedule.func(), reduction.f.writes[0].buffer) ||
      context.scheduled.contains(readers[0].name))
    return std::nullopt;
  const Block& reader = schedule.node(readers[0]);
  const std::vector<Fact>& facts = schedule.func()->facts;
  if (instance_count(reader, facts) > most_walked * estimated_elements(reduction.f.writes[0].buffer, facts))
    return std::nullopt;
  size_t wanted = 0, walked = 0;
  for (const size_t i : shape.space) wanted += !is_int(reduction.f.iters[i].domain.extent, 1);
  for (const Iter& iter : reader.f.iters) walked += !is_int(iter.domain.extent, 1);
  if (!only_space(reader) || reader.f.writes.size() != 1 || matched_loops(reduction, reader).size() != wanted ||
      walked != wanted || (vectors && !stores_along(reduction, reader, *vectors)))
    return std::nullopt;
  return readers[0];
}

}  // namespace lathe
