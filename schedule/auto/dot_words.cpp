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

constexpr std::int64_t group = 4;
/// Steps of which at least three in four bytes are worth a word.
constexpr std::int64_t fewest_steps = 3;
/// Reads of an element for which a copy in words is made.
constexpr double worthy_reuse = 8;

/// Does the device have a dot product of four bytes of these types?
bool has_dot(const Device& device, DType a, DType b) {
  return std::any_of(device.intrinsics.begin(), device.intrinsics.end(), [&](const Func& intrinsic) {
    const std::vector<Buffer> params = buffer_params(intrinsic);
    return params.size() == 3 && params[2]->dtype == i32 && params[0]->rank() == 1 &&
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
  if (!product || product->op != BinaryOp::mul || product->dtype != i32) return std::nullopt;
  const auto a = byte_factor(product->a), b = byte_factor(product->b);
  return a && b && a->load->buffer != b->load->buffer ? std::optional(Bytes{*a, *b}) : std::nullopt;
}

bool uses(const Load& load, const Iter& iter) {
  return std::any_of(load.indices.begin(), load.indices.end(),
                     [&](const Expr& e) { return uses_var(e, iter.variable.get()); });
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
    if (!found) throw Refusal("tile_contractions", 0, "it adds no products of bytes");
    return *found;
  };
  for (const BlockRef& maker : makers) compute_inline(schedule, maker);
  Bytes bytes = factors();
  if (is_plain_product(context, ref, bytes)) refuse("its products are laid out for dot products as they are");
  const auto iter = grouped_iter(schedule.node(ref), bytes);
  if (!iter) throw Refusal("tile_contractions", 0, "no step of it is a step of both factors alone");
  for (const Load* load : {bytes.a.load, bytes.b.load}) {
    if (instance_count(schedule.node(ref)) < worthy_reuse * estimated_elements(load->buffer))
      refuse("its elements are read too few times");
  }
  const DType a = bytes.a.load->dtype, b = bytes.b.load->dtype;
  std::optional<BlockRef> shifted;
  if (!has_dot(context.device, a, b)) {
    if (!has_dot(context.device, a, a == i8 ? u8 : i8)) refuse("no instruction takes its factors");
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

void stage_words(RuleContext& context, const BlockRef& ref) {
  if (context.device.intrinsics.empty()) return;
  const Block& block = context.schedule.node(ref);
  if (block.f.writes.size() != 1 || block.f.writes[0].buffer->dtype != i32) return;
  const std::vector<BlockRef> makers = widening_makers(context, ref);
  if (makers.empty() && !factors_of(block)) return;
  attempt(context, fmt::format("group the bytes of {} in words", ref.name), [&] { stage(context, ref, makers); });
}

}  // namespace lathe
