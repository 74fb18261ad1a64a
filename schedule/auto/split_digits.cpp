#include "schedule/auto/split_digits.h"

#include <fmt/format.h>

#include <algorithm>

#include "ir/error.h"
#include "ir/visitor.h"
#include "schedule/access.h"
#include "schedule/auto/block_model.h"
#include "schedule/auto/cut_choices.h"
#include "schedule/auto/vector_loop.h"
#include "schedule/auto/vectorize_elementwise.h"
#include "schedule/primitives/split_iter.h"
#include "schedule/rewrite.h"

namespace lathe {
namespace {

constexpr std::int64_t largest_product = std::int64_t{1} << 40;

/// What the body divides a variable by: c of v // c and v % c, and c * n of v // c % n.
struct Divisors {
  std::vector<std::int64_t> found;
  bool remainders = false;
};

/// A constant divisor, and what it divides.
const Binary* division(const Expr& e, BinaryOp op, std::int64_t* divisor) {
  const Binary* node = e.as<Binary>();
  const std::int64_t* value = node && node->op == op ? as_int(node->b) : nullptr;
  if (!value || *value < 2) return nullptr;
  *divisor = *value;
  return node;
}

Divisors divisors_of(const Block& block, const VarRef& variable) {
  Divisors divisors;
  const Expr whole(variable);
  for_each_expr(block.f.body, [&](const Expr& e) {
    std::int64_t c = 0, n = 0;
    const Binary* quotient = division(e, BinaryOp::floor_div, &c);
    if (quotient && quotient->a == whole) divisors.found.push_back(c);
    const Binary* remainder = division(e, BinaryOp::floor_mod, &n);
    if (!remainder) return;
    const Binary* inner = division(remainder->a, BinaryOp::floor_div, &c);
    if (remainder->a == whole) {
      divisors.found.push_back(n);
    } else if (inner && inner->a == whole && n < largest_product / c) {
      divisors.found.push_back(c * n);
    } else {
      return;
    }
    divisors.remainders = true;
  });
  std::sort(divisors.found.rbegin(), divisors.found.rend());
  divisors.found.erase(std::unique(divisors.found.begin(), divisors.found.end()), divisors.found.end());
  return divisors;
}

/// Looks for quotients and remainders of a variable in values, conditions and masks, not in places.
class ValueDigits : public Visitor {
 public:
  explicit ValueDigits(const VarRef& variable) : variable_(variable) {}
  using Visitor::visit;
  void visit(const Expr& e) override {
    if (!e || found || !seen_.insert(e.get())) return;
    const Binary* node = e.as<Binary>();
    found =
        node && (node->op == BinaryOp::floor_div || node->op == BinaryOp::floor_mod) && uses_var(e, variable_.get());
    Visitor::visit(e);
  }
  bool found = false;

 protected:
  void visit_Load(const Load* node) override { visit(node->mask); }
  void visit_Store(const Store* node) override {
    visit(node->value);
    visit(node->mask);
  }

 private:
  const VarRef& variable_;
  NodeSet<const ExprNode*> seen_;
};

/// Does the block take the iter apart, other than at places that go on by a step all the same?
bool takes_apart(const Block& block, size_t iter) {
  const Accesses accesses = block_accesses(block);
  if (!std::all_of(accesses.begin(), accesses.end(), [&](const Access& a) { return a.strides[iter].has_value(); }))
    return true;
  ValueDigits digits(block.f.iters[iter].variable);
  digits.visit(block.f.body);
  return digits.found;
}

bool is_element_wise(const Block& block) {
  return only_space(block) && !block.f.init && !has_blocks(block);
}

/// Are stores along whole vectors of a row? Short rows are woven.
bool fills_vectors(const RuleContext& context, const BlockRef& ref) {
  const Block& block = context.schedule.node(ref);
  const Accesses accesses = block_accesses(block);
  for (size_t i = 0; i < block.f.iters.size(); ++i) {
    if (stores_in_a_row(accesses, i))
      return extent_estimate(block.f.iters[i].domain.extent) >= vector_lanes(block, context.device);
  }
  return false;
}

}  // namespace

std::vector<std::int64_t> digits_of(const Schedule& schedule, const BlockRef& ref, const LoopRef& loop) {
  const Block& block = schedule.node(ref);
  const auto bound = std::find(block.f.bindings.begin(), block.f.bindings.end(), Expr(loop.variable));
  if (bound == block.f.bindings.end()) return {};
  const Iter& iter = block.f.iters[static_cast<size_t>(bound - block.f.bindings.begin())];
  const std::int64_t* extent = as_int(iter.domain.extent);
  if (!extent) return {};
  if (!takes_apart(block, static_cast<size_t>(bound - block.f.bindings.begin()))) return {};
  Divisors divisors = divisors_of(block, iter.variable);
  std::erase_if(divisors.found, [&](std::int64_t c) { return c >= *extent; });
  if (!divisors.remainders) return {};
  std::int64_t around = *extent;
  for (const std::int64_t c : divisors.found) {
    if (around % c != 0) return {};
    around = c;
  }
  return divisors.found;
}

void split_by_digits(Schedule& schedule, const BlockRef& block, const LoopRef& loop) {
  LoopRef rest = loop;
  for (auto left = digits_of(schedule, block, loop); !left.empty(); left = digits_of(schedule, block, rest))
    rest = split_iter(schedule, block, rest, left.front()).second;
}

void split_digits(RuleContext& context) {
  Schedule& schedule = context.schedule;
  for (const BlockRef& ref : schedule.blocks()) {
    if (context.scheduled.contains(ref.name) || !is_element_wise(schedule.node(ref))) continue;
    bool split = false;
    for (const LoopRef& loop : own_loops(schedule, ref)) {
      const std::vector<std::int64_t> splits = digits_of(schedule, ref, loop);
      if (splits.empty()) continue;
      const double before = elementwise_cost(context, ref);
      split |=
          attempt(context, fmt::format("split {} of {} by {}", loop.variable->name, ref.name, splits.front()), [&] {
            split_by_digits(schedule, ref, loop);
            if (elementwise_cost(context, ref) >= before) throw Refusal("split_digits", 3, "an element costs no less");
          });
    }
    if (split && fills_vectors(context, ref)) cut_block(context, ref);
  }
}

}  // namespace lathe
