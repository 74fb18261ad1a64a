#pragma once
#include <cstdint>
#include <optional>
#include <unordered_map>

#include "ir/func.h"

namespace lathe {

/// Integer bounds, both inclusive; a missing end is unbounded. `multiple_of` m and `remainder` r say value = r mod m.
struct Interval {
  std::optional<std::int64_t> min, max;
  std::int64_t multiple_of = 1;
  std::int64_t remainder = 0;

  static Interval point(std::int64_t value) { return {value, value, 0, value}; }
  static Interval everything() { return {}; }
  bool is_point() const { return min && max && *min == *max; }
};

/// What is known of variables at a place in a program: constant intervals, and for loop variables and iters their symbolic
/// domain; plus conditions that hold there (predicates of enclosing blocks and Ifs).
class Bounds {
 public:
  Bounds() = default;
  /// The facts and nothing else.
  explicit Bounds(const Func& func);

  void bind(const VarRef& variable, const Range& domain);
  void bind(const VarRef& variable, const Interval& interval);
  /// Let-bound: the variable equals `value`.
  void bind_value(const VarRef& variable, const Expr& value);
  /// `condition` holds from here on.
  void assume(const Expr& condition);

  /// The interval of a variable or expression; unbounded when nothing is known.
  Interval interval(const Expr& e) const;
  /// The symbolic domain a variable was bound with; null when none.
  const Range* domain(const Var* variable) const;
  const Expr* value(const Var* variable) const;
  const std::vector<Expr>& assumptions() const { return assumptions_; }

 private:
  std::unordered_map<const Var*, Interval> intervals_;
  std::unordered_map<const Var*, Range> domains_;
  std::unordered_map<const Var*, Expr> values_;
  std::vector<Expr> assumptions_;
};

}  // namespace lathe
