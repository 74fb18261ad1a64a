#include "schedule/auto/chain_reductions.h"

#include <fmt/format.h>

#include <algorithm>

#include "ir/reduction.h"
#include "schedule/access.h"
#include "schedule/auto/block_model.h"
#include "schedule/auto/chain_tile.h"
#include "schedule/auto/contraction.h"
#include "schedule/auto/dot_products.h"
#include "schedule/auto/place_operands.h"
#include "schedule/auto/reduction_chain.h"
#include "schedule/auto/widen_operands.h"
#include "schedule/layout_map.h"
#include "schedule/primitives/cache_cast.h"
#include "schedule/primitives/cache_write.h"
#include "schedule/primitives/compute_at.h"
#include "schedule/primitives/compute_inline.h"
#include "schedule/primitives/decompose_reduction.h"
#include "schedule/primitives/fuse_reductions.h"
#include "schedule/primitives/hoist_factor.h"
#include "schedule/primitives/reindex.h"
#include "schedule/primitives/reorder.h"
#include "schedule/primitives/reverse_compute_at.h"
#include "schedule/primitives/set_space.h"
#include "schedule/primitives/skip_masked.h"
#include "schedule/primitives/split.h"
#include "schedule/primitives/transform_layout.h"
#include "schedule/primitives/vectorize.h"
#include "schedule/rewrite.h"

namespace lathe {
namespace {

/// Rows of a block: the panels of both contractions' operands are loaded once for all of them. More are taken where
/// blocks then divide the rows, for a shorter last one is compiled apart.
constexpr std::int64_t most_rows = 64, most_even_rows = 128;
/// Elements of the axis of a block: enough that scaling sums between blocks costs little beside the block. What a mask
/// keeps is rounded up to whole blocks, shorter ones for that (measured on Zen 3: causal attention over 256 keys in
/// blocks of 64 0.65 of the time of rows that have all keys, of 128 0.75; over 512 0.91 of blocks of 128; over 300 in
/// blocks of 100 0.82).
constexpr std::int64_t most_step = 256, most_masked_step = 100, least_step = 64;
/// Lanes of a block's last vector that lie idle, by a share of its elements, where a mask pays for short blocks.
constexpr std::int64_t least_idle_share = 20;
/// Scores and weights of a block of rows take so much of the nearest memory, beside the operands' panels; of a device
/// that names none, of so much.
constexpr std::int64_t memory_share = 4, unknown_memory = std::int64_t{1} << 20;
/// Terms of a score for each unit of what stands between scores and their extreme: that is computed twice then.
constexpr double least_depth = 2;
/// Fewer rows would not make up a register tile.
constexpr std::int64_t least_rows = 8;
/// So few rows read keys that lie along the reduction once, in dot products, sooner than these are turned around
/// (measured on Zen 3: 4 rows of each of 32 groups by 1000 keys of 80 in 0.25 of the time, 6 of 4 by 700 of 64 in 0.85,
/// 8 of 32 by 1000 of 80 in 0.35, of 8 by 4096 of 128 in 1.0 and of 4 by 1024 of 64 in 1.2; 16 of 2 by 2048 of 64 1.2).
constexpr std::int64_t most_dotted_rows = 8;
/// No register tile has more rows.
constexpr std::int64_t least_last_rows = 16;
/// Does a choice by places decide what is reduced, of which whole blocks may be left out? That of an extreme among
/// numbers, in its reducer, is none.
bool is_masked(const Block& reduction) {
  const std::optional<ReductionParts> parts = match_update(reduction);
  if (!parts) return false;
  bool masked = false;
  const auto look = [&](const Expr& e) {
    const Select* choice = e.as<Select>();
    if (!choice) return;
    for_each_expr(choice->condition, [&](const Expr& part) {
      const Binary* node = part.as<Binary>();
      masked |= node && is_comparison(node->op) && node->a->dtype == i64 &&
                std::any_of(reduction.f.iters.begin(), reduction.f.iters.end(),
                            [&](const Iter& iter) { return uses_var(part, iter.variable.get()); });
    });
  };
  for (const Stmt& let : parts->lets) for_each_expr(let.as<Let>()->value, look);
  for (const Expr& term : parts->terms) for_each_expr(term, look);
  return masked;
}

class Chainer {
 public:
  Chainer(RuleContext& context, const Chain& chain) : context_(context), schedule_(context.schedule), chain_(chain) {}

