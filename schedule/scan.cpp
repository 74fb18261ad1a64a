#include "schedule/scan.h"

#include <algorithm>

#include "ir/analysis/simplify.h"
#include "ir/reduction.h"
#include "ir/storage.h"
#include "ir/structural.h"
#include "ir/visitor.h"
#include "schedule/access.h"

namespace lathe {
namespace {

bool combines(BinaryOp op) {
  return op == BinaryOp::add || op == BinaryOp::mul || op == BinaryOp::min || op == BinaryOp::max ||
         op == BinaryOp::logical_and || op == BinaryOp::logical_or;
}

/// Is the condition false at the iter's first value, and true at all others?
bool tells_first(const Iter& iter, const Expr& condition) {
  Bounds first, later;
  first.bind(iter.variable, Range{iter.domain.min, index(1)});
  later.bind(iter.variable, Range{iter.domain.min + 1, iter.domain.extent - 1});
  return proves(first, logical_not(condition)) && proves(later, condition);
}

bool is_zero(const Expr& e) {
  return equal(e, constant(e->dtype, 0));
}

/// Is `e` what the iter's instance before this one stored, and the identity at the first?
bool is_previous(const Expr& e, const Store& store, const Iter& iter, size_t dimension, const Expr& identity) {
  const Select* select = e.as<Select>();
  if (select && (!equal(select->when_false, identity) || !tells_first(iter, select->condition))) return false;
  const Load* load = (select ? select->when_true : e).as<Load>();
  if (!load || load->buffer != store.buffer || load->indices.size() != store.indices.size()) return false;
  // A false mask gives zero; and without one the step before the first would be read.
  if (!load->mask || !tells_first(iter, load->mask) || (!select && !is_zero(identity))) return false;
  for (size_t d = 0; d < load->indices.size(); ++d) {
    if (constant_difference(store.indices[d], load->indices[d]) != (d == dimension ? 1 : 0)) return false;
  }
  return true;
}

bool touches(const Expr& e, const Buffer& buffer) {
  bool found = false;
  for_each_expr(e, [&](const Expr& node) {
    if (const Load* load = node.as<Load>()) found |= storage_of(load->buffer) == storage_of(buffer);
    if (const AddressOf* address = node.as<AddressOf>()) found |= storage_of(address->buffer) == storage_of(buffer);
  });
  return found;
}

}  // namespace

std::optional<ScanParts> match_scan(const Block& block) {
  if (block.f.reducer || block.f.init || !block.f.allocs.empty()) return std::nullopt;
  std::optional<size_t> ordered;
  for (size_t i = 0; i < block.f.iters.size(); ++i) {
    const IterKind kind = block.f.iters[i].kind;
    if (kind == IterKind::ordered && !ordered) {
      ordered = i;
    } else if (kind != IterKind::space) {
      return std::nullopt;
    }
  }
  if (!ordered) return std::nullopt;
  std::vector<Stmt> lets;
  Stmt body = block.f.body;
  for (; body.as<Let>(); body = body.as<Let>()->body) lets.push_back(body);
  const Store* store = body.as<Store>();
  const Binary* value = store ? store->value.as<Binary>() : nullptr;
  if (!value || store->mask || !value->dtype.is_scalar() || !combines(value->op)) return std::nullopt;

  const Iter& iter = block.f.iters[*ordered];
  std::optional<size_t> dimension;
  for (size_t d = 0; d < store->indices.size(); ++d) {
    if (!uses_var(store->indices[d], iter.variable.get())) continue;
    if (dimension || store->indices[d] != Expr(iter.variable)) return std::nullopt;
    dimension = d;
  }
  if (!dimension) return std::nullopt;
  const Expr identity = simple_reducer(value->op, value->dtype).identities[0];
  Expr term;
  if (is_previous(value->a, *store, iter, *dimension, identity)) {
    term = value->b;
  } else if (is_previous(value->b, *store, iter, *dimension, identity)) {
    term = value->a;
  }
  if (!term || touches(term, store->buffer)) return std::nullopt;
  const bool reads_in_lets =
      std::any_of(lets.begin(), lets.end(), [&](const Stmt& s) { return touches(s.as<Let>()->value, store->buffer); });
  const bool indexes_by_data = std::any_of(store->indices.begin(), store->indices.end(), [&](const Expr& e) {
    return std::any_of(lets.begin(), lets.end(),
                       [&](const Stmt& s) { return uses_var(e, s.as<Let>()->variable.get()); });
  });
  if (reads_in_lets || indexes_by_data) return std::nullopt;
  return ScanParts{*ordered, *dimension, value->op, store, term, std::move(lets)};
}

}  // namespace lathe
