#include "schedule/auto/dot_products.h"

#include <fmt/format.h>

#include <algorithm>

#include "ir/error.h"
#include "ir/reduction.h"
#include "ir/visitor.h"
#include "schedule/access.h"
#include "schedule/auto/block_model.h"
#include "schedule/auto/place_operands.h"
#include "schedule/auto/turn_squares.h"
#include "schedule/primitives/blockize.h"
#include "schedule/primitives/cache_read.h"
#include "schedule/primitives/cache_write.h"
#include "schedule/primitives/compute_inline.h"
#include "schedule/primitives/pad_einsum.h"
#include "schedule/primitives/reorder.h"
#include "schedule/primitives/shift_operand.h"
#include "schedule/primitives/split.h"
#include "schedule/primitives/tensorize.h"
#include "schedule/primitives/transform_layout.h"
#include "schedule/primitives/unroll.h"
#include "schedule/primitives/vectorize.h"
#include "schedule/rewrite.h"

namespace lathe {
namespace {

/// Lanes that columns are filled up to at the least, of pairs and of four bytes (measured on Zen 4, rows of bf16 by 3
/// and 4 columns of 300 steps: in 8 lanes 0.7 of the time that 4 lanes take, of bytes 1.02 to 1.5; by 2 columns, whose
/// two lanes have no such instruction, 0.3).
constexpr std::int64_t fewest_lanes_of_pairs = 8, fewest_lanes_of_bytes = 4;
/// Rows from which on these pay for columns that are laid out wider (4x2x1000 of bf16 in 8 lanes 1.5 of the time).
constexpr std::int64_t rows_of_lanes = 16;

/// The part of a core's own caches that rows which are padded step by step fill at the most: where they exceed it, they
/// are turned around before (measured on Zen 4, x.T @ y of bf16 by an odd number of steps: 64x64 over 4001 0.6 of the
/// time, 16x16 over 1001 1.2).
constexpr double near_part = 4;

/// Rows that read a factor's element before it is worth to lay it out for them: about as many as the layout takes
/// instructions for one group.
constexpr std::int64_t fewest_rows = 4;
/// The same where the factor lies along the steps, of bytes: of fewer rows vectors of words along these need no layout
/// (stage_words; measured on Zen 4: 4x4096 by 1024 columns 0.24 of the time, 4x768 by 512 0.6, 5x1024 by 512 0.6,
/// 6x1536 by 512 1.04, 8x512 by 512 1.09).
constexpr std::int64_t fewest_rows_of_words = 6;

/// sum + cast(a) * cast(b).
struct SumOfProducts {
  const Load *a = nullptr, *b = nullptr;
  DType dtype;
};

const Load* cast_load(const Expr& e, DType dtype) {
  const Cast* cast = e.as<Cast>();
  const Load* load = cast && cast->dtype == dtype ? cast->value.as<Load>() : nullptr;
  return load && !load->mask ? load : nullptr;
}

std::optional<SumOfProducts> match_product(const Expr& term) {
  const Binary* product = term.as<Binary>();
  if (!product || product->op != BinaryOp::mul) return std::nullopt;
  const SumOfProducts found{cast_load(product->a, term->dtype), cast_load(product->b, term->dtype), term->dtype};
  return found.a && found.b ? std::optional(found) : std::nullopt;
}

std::optional<SumOfProducts> match_block(const Block& block, std::optional<ReductionParts>& parts) {
  parts = match_update(block);
  const auto op = block.f.reducer ? simple_op(*block.f.reducer) : std::nullopt;
  if (!parts || op != BinaryOp::add || parts->outputs.size() != 1 || !parts->lets.empty() || !block.f.init)
    return std::nullopt;
  return match_product(parts->terms[0]);
}

/// The same of an intrinsic that is one loop over steps; with their number.
std::optional<std::pair<SumOfProducts, std::int64_t>> match_intrinsic_product(const Func& intrinsic) {
  const For* loop = intrinsic->body.as<For>();
  const Store* store = loop ? loop->body.as<Store>() : nullptr;
  const Binary* sum = store ? store->value.as<Binary>() : nullptr;
  const std::int64_t* extent = loop ? as_int(loop->extent) : nullptr;
  if (!sum || sum->op != BinaryOp::add || !sum->a.as<Load>() || !extent) return std::nullopt;
  const auto product = match_product(sum->b);
  return product ? std::optional(std::pair(*product, *extent)) : std::nullopt;
}

/// dimension_of where plan_dot has made sure of it.
size_t known_dimension(const Load& load, const VarRef& iter) {
  const std::optional<size_t> found = dimension_of(load.indices, iter);
  LATHE_CHECK(found, load.buffer->name);
  return found.value_or(0);
}

bool uses(const Load& load, const VarRef& iter) {
  return std::any_of(load.indices.begin(), load.indices.end(), [&](const Expr& i) { return uses_var(i, iter.get()); });
}

bool is_byte(DType dtype) {
  return dtype == i8 || dtype == u8;
}

struct Roles {
  const Load *vectors = nullptr, *rows = nullptr;
};

/// Which factor the vectors walk.
std::optional<Roles> roles_of(const Block& block, const SumOfProducts& product, size_t vectors) {
  const VarRef& iter = block.f.iters[vectors].variable;
  const bool a = uses(*product.a, iter), b = uses(*product.b, iter);
  if (a == b) return std::nullopt;
  return a ? Roles{product.a, product.b} : Roles{product.b, product.a};
}

/// The two factors again, as the block loads them now.
Roles current_roles(const RuleContext& context, const BlockRef& reduction, const DotPlan& plan) {
  std::optional<ReductionParts> parts;
  const Block& block = context.schedule.node(reduction);
  const auto product = match_block(block, parts);
  const auto roles = product ? roles_of(block, *product, plan.vectors) : std::nullopt;
  LATHE_CHECK(roles, reduction.name);
  return *roles;
}

/// The only block that writes the buffer.
std::optional<BlockRef> maker_of(const Schedule& schedule, const BlockRef& reader, const Buffer& buffer) {
  for (const BlockRef& maker : schedule.producers(reader)) {
    if (writes(schedule.node(maker), buffer)) return maker;
  }
  return std::nullopt;
}

/// Swaps two dimensions of a copy, and the loops that write it.
void turn(RuleContext& context, const BlockRef& copy, const Buffer& buffer, size_t d) {
  LayoutMap map = same_layout(buffer->rank());
  std::swap(map.to[d], map.to.back());
  transform_layout(context.schedule, copy, buffer->name, map);
}

/// Turns what a block pads around before it, in squares that know no border.
void turn_whole(RuleContext& context, const BlockRef& padding, size_t d) {
  Schedule& schedule = context.schedule;
  const Buffer source = schedule.node(padding).f.reads[0].buffer;
  if (source->rank() != schedule.node(padding).f.writes[0].buffer->rank()) return;
  const BlockRef copy = cache_read(schedule, padding, source->name, space::global);
  turn(context, copy, schedule.node(copy).f.writes[0].buffer, d);
}

}  // namespace

std::vector<BlockRef> widening_makers(const RuleContext& context, const BlockRef& reduction) {
  std::vector<BlockRef> found;
  const Schedule& schedule = context.schedule;
  const auto parts = context.device.intrinsics.empty() ? std::nullopt : match_update(schedule.node(reduction));
  if (!parts || parts->terms.size() != 1) return found;
  for (const BlockRef& maker : schedule.producers(reduction)) {
    const Store* store = schedule.node(maker).f.body.as<Store>();
    const Cast* cast = store ? store->value.as<Cast>() : nullptr;
    const Load* load = cast ? cast->value.as<Load>() : nullptr;
    if (!load || load->mask || cast->dtype != parts->terms[0]->dtype || schedule.consumers(maker).size() != 1) continue;
    const bool taken =
        std::any_of(context.device.intrinsics.begin(), context.device.intrinsics.end(), [&](const Func& intrinsic) {
          const std::vector<Buffer> params = buffer_params(intrinsic);
          return std::any_of(params.begin(), params.end(), [&](const Buffer& b) { return b->dtype == load->dtype; });
        });
    if (taken) found.push_back(maker);
  }
  return found;
}

std::optional<DotPlan> plan_dot(const RuleContext& context, const BlockRef& reduction) {
  if (context.device.intrinsics.empty()) return std::nullopt;
  const Block& block = context.schedule.node(reduction);
  std::optional<ReductionParts> parts;
  const auto product = match_block(block, parts);
  if (!product) return std::nullopt;
  DotPlan plan;
  const DType a = product->a->dtype, b = product->b->dtype;
  for (const bool shifted : {false, true}) {
    if (shifted && !(is_byte(a) && a == b)) continue;
    for (const Func& intrinsic : context.device.intrinsics) {
      const auto known = match_intrinsic_product(intrinsic);
      if (!known || plan.intrinsic || known->first.dtype != product->dtype) continue;
      const DType x = known->first.a->dtype, y = known->first.b->dtype;
      const bool direct = (x == a && y == b) || (x == b && y == a);
      if (shifted ? !(is_byte(x) && is_byte(y) && x != y) : !direct) continue;
      plan.intrinsic = intrinsic;
      plan.group = known->second;
    }
  }
  if (!plan.intrinsic) return std::nullopt;

  const auto extent = [&](size_t i) { return as_int(block.f.iters[i].domain.extent); };
  std::optional<size_t> step, vectors, rows;
  for (size_t i = 0; i < block.f.iters.size(); ++i) {
    const Iter& iter = block.f.iters[i];
    if (iter.kind != IterKind::reduce || !extent(i) || *extent(i) < plan.group) continue;
    if (!dimension_of(product->a->indices, iter.variable) || !dimension_of(product->b->indices, iter.variable))
      continue;
    if (!step || *extent(i) > *extent(*step)) step = i;
  }
  const std::vector<Expr>& written = parts->outputs[0].indices;
  for (size_t i = 0; i < block.f.iters.size() && !written.empty(); ++i) {
    if (written.back() == Expr(block.f.iters[i].variable) && extent_estimate(block.f.iters[i].domain.extent) > 1)
      vectors = i;
  }
  if (!step || !vectors) return std::nullopt;
  const std::optional<Roles> roles = roles_of(block, *product, *vectors);
  if (!roles || !dimension_of(roles->vectors->indices, block.f.iters[*vectors].variable)) return std::nullopt;
  for (size_t i = 0; i < block.f.iters.size(); ++i) {
    const Iter& iter = block.f.iters[i];
    if (iter.kind != IterKind::space || uses(*roles->vectors, iter.variable) || !uses(*roles->rows, iter.variable))
      continue;
    if (!rows || extent_estimate(iter.domain.extent) > extent_estimate(block.f.iters[*rows].domain.extent)) rows = i;
  }
  const bool in_place = plan.group > 2 && uses_var(roles->vectors->indices.back(), block.f.iters[*step].variable.get());
  if (!rows || extent_estimate(block.f.iters[*rows].domain.extent) < (in_place ? fewest_rows_of_words : fewest_rows))
    return std::nullopt;
  plan.step = *step;
  plan.vectors = *vectors;
  plan.rows = *rows;
  return plan;
}

void stage_dot(RuleContext& context, const BlockRef& reduction, DotPlan& plan) {
  Schedule& schedule = context.schedule;
  const std::int64_t steps = *as_int(schedule.node(reduction).f.iters[plan.step].domain.extent);
  const bool padded = steps % plan.group != 0;
  // Whole vectors of columns leave only the last stores to be masked.
  const std::int64_t* columns = as_int(schedule.node(reduction).f.iters[plan.vectors].domain.extent);
  std::int64_t lanes = vector_lanes(schedule.node(reduction), context.device);
  const std::int64_t all_rows = extent_estimate(schedule.node(reduction).f.iters[plan.rows].domain.extent);
  const std::int64_t fewest_lanes = all_rows < rows_of_lanes ? 1
                                    : plan.group > 2         ? fewest_lanes_of_bytes
                                                             : fewest_lanes_of_pairs;
  while (columns && lanes / 2 >= std::max(*columns, fewest_lanes)) lanes /= 2;
  const bool ragged = columns && *columns % lanes != 0;
  if (padded || ragged) {
    std::vector<std::int64_t> factors(schedule.node(reduction).f.iters.size(), 1);
    if (padded) factors[plan.step] = plan.group;
    if (ragged) factors[plan.vectors] = lanes;
    pad_einsum(schedule, reduction, factors);
    const std::vector<BlockRef> readers = schedule.consumers(reduction);
    if (ragged && is_allocated(schedule.func(), schedule.node(readers.at(0)).f.writes[0].buffer)) {
      compute_inline(schedule, readers[0]);
    }
  }
  Roles roles = current_roles(context, reduction, plan);
  const std::optional<BlockRef> padding =
      padded || ragged ? maker_of(schedule, reduction, roles.vectors->buffer) : std::nullopt;
  const auto known = match_intrinsic_product(plan.intrinsic);
  const bool same = roles.vectors->dtype == roles.rows->dtype;
  if (same && known && known->first.a->dtype != known->first.b->dtype) {
    if (!is_allocated(schedule.func(), schedule.node(reduction).f.writes[0].buffer)) {
      cache_write(schedule, reduction, space::global);
      roles = current_roles(context, reduction, plan);
    }
    plan.copy = shift_operand(schedule, reduction, roles.vectors->buffer->name);
    if (padding) compute_inline(schedule, *padding);
  } else {
    // Of an array that is both factors the one place is copied.
    plan.copy = padding ? *padding
                        : cache_read(schedule, reduction, roles.vectors->buffer->name, space::global,
                                     place_of(schedule.node(reduction), *roles.vectors));
  }
  context.scheduled.insert(plan.copy.name);

  roles = current_roles(context, reduction, plan);
  const VarRef column = schedule.node(reduction).f.iters[plan.vectors].variable;
  const size_t wanted = known_dimension(*roles.vectors, column);
  // What the roles point to goes with the program that a primitive replaces.
  if (const Buffer packed = roles.vectors->buffer; wanted + 1 != packed->rank())
    turn(context, plan.copy, packed, wanted);

  roles = current_roles(context, reduction, plan);
  const VarRef now = schedule.node(reduction).f.iters[plan.step].variable;
  const size_t along = known_dimension(*roles.rows, now);
  if (is_int(strides_of(roles.rows->buffer)[along], 1)) return;
  std::optional<BlockRef> copy = padded ? maker_of(schedule, reduction, roles.rows->buffer) : std::nullopt;
  if (!copy) copy = cache_read(schedule, reduction, roles.rows->buffer->name, space::global);
  roles = current_roles(context, reduction, plan);
  const Buffer rows = roles.rows->buffer;
  if (along + 1 == rows->rank()) return;
  if (padded &&
      estimated_elements(rows) * rows->dtype.bytes() * near_part > static_cast<double>(own_cache_bytes(context.device)))
    turn_whole(context, *copy, along);
  turn(context, *copy, rows, along);
  std::vector<LoopRef> loops = own_loops(schedule, *copy);
  if (loops.size() != rows->rank()) return;
  std::swap(loops[along], loops.back());
  reorder(schedule, loops);
}

namespace {

/// Groups of a copy's squares, which are turned around in registers as words; 1 where there are none, or ends of rows
/// are filled up and there are no masks for that.
std::int64_t square_of_groups(const RuleContext& context, const DotPlan& plan, const LoopRef& groups,
                              const std::optional<LoopRef>& column) {
  const Schedule& schedule = context.schedule;
  const Block& copy = schedule.node(plan.copy);
  const std::int64_t *rows = as_int(schedule.node(groups).extent),
                     *columns = column ? as_int(schedule.node(*column).extent) : nullptr;
  if (!rows || !columns) return 1;
  bool whole = !copy.f.predicate;
  for_each_expr(copy.f.body, [&](const Expr& e) {
    const Load* load = e.as<Load>();
    whole &= !e.as<Select>() && !(load && load->mask);
  });
  if (!whole && context.device.mask_registers == 0) return 1;
  return widest_square(plan.group * copy.f.writes[0].buffer->dtype.bits, *rows, *columns, context.device);
}

}  // namespace

void pack_groups(RuleContext& context, const BlockRef& reduction, const DotPlan& plan, std::int64_t lanes,
                 std::int64_t panel_width) {
  Schedule& schedule = context.schedule;
  const Block& block = schedule.node(reduction);
  const Roles roles = current_roles(context, reduction, plan);
  const Buffer buffer = roles.vectors->buffer;
  const size_t steps = known_dimension(*roles.vectors, block.f.iters[plan.step].variable);
  const size_t columns = known_dimension(*roles.vectors, block.f.iters[plan.vectors].variable);
  // The copy's own loops, by the dimension of the copy that they walk.
  const Block& copy = schedule.node(plan.copy);
  const Store& store = *copy.f.body.as<Store>();
  const auto loop_along = [&](size_t d) -> std::optional<LoopRef> {
    for (size_t i = 0; i < copy.f.iters.size(); ++i) {
      if (store.indices[d] != Expr(copy.f.iters[i].variable)) continue;
      if (const auto loop = driving_loop(schedule, plan.copy, i)) return loop;
    }
    return std::nullopt;
  };
  const std::optional<LoopRef> step = loop_along(steps), column = loop_along(columns);
  std::vector<LoopRef> order;
  for (const LoopRef& loop : own_loops(schedule, plan.copy)) {
    if (!(step && loop == *step) && !(column && loop == *column)) order.push_back(loop);
  }
  if (!step) throw Refusal("tile_contractions", 0, "the copy has no loop over steps");
  const Load* source = nullptr;
  for_each_expr(store.value, [&](const Expr& e) {
    if (e.as<Load>()) source = e.as<Load>();
  });
  const bool down = source && column && uses_var(source->indices.back(), store.indices[columns].as<Var>());

  LayoutMap map = same_layout(buffer->rank());
  map.to[steps] = floor_div(map.from[steps], plan.group);
  map.to.push_back(floor_mod(map.from[steps], plan.group));
  transform_layout(schedule, plan.copy, buffer->name, map);
  const auto [groups, inner] = split(schedule, *step, plan.group);
  if (down) {
    order.insert(order.end(), {groups, *column, inner});
    reorder(schedule, order);
    const std::int64_t* extent = as_int(schedule.node(*column).extent);
    vectorize(schedule, extent && *extent <= lanes ? *column : split(schedule, *column, lanes).second);
    unroll(schedule, inner);
  } else if (const std::int64_t side = square_of_groups(context, plan, groups, column); side > 1) {
    order.insert(order.end(), {groups, *column, inner});
    turn_grouped_squares(schedule, order, *column, groups, inner, side, {1, 2});
  } else {
    if (column) order.push_back(*column);
    order.insert(order.end(), {groups, inner});
    reorder(schedule, order);
    vectorize(schedule, inner);
  }
  if (panel_width > 0)
    transform_layout(schedule, plan.copy, buffer->name, panel_layout(map.to.size(), panel_width, 0, columns));
}

void mark_groups(RuleContext& context, const LoopRef& steps, const DotPlan& plan) {
  const BlockRef tile = blockize(context.schedule, steps);
  tensorize(context.schedule, tile, plan.intrinsic);
  context.scheduled.insert(tile.name);
}

}  // namespace lathe
