#include "ir/analysis/witness.h"

#include <fmt/format.h>

#include <algorithm>

#include "ir/analysis/fold.h"
#include "ir/analysis/simplify.h"
#include "ir/visitor.h"

namespace lathe {
namespace {

std::optional<std::int64_t> evaluate_binary(const Binary* node, const Environment& environment) {
  const std::optional<std::int64_t> a = evaluate(node->a, environment);
  if (!a) return std::nullopt;
  const std::optional<std::int64_t> b = evaluate(node->b, environment);
  if (!b) return std::nullopt;
  const Expr folded = fold_binary(node->op, IntImm::make(node->a->dtype, *a), IntImm::make(node->b->dtype, *b));
  const std::int64_t* value = folded ? as_int(folded) : nullptr;
  return value ? std::optional(*value) : std::nullopt;
}

/// Values of one loop: all of a short one, else its ends and its middle; the ends first, where mistakes are.
std::vector<std::int64_t> samples(std::int64_t min, std::int64_t extent, std::int64_t most, bool* all) {
  std::vector<std::int64_t> values;
  if (extent <= most) {
    for (std::int64_t i = 0; i < extent; ++i) values.push_back(min + i);
    return values;
  }
  *all = false;
  for (const std::int64_t i : {std::int64_t{0}, extent - 1, std::int64_t{1}, std::int64_t{2}, extent / 2, extent - 2}) {
    values.push_back(min + i);
  }
  return values;
}

/// Does nothing ever get past one of the steps: a loop without iterations, a condition that is false?
bool never_pass(const std::vector<Step>& steps) {
  return std::any_of(steps.begin(), steps.end(), [](const Step& step) {
    if (step.kind == Step::Kind::loop) {
      const std::optional<std::int64_t> extent = evaluate(step.domain.extent, {});
      return extent && *extent <= 0;
    }
    return step.kind == Step::Kind::condition && evaluate(step.expr, {}) == 0;
  });
}

}  // namespace

std::optional<std::int64_t> evaluate(const Expr& e, const Environment& environment) {
  if (!e->dtype.is_scalar() || (e->dtype != i64 && e->dtype != boolean)) return std::nullopt;
  switch (e->kind) {
    case ExprKind::IntImm:
      return e.as<IntImm>()->value;
    case ExprKind::Var: {
      const auto found = environment.find(e.as<Var>());
      return found == environment.end() ? std::nullopt : std::optional(found->second);
    }
    case ExprKind::Unary: {
      const auto* node = e.as<Unary>();
      const std::optional<std::int64_t> a = evaluate(node->a, environment);
      const Expr folded = a ? fold_unary(node->op, IntImm::make(node->a->dtype, *a)) : nullptr;
      return folded && as_int(folded) ? std::optional(*as_int(folded)) : std::nullopt;
    }
    case ExprKind::Binary:
      return evaluate_binary(e.as<Binary>(), environment);
    case ExprKind::Select: {
      const auto* node = e.as<Select>();
      const std::optional<std::int64_t> condition = evaluate(node->condition, environment);
      if (!condition) return std::nullopt;
      return evaluate(*condition ? node->when_true : node->when_false, environment);
    }
    default:
      return std::nullopt;
  }
}

void assume_steps(Bounds& bounds, const std::vector<Step>& steps, size_t from) {
  for (size_t i = from; i < steps.size(); ++i) {
    const Step& step = steps[i];
    switch (step.kind) {
      case Step::Kind::loop:
        bounds.bind(step.variable, step.domain);
        break;
      case Step::Kind::iter:
        bounds.bind(step.variable, step.domain);
        bounds.bind_value(step.variable, step.expr);
        break;
      case Step::Kind::value:
        bounds.bind_value(step.variable, step.expr);
        break;
      case Step::Kind::condition:
        bounds.assume(step.expr);
        break;
      case Step::Kind::unknown:
        break;
    }
  }
}

Enumeration::Enumeration(const Func& func, int budget, std::int64_t most)
    : parameters_(scalar_params(func)), facts_(func->facts), budget_(budget), most_(most) {}

bool Enumeration::with_parameters(const std::function<bool(Environment&)>& at) {
  constexpr std::int64_t choices[] = {2, 7, 33};
  if (!parameters_.empty()) complete_ = false;
  for (const std::int64_t choice : choices) {
    Environment environment;
    bool possible = true;
    for (const VarRef& parameter : parameters_) {
      if (parameter->dtype != i64) continue;
      std::int64_t low = choice;
      for (const Fact& fact : facts_) {
        if (fact.variable != parameter) continue;
        if (fact.min) low = std::max(low, *fact.min);
        const std::int64_t factor = std::max<std::int64_t>(fact.multiple_of, 1);
        low = (low + factor - 1) / factor * factor;
        if (fact.max && low > *fact.max) low = *fact.max / factor * factor;
      }
      environment[parameter.get()] = low;
    }
    for (const Fact& fact : facts_) {
      if (fact.equals) {
        const std::optional<std::int64_t> value = evaluate(fact.equals, environment);
        if (value) environment[fact.variable.get()] = *value;
      }
    }
    for (const Fact& fact : facts_) {
      const auto found = environment.find(fact.variable.get());
      if (found == environment.end()) continue;
      const std::int64_t value = found->second;
      possible &= (!fact.min || value >= *fact.min) && (!fact.max || value <= *fact.max);
      possible &= fact.multiple_of <= 1 || value % fact.multiple_of == 0;
      possible &= !fact.equals || evaluate(fact.equals, environment) == value;
    }
    if (possible && at(environment)) return true;
    if (parameters_.empty()) break;
  }
  return false;
}

void Enumeration::focus(const std::vector<Step>& steps, const std::vector<Expr>& roots) {
  focused_ = true;
  const auto need = [&](const Expr& e) {
    if (!e) return;
    for (const VarRef& variable : used_vars(e)) needed_.insert(variable.get());
  };
  for (const Expr& root : roots) need(root);
  for (size_t i = steps.size(); i-- > 0;) {
    const Step& step = steps[i];
    if (step.kind == Step::Kind::condition) need(step.expr);
    if (step.kind == Step::Kind::loop) {
      need(step.domain.min);
      need(step.domain.extent);
    }
    if (step.variable && needed_.contains(step.variable.get())) need(step.expr);
  }
}

bool Enumeration::run(const std::vector<Step>& steps, size_t from, size_t to, Environment& environment,
                      const std::function<bool(Environment&)>& at) {
  if (--budget_ <= 0) {
    complete_ = false;
    return false;
  }
  if (from == to) return at(environment);
  const Step& step = steps[from];
  const auto leave_out = [&] {
    complete_ = false;
    return false;
  };
  switch (step.kind) {
    case Step::Kind::unknown:
      return leave_out();
    case Step::Kind::condition: {
      const std::optional<std::int64_t> holds = evaluate(step.expr, environment);
      if (!holds) return leave_out();
      return *holds && run(steps, from + 1, to, environment, at);
    }
    case Step::Kind::value:
    case Step::Kind::iter: {
      // A value that cannot be computed stays without: what does not use it can still be decided.
      const std::optional<std::int64_t> value = evaluate(step.expr, environment);
      if (value) environment[step.variable.get()] = *value;
      const bool found = run(steps, from + 1, to, environment, at);
      if (!found) environment.erase(step.variable.get());
      return found;
    }
    case Step::Kind::loop: {
      const std::optional<std::int64_t> min = evaluate(step.domain.min, environment);
      const std::optional<std::int64_t> extent = evaluate(step.domain.extent, environment);
      if (!min || !extent) return leave_out();
      const bool once = focused_ && *extent > 1 && !needed_.contains(step.variable.get());
      for (const std::int64_t value : samples(*min, once ? 1 : *extent, most_, &complete_)) {
        environment[step.variable.get()] = value;
        if (run(steps, from + 1, to, environment, at)) return true;
      }
      environment.erase(step.variable.get());
      return false;
    }
  }
  return false;
}

std::string describe(const Func& func, const std::vector<Step>& steps, const Environment& environment) {
  std::string text;
  const auto add = [&](const VarRef& variable) {
    const auto found = environment.find(variable.get());
    if (found == environment.end()) return;
    text += fmt::format("{}{} = {}", text.empty() ? "" : ", ", variable->name, found->second);
  };
  for (const VarRef& parameter : scalar_params(func)) add(parameter);
  for (const Step& step : steps) {
    if (step.kind == Step::Kind::loop) add(step.variable);
  }
  return text.empty() ? "the only instance" : text;
}

Decision decide(const Func& func, const Bounds& bounds, const std::vector<Step>& steps, const Expr& condition) {
  if (proves(bounds, condition) || never_pass(steps)) return {Verdict::proved, {}};
  Enumeration points(func);
  points.focus(steps, {condition});
  std::string witness;
  bool evaluated = true;
  const bool wrong = points.with_parameters([&](Environment& environment) {
    return points.run(steps, 0, steps.size(), environment, [&](Environment& at) {
      const std::optional<std::int64_t> holds = evaluate(condition, at);
      evaluated &= holds.has_value();
      if (!holds || *holds) return false;
      witness = describe(func, steps, at);
      return true;
    });
  });
  if (wrong) return {Verdict::wrong, witness};
  return {evaluated && points.complete() ? Verdict::proved : Verdict::unknown, {}};
}

}  // namespace lathe
