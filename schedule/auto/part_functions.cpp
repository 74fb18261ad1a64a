#include "schedule/auto/part_functions.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <unordered_set>

#include "ir/structural.h"
#include "ir/visitor.h"
#include "schedule/auto/block_model.h"
#include "schedule/primitives/compute_apart.h"
#include "schedule/rewrite.h"

namespace lathe {
namespace {

/// Results that share what a function gives, from which on it is stored and loaded again rather than evaluated; and the
/// lookups that share an element of a table, of which anything is computed beforehand.
constexpr double least_sharing = 4, least_lookups = 16;

/// Bytes of a result, about.
constexpr double part_bytes = 8;

/// Parts of a body each of which is looked at whole.
constexpr size_t most_parts = 400;

struct Function {
  std::vector<size_t> iters;  ///< that it hangs on
  const Load* element;        ///< the only one that it reads
  bool looked_up;             ///< by data
  bool costs;
};

/// The elements that an expression is of, each once, without those that say where they lie.
std::vector<const Load*> elements_of(const Expr& e) {
  std::vector<const Load*> loads, places;
  const auto add = [](std::vector<const Load*>& to, const Expr& part) {
    const Load* load = part.as<Load>();
    const auto same = [&](const Load* other) { return equal(Expr(other), part); };
    if (load && std::none_of(to.begin(), to.end(), same)) to.push_back(load);
  };
  for_each_expr(e, [&](const Expr& part) { add(loads, part); });
  for (const Load* load : loads)
    for (const Expr& index : load->indices) for_each_expr(index, [&](const Expr& part) { add(places, part); });
  std::erase_if(loads, [&](const Load* load) {
    return std::any_of(places.begin(), places.end(), [&](const Load* place) { return equal(Expr(place), Expr(load)); });
  });
  return loads;
}

/// Does it evaluate something that takes as long as a function, rather than much that takes little?
bool has_function(const Expr& e) {
  bool found = false;
  for_each_expr(e, [&](const Expr& part) {
    const Unary* unary = part.as<Unary>();
    found |= unary && expression_cost(part) - expression_cost(unary->a) >= costly_body;
  });
  return found;
}

/// What is computed of elements in the block's body, outermost first.
std::vector<Function> functions_of(const Block& block) {
  std::vector<Function> found;
  // Places that take long to work out are worked out for several rows at once (vectorize_elementwise).
  std::unordered_set<const ExprNode*> places;
  size_t parts = 0;
  for_each_expr(block.f.body, [&](const Expr& e) {
    ++parts;
    const Load* load = e.as<Load>();
    for (size_t d = 0; load && parts <= most_parts && d < load->indices.size(); ++d)
      for_each_expr(load->indices[d], [&](const Expr& part) { places.insert(part.get()); });
  });
  if (parts > most_parts) return found;
  for_each_expr(block.f.body, [&](const Expr& e) {
    if (places.contains(e.get())) return;
    const bool operation = e.as<Unary>() || e.as<Binary>() || e.as<Select>() || e.as<Cast>();
    if (!operation || !e->dtype.is_float() || !e->dtype.is_scalar()) return;
    const std::vector<const Load*> elements = elements_of(e);
    if (elements.empty() ||
        std::any_of(elements.begin(), elements.end(), [&](const Load* load) { return writes(block, load->buffer); }))
      return;
    Function function{{}, elements.size() == 1 ? elements.front() : nullptr, false, has_function(e)};
    for (const Expr& index : elements.front()->indices) function.looked_up |= has_load(index);
    for (size_t i = 0; i < block.f.iters.size(); ++i)
      if (uses_var(e, block.f.iters[i].variable.get())) function.iters.push_back(i);
    found.push_back(function);
  });
  return found;
}

double instances_of(const Block& block, const std::vector<size_t>& iters, const std::vector<Fact>& facts) {
  double count = 1;
  for (const size_t i : iters) count *= static_cast<double>(extent_estimate(block.f.iters[i].domain.extent, facts));
  return count;
}

/// Blocks whose parts may be computed apart.
std::vector<BlockRef> plain_blocks(const RuleContext& context) {
  std::vector<BlockRef> plain;
  for (const BlockRef& ref : context.schedule.blocks()) {
    const Block& block = context.schedule.node(ref);
    if (!has_blocks(block) && !is_sealed(block) && !asserts(block) && !block.f.predicate) plain.push_back(ref);
  }
  return plain;
}

/// Bytes up to which results are kept: what the last cache holds, or as much as the block's own arrays take.
double most_bytes(const RuleContext& context, const Block& block) {
  const double cached = context.device.caches.empty() ? 0 : static_cast<double>(context.device.caches.back().bytes);
  return std::max(cached, bytes_of_buffers({&block}, context.schedule.func()->facts));
}

bool is_input(const Schedule& schedule, const Load& load) {
  return !is_allocated(schedule.func(), load.buffer);
}

void part_by_elements(RuleContext& context, const BlockRef& ref, const std::set<std::string>& buffers) {
  for (const std::string& buffer : buffers)
    attempt(context, fmt::format("compute what {} does to {} for each element", ref.name, buffer),
            [&] { compute_apart(context.schedule, ref, buffer); });
}

}  // namespace

void part_functions(RuleContext& context) {
  Schedule& schedule = context.schedule;
  const std::vector<Fact> facts = schedule.func()->facts;  // the Func changes
  for (const BlockRef& ref : plain_blocks(context)) {
    const Block& block = schedule.node(ref);
    const double all = instance_count(block, facts);
    std::set<std::string> buffers;
    std::set<std::vector<size_t>> domains;
    for (const Function& function : functions_of(block)) {
      if (!function.costs) continue;
      const double apart = instances_of(block, function.iters, facts);
      const double elements = function.element ? estimated_elements(function.element->buffer, facts) : 0;
      if (function.element && elements * least_sharing <= all && elements <= apart &&
          is_input(schedule, *function.element)) {
        buffers.insert(function.element->buffer->name);
      } else if (!function.iters.empty() && apart * least_sharing <= all &&
                 apart * part_bytes <= most_bytes(context, block)) {
        domains.insert(function.iters);
      }
    }
    part_by_elements(context, ref, buffers);
    for (const std::vector<size_t>& iters : domains)
      attempt(context, fmt::format("compute functions of {} axes of {} apart", iters.size(), ref.name),
              [&] { compute_apart(schedule, ref, iters); });
  }
}

void part_tables(RuleContext& context) {
  const std::vector<Fact> facts = context.schedule.func()->facts;  // the Func changes
  for (const BlockRef& ref : plain_blocks(context)) {
    const Block& block = context.schedule.node(ref);
    const double all = instance_count(block, facts);
    std::set<std::string> tables;
    for (const Function& function : functions_of(block)) {
      if (function.element && function.looked_up && is_input(context.schedule, *function.element) &&
          estimated_elements(function.element->buffer, facts) * least_lookups <= all)
        tables.insert(function.element->buffer->name);
    }
    part_by_elements(context, ref, tables);
  }
}

}  // namespace lathe
