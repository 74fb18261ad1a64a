#pragma once
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "ir/analysis/affine.h"
#include "ir/func.h"

namespace lathe {

/// Integer bounds, both inclusive; a missing end is unbounded. `multiple_of` m and `remainder` r say value = r mod m
/// (m = 0: value = r). Operations keep every value that the operands allow; ends past 2^62 become unbounded.
struct Interval {
  std::optional<std::int64_t> min, max;
  std::int64_t multiple_of = 1;
  std::int64_t remainder = 0;

  static Interval point(std::int64_t value) { return {value, value, 0, value}; }
  static Interval between(std::int64_t min, std::int64_t max);
  static Interval everything() { return {}; }
  /// All values of an integer or bool type.
  static Interval of(DType dtype);
  /// The one value, if there is one only.
  std::optional<std::int64_t> as_point() const { return min == max ? min : std::nullopt; }
  bool is_bounded() const { return min && max; }
  bool contains(std::int64_t value) const;
};

Interval operator+(const Interval& a, const Interval& b);
Interval operator-(const Interval& a, const Interval& b);
Interval operator*(const Interval& a, const Interval& b);
Interval floor_div(const Interval& a, const Interval& b);
Interval floor_mod(const Interval& a, const Interval& b);
Interval min(const Interval& a, const Interval& b);
Interval max(const Interval& a, const Interval& b);
Interval unite(const Interval& a, const Interval& b);
/// Values in both; when there are none, some interval.
Interval intersect(const Interval& a, const Interval& b);

/// What is known of variables at a place in a program: constant intervals, and for loop variables and iters their
/// symbolic domain; plus conditions that hold there (predicates of enclosing blocks and Ifs). Later knowledge of a
/// variable refines nothing of the earlier: it replaces it.
class Bounds {
 public:
  Bounds() = default;
  /// The facts and nothing else. An attribute `float_intervals: 0` of the Func switches off what follows from floats.
  explicit Bounds(const Func& func);
  /// May analysis follow integers through floats and back (float_interval.h)?
  bool float_intervals() const { return float_intervals_; }

  void bind(const VarRef& variable, const Range& domain);
  void bind(const VarRef& variable, const Interval& interval);
  /// Let-bound: the variable equals `value`.
  void bind_value(const VarRef& variable, const Expr& value);
  /// `condition` holds from here on.
  void assume(const Expr& condition);

  /// The interval of a variable or expression; unbounded when nothing is known. Of a vector: of every lane.
  Interval interval(const Expr& e) const;
  Interval interval(const Affine& a) const;
  /// The symbolic domain a variable was bound with; null when none.
  const Range* domain(const Var* variable) const;
  const Expr* value(const Var* variable) const;
  const std::vector<Expr>& assumptions() const { return assumptions_; }

  /// A range that a variable runs over, with its first and last value.
  struct Domain {
    Range range;
    Affine low, high;
  };
  /// What is known of one variable.
  struct Entry {
    VarRef variable;
    Interval interval;
    std::shared_ptr<const Domain> domain;  ///< null when bound without
    Expr value;                            ///< null unless Let-bound
    bool narrowed = false;                 ///< repeats an earlier entry with what an assumption added
  };
  /// The newest entry, or null.
  const Entry* find(const Var* variable) const;
  /// Position of the newest entry: variables bound later have greater ones. -1 when none.
  int position(const Var* variable) const;
  /// Assumptions over i64 as affine forms that are >= 0.
  const std::vector<Affine>& inequalities() const { return inequalities_; }

  /// Scopes: everything learned after mark() is forgotten by rollback().
  struct Mark {
    size_t entries, assumptions, inequalities;
  };
  /// Was the variable bound, not only narrowed, after `mark`?
  bool bound_since(const Mark& mark, const Var* variable) const;
  /// Everything bound after `mark`, narrowings left out.
  std::vector<Entry> entries_since(const Mark& mark) const;
  Mark mark() const { return {entries_.size(), assumptions_.size(), inequalities_.size()}; }
  void rollback(const Mark& mark);

 private:
  void assume_nonnegative(const Affine& a);
  /// (variable + constant) % divisor == remainder: its interval ends at such values.
  void assume_remainder(const Binary& equality);

  std::vector<Entry> entries_;
  std::vector<Expr> assumptions_;
  std::vector<Affine> inequalities_;
  bool float_intervals_ = true;
};

/// Could arithmetic on `e` leave 64 bits? True of i64 data (loads, casts, ..) of unknown size; indices never do, by
/// contract.
bool may_wrap(const Bounds& bounds, const Affine& a);
bool may_wrap(const Bounds& bounds, const Expr& e);

}  // namespace lathe