  /// Blocks of rows that have the whole axis.
  void whole_axis() {
    round_weights();
    prepare();
    const std::int64_t share = nearest_memory_bytes(context_.device).value_or(unknown_memory) / memory_share;
    const std::int64_t bytes = schedule_.node(chain_.scores).f.writes[0].buffer->dtype.bytes();
    const std::int64_t fitting = std::max(least_rows, share / (2 * chain_.steps * bytes));
    if (block_rows_ > fitting) choose_rows(fitting);
    run_rows();
  }

  /// Blocks of rows by blocks of the axis.
  void along_axis() {
    const bool masked = is_masked(schedule_.node(chain_.extreme));
    const auto step = greatest_divisor(chain_.steps, least_step, masked ? most_masked_step : most_step);
    // What a mask leaves out of a shorter axis pays for the walk where blocks are whole vectors, or nearly.
    const std::int64_t lanes = vector_lanes(schedule_.node(chain_.scores), context_.device);
    const std::int64_t idle = step ? (lanes - *step % lanes) % lanes : 0;
    const bool pays = masked && step && least_idle_share * idle <= *step;
    if (!step || (pays ? chain_.steps < 2 * *step : chain_.steps <= 2 * most_step))
      refuse_chain("has a short axis, or one without a divisor for blocks");
    prepare();
    run_rows_and_steps(*step);
  }

 private:
  /// At most so many rows for a block: of the counts that divide all rows the greatest that is not large, else the
  /// least that is, else such that all blocks but the last are even.
  void choose_rows(std::int64_t most) {
    const std::int64_t usual = std::min(most, most_rows);
    auto even = greatest_divisor(chain_.rows, (usual + 1) / 2, usual);
    for (std::int64_t rows = usual + 1; !even && rows <= std::min(most, chain_.rows); ++rows) {
      if (chain_.rows % rows == 0) even = rows;
    }
    if (even) {
      block_rows_ = *even;
      return;
    }
    // A last block of a few rows would be no whole tile.
    const auto blocks_of = [&](std::int64_t rows) { return (chain_.rows + rows - 1) / rows; };
    for (std::int64_t count = blocks_of(usual);; ++count) {
      block_rows_ = (chain_.rows + count - 1) / count;
      const std::int64_t last = chain_.rows - (blocks_of(block_rows_) - 1) * block_rows_;
      if (last >= least_last_rows || block_rows_ <= 2 * least_last_rows) return;
    }
  }

  /// Weights that are scaled and rounded before they are summed are a block of their own, which widens them again.
  void round_weights() {
    if (chain_.between.size() != 1) return;
    const Buffer rounded = schedule_.node(chain_.between[0]).f.writes[0].buffer;
    if (!rounded->dtype.is_float() || rounded->dtype.bits != 16) return;
    if (plan_dot(context_, chain_.scores) || plan_dot(context_, chain_.mix))
      refuse_chain("has instructions for its products");
    for (const BlockRef& producer : schedule_.producers(chain_.between[0])) {
      const bool summed = std::find(chain_.sums.begin(), chain_.sums.end(), producer) != chain_.sums.end();
      if (!summed && !(producer == chain_.weights)) scales_.push_back(producer);
    }
    // Fused with copies that turn them around, casts would go element by element.
    for (const BlockRef& cast : widen_operands(context_, chain_.scores)) take_in_vectors(cast);
    rounded_ = cache_cast(schedule_, chain_.mix, rounded->name, space::global);
    compute_inline(schedule_, chain_.between[0]);
    widen_operands(context_, chain_.mix);
  }

