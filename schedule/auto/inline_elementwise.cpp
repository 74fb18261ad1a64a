#include "schedule/auto/inline_elementwise.h"

#include <fmt/format.h>

#include <algorithm>

#include "ir/structural.h"
#include "ir/visitor.h"
#include "schedule/auto/block_model.h"
#include "schedule/primitives/compute_inline.h"
#include "schedule/rewrite.h"

namespace lathe {
namespace {

/// Storing an element and loading it again, in the units of expression_cost, when it goes through the outer caches.
constexpr double round_trip_cost = 4;

bool is_candidate(const Schedule& schedule, const Block& block) {
  if (block.f.reducer || block.f.init || block.f.predicate || block.f.writes.size() != 1) return false;
  const Buffer& buffer = block.f.writes[0].buffer;
  if (!is_allocated(schedule.func(), buffer) || buffer->space != space::global) return false;
  Stmt body = block.f.body;
  while (const Let* let = body.as<Let>()) body = Stmt(let->body);
  const Store* store = body.as<Store>();
  return store && !store->mask;
}

/// Distinct elements of `buffer` that one instance of `block` reads.
int reads_of(const Block& block, const Buffer& buffer) {
  std::vector<const Load*> distinct;
  for_each_expr(block.f.body, [&](const Expr& e) {
    const Load* load = e.as<Load>();
    if (!load || load->buffer != buffer) return;
    for (const Load* other : distinct) {
      bool same = load->indices.size() == other->indices.size();
      for (size_t d = 0; same && d < load->indices.size(); ++d) same = equal(load->indices[d], other->indices[d]);
      if (same) return;
    }
    distinct.push_back(load);
  });
  return static_cast<int>(distinct.size());
}

}  // namespace

void inline_elementwise(RuleContext& context) {
  Schedule& schedule = context.schedule;
  for (const BlockRef& ref : schedule.blocks()) {
    const Block& block = schedule.node(ref);
    if (!is_candidate(schedule, block)) continue;
    const std::vector<BlockRef> consumers = schedule.consumers(ref);
    if (consumers.empty()) continue;
    const FusionWish wish = fusion_wish(block);
    if (wish == FusionWish::apart) {
      context.note(fmt::format("keep {}: it is to stay apart", ref.name));
      continue;
    }
    const auto sealed = std::find_if(consumers.begin(), consumers.end(),
                                     [&](const BlockRef& reader) { return is_sealed(schedule.node(reader)); });
    if (is_sealed(block) || sealed != consumers.end()) {
      context.note(fmt::format("keep {}: {} is opaque or calls what is extern", ref.name,
                               is_sealed(block) ? ref.name : sealed->name));
      continue;
    }
    const Buffer buffer = block.f.writes[0].buffer;
    const double instances = instance_count(block);
    const double cost = body_cost(block.f.body) - 1;
    double inlined = 0, stored = instances * (cost + round_trip_cost);
    for (const BlockRef& consumer : consumers) {
      const Block& reader = schedule.node(consumer);
      const double evaluations = instance_count(reader) * reads_of(reader, buffer);
      inlined += evaluations * cost;
      stored += evaluations;
    }
    if (inlined > stored && wish != FusionWish::together) {
      context.note(fmt::format("keep {}: inlined it would cost {:.0f}, stored {:.0f}", ref.name, inlined, stored));
      continue;
    }
    attempt(context, "inline " + ref.name, [&] { compute_inline(schedule, ref); });
  }
}

}  // namespace lathe
