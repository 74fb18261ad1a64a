#include "schedule/primitives/lane_fold.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>

#include "schedule/complete.h"
#include "schedule/rewrite.h"

namespace lathe {
namespace {

bool is_power_of_two(std::int64_t n) {
  return n > 0 && std::has_single_bit(static_cast<std::uint64_t>(n));
}

bool folds(BinaryOp op) {
  return op == BinaryOp::add || op == BinaryOp::mul || op == BinaryOp::min || op == BinaryOp::max ||
         op == BinaryOp::logical_and || op == BinaryOp::logical_or;
}

}  // namespace

LaneFold match_lane_fold(const Schedule& schedule, const std::string& application, const BlockRef& block,
                         std::int64_t lanes) {
  const Path path = path_to(schedule, block);
  const Stmt& at = path.back();
  const Block& node = *at.as<Block>();
  const std::optional<ReductionParts> parts = match_update(node);
  const std::optional<BinaryOp> op = node.f.reducer ? simple_op(*node.f.reducer) : std::nullopt;
  if (!parts || !op || !folds(*op) || !node.f.init) {
    refuse(schedule, application, 1,
           "the reducer is one that reduce_lanes knows: add, mul, min, max, logical_and, logical_or of one value", at,
           "has another, or none");
  }
  if (!starts_at_identity(node)) {
    refuse(schedule, application, 1,
           "the reducer is one that reduce_lanes knows: add, mul, min, max, logical_and, logical_or of one value", at,
           "starts with another value than its identity");
  }
  if (passes_over_nan(*node.f.reducer)) {
    const std::vector<BlockRef> producers = schedule.producers(block);
    const bool numbers =
        !producers.empty() && std::all_of(producers.begin(), producers.end(), [&](const BlockRef& ref) {
          const Block& producer = schedule.node(ref);
          return producer.f.reducer && passes_over_nan(*producer.f.reducer) && starts_at_identity(producer);
        });
    if (!numbers)
      refuse(schedule, application, 1,
             "the reducer is one that reduce_lanes knows: add, mul, min, max, logical_and, logical_or of one value", at,
             "passes over NaN, which its terms may hold");
  }
  const std::string single =
      "block has one reduce iter, over [0, n) with n constant, bound to a loop of its own that holds nothing else";
  std::optional<size_t> reduce;
  for (size_t i = 0; i < node.f.iters.size(); ++i) {
    if (node.f.iters[i].kind == IterKind::space) continue;
    if (reduce) refuse(schedule, application, 2, single, at, "has several");
    reduce = i;
  }
  const For* loop = path[path.size() - 2].as<For>();
  const std::int64_t* count = reduce ? as_int(node.f.iters[*reduce].domain.extent) : nullptr;
  if (!reduce || !count || !loop || node.f.bindings[*reduce] != Expr(loop->variable) || !is_int(loop->min, 0) ||
      !is_int(loop->extent, *count) || !is_int(node.f.iters[*reduce].domain.min, 0)) {
    refuse(schedule, application, 2, single, at, "is not so");
  }
  if (!is_power_of_two(*count) || !is_power_of_two(lanes) || *count % lanes != 0) {
    refuse(schedule, application, 3, "n is a multiple of lanes, and both are powers of two", at,
           fmt::format("reduces {} elements", *count));
  }
  const VarRef& iter = node.f.iters[*reduce].variable;
  const Load* term = parts->terms[0].as<Load>();
  bool last =
      term && !term->mask && parts->lets.empty() && !term->indices.empty() && term->indices.back() == Expr(iter);
  for (size_t d = 0; last && d + 1 < term->indices.size(); ++d) last = !uses_var(term->indices[d], iter.get());
  if (!last) {
    refuse(
        schedule, application, 4,
        "the term is a Load without a mask, whose last index is the reduce iter and whose other indices do not use it",
        at, "has another term");
  }
  return {*op, parts->outputs[0], term, *reduce, *count};
}

Expr combined_vector(const LaneFold& fold, std::vector<Expr> indices, std::int64_t lanes) {
  std::vector<Expr> vectors;
  for (std::int64_t first = 0; first < fold.count; first += lanes) {
    indices.back() = lanes == 1 ? index(first) : Ramp::make(index(first), index(1), static_cast<int>(lanes));
    vectors.push_back(load(fold.term->buffer, indices));
  }
  for (size_t n = vectors.size() / 2; n > 0; n /= 2) {
    for (size_t i = 0; i < n; ++i) vectors[i] = binary(fold.op, vectors[i], vectors[i + n]);
  }
  return vectors[0];
}

}  // namespace lathe
