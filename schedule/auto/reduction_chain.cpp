#include "schedule/auto/reduction_chain.h"

#include <algorithm>

#include "ir/reduction.h"
#include "ir/visitor.h"
#include "schedule/access.h"
#include "schedule/auto/block_model.h"
#include "schedule/auto/contraction.h"
#include "schedule/rewrite.h"

namespace lathe {
namespace {

bool constant_extents(const Block& block) {
  return std::all_of(block.f.iters.begin(), block.f.iters.end(),
                     [](const Iter& iter) { return as_int(iter.domain.extent) && *as_int(iter.domain.extent) > 0; });
}

/// Are the weights of a row those of several results of the mix, its columns?
bool mixes_columns(const Schedule& schedule, const Chain& chain) {
  const Block& mix = schedule.node(chain.mix);
  std::vector<BlockRef> makers = chain.between;
  makers.push_back(chain.weights);
  const auto weighs = [&](const Access& access) {
    return std::any_of(makers.begin(), makers.end(),
                       [&](const BlockRef& maker) { return writes(schedule.node(maker), access.buffer); });
  };
  for (size_t i = 0; i < mix.f.iters.size(); ++i) {
    if (mix.f.iters[i].kind != IterKind::space || is_int(mix.f.iters[i].domain.extent, 1)) continue;
    const Accesses accesses = block_accesses(mix);
    if (std::all_of(accesses.begin(), accesses.end(),
                    [&](const Access& access) { return !weighs(access) || access.strides[i] == 0; }))
      return true;
  }
  return false;
}

}  // namespace

bool reduces(const Block& block, std::initializer_list<BinaryOp> ops) {
  const auto op = block.f.reducer ? simple_op(*block.f.reducer) : std::nullopt;
  return op && std::find(ops.begin(), ops.end(), *op) != ops.end();
}

const Load* load_of(const Block& block, const Buffer& buffer) {
  const Load* found = nullptr;
  for_each_expr(block.f.body, [&](const Expr& e) {
    if (const Load* load = e.as<Load>(); load && load->buffer == buffer) found = load;
  });
  return found;
}

const Load* load_along(const Block& block, const Buffer& buffer, std::initializer_list<size_t> iters) {
  const Load* found = nullptr;
  for_each_expr(block.f.body, [&](const Expr& e) {
    const Load* load = e.as<Load>();
    if (!load || load->buffer != buffer) return;
    const bool moves = std::all_of(iters.begin(), iters.end(), [&](size_t iter) {
      return std::any_of(load->indices.begin(), load->indices.end(),
                         [&](const Expr& index) { return uses_var(index, block.f.iters[iter].variable.get()); });
    });
    if (moves) found = load;
  });
  return found;
}

size_t dimension_walked(const Block& block, const Load& load, size_t iter) {
  const Expr variable = block.f.iters[iter].variable;
  return static_cast<size_t>(std::find(load.indices.begin(), load.indices.end(), variable) - load.indices.begin());
}

std::optional<size_t> iter_at(const Block& block, const Expr& index) {
  for (size_t i = 0; i < block.f.iters.size(); ++i) {
    if (Expr(block.f.iters[i].variable) == index) return i;
  }
  return std::nullopt;
}

std::optional<Chain> find_chain(const RuleContext& context, const BlockRef& extreme) {
  const Schedule& schedule = context.schedule;
  const auto free = [&](const BlockRef& ref) {
    return !context.scheduled.contains(ref.name) && !is_sealed(schedule.node(ref)) &&
           fusion_wish(schedule.node(ref)) != FusionWish::apart && constant_extents(schedule.node(ref));
  };
  Chain chain{.scores = {}, .extreme = extreme, .weights = {}, .mix = {}, .sums = {}, .between = {}};
  const std::vector<BlockRef> readers = schedule.consumers(extreme);
  if (readers.size() != 1 || schedule.node(readers[0]).f.reducer || !free(extreme) || !free(readers[0]))
    return std::nullopt;
  chain.weights = readers[0];
  std::vector<BlockRef> mixes;
  for (const BlockRef& ref : schedule.consumers(chain.weights)) {
    const Block& block = schedule.node(ref);
    if (!free(ref)) return std::nullopt;
    if (!block.f.reducer) {
      chain.between.push_back(ref);
      for (const BlockRef& further : schedule.consumers(ref)) mixes.push_back(further);
    } else if (const auto shape = reduction_shape(block); shape && shape->loads == 1) {
      chain.sums.push_back(ref);
    } else {
      mixes.push_back(ref);
    }
  }
  if (mixes.size() != 1 || !free(mixes[0]) || !reduces(schedule.node(mixes[0]), {BinaryOp::add})) return std::nullopt;
  chain.mix = mixes[0];
  if (!mixes_columns(schedule, chain)) return std::nullopt;

  for (const BlockRef& ref : schedule.producers(extreme)) {
    if (schedule.node(ref).f.reducer) chain.scores = ref;
  }
  if (chain.scores.name.empty() || !free(chain.scores) || schedule.consumers(chain.scores).size() != 2)
    return std::nullopt;
  const Block& scores = schedule.node(chain.scores);
  const Block& reduction = schedule.node(extreme);
  if (!reduces(scores, {BinaryOp::add}) || scores.f.writes.size() != 1) return std::nullopt;
  const Load* load = load_of(reduction, scores.f.writes[0].buffer);
  if (!load || !reads(schedule.node(chain.weights), load->buffer)) return std::nullopt;
  std::optional<size_t> axis;
  std::vector<std::pair<size_t, size_t>> others;  // iters of scores, dimensions
  for (size_t d = 0; d < load->indices.size(); ++d) {
    const auto mine = iter_at(scores, scores.f.writes[0].ranges[d].min), theirs = iter_at(reduction, load->indices[d]);
    if (!mine || !theirs) continue;
    if (reduction.f.iters[*theirs].kind == IterKind::reduce) {
      axis = mine;
      chain.axis_dimension = d;
    } else {
      others.emplace_back(*mine, d);
    }
  }
  if (!axis) return std::nullopt;
  chain.axis = *axis;
  chain.steps = *as_int(scores.f.iters[*axis].domain.extent);
  // Along the rows, what varies with the axis stands still.
  for (const auto& [iter, dimension] : others) {
    const std::int64_t extent = *as_int(scores.f.iters[iter].domain.extent);
    for (const Access& access : block_accesses(scores)) {
      const bool shared = !access.store && access.distances[*axis] != 0 && access.strides[iter] == 0 &&
                          access.buffer != scores.f.writes[0].buffer;
      if (!shared || extent <= chain.rows) continue;
      chain.rows = extent;
      chain.row = iter;
      chain.row_dimension = dimension;
    }
  }
  if (chain.rows < 2 || chain.steps < 2) return std::nullopt;
  return chain;
}

}  // namespace lathe
