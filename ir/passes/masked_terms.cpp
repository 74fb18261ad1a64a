#include "ir/passes/masked_terms.h"

#include <cmath>

#include "ir/reduction.h"
#include "ir/structural.h"

namespace lathe {
namespace {

bool is_zero(const Expr& e) {
  const FloatImm* value = e.as<FloatImm>();
  return value && value->value == 0 && !std::signbit(value->value);
}

bool is_product(const Expr& e) {
  const Binary* node = e.as<Binary>();
  return node && node->op == BinaryOp::mul;
}

}  // namespace

std::optional<Block::Fields> skip_with_minus_zero(const Block& block) {
  if (!block.f.reducer || simple_op(*block.f.reducer) != BinaryOp::add || !is_zero(block.f.reducer->identities[0]))
    return std::nullopt;
  const std::optional<ReductionParts> parts = match_update(block);
  const Select* choice = parts ? parts->terms[0].as<Select>() : nullptr;
  if (!choice || !is_product(choice->when_true) || !is_zero(choice->when_false)) return std::nullopt;
  if (block.f.init && !equal(block.f.init, make_init(*block.f.reducer, parts->outputs))) return std::nullopt;
  const Expr skipped = FloatImm::make(choice->when_false->dtype, -0.0);
  Block::Fields f = block.f;
  f.body = make_update(*f.reducer, parts->outputs, {Select::make(choice->condition, choice->when_true, skipped)},
                       parts->lets);
  return f;
}

}  // namespace lathe
