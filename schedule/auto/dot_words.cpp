#include "schedule/auto/dot_words.h"

#include <fmt/format.h>

#include <algorithm>

#include "ir/error.h"
#include "ir/reduction.h"
#include "ir/visitor.h"
#include "schedule/auto/block_model.h"
#include "schedule/auto/dot_products.h"
#include "schedule/auto/join_short_sums.h"
#include "schedule/primitives/cache_write.h"
#include "schedule/primitives/compute_inline.h"
#include "schedule/primitives/group_bytes.h"
#include "schedule/primitives/shift_operand.h"
#include "schedule/rewrite.h"

namespace lathe {
namespace {

/// Steps of which at least three in four bytes, or three in four halves, are worth a word.
constexpr std::int64_t fewest_steps = 3;
/// Halves side by side that are worth words: of fewer these are steps between what vectors of a window walk.
constexpr std::int64_t fewest_side_by_side = 8;
/// Columns of so many rows each whose pairs cost little to lay out, as the words of rows need no copy then (measured on
/// Zen 4, rows of bf16 by 8 columns that lie along the sum: 3333x8x300 0.8 of the time; 8x8x1000, whose columns are all
/// there is to lay out, 2.3; by 4 columns vectors of words along the sum are as fast).
constexpr std::int64_t least_columns = 6, few_columns = 8, rows_of_column = 64;
/// Reads of an element for which a copy in words is made, of bytes and of halves (measured on Zen 4: four rows of
/// halves by 1024x1024 weights that lie along the sum 0.17 of the time).
constexpr double worthy_reuse = 8, worthy_reuse_of_halves = 4;

/// Does the device have a dot product of words of these types?
bool has_dot(const Device& device, DType a, DType b) {
  const std::int64_t group = 4 / a.bytes();
  const DType sum = a == bf16 ? f32 : i32;
  return std::any_of(device.intrinsics.begin(), device.intrinsics.end(), [&](const Func& intrinsic) {
    const std::vector<Buffer> params = buffer_params(intrinsic);
    return params.size() == 3 && params[2]->dtype == sum && params[0]->rank() == 1 &&
           is_int(params[0]->shape[0], group) &&
           ((params[0]->dtype == a && params[1]->dtype == b) || (params[0]->dtype == b && params[1]->dtype == a));
  });
}

struct Bytes {
  ByteFactor a, b;
};

std::optional<Bytes> factors_of(const Block& block) {
  const auto parts = match_update(block);
  const auto op = block.f.reducer ? simple_op(*block.f.reducer) : std::nullopt;
  if (!parts || op != BinaryOp::add || parts->outputs.size() != 1 || !parts->lets.empty() || !block.f.init)
    return std::nullopt;
  const Binary* product = parts->terms[0].as<Binary>();
  if (!product || product->op != BinaryOp::mul) return std::nullopt;
  const auto narrow = product->dtype == i32 ? byte_factor : product->dtype == f32 ? half_factor : nullptr;
  if (!narrow) return std::nullopt;
  const auto a = narrow(product->a), b = narrow(product->b);
  return a && b && a->load->buffer != b->load->buffer ? std::optional(Bytes{*a, *b}) : std::nullopt;
}

bool uses(const Load& load, const Iter& iter) {
  return std::any_of(load.indices.begin(), load.indices.end(),
                     [&](const Expr& e) { return uses_var(e, iter.variable.get()); });
}

/// Do steps of the iter read neighbours of the buffer?
bool lies_along(const Block& block, size_t step, const Buffer& buffer) {
  const Accesses accesses = block_accesses(block);
  return std::any_of(accesses.begin(), accesses.end(),
                     [&](const Access& access) { return access.buffer == buffer && access.strides[step] == 1; });
}

/// The iter to group by, of the most steps.
std::optional<size_t> grouped_iter(const Block& block, const Bytes& bytes) {
  std::optional<size_t> found;
  const auto extent = [&](size_t i) {
    const std::int64_t* steps = as_int(block.f.iters[i].domain.extent);
    return steps ? *steps : 0;
  };
  for (size_t i = 0; i < block.f.iters.size(); ++i) {
    const Iter& iter = block.f.iters[i];
    if (iter.kind != IterKind::reduce || extent(i) < fewest_steps) continue;
    const bool groups = grouped_index(bytes.a, iter) && grouped_index(bytes.b, iter);
    if (groups && (!found || extent(i) > extent(*found))) found = i;
  }
  return found;
}

/// Is it a product of matrices that plan_dot would tile, each of which one iter walks alone? Where several do, as rows
/// and columns of an image, panels would be laid out anew for each step of the others.
bool is_plain_product(const RuleContext& context, const BlockRef& ref, const Bytes& bytes) {
  const auto plan = plan_dot(context, ref);
  if (!plan) return false;
  const Block& block = context.schedule.node(ref);
  for (size_t i = 0; i < block.f.iters.size(); ++i) {
    const Iter& iter = block.f.iters[i];
    if (iter.kind == IterKind::space && i != plan->vectors && i != plan->rows &&
        uses(*bytes.a.load, iter) != uses(*bytes.b.load, iter) && extent_estimate(iter.domain.extent) > 1)
      return false;
  }
  return true;
}

/// Is it better to lay out halves as they are? Pairs of them are words where they lie side by side; then tiles want the
/// words of the factor that vectors walk turned around, which takes a quarter of what it takes to lay out pairs
/// (plan_dot, measured on Zen 4: 64x768x768 by weights that lie along the sum 0.62 of the time, 8x768x768 0.35; by
/// others 1 to 1.18). Where other axes are to be joined besides, their copy would be a second one (1x1 with channels
/// last 1.2 to 1.3). Of windows the other factor would be packed for each column of tiles anew (5x5 of 64 to 16
/// channels last at 32: 4 times as long).
bool lies_well(const RuleContext& context, const BlockRef& ref, const Bytes& halves, size_t step) {
  const Block& block = context.schedule.node(ref);
  const Access* result = nullptr;
  const Accesses accesses = block_accesses(block);
  for (const Access& access : accesses) {
    if (access.store) result = &access;
  }
  const std::int64_t* steps = as_int(block.f.iters[step].domain.extent);
  const bool both_along =
      lies_along(block, step, halves.a.load->buffer) && lies_along(block, step, halves.b.load->buffer);
  const auto are_few = [&](size_t columns) {
    const std::int64_t* extent = as_int(block.f.iters[columns].domain.extent);
    return both_along && steps && extent && least_columns <= *extent && *extent <= few_columns &&
           instance_count(block) >= static_cast<double>(*steps * rows_of_column * *extent * *extent);
  };
  bool windows = false, along = false;
  for (size_t i = 0; i < block.f.iters.size(); ++i) {
    const Iter& iter = block.f.iters[i];
    if (is_int(iter.domain.extent, 1)) continue;
    windows |= iter.kind == IterKind::reduce && i != step;
    if (iter.kind != IterKind::space || !result || result->strides[i] != 1) continue;
    // Groups that tiles of words take in runs, and dot products do not.
    if (std::any_of(accesses.begin(), accesses.end(),
                    [&](const Access& access) { return !access.strides[i] && access.runs[i] > 1; }))
      return false;
    if (are_few(i)) continue;
    for (const Load* load : {halves.a.load, halves.b.load})
      along |= uses(*load, iter) && lies_along(block, step, load->buffer);
  }
  const bool few = steps && *steps < fewest_side_by_side;
  return plan_dot(context, ref) ? !along && !windows : along && (!windows || few);
}

/// Elements of the sums of the other factor, which correct what a shift of this one adds.
double corrections(const Block& block, const Load& other) {
  double count = 1;
  for (const Iter& iter : block.f.iters) {
    if (uses(other, iter)) count *= static_cast<double>(extent_estimate(iter.domain.extent));
  }
  return count;
}

void stage(RuleContext& context, const BlockRef& ref, const std::vector<BlockRef>& makers) {
  Schedule& schedule = context.schedule;
  const auto refuse = [](const char* why) { throw Refusal("tile_contractions", 0, why); };
  const auto factors = [&] {
    const auto found = factors_of(schedule.node(ref));
    if (!found) throw Refusal("tile_contractions", 0, "it adds no products of narrow factors");
    return *found;
  };
  for (const BlockRef& maker : makers) compute_inline(schedule, maker);
  Bytes bytes = factors();
  const auto iter = grouped_iter(schedule.node(ref), bytes);
  if (!iter) throw Refusal("tile_contractions", 0, "no step of it is a step of both factors alone");
  const bool halves = bytes.a.load->dtype == bf16;
  if (halves ? lies_well(context, ref, bytes, *iter) : is_plain_product(context, ref, bytes))
    refuse("its products are laid out for dot products as they are");
  for (const Load* load : {bytes.a.load, bytes.b.load}) {
    const double reads = instance_count(schedule.node(ref)) / estimated_elements(load->buffer);
    if (reads < (halves ? worthy_reuse_of_halves : worthy_reuse) &&
        (halves || !lies_along(schedule.node(ref), *iter, load->buffer)))
      refuse("its elements are read too few times");
  }
  const DType a = bytes.a.load->dtype, b = bytes.b.load->dtype;
  std::optional<BlockRef> shifted;
  if (!has_dot(context.device, a, b)) {
    if (halves || !has_dot(context.device, a, a == i8 ? u8 : i8)) refuse("no instruction takes its factors");
    if (!is_allocated(schedule.func(), schedule.node(ref).f.writes[0].buffer))
      cache_write(schedule, ref, space::global);
    bytes = factors();
    const Block& block = schedule.node(ref);
    // Sums of what is padded would be sums of windows.
    const bool first = bytes.a.condition ||
                       (!bytes.b.condition && corrections(block, *bytes.b.load) <= corrections(block, *bytes.a.load));
    const std::vector<BlockRef> before = schedule.blocks();
    shifted = shift_operand(schedule, ref, (first ? bytes.a : bytes.b).load->buffer->name);
    for (const BlockRef& made : schedule.blocks()) {
      if (std::find(before.begin(), before.end(), made) == before.end()) join_short_sum(context, made);
    }
  }
  const auto loop = loop_of_iter(schedule, ref, *iter);
  if (!loop) throw Refusal("tile_contractions", 0, "the iter has no loop of its own");
  group_bytes(schedule, ref, *loop);
  if (shifted) compute_inline(schedule, *shifted);
}

}  // namespace

bool stage_words(RuleContext& context, const BlockRef& ref) {
  if (context.device.intrinsics.empty()) return false;
  const Block& block = context.schedule.node(ref);
  if (block.f.writes.size() != 1 || (block.f.writes[0].buffer->dtype != i32 && block.f.writes[0].buffer->dtype != f32))
    return false;
  const std::vector<BlockRef> makers = widening_makers(context, ref);
  if (makers.empty() && !factors_of(block)) return false;
  return attempt(context, fmt::format("group the bytes of {} in words", ref.name),
                 [&] { stage(context, ref, makers); });
}

}  // namespace lathe