  void prepare() {
    lanes_ = vector_lanes(schedule_.node(chain_.scores), context_.device);
    if (!rounded_) {
      for (const BlockRef& block : chain_.between) compute_inline(schedule_, block);
    }
    staged_ = stage_operand(chain_.scores, chain_.axis);
    if (staged_ && chain_.rows <= most_dotted_rows) refuse_chain("has few rows for keys that are turned around");
    hoist();
    stage_columns();
    choose_rows(most_even_rows);
  }

  /// Lays the operand that `iter` walks out along it, where it is not; returns the copy.
  std::optional<BlockRef> stage_operand(const BlockRef& ref, size_t iter) {
    const Block& block = schedule_.node(ref);
    for (const Access& access : block_accesses(block)) {
      if (access.store || access.buffer == block.f.writes[0].buffer) continue;
      if (access.strides[iter] == 0 || access.strides[iter] == 1) continue;
      const std::string variable = block.f.iters[iter].variable->name;
      BlockRef copy = reindex(schedule_, ref, access.buffer->name);
      const Buffer buffer = schedule_.node(copy).f.writes[0].buffer;
      const Load* load = load_of(schedule_.node(ref), buffer);
      const Expr along = schedule_.node(ref).f.iters[iter].variable;
      const auto last = std::find(load->indices.begin(), load->indices.end(), along);
      const LayoutMap map = last == load->indices.end()
                                ? same_layout(buffer->rank())
                                : moved_last(buffer->rank(), static_cast<size_t>(last - load->indices.begin()));
      transform_layout(schedule_, ref, buffer->name, map);
      context_.note(fmt::format("lay {} out along {}", access.buffer->name, variable));
      return copy;
    }
    return std::nullopt;
  }

  /// Takes what scales weights out of the sum over them.
  void hoist() {
    const Block& block = schedule_.node(chain_.mix);
    std::vector<std::string> factors;
    for (const Region& region : block.f.reads) {
      bool same = !writes(block, region.buffer);
      for (const Range& range : region.ranges) {
        for (const Iter& iter : block.f.iters)
          same &= iter.kind == IterKind::space || !uses_var(range.min, iter.variable.get());
      }
      if (same) factors.push_back(region.buffer->name);
    }
    if (factors.size() == 1) {
      for (const BlockRef& producer : schedule_.producers(chain_.mix)) {
        if (schedule_.node(producer).f.writes[0].buffer->name == factors[0]) scales_.push_back(producer);
      }
      epilogue_ = hoist_factor(schedule_, chain_.mix, factors[0]);
    }
  }

  /// Finds the columns of the contraction back: the space iter along which it stores contiguously.
  void stage_columns() {
    const auto along = [&] {
      const std::optional<ReductionShape> shape = reduction_shape(schedule_.node(chain_.mix));
      return shape ? shape->vector_space : std::nullopt;
    };
    column_ = along();
    if (column_) return;
    const Block& mix = schedule_.node(chain_.mix);
    for (size_t i = 0; i < mix.f.iters.size(); ++i) {
      const Accesses accesses = block_accesses(mix);
      const bool stored =
          std::any_of(accesses.begin(), accesses.end(), [&](const Access& a) { return a.store && a.strides[i] == 1; });
      if (mix.f.iters[i].kind != IterKind::space || !stored) continue;
      stage_operand(chain_.mix, i);
      break;
    }
    column_ = along();
  }

  std::int64_t tile(const ChainedBlock& block) {
    return tile_chained(context_, block, {chain_.rows, block_rows_, lanes_});
  }

  /// Weights, or what is made of each, of a block.
  void place_weights(const BlockRef& weights, const LoopRef& loop) {
    compute_at(schedule_, weights, loop);
    take_in_vectors(weights);
  }

