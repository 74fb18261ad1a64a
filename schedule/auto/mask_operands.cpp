#include "schedule/auto/mask_operands.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "ir/structural.h"
#include "ir/visitor.h"
#include "schedule/access.h"
#include "schedule/auto/block_model.h"
#include "schedule/auto/reduction_chain.h"
#include "schedule/beforehand.h"
#include "schedule/layout_map.h"
#include "schedule/primitives/reindex.h"
#include "schedule/primitives/transform_layout.h"

namespace lathe {
namespace {

/// Reads of an element for which what is read under a mask is copied: tiles read a row's element once for all their
/// columns (measured on Zen 4, triangles of 257 by 32 columns 1 of the time, with AVX2 1.24, of 401 by 64 columns 0.55
/// and 0.66). A small product waits for the copy (40x97x160: 1.28), and what is cast besides would be cast element by
/// element.
constexpr double masked_reuse = 48, least_masked_updates = 1 << 20;
/// The same where both factors are the array's, along which vectors walk under two masks (a triangle of 64 to 100 rows
/// by itself 0.6 of the time).
constexpr double least_squared_updates = 1 << 17;

/// Where the operand's dimensions first use the iters of a copy that has a dimension for each, in the operand's order.
LayoutMap as_operand_lies(const Block& reader, const Buffer& copy, const Load& operand) {
  LayoutMap map = same_layout(copy->rank());
  const Load* load = load_of(reader, copy);
  const auto dimension = [&](const Expr& place) {
    for (size_t d = 0; d < operand.indices.size(); ++d) {
      for (const VarRef& used : used_vars(place)) {
        if (uses_var(operand.indices[d], used.get())) return static_cast<int>(d);
      }
    }
    return -1;
  };
  std::vector<size_t> order(copy->rank());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return dimension(load->indices[a]) < dimension(load->indices[b]); });
  for (size_t d = 0; d < order.size(); ++d) map.to[d] = map.from[order[d]];
  return map;
}

/// Would a copy of what the iters read of the operand be no larger than that is? Windows have elements several times.
bool read_once_a_walk(const Block& block, const Load& load, const std::vector<Fact>& facts) {
  return elements_walked(block, load, facts) <= estimated_elements(load.buffer, facts);
}

/// Which element of its buffer a Load of the block reads, where there are several.
std::optional<size_t> element_number(const Block& block, const Load& load) {
  const std::vector<Expr> elements = elements_of(block, load.buffer);
  const auto own = std::find_if(elements.begin(), elements.end(), [&](const Expr& e) { return equal(e, Expr(&load)); });
  if (elements.size() < 2 || own == elements.end()) return std::nullopt;
  return static_cast<size_t>(own - elements.begin());
}

}  // namespace

void mask_operands(RuleContext& context, const BlockRef& ref) {
  Schedule& schedule = context.schedule;
  const std::vector<Fact>& facts = schedule.func()->facts;
  const double updates = instance_count(schedule.node(ref), facts);
  std::vector<const Load*> chosen, masked;
  for_each_expr(schedule.node(ref).f.body, [&](const Expr& e) {
    if (const Select* select = e.as<Select>()) {
      for_each_expr(select->when_true, [&](const Expr& arm) {
        if (const Load* load = arm.as<Load>()) chosen.push_back(load);
      });
    }
  });
  for_each_expr(schedule.node(ref).f.body, [&](const Expr& e) {
    const Load* load = e.as<Load>();
    const auto same = [&](const Load* other) { return equal(Expr(other), e); };
    if (load && load->mask && std::find(chosen.begin(), chosen.end(), load) == chosen.end() &&
        std::none_of(masked.begin(), masked.end(), same) && read_once_a_walk(schedule.node(ref), *load, facts) &&
        updates >= masked_reuse * estimated_elements(load->buffer, facts) && load->dtype.is_float() &&
        load->dtype.bits >= 32 && updates >= least_squared_updates)
      masked.push_back(load);
  });
  if (updates < least_masked_updates) {
    std::erase_if(masked, [&, all = masked](const Load* load) {
      return std::none_of(all.begin(), all.end(),
                          [&](const Load* other) { return other != load && other->buffer == load->buffer; });
    });
  }
  std::vector<Expr> kept(masked.begin(), masked.end());  // the block changes
  for (const Expr& e : kept) {
    const Load& load = *e.as<Load>();
    attempt(context, fmt::format("mask {} once for {}", load.buffer->name, ref.name), [&] {
      const BlockRef copy = reindex(schedule, ref, load.buffer->name, element_number(schedule.node(ref), load));
      const Buffer made = schedule.node(copy).f.writes[0].buffer;
      transform_layout(schedule, ref, made->name, as_operand_lies(schedule.node(ref), made, load));
    });
  }
}

}  // namespace lathe
