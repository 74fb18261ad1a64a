#include "schedule/auto/unfold_digits.h"

#include <fmt/format.h>

#include <algorithm>

#include "ir/visitor.h"
#include "schedule/auto/unfold_stacks.h"
#include "schedule/auto/vector_loop.h"
#include "schedule/primitives/unfold_reduction.h"
#include "schedule/rewrite.h"

namespace lathe {
namespace {

/// The most digits of a word that are unfolded; and the part of a vector that so many of words as wide as sums fill by
/// themselves (measured on Zen 4, one row by 2048 x 2048: eight of a byte 0.98 of the time, of 32 bits 1.9; four rows
/// 0.26 and 0.89).
constexpr std::int64_t most_digits = 8, part_of_vector = 2;

/// The bits of a word that is the same for all steps of the iter, and shifted by a number that hangs on these; 0 where
/// there is none.
int bits_of_shifted(const Block& block, const Iter& iter) {
  const Var* step = iter.variable.get();
  int bits = 0;
  for_each_expr(block.f.body, [&](const Expr& e) {
    const Binary* shift = e.as<Binary>();
    if (!shift || shift->op != BinaryOp::shr || !uses_var(shift->b, step) || uses_var(shift->a, step)) return;
    for_each_expr(shift->a, [&](const Expr& a) {
      if (const Load* load = a.as<Load>()) bits = std::max<int>(bits, load->dtype.bits);
    });
  });
  return bits;
}

/// The loops over digits, each of which has a loop of its own.
std::vector<LoopRef> digit_loops(const RuleContext& context, const BlockRef& ref) {
  const Block& block = context.schedule.node(ref);
  const int sum_bits = block.f.writes[0].buffer->dtype.bits;
  std::vector<LoopRef> found;
  for (size_t i = 0; i < block.f.iters.size(); ++i) {
    const Iter& iter = block.f.iters[i];
    const std::int64_t* count = as_int(iter.domain.extent);
    if (iter.kind != IterKind::reduce || !count || *count < 2 || *count > most_digits) continue;
    const int bits = bits_of_shifted(block, iter);
    const bool fills = bits >= sum_bits && *count * part_of_vector >= vector_lanes(block, context.device);
    const auto loop = bits > 0 && !fills ? loop_of_iter(context.schedule, ref, i) : std::nullopt;
    if (loop) found.push_back(*loop);
  }
  return found;
}

}  // namespace

bool shifts_words(const Block& block) {
  bool shifts = false;
  for_each_expr(block.f.body, [&](const Expr& e) {
    const Binary* shift = e.as<Binary>();
    shifts |= shift && shift->op == BinaryOp::shr && has_load(shift->a) &&
              std::any_of(block.f.iters.begin(), block.f.iters.end(), [&](const Iter& iter) {
                return iter.kind == IterKind::reduce && uses_var(shift->b, iter.variable.get());
              });
  });
  return shifts;
}

void unfold_digits(RuleContext& context) {
  Schedule& schedule = context.schedule;
  for (const BlockRef& ref : schedule.blocks()) {
    if (!may_unfold(context, ref)) continue;
    for (const LoopRef& loop : digit_loops(context, ref)) {
      attempt(context, fmt::format("unfold the digits that {} picks along {}", ref.name, loop.variable->name),
              [&] { unfold_reduction(schedule, ref, loop); });
    }
  }
}

}  // namespace lathe