  void take_in_vectors(const BlockRef& block) {
    const LoopRef along = own_loops(schedule_, block).back();
    const std::int64_t lanes = vector_lanes(schedule_.node(block), context_.device);
    if (!drives(schedule_.node(block), IterKind::space, schedule_.node(along))) return;
    vectorize(schedule_, *as_int(schedule_.node(along).extent) > lanes ? split(schedule_, along, lanes).second : along);
    context_.scheduled.insert(block.name);
  }

  /// Scores of a block, in register tiles, under `loop`.
  void place_scores(const LoopRef& loop) {
    const BlockRef copy = cache_write(schedule_, chain_.scores, space::registers);
    compute_at(schedule_, copy, loop);
    const size_t outside = loops_of(path_to(schedule_, loop)).size();
    const auto row = deepest_loop(schedule_, copy, chain_.row_dimension, outside),
               column = deepest_loop(schedule_, copy, chain_.axis_dimension, outside);
    if (!row || !column) return;
    const std::int64_t width = tile({chain_.scores, copy, *row, *column, chain_.row, chain_.axis});
    if (staged_ && width > 0) lay_copy_by_panels(context_, chain_.scores, *staged_, chain_.axis, width);
  }

  /// The iter of `block` that stands where `scores` has its row, by the dimensions of what links them.
  std::optional<size_t> row_of(const Block& reader, const Buffer& buffer, size_t dimension) const {
    const Load* load = load_of(reader, buffer);
    return load ? iter_at(reader, load->indices[dimension]) : std::nullopt;
  }

  void run_rows() {
    const Block& mix = schedule_.node(chain_.mix);
    const Buffer weights = schedule_.node(rounded_.value_or(chain_.weights)).f.writes[0].buffer;
    const auto row = mix_row(mix, weights);
    if (!row || !column_) refuse_chain("has no rows");
    if (!epilogue_) {
      epilogue_ = cache_write(schedule_, chain_.mix, space::registers);
    } else {
      set_space(schedule_, chain_.mix, space::registers);
    }
    const auto loop_for = [&](size_t iter) {
      const Block& reduction = schedule_.node(chain_.mix);
      const Block& reader = schedule_.node(*epilogue_);
      const Region& written = reduction.f.writes[0];
      const Load* load = load_of(reader, written.buffer);
      for (size_t d = 0; d < written.ranges.size(); ++d) {
        if (written.ranges[d].min != Expr(reduction.f.iters[iter].variable)) continue;
        if (const auto own = iter_at(reader, load->indices[d])) return deepest_loop(schedule_, *epilogue_, *own, 0);
      }
      return std::optional<LoopRef>();
    };
    const auto row_loop = loop_for(*row), column = loop_for(*column_);
    if (!row_loop || !column || *row_loop == *column) refuse_chain("has no loop over rows");
    const auto [blocks, inner] = split(schedule_, *row_loop, block_rows_);
    std::vector<LoopRef> order;
    for (const LoopRef& loop : schedule_.loops(*epilogue_)) {
      if (!(loop == blocks) && !(loop == inner) && !(loop == *column)) order.push_back(loop);
    }
    for (const LoopRef& loop : {blocks, inner, *column}) order.push_back(loop);
    reorder(schedule_, order);
    tile({chain_.mix, *epilogue_, inner, *column, *row, *column_});
    if (rounded_) place_weights(*rounded_, blocks);
    for (const BlockRef& scale : scales_) compute_at(schedule_, scale, blocks);
    for (const BlockRef& sum : chain_.sums) compute_at(schedule_, sum, blocks);
    place_weights(chain_.weights, blocks);
    compute_at(schedule_, chain_.extreme, blocks);
    place_scores(blocks);
    context_.note(fmt::format("run {} in blocks of {} rows", chain_.mix.name, block_rows_));
  }

