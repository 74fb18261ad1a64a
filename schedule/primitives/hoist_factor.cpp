#include "schedule/primitives/hoist_factor.h"

#include <fmt/format.h>

#include <optional>

#include "ir/reduction.h"
#include "schedule/access.h"
#include "schedule/complete.h"
#include "schedule/finite_values.h"

namespace lathe {
namespace {

/// A product without one of its factors.
struct Split {
  Expr rest;    ///< null: nothing is left
  Expr factor;  ///< the element of the buffer
  bool divides = false;
};

std::optional<Split> split_factor(const Expr& e, const std::string& buffer) {
  if (const Load* load = e.as<Load>(); load && load->buffer->name == buffer && !load->mask) return Split{nullptr, e};
  if (const Unary* unary = e.as<Unary>(); unary && unary->op == UnaryOp::neg) {
    std::optional<Split> inner = split_factor(unary->a, buffer);
    if (inner && inner->rest) inner->rest = -inner->rest;
    return inner && inner->rest ? inner : std::nullopt;
  }
  const Binary* binary = e.as<Binary>();
  if (!binary || (binary->op != BinaryOp::mul && binary->op != BinaryOp::div)) return std::nullopt;
  const bool product = binary->op == BinaryOp::mul;
  if (std::optional<Split> left = split_factor(binary->a, buffer); left && (left->rest || product)) {
    const Expr rest = left->rest ? Binary::make(binary->op, left->rest, binary->b) : binary->b;
    return Split{rest, left->factor, left->divides};
  }
  std::optional<Split> right = split_factor(binary->b, buffer);
  if (!right) return std::nullopt;
  if (product)
    return Split{right->rest ? Binary::make(binary->op, binary->a, right->rest) : binary->a, right->factor,
                 right->divides};
  // Of a divisor only the whole of it, so that nothing is divided twice.
  if (right->rest) return std::nullopt;
  return Split{binary->a, right->factor, true};
}

}  // namespace

BlockRef hoist_factor(Schedule& schedule, const BlockRef& block, const std::string& buffer) {
  const Path path = path_to(schedule, block);
  const Block& node = *path.back().as<Block>();
  const std::string application = fmt::format("hoist_factor({}, \"{}\")", block.name, buffer);
  const std::string sum =
      "block is a sum of floats from 0, runs over its whole domain, each iter by a serial loop of its own with no "
      "other "
      "block in those loops, and writes at its space iters";
  const std::optional<ReductionParts> parts = match_update(node);
  if (!parts || !node.f.reducer || simple_op(*node.f.reducer) != BinaryOp::add || !starts_at_identity(node) ||
      !parts->outputs[0].buffer->dtype.is_float()) {
    refuse(schedule, application, 1, sum, path.back(), "is no such sum");
  }
  size_t own = 0;
  if (const std::string reason = why_not_alone(path, own); !reason.empty())
    refuse(schedule, application, 1, sum, path.back(), reason);
  if (const std::string reason = why_not_pointwise(node); !reason.empty())
    refuse(schedule, application, 1, sum, path.back(), reason);

  const auto refuse_term = [&](const std::string& note) {
    refuse(
        schedule, application, 2,
        "its term is a product or quotient, of which one factor or divisor is an element of the buffer that stays the "
        "same along the sum, and which has no other element of it",
        path.back(), note);
  };
  Substitution lets;
  for (const Stmt& s : parts->lets) lets[s.as<Let>()->variable.get()] = substitute(s.as<Let>()->value, lets);
  const Split found = split_factor(substitute(parts->terms[0], lets), buffer).value_or(Split{});
  if (!found.rest) refuse_term(fmt::format("has no such factor of {}", buffer));
  for_each_expr(found.rest, [&](const Expr& e) {
    if (e.as<Load>() && e.as<Load>()->buffer->name == buffer)
      refuse_term(fmt::format("has {} in another place", buffer));
  });
  for (const Iter& iter : node.f.iters) {
    if (iter.kind != IterKind::space && uses_var(found.factor, iter.variable.get()))
      refuse_term(fmt::format("has another element of {} for each {}", buffer, iter.variable->name));
  }

  const Expr scale = found.divides ? div(constant(found.factor->dtype, 1), found.factor) : found.factor;
  if (!proved_finite(schedule, scale)) {
    refuse(schedule, application, 3, "the factor, or one over the divisor, is proved to be finite or NaN", path.back(),
           fmt::format("takes it from {}, of which that is not known", buffer));
  }
  const ReductionOutput& output = parts->outputs[0];
  const Buffer whole =
      BufferNode::make(schedule.unique_name(output.buffer->name + "_sum"), output.buffer->dtype, output.buffer->shape);
  const Stmt update = with_fields(node, [&](Block::Fields& f) {
    const std::vector<ReductionOutput> outputs{{whole, output.indices}};
    f.init = make_init(*f.reducer, outputs);
    f.body = make_update(*f.reducer, outputs, {found.rest});
  });
  Block::Fields scaled;
  scaled.name = schedule.unique_name(block.name + "_scaled");
  std::vector<Range> ranges;
  Substitution iters;
  for (size_t i = 0; i < node.f.iters.size(); ++i) {
    const Iter& iter = node.f.iters[i];
    if (iter.kind != IterKind::space) continue;
    const VarRef variable = Var::make(iter.variable->name);
    iters[iter.variable.get()] = variable;
    scaled.iters.push_back({variable, iter.domain, IterKind::space});
    scaled.bindings.emplace_back(Var::make(loop_name(node, i)));
    ranges.push_back(iter.domain);
  }
  const Expr total = load(whole, output.indices);
  const Expr value = found.divides ? div(total, found.factor) : total * found.factor;
  scaled.body = substitute(Store::make(output.buffer, output.indices, value), iters);
  const std::string name = scaled.name;
  const Stmt made = Block::make(std::move(scaled));
  const Stmt behind = make_nest(*with_inferred_regions(*made.as<Block>()).as<Block>(), ranges);
  const Path below(path.begin() + static_cast<std::ptrdiff_t>(own), path.end());
  const Stmt nest = replace_last(below, with_inferred_regions(*update.as<Block>()));
  const Path above(path.begin(), path.begin() + static_cast<std::ptrdiff_t>(own) + 1);
  const Stmt body = replace_last(above, Seq::make({nest, behind}));
  schedule.commit(add_allocation(body, whole), application);
  return {name};
}

}  // namespace lathe
