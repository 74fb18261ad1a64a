#include "schedule/auto/ragged.h"

#include <algorithm>

#include "ir/analysis/comparison.h"
#include "ir/visitor.h"
#include "schedule/auto/block_model.h"

namespace lathe {
namespace {

bool orders(BinaryOp op) {
  return op == BinaryOp::lt || op == BinaryOp::le || op == BinaryOp::gt || op == BinaryOp::ge;
}

/// What a comparison bounds the iter by from above, where that is not a number alone.
std::optional<Affine> bound_of(const Binary& comparison, const Expr& iter) {
  if (!orders(comparison.op) || comparison.a->dtype != i64) return std::nullopt;
  std::vector<Affine> distances;
  append_inequalities(comparison.op, comparison, distances);
  for (const Affine& form : distances) {
    if (form.terms.size() > 1 && form.coefficient(iter) < 0) return form;
  }
  return std::nullopt;
}

void add_bound(const Block& block, const Affine& form, RaggedIter& found) {
  const Expr iter(block.f.iters[found.iter].variable);
  for (const AffineTerm& term : form.terms) {
    if (term.atom == iter) continue;
    found.by_data |= has_load(term.atom);
    for (size_t i = 0; i < block.f.iters.size(); ++i) {
      if (i != found.iter && uses_var(term.atom, block.f.iters[i].variable.get())) found.by.push_back(i);
    }
  }
}

}  // namespace

std::vector<RaggedIter> ragged_iters(const Block& block) {
  std::vector<RaggedIter> found;
  for_each_expr(block.f.body, [&](const Expr& e) {
    if (!e.as<Select>() || e->dtype.lanes > 1) return;
    for_each_expr(e.as<Select>()->condition, [&](const Expr& part) {
      const Binary* comparison = part.as<Binary>();
      if (!comparison || !orders(comparison->op)) return;
      for (size_t i = 0; i < block.f.iters.size(); ++i) {
        const Iter& iter = block.f.iters[i];
        if (iter.kind != IterKind::reduce || !uses_var(part, iter.variable.get())) continue;
        const std::optional<Affine> bound = bound_of(*comparison, iter.variable);
        if (!bound) continue;
        auto known = std::find_if(found.begin(), found.end(), [&](const RaggedIter& other) { return other.iter == i; });
        if (known == found.end()) known = found.insert(known, {i, {}});
        add_bound(block, *bound, *known);
      }
    });
  });
  found.erase(std::remove_if(found.begin(), found.end(),
                             [](const RaggedIter& ragged) { return ragged.by.empty() && !ragged.by_data; }),
              found.end());
  return found;
}

std::optional<size_t> ended_by_data(const Block& block) {
  std::optional<size_t> found;
  const auto extent = [&](size_t i) { return extent_estimate(block.f.iters[i].domain.extent); };
  for (const RaggedIter& ragged : ragged_iters(block)) {
    if (ragged.by_data && (!found || extent(ragged.iter) > extent(*found))) found = ragged.iter;
  }
  return found;
}

bool ends_by_data_along(const std::vector<RaggedIter>& ragged, size_t iter) {
  return std::any_of(ragged.begin(), ragged.end(), [&](const RaggedIter& other) {
    return other.by_data && std::find(other.by.begin(), other.by.end(), iter) != other.by.end();
  });
}

}  // namespace lathe
