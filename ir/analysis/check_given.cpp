#include "ir/analysis/check_given.h"

#include <fmt/format.h>

#include <algorithm>

#include "ir/analysis/step_visitor.h"
#include "ir/analysis/verify_rules.h"
#include "ir/error.h"
#include "ir/text/print.h"

namespace lathe {
namespace {

/// One lane of an index, a scalar; null where its form does not say it.
Expr lane_of(const Expr& e, int lane) {
  if (e->dtype.is_scalar()) return e;
  if (const auto* ramp = e.as<Ramp>()) {
    if (!ramp->base->dtype.is_scalar()) return nullptr;
    return ramp->base + ramp->stride * index(lane);
  }
  if (const auto* broadcast = e.as<Broadcast>()) return lane_of(broadcast->value, 0);
  if (const auto* binary = e.as<Binary>()) {
    const Expr a = lane_of(binary->a, lane), b = lane_of(binary->b, lane);
    return a && b ? Binary::make(binary->op, a, b) : nullptr;
  }
  return nullptr;
}

/// Looks for accesses that leave their buffer at some point of a run, with what guards them counted as holding.
class OutOfBounds : public StepVisitor {
 public:
  explicit OutOfBounds(Report& report) : report_(report) {}
  using Visitor::visit;

 protected:
  void visit_Load(const Load* node) override {
    check(node->buffer, node->indices, node->mask);
    Visitor::visit_Load(node);
  }
  void visit_Store(const Store* node) override {
    check(node->buffer, node->indices, node->mask);
    Visitor::visit_Store(node);
  }
  void visit_Select(const Select* node) override {
    visit(node->condition);
    const bool scalar = node->condition->dtype.is_scalar();
    within(scalar ? Step::of_condition(node->condition) : Step::of_unknown(), node->when_true);
    within(scalar ? Step::of_condition(logical_not(node->condition)) : Step::of_unknown(), node->when_false);
  }

 private:
  void check(const Buffer& buffer, const std::vector<Expr>& indices, const Expr& mask) {
    if (indices.size() != buffer->rank() || (mask && !mask->dtype.is_scalar())) return;
    std::vector<Step> steps = steps_;
    if (mask) steps.push_back(Step::of_condition(mask));
    Bounds bounds(report_.func());
    assume_steps(bounds, steps);
    for (size_t d = 0; d < indices.size(); ++d) {
      const int lanes = indices[d]->dtype.lanes;
      for (int lane = 0; lane < lanes; lane += std::max(lanes - 1, 1)) {  // the ends
        const Expr at = lane_of(indices[d], lane);
        if (!at) continue;
        const Expr inside = logical_and(le(index(0), at), lt(at, buffer->shape[d]));
        const Decision decision = decide(report_.func(), bounds, steps, inside);
        if (decision.verdict != Verdict::wrong) continue;
        return report_.wrong("access.in_bounds",
                             fmt::format("{} lies in dimension {} of {}: not so at {}", print(indices[d]), d,
                                         print(full_region(buffer)), decision.witness));
      }
    }
  }

  Report& report_;
};

}  // namespace

void check_given(const Func& func) {
  Report report(func);
  std::vector<Finding> findings = verify(func);
  if (std::none_of(findings.begin(), findings.end(), [](const Finding& finding) { return finding.proved_wrong; })) {
    OutOfBounds(report).visit(func->body);
    findings = report.take();
  }
  for (const Finding& finding : findings) {
    if (!finding.proved_wrong) continue;
    throw InputError(Mistake::value, fmt::format("{} breaks {}: {}", func->name, finding.rule, finding.message));
  }
}

}  // namespace lathe
