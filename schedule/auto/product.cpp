#include "schedule/auto/product.h"

#include <algorithm>
#include <utility>

#include "ir/analysis/affine.h"
#include "ir/reduction.h"
#include "ir/visitor.h"
#include "schedule/auto/block_model.h"
#include "schedule/auto/reduction_chain.h"
#include "schedule/auto/tile_operands.h"

namespace lathe {
namespace {

/// The iters that an index is made of, each a digit of a number whose lower digits are those before: one iter, or what
/// is left of an axis that was cut. Nothing for any other index.
std::optional<Axes> digits_of(const Block& block, const Expr& index) {
  Affine form = to_affine(index);
  if (form.constant != 0) return std::nullopt;
  std::sort(form.terms.begin(), form.terms.end(),
            [](const AffineTerm& a, const AffineTerm& b) { return a.coefficient < b.coefficient; });
  Axes digits;
  std::int64_t place = 1;
  for (const AffineTerm& term : form.terms) {
    const auto iter = iter_at(block, term.atom);
    const auto extent = iter ? constant_extent(block, *iter) : std::nullopt;
    // One step is no digit, wherever its place is.
    if (!extent || (term.coefficient != place && extent != 1)) return std::nullopt;
    digits.push_back(*iter);
    place *= *extent;
  }
  return digits;
}

/// The iters of indices that several make up; nothing where an index of a load is anything else but an iter of its own,
/// or no function of any.
std::optional<Axes> cut_iters(const Block& block) {
  bool plain = true;
  Axes cut;
  for_each_expr(block.f.body, [&](const Expr& e) {
    const Load* load = e.as<Load>();
    if (!load || !plain) return;
    Axes seen;
    for (const Expr& index : load->indices) {
      if (as_int(index)) continue;
      const auto digits = digits_of(block, index);
      plain &= digits && std::none_of(digits->begin(), digits->end(),
                                      [&](size_t i) { return std::find(seen.begin(), seen.end(), i) != seen.end(); });
      if (!plain) return;
      seen.insert(seen.end(), digits->begin(), digits->end());
      if (digits->size() > 1) cut.insert(cut.end(), digits->begin(), digits->end());
    }
  });
  return plain ? std::optional(cut) : std::nullopt;
}

}  // namespace

std::optional<Product> find_product(const Block& block) {
  const std::optional<ReductionParts> parts = match_update(block);
  if (!parts || parts->outputs.size() != 1 || !block.f.init || block.f.predicate) return std::nullopt;
  const std::optional<Axes> cut = cut_iters(block);
  if (!cut) return std::nullopt;
  Product product;
  std::vector<Walked> loads;
  for (const Access& access : block_accesses(block)) {
    Walked walked{access.buffer, {}};
    for (const auto& stride : access.strides) {
      if (stride) walked.strides.push_back(*stride);
    }
    if (access.masked || walked.strides.size() < access.strides.size()) return std::nullopt;
    if (access.buffer != parts->outputs[0].buffer) {
      loads.push_back(std::move(walked));
    } else if (access.store) {
      product.result = std::move(walked);
    }
  }
  if (loads.size() != 2 || loads[0].buffer == loads[1].buffer) return std::nullopt;
  product.left = std::move(loads[0]);
  product.right = std::move(loads[1]);
  for (size_t i = 0; i < block.f.iters.size(); ++i) {
    const auto extent = constant_extent(block, i);
    if (!extent || *extent < 1 || !is_int(block.f.iters[i].domain.min, 0)) return std::nullopt;
    product.extents.push_back(*extent);
    if (*extent == 1) continue;
    const bool in_left = product.left.strides[i] != 0, in_right = product.right.strides[i] != 0,
               space = block.f.iters[i].kind == IterKind::space;
    if (space != (product.result.strides[i] != 0) || (!in_left && !in_right)) return std::nullopt;
    if (space) {
      (in_left && in_right ? product.batch : in_left ? product.rows : product.columns).push_back(i);
    } else {
      if (!in_left || !in_right) return std::nullopt;
      product.summed.push_back(i);
    }
  }
  // Parts of a sum are a batch. Windows that slide over one operand are not: they would be copied apart.
  const bool slides = std::any_of(cut->begin(), cut->end(), [&](size_t i) {
    return (product.left.strides[i] == 0) != (product.right.strides[i] == 0);
  });
  if (slides) return std::nullopt;
  return product.summed.empty() ? std::nullopt : std::optional(std::move(product));
}

bool lies_as_one(const Walked& access, const Axes& axes, const Product& product) {
  for (size_t i = 0; i + 1 < axes.size(); ++i) {
    if (access.strides[axes[i]] != access.strides[axes[i + 1]] * product.extents[axes[i + 1]]) return false;
  }
  return true;
}

}  // namespace lathe
