#include "schedule/primitives/hoist_offset.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>
#include <vector>

#include "ir/reduction.h"
#include "schedule/access.h"
#include "schedule/complete.h"
#include "schedule/copy_block.h"
#include "schedule/sums_beside.h"

namespace lathe {
namespace {

/// `inner op value`, where inner is a Load, cast or not; and what it is multiplied by.
struct Offset {
  Expr inner;
  const Load* load;
  BinaryOp op;  ///< add or sub
  std::int64_t value;
  Expr kept;
};

std::optional<Offset> offset_of(const Expr& factor, const Expr& kept) {
  const Binary* node = factor.as<Binary>();
  if (!node || (node->op != BinaryOp::add && node->op != BinaryOp::sub)) return std::nullopt;
  const std::int64_t* value = as_int(node->b);
  const Cast* cast = node->a.as<Cast>();
  const Load* load = (cast ? cast->value : node->a).as<Load>();
  if (!value || !load || load->mask || (cast && cast->value->dtype.is_float())) return std::nullopt;
  return Offset{node->a, load, node->op, *value, kept};
}

/// The two factors of a sum from zero of products of integers.
std::optional<std::array<Expr, 2>> factors_of(const Block& block, const std::optional<ReductionParts>& parts) {
  const std::optional<BinaryOp> op = block.f.reducer ? simple_op(*block.f.reducer) : std::nullopt;
  if (!parts || op != BinaryOp::add || parts->outputs.size() != 1 || !parts->lets.empty() || !starts_at_identity(block))
    return std::nullopt;
  const Binary* product = parts->terms[0].as<Binary>();
  if (!product || product->op != BinaryOp::mul || product->dtype.is_float()) return std::nullopt;
  return std::array<Expr, 2>{product->a, product->b};
}

std::vector<Buffer> loaded_by(const Expr& e) {
  std::vector<Buffer> found;
  for_each_expr(e, [&](const Expr& below) {
    const Load* load = below.as<Load>();
    if (load && std::find(found.begin(), found.end(), load->buffer) == found.end()) found.push_back(load->buffer);
  });
  return found;
}

/// The first of the factors with a constant that is of a buffer of which the other loads nothing; of that `name` alone
/// where there is one.
std::optional<Offset> find_offset(const std::array<Expr, 2>& factors, const std::string* name) {
  for (const size_t at : {0, 1}) {
    const Expr& kept = factors[1 - at];
    std::optional<Offset> offset = offset_of(factors[at], kept);
    if (!offset || (name && offset->load->buffer->name != *name)) continue;
    const std::vector<Buffer> others = loaded_by(kept);
    if (std::find(others.begin(), others.end(), offset->load->buffer) == others.end()) return offset;
  }
  return std::nullopt;
}

}  // namespace

std::string offset_factor(const Block& block) {
  const auto factors = factors_of(block, match_update(block));
  const auto offset = factors ? find_offset(*factors, nullptr) : std::nullopt;
  return offset ? offset->load->buffer->name : "";
}

void hoist_offset(Schedule& schedule, const BlockRef& block, const std::string& buffer) {
  const Path path = path_to(schedule, block);
  const Block& node = *path.back().as<Block>();
  const std::string application = fmt::format("hoist_offset({}, \"{}\")", block.name, buffer);
  const auto fail = [&](int condition, const std::string& text, const std::string& note) {
    refuse(schedule, application, condition, text, path.back(), note);
  };
  const std::string sum =
      "block is a sum from zero of products of two factors of integers; it runs over its whole domain, each iter by a "
      "serial loop of its own, with no other block in those loops";
  const std::optional<ReductionParts> parts = match_update(node);
  const auto factors = factors_of(node, parts);
  if (!factors) fail(1, sum, "is no such sum");
  size_t own = 0;
  if (const std::string reason = why_not_alone(path, own); !reason.empty()) fail(1, sum, reason);
  const std::optional<Offset> offset = find_offset(*factors, &buffer);
  if (!offset) {
    fail(2,
         "one of the factors is an element of the buffer of that name, cast or not, plus or minus a constant, and the "
         "other loads nothing of it",
         "has no such factor");
  }
  SumsBeside sums(schedule, application, path, parts->outputs[0], *node.f.reducer);
  sums.require_result(3);
  const Stmt nest = sums.nest(offset->kept);
  const Stmt reader = with_fields(node, [&](Block::Fields& f) {
    f.body = make_update(*f.reducer, parts->outputs, {offset->inner * offset->kept});
  });
  const Stmt changed = with_inferred_regions(*reader.as<Block>());
  const std::vector<Buffer> sources = loaded_by(offset->kept);
  for (const Buffer& source : sources) require_unwritten(schedule, application, 4, path, source);
  Stmt body = copied_before(schedule, application, 4, path, offset->load->buffer, nest, changed);
  for (const Buffer& source : sources) require_written(schedule, application, 5, path, source, body);
  body = sums.corrected(body, offset->op, offset->value);
  schedule.commit(add_allocation(body, sums.buffer()), application);
}

}  // namespace lathe