  std::optional<size_t> mix_row(const Block& mix, const Buffer& weights) const {
    const Block& maker = schedule_.node(chain_.weights);
    const Load* scores = load_of(maker, schedule_.node(chain_.scores).f.writes[0].buffer);
    const Load* read = load_of(mix, weights);
    if (!scores || !read) return std::nullopt;
    for (size_t d = 0; d < read->indices.size(); ++d) {
      if (maker.f.writes[0].ranges[d].min == scores->indices[chain_.row_dimension])
        return iter_at(mix, read->indices[d]);
    }
    return std::nullopt;
  }

  [[noreturn]] void refuse_chain(const std::string& note) const {
    refuse(schedule_, "chain_reductions(" + chain_.mix.name + ")", 1, "the chain runs in blocks of rows",
           path_to(schedule_, chain_.mix).back(), note);
  }

  void run_rows_and_steps(std::int64_t step) {
    const Buffer scores = schedule_.node(chain_.scores).f.writes[0].buffer;
    const auto row = row_of(schedule_.node(chain_.extreme), scores, chain_.row_dimension);
    const auto mix_row_iter = mix_row(schedule_.node(chain_.mix), schedule_.node(chain_.weights).f.writes[0].buffer);
    if (!row || !mix_row_iter) refuse_chain("has no rows");
    // What fuse_reductions makes of the iters: those of space in their order, the step, the column.
    const auto space_place = [](const Block& block, size_t iter) {
      size_t place = 0;
      for (size_t i = 0; i < iter; ++i) place += block.f.iters[i].kind == IterKind::space;
      return place;
    };
    const size_t place = space_place(schedule_.node(chain_.extreme), *row);
    std::vector<BlockRef> rest = chain_.sums;
    rest.push_back(chain_.mix);
    fuse_reductions(schedule_, chain_.extreme, rest, step);
    const BlockRef mix_part{chain_.mix.name + "_part"}, extreme_part{chain_.extreme.name + "_part"};
    for (const BlockRef& sum : chain_.sums) compute_inline(schedule_, sum);
    if (epilogue_) compute_inline(schedule_, chain_.mix);
    for (const BlockRef& scale : scales_) compute_inline(schedule_, scale);
    if (!epilogue_) epilogue_ = chain_.mix;

    const std::vector<LoopRef> loops = schedule_.loops(chain_.extreme);
    const auto row_loop = deepest_loop(schedule_, chain_.extreme, place, 0);
    if (!row_loop) refuse_chain("has no loop over rows");
    const LoopRef& steps = loops.back();
    const auto [blocks, inner] = split(schedule_, *row_loop, block_rows_);
    std::vector<LoopRef> order;
    for (const LoopRef& loop : loops) {
      if (!(loop == *row_loop) && !(loop == steps)) order.push_back(loop);
    }
    for (const LoopRef& loop : {blocks, steps, inner}) order.push_back(loop);
    reorder(schedule_, order);
    decompose_reduction(schedule_, chain_.extreme, steps);
    for (const BlockRef& sum : chain_.sums) compute_at(schedule_, {sum.name + "_part"}, steps);

    const BlockRef copy = cache_write(schedule_, mix_part, space::registers);
    compute_at(schedule_, copy, steps);
    const size_t outside = loops_of(path_to(schedule_, steps)).size();
    const size_t row_iter = place, column_iter = schedule_.node(mix_part).f.iters.size() - 2;
    const Region& written = schedule_.node(mix_part).f.writes[0];
    const auto copy_loop = [&](size_t iter) {
      for (size_t d = 0; d < written.ranges.size(); ++d) {
        if (written.ranges[d].min == Expr(schedule_.node(mix_part).f.iters[iter].variable))
          return deepest_loop(schedule_, copy, d, outside);
      }
      return std::optional<LoopRef>();
    };
    const auto copy_row = copy_loop(row_iter), copy_column = copy_loop(column_iter);
    if (!copy_row || !copy_column) refuse_chain("has no tile");
    tile({mix_part, copy, *copy_row, *copy_column, row_iter, column_iter});
    place_weights(chain_.weights, steps);
    compute_at(schedule_, extreme_part, steps);
    place_scores(steps);
    reverse_compute_at(schedule_, *epilogue_, blocks);
    context_.scheduled.insert(chain_.extreme.name);
    attempt(context_, "leave out masked blocks", [&] { skip_masked(schedule_, chain_.extreme, {steps}); });
    context_.note(fmt::format("run {} in blocks of {} rows by {} elements", chain_.mix.name, block_rows_, step));
  }

