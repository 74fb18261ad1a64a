#pragma once
#include <functional>
#include <optional>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "ir/analysis/interval.h"
#include "ir/func.h"

namespace lathe {

/// Values of variables at one point of a run.
using Environment = std::unordered_map<const Var*, std::int64_t>;

/// The value of a scalar i64 or bool expression without loads; nothing when a variable has none, or on any other type.
std::optional<std::int64_t> evaluate(const Expr& e, const Environment& environment);

/// One thing that stands between the start of a Func and a place in its body.
struct Step {
  enum class Kind : std::uint8_t { loop, value, iter, condition, unknown };
  Kind kind;
  VarRef variable;  ///< of loop, value and iter
  Range domain;     ///< of loop and iter
  Expr expr;        ///< what a value or iter is bound to; the condition that holds
  const For* loop = nullptr;

  static Step of_loop(const For* loop) {
    return {Kind::loop, loop->variable, {loop->min, loop->extent}, nullptr, loop};
  }
  static Step of_value(VarRef variable, Expr value) { return {Kind::value, std::move(variable), {}, std::move(value)}; }
  static Step of_iter(const Iter& iter, Expr binding) {
    return {Kind::iter, iter.variable, iter.domain, std::move(binding)};
  }
  static Step of_condition(Expr condition) { return {Kind::condition, nullptr, {}, std::move(condition)}; }
  /// Whether this place is reached depends on something that cannot be known (a While).
  static Step of_unknown() { return {Kind::unknown, nullptr, {}, nullptr}; }
};

/// Adds what the steps say to `bounds`: an iter lies in its domain, as its block promises, and is what it is bound to.
void assume_steps(Bounds& bounds, const std::vector<Step>& steps, size_t from = 0);

/// Runs through points that lie on every path of the steps: all of a loop up to `most` iterations, few of a longer one,
/// but always its first ones and its last. `budget` bounds the steps that are taken.
class Enumeration {
 public:
  explicit Enumeration(const Func& func, int budget = 4000, std::int64_t most = 8);

  /// Calls `at` with parameter values that satisfy the facts, for a few choices of them; stops when it returns true.
  bool with_parameters(const std::function<bool(Environment&)>& at);
  /// Loops that nothing here depends on run once: only variables that `roots` use, or what decides whether and how
  /// often the steps run, take several values.
  void focus(const std::vector<Step>& steps, const std::vector<Expr>& roots);
  /// Calls `at` at each point of steps[from, to); stops when it returns true, and then is true. Points that cannot be
  /// evaluated are left out.
  bool run(const std::vector<Step>& steps, size_t from, size_t to, Environment& environment,
           const std::function<bool(Environment&)>& at);
  /// False once any point was left out: then what was seen is not all that there is.
  bool complete() const { return complete_; }
  /// Some other part of what was to be seen was left out.
  void miss() { complete_ = false; }
  bool exhausted() const { return budget_ <= 0; }

 private:
  std::vector<VarRef> parameters_;
  std::vector<Fact> facts_;
  std::unordered_set<const Var*> needed_;
  bool focused_ = false;
  int budget_;
  std::int64_t most_;
  bool complete_ = true;
};

enum class Verdict : std::uint8_t { proved, wrong, unknown };
struct Decision {
  Verdict verdict;
  std::string witness;  ///< "i = 3, j = 0" when wrong
};

/// Does `condition` hold whenever the end of `steps` is reached? `bounds` knows the same steps.
Decision decide(const Func& func, const Bounds& bounds, const std::vector<Step>& steps, const Expr& condition);

/// "i = 3, j = 0": the variables of the steps and the scalar parameters, as far as they have values.
std::string describe(const Func& func, const std::vector<Step>& steps, const Environment& environment);

}  // namespace lathe
