#include "schedule/auto/tile_reduction.h"

#include <algorithm>

#include "ir/error.h"
#include "schedule/auto/tile_operands.h"
#include "schedule/auto/tile_reader.h"
#include "schedule/auto/tiler.h"
#include "schedule/auto/walk_order.h"
#include "schedule/primitives/cache_write.h"
#include "schedule/primitives/compute_at.h"
#include "schedule/primitives/decompose_reduction.h"
#include "schedule/primitives/set_space.h"
#include "schedule/rewrite.h"

namespace lathe {
namespace {

/// An epilogue that costs more goes through a tile in memory, in a loop: unrolled over the registers of the tile it
/// would take longer to compile than all the rest.
constexpr double costly_epilogue = 8;

/// The shape of a block of parts of sums: iters over results keep their places, before those of the parts' steps.
ReductionShape with_steps_of(const Block& partial, ReductionShape shape) {
  shape.reduce.clear();
  for (size_t i = 0; i < partial.f.iters.size(); ++i) {
    if (partial.f.iters[i].kind == IterKind::reduce) shape.reduce.push_back(i);
  }
  return shape;
}

}  // namespace

void Tiler::run() {
  if (!across_ && !dot_ && !has_maker()) far_parts_ = plan_far_parts(context_, block_, shape_);
  if (!across_ && !dot_ && !far_parts_ && !turned_) deep_cut_ = plan_deep_cut(context_, schedule_.node(block_), shape_);
  if (across_) {
    lay_across(*across_);
  } else if (adds_up_parts()) {
    add_up_parts(far_parts_ ? far_parts_->cut : *deep_cut_);
  } else {
    find_reader();
  }
  const Block& reduction = schedule_.node(block_);
  const std::optional<size_t> vectors = shape_.vector_space ? shape_.vector_space : shape_.vector_reduce;
  const Accesses accesses = block_accesses(reduction);
  // Places that differ from lane to lane are computed in lanes of their own width.
  const bool walks = vectors && std::all_of(accesses.begin(), accesses.end(), [&](const Access& access) {
                       return access.strides[*vectors].has_value() || access.runs[*vectors] > 1;
                     });
  bits_ = walks ? widest_bits(reduction, accesses, *vectors) : widest_bits(reduction);
  lanes_ = std::max(1, context_.device.lanes(bits_));
  if (!dot_) walk_far_steps_outside(context_, reduction, shape_);
  if (!copy_) loops_ = matched_loops(reduction, schedule_.node(reader_));
  if (shape_.vector_space) {
    along_space(*shape_.vector_space);
  } else if (shape_.vector_reduce) {
    if (turned_) turn_copy(context_, block_, *turned_);
    along_reduction(*shape_.vector_reduce);
  }
  context_.scheduled.insert(block_.name);
  context_.scheduled.insert(reader_.name);
}

void Tiler::find_reader() {
  const auto reader =
      element_wise_reader(context_, block_, shape_, shape_.vector_space ? shape_.vector_space : shape_.columns);
  if (!reader) {
    reader_ = cache_write(schedule_, block_, shape_.vector_space ? space::registers : space::global);
    return;
  }
  reader_ = *reader;
  if (!shape_.vector_space) return;
  if (body_cost(schedule_.node(reader_)) > costly_epilogue && !rounds_dots()) {
    loops_ = matched_loops(schedule_.node(block_), schedule_.node(reader_));
    copy_ = cache_write(schedule_, block_, space::registers);
  } else {
    set_space(schedule_, block_, space::registers);
  }
}

bool Tiler::rounds_dots() const {
  const Store* store = schedule_.node(reader_).f.body.as<Store>();
  const Cast* cast = store ? store->value.as<Cast>() : nullptr;
  const bool rounds = cast && cast->dtype == bf16 && cast->value.as<Load>() && cast->value->dtype == f32;
  return rounds && (dot_ || !takes_shared_elements(schedule_.node(block_)));
}

void Tiler::lay_across(AcrossPlan& plan) {
  stage_across(context_, block_, plan);
  const auto reader = element_wise_reader(context_, block_, shape_, std::nullopt);
  reader_ = reader && !plan.stores_for_reader ? *reader : cache_write(schedule_, block_, space::global);
  loops_ = matched_loops(schedule_.node(block_), schedule_.node(reader_));
  turn_result(schedule_, block_, plan);
  if (plan.cut) {
    take_parts(*plan.cut);
  } else {
    copy_ = cache_write(schedule_, block_, space::registers);
  }
  shape_.vector_space = plan.vectors;
  shape_.rows = plan.rows;
  shape_.row_run = 0;
}

void Tiler::take_parts(const StepCut& cut) {
  copy_ = block_;
  block_ = cut_sums(context_, block_, cut);
  shape_ = with_steps_of(schedule_.node(block_), shape_);
}

void Tiler::add_up_parts(const StepCut& cut) {
  reader_ = block_;
  block_ = cut_sums(context_, block_, cut);
  shape_ = with_steps_of(schedule_.node(block_), shape_);
  decompose_reduction(schedule_, reader_, own_loops(schedule_, reader_).front());
}

void Tiler::take_accurate_parts(const StepCut& cut) {
  const BlockRef total = block_;
  block_ = cut_sums(context_, total, cut);
  compute_at(schedule_, total, tile_loop_);
  LATHE_CHECK(shape_.vector_space, "vectors walk the columns of a tile");
  tile_loop_ = add_in_tile(context_, total, *shape_.vector_space, lanes_);
  shape_ = with_steps_of(schedule_.node(block_), shape_);
}

void tile_reduction(RuleContext& context, const BlockRef& reduction, const ReductionShape& shape,
                    const std::optional<TurnedCopy>& turned) {
  Tiler(context, reduction, shape, turned).run();
}

void tile_reduction(RuleContext& context, const BlockRef& reduction, const ReductionShape& shape, const DotPlan& plan) {
  Tiler(context, reduction, shape, plan).run();
}

void tile_reduction(RuleContext& context, const BlockRef& reduction, const ReductionShape& shape,
                    const AcrossPlan& plan) {
  Tiler(context, reduction, shape, plan).run();
}

}  // namespace lathe