  RuleContext& context_;
  Schedule& schedule_;
  const Chain chain_;
  std::optional<BlockRef> epilogue_;
  std::optional<BlockRef> rounded_;  ///< makes weights that are scaled and rounded, wide again
  std::vector<BlockRef> scales_;     ///< what weights, or sums over them, are scaled by
  std::optional<BlockRef> staged_;   ///< the copy of an operand of `scores`
  std::optional<size_t> column_;
  std::int64_t lanes_ = 1, block_rows_ = 1;
};

/// What stands between scores and their extreme, element by element, and was kept since both the extreme and the
/// weights read it: it, and before it what it reads that is computed from places alone, as a mask is. Nothing where
/// that costs too much beside the scores to be computed twice.
std::vector<BlockRef> stages_before(const RuleContext& context, const BlockRef& extreme) {
  const Schedule& schedule = context.schedule;
  const auto movable = [&](const BlockRef& ref) {
    const Block& block = schedule.node(ref);
    return !context.scheduled.contains(ref.name) && !block.f.reducer && !is_sealed(block) &&
           fusion_wish(block) != FusionWish::apart;
  };
  const std::vector<BlockRef> producers = schedule.producers(extreme);
  if (producers.size() != 1 || !movable(producers[0]) || schedule.consumers(producers[0]).size() != 2) return {};
  std::vector<BlockRef> stages;
  double cost = body_cost(schedule.node(producers[0])), depth = 0;
  for (const BlockRef& ref : schedule.producers(producers[0])) {
    const Block& block = schedule.node(ref);
    if (schedule.consumers(ref).size() != 1) continue;
    if (reduces(block, {BinaryOp::add})) {
      depth = instance_count(block) / estimated_elements(block.f.writes[0].buffer);
    } else if (movable(ref) && block.f.reads.empty()) {
      stages.push_back(ref);
      cost += body_cost(block);
    }
  }
  if (depth < least_depth * cost) return {};
  stages.push_back(producers[0]);
  return stages;
}

}  // namespace

void chain_reductions(RuleContext& context) {
  Schedule& schedule = context.schedule;
  for (const BlockRef& ref : schedule.blocks()) {
    // A chain before may have inlined it.
    if (schedule.find(ref).empty()) continue;
    if (!reduces(schedule.node(ref), {BinaryOp::max, BinaryOp::min})) continue;
    const std::vector<BlockRef> stages = stages_before(context, ref);
    if (stages.empty() && !find_chain(context, ref)) continue;
    const auto run = [&](const std::string& how, void (Chainer::*blocks)()) {
      return attempt(context, fmt::format("chain reductions around {}{}", ref.name, how), [&] {
        for (const BlockRef& stage : stages) compute_inline(schedule, stage);
        const std::optional<Chain> chain = find_chain(context, ref);
        if (!chain) {
          refuse(schedule, "chain_reductions(" + ref.name + ")", 1, "it stands between two contractions",
                 path_to(schedule, ref).back(), "has no chain around it");
        }
        (Chainer(context, *chain).*blocks)();
      });
    };
    if (!run(" along the axis", &Chainer::along_axis)) run("", &Chainer::whole_axis);
  }
}

}  // namespace lathe
