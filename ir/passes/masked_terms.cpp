#include "ir/passes/masked_terms.h"

#include "ir/reduction.h"
#include "ir/structural.h"

namespace lathe {
namespace {

bool is_product(const Expr& e) {
  const Binary* node = e.as<Binary>();
  return node && node->op == BinaryOp::mul;
}

}  // namespace

std::optional<Block::Fields> skip_with_minus_zero(const Block& block) {
  if (!block.f.reducer || simple_op(*block.f.reducer) != BinaryOp::add) return std::nullopt;
  const std::optional<ReductionParts> parts = match_update(block);
  const Select* choice = parts ? parts->terms[0].as<Select>() : nullptr;
  if (!choice || !choice->dtype.is_float() || !is_product(choice->when_true)) return std::nullopt;
  const Expr zero = constant(choice->dtype, 0.0);
  if (!equal(choice->when_false, zero) || !equal(block.f.reducer->identities[0], zero)) return std::nullopt;
  if (block.f.init && !equal(block.f.init, make_init(*block.f.reducer, parts->outputs))) return std::nullopt;
  const Expr skipped = constant(choice->dtype, -0.0);
  Block::Fields f = block.f;
  f.body = make_update(*f.reducer, parts->outputs, {Select::make(choice->condition, choice->when_true, skipped)},
                       parts->lets);
  return f;
}

}  // namespace lathe
