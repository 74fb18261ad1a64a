#include "ir/analysis/verify.h"

#include <fmt/format.h>

#include "ir/analysis/verify_rules.h"
#include "ir/error.h"
#include "ir/text/print.h"

namespace lathe {
namespace {

constexpr Rule rules[] = {
    {"scope.variable_bound", Stage::begin, Stage::end, "every variable that is used is bound where it is used"},
    {"scope.bound_once", Stage::begin, Stage::end, "a variable is bound, and a buffer declared, at one place"},
    {"scope.buffer_declared", Stage::begin, Stage::end,
     "a buffer is a parameter, an allocation of an enclosing block, a constant, or has been planned"},
    {"types.consistent", Stage::begin, Stage::end, "a node has the type that its operands give it"},
    {"access.index_count", Stage::begin, Stage::end, "one index a dimension before flatten, exactly one from then on"},
    {"access.in_bounds", Stage::begin, Stage::end,
     "of a program from outside (check_given): no access leaves its buffer at a point of a run that can be named"},
    {"access.register_index", Stage::before_emit, Stage::end,
     "an index into registers is a constant, or a ramp from a constant"},
    {"access.register_address", Stage::begin, Stage::end, "registers have no address"},
    {"loop.constant_extent", Stage::begin, Stage::end, "vectorized and unrolled loops have constant extents"},
    {"stage.blocks_lowered", Stage::flatten, Stage::end, "blocks are bare scopes of allocations"},
    {"space.axis", Stage::begin, Stage::end,
     "a bound loop runs along an axis that the device has, within its positions"},
    {"space.known", Stage::begin, Stage::end, "a buffer lies in a space that the device has"},
    {"space.reachable", Stage::begin, Stage::end,
     "whoever loads or stores can reach the space: the host outside of loops along an axis, one of the axes inside; "
     "inside, a store of nothing but a load may be a copy that the device has"},
    {"block.region_rank", Stage::begin, Stage::before_flatten,
     "a region has one range for each dimension of its buffer"},
    {"block.own_variables", Stage::begin, Stage::before_flatten,
     "promise 1: a block uses no loop variable from outside, only its own iters, parameters and enclosing blocks' "
     "iters"},
    {"block.reads_cover", Stage::begin, Stage::before_flatten, "promise 2: the reads cover every load of one instance"},
    {"block.writes_cover", Stage::begin, Stage::before_flatten,
     "promise 2: the writes cover every store of one instance"},
    {"block.bindings_in_domain", Stage::begin, Stage::before_flatten,
     "promise 3: for all iterations that satisfy the predicate, bindings lie in their iters' domains"},
    {"block.space_iters_independent", Stage::begin, Stage::before_flatten,
     "promise 4: no instance touches what an instance of other space iters (and the same ordered ones) writes"},
    {"block.reduction_canonical", Stage::begin, Stage::before_flatten,
     "promise 5: a block with reduce iters is the canonical update of its reducer"},
    {"block.reduce_iters_not_at_once", Stage::begin, Stage::before_flatten,
     "promise 5: no loop that drives a reduce iter is parallel, vectorized or bound"},
    {"block.ordered_iters_in_order", Stage::begin, Stage::before_flatten,
     "promise 6: ordered iters never fall as their loops run, and no such loop is parallel, vectorized or bound"},
    {"block.init_per_space_point", Stage::begin, Stage::before_flatten,
     "an init stores to each output once, at its place, and depends on no reduce iter"},
};

}  // namespace

std::span<const Rule> verify_rules() {
  return rules;
}

void Report::add(const char* rule, bool proved_wrong, const std::string& message) {
  const auto known = std::find_if(std::begin(rules), std::end(rules), [&](const Rule& r) { return r.name == rule; });
  LATHE_CHECK(known != std::end(rules), rule);
  if (stage() < known->first || stage() > known->last) return;
  for (const Finding& finding : findings_) {
    if (finding.rule == rule && finding.message == message) return;
  }
  findings_.push_back({rule, proved_wrong, message});
}

void Report::decided(const char* rule, const Decision& decision, const std::string& message) {
  if (decision.verdict == Verdict::wrong) wrong(rule, fmt::format("{}: not so at {}", message, decision.witness));
  if (decision.verdict == Verdict::unknown) unproved(rule, message + ": it could not be proved");
}

std::vector<Finding> verify(const Func& func) {
  Report report(func);
  check_names(report);
  check_accesses(report);
  std::vector<Finding> findings = report.take();
  // The promises are proved with tools that expect a well-formed program.
  if (!findings.empty()) return findings;
  check_promises(report);
  return report.take();
}

std::vector<Finding> verify_spaces(const Func& func, const Device& device) {
  Report report(func);
  check_spaces(report, device);
  return report.take();
}

void check_verified(const Func& func, const std::string& after, const Device* device) {
  std::vector<Finding> findings = verify(func);
  if (device) {
    for (Finding& finding : verify_spaces(func, *device)) findings.push_back(std::move(finding));
  }
  for (const Finding& finding : findings) {
    if (!finding.proved_wrong) continue;
    throw Bug(
        fmt::format("after {}, {} breaks {}: {}\n{}", after, func->name, finding.rule, finding.message, print(func)));
  }
}

}  // namespace lathe
