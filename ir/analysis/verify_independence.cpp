#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <unordered_map>

#include "ir/analysis/remainders.h"
#include "ir/analysis/simplify.h"
#include "ir/analysis/verify_rules.h"
#include "ir/storage.h"
#include "ir/structural.h"
#include "ir/text/print.h"
#include "ir/visitor.h"

namespace lathe {
namespace {

/// Two accesses of one buffer, at least one a store, made by two instances whose space iters differ: proves that they
/// never meet. The second instance's iters and inner variables are renamed; ordered and opaque iters are the same in
/// both, for what happens between those their own promises govern.
class PairProof {
 public:
  PairProof(const PlacedBlock& placed, const BlockAccess& first, const BlockAccess& second) : bounds_(placed.bounds) {
    const Block::Fields& f = placed.block->f;
    for (const Iter& iter : f.iters) {
      bounds_.bind(iter.variable, iter.domain);
      if (iter.kind == IterKind::ordered || iter.kind == IterKind::opaque) continue;
      const VarRef other = Var::make(iter.variable->name + "'");
      bounds_.bind(other, iter.domain);
      renamed_[iter.variable.get()] = other;
      if (iter.kind == IterKind::space && !is_int(iter.domain.extent, 1)) space_.push_back(iter.variable);
      if (iter.kind == IterKind::space && is_int(iter.domain.extent, 1)) renamed_[iter.variable.get()] = iter.variable;
    }
    assume_inside(first.steps);
    std::vector<Step> steps = second.steps;
    for (Step& step : steps) rename(step);
    assume_inside(steps);
    indices_ = one_lane(first.indices);
    for (const Expr& e : one_lane(second.indices)) second_.push_back(substitute(e, renamed_));
    resolve(first.steps, indices_);
    resolve(steps, second_);
    while (merge_split_dimensions()) {
    }
  }

  bool holds() {
    if (indices_.size() != second_.size()) return false;
    for (size_t d = 0; d < second_.size(); ++d) {
      if (!indices_[d]->dtype.is_scalar() || !second_[d]->dtype.is_scalar()) return false;
    }
    // Where the accesses meet, their indices are equal; one iter after another follows to be equal.
    for (bool progress = true; progress && !space_.empty();) {
      progress = false;
      for (size_t i = 0; i < space_.size(); ++i) {
        if (!equal_where_they_meet(space_[i])) continue;
        const Expr other = renamed_.at(space_[i].get());
        for (Expr& e : second_) e = substitute(e, {{other.as<Var>(), space_[i]}});
        space_.erase(space_.begin() + static_cast<std::ptrdiff_t>(i));
        progress = true;
        break;
      }
    }
    return space_.empty();
  }

 private:
  /// Iters of blocks inside are what they are bound to, which is what tells apart the tiles that the blocks lie in.
  void assume_inside(const std::vector<Step>& steps) {
    for (size_t i = 0; i < steps.size(); ++i) {
      const Step& step = steps[i];
      if (step.kind != Step::Kind::iter || !step.expr || !step.expr->dtype.is_scalar()) {
        assume_steps(bounds_, {step});
        continue;
      }
      bounds_.bind_value(step.variable, step.expr);
      bounds_.assume(ge(Expr(step.variable), step.domain.min));
      bounds_.assume(lt(Expr(step.variable), step.domain.min + step.domain.extent));
    }
  }

  /// Says indices by the block's own iters, where those of blocks inside are bound to these.
  static void resolve(const std::vector<Step>& steps, std::vector<Expr>& indices) {
    for (auto step = steps.rbegin(); step != steps.rend(); ++step) {
      if (step->kind != Step::Kind::iter || !step->expr || !step->expr->dtype.is_scalar()) continue;
      for (Expr& e : indices) e = substitute(e, {{step->variable.get(), step->expr}});
    }
  }

  void rename(Step& step) {
    if (step.domain.min)
      step.domain = {substitute(step.domain.min, renamed_), substitute(step.domain.extent, renamed_)};
    if (step.expr) step.expr = substitute(step.expr, renamed_);
    if (!step.variable) return;
    const VarRef other = Var::make(step.variable->name + "'", step.variable->dtype);
    renamed_[step.variable.get()] = other;
    step.variable = other;
  }

  /// The indices of any one lane, told by a new variable; an index that is no ramp stays a vector, and nothing is
  /// proved of it.
  std::vector<Expr> one_lane(std::vector<Expr> indices) {
    const VarRef lane = Var::make("lane");
    for (Expr& e : indices) {
      if (const Ramp* ramp = e.as<Ramp>()) {
        bounds_.bind(lane, Range{index(0), index(ramp->dtype.lanes)});
        e = ramp->base + ramp->stride * lane;
      } else if (const Broadcast* broadcast = e.as<Broadcast>()) {
        e = broadcast->value;
      }
    }
    return indices;
  }

  /// What indices x // c and x % c, or n - x // c and m - x % c, stand for: x, as both are equal only where it is.
  struct Rejoined {
    Expr joined;  ///< null when `rest` is no x % c, or `whole` not the quotient that belongs to it
    Expr divisor;
    std::optional<std::int64_t> turned_whole, turned_rest;  ///< n and m
  };

  Rejoined rejoined(const Expr& whole, const Expr& rest) const {
    const Binary* mod = rest.as<Binary>();
    std::optional<std::int64_t> turned_rest;
    if (mod && mod->op == BinaryOp::sub && as_int(mod->a)) {
      turned_rest = *as_int(mod->a);
      mod = mod->b.as<Binary>();
    }
    if (!mod || mod->op != BinaryOp::floor_mod || !as_int(mod->b)) return {};
    // Simplification leaves multiples of c out of what only the remainder is taken of.
    const Binary* div = whole.as<Binary>();
    if (div && div->op == BinaryOp::floor_div && equal(div->b, mod->b) &&
        same_remainder(bounds_, div->a, mod->a, *as_int(mod->b)))
      return {div->a, mod->b, std::nullopt, turned_rest};
    const Expr quotient = floor_div(mod->a, mod->b);
    if (proves_equal(bounds_, whole, quotient)) return {mod->a, mod->b, std::nullopt, turned_rest};
    const Expr sum = simplify(whole + quotient, bounds_);
    if (!as_int(sum)) return {};
    return {mod->a, mod->b, *as_int(sum), turned_rest};
  }

  /// Turns a pair of dimensions (x // c, x % c), as packing writes them, into the one dimension x.
  bool merge_split_dimensions() {
    for (size_t rest = 0; rest < indices_.size() && indices_.size() == second_.size(); ++rest) {
      for (size_t whole = 0; whole < indices_.size(); ++whole) {
        if (whole == rest) continue;
        const Rejoined first = rejoined(indices_[whole], indices_[rest]);
        const Rejoined second = first.joined ? rejoined(second_[whole], second_[rest]) : Rejoined();
        if (!second.joined || !equal(first.divisor, second.divisor) || first.turned_whole != second.turned_whole ||
            first.turned_rest != second.turned_rest)
          continue;
        indices_[whole] = first.joined;
        second_[whole] = second.joined;
        indices_.erase(indices_.begin() + static_cast<std::ptrdiff_t>(rest));
        second_.erase(second_.begin() + static_cast<std::ptrdiff_t>(rest));
        return true;
      }
    }
    return false;
  }

  bool equal_where_they_meet(const VarRef& iter) {
    const Expr other = renamed_.at(iter.get());
    for (size_t d = 0; d < second_.size(); ++d) {
      if (indices_[d] == Expr(iter) && second_[d] == other) return true;
    }
    return apart_when(gt(iter, other)) && apart_when(lt(iter, other));
  }

  bool apart_when(const Expr& condition) {
    const Bounds::Mark mark = bounds_.mark();
    bounds_.assume(condition);
    bool apart = false;
    for (size_t d = 0; d < second_.size() && !apart; ++d) {
      apart = proves(bounds_, lt(indices_[d], second_[d])) || proves(bounds_, lt(second_[d], indices_[d]));
    }
    // Several dimensions may tell the instances apart only together.
    for (size_t d = 0; d < second_.size() && !apart; ++d) {
      bounds_.assume(le(indices_[d], second_[d]));
      bounds_.assume(le(second_[d], indices_[d]));
    }
    if (!apart) apart = proves(bounds_, logical_not(condition));
    bounds_.rollback(mark);
    return apart;
  }

  Bounds bounds_;
  Substitution renamed_;
  std::vector<VarRef> space_;  ///< iters that are not known to be equal yet
  std::vector<Expr> indices_, second_;
};

/// Looks at instances one by one, and at what they touch.
class Collision {
 public:
  Collision(const Func& func, const PlacedBlock& placed, const std::vector<BlockAccess>& accesses)
      : func_(func), placed_(placed), accesses_(accesses) {
    const Block::Fields& f = placed.block->f;
    steps_ = placed.steps;
    for (size_t i = 0; i < f.iters.size(); ++i) steps_.push_back(Step::of_iter(f.iters[i], f.bindings[i]));
  }

  Decision find() {
    Enumeration outer(func_, 200), instances(func_, 4000, 64), inner(func_, 20000);
    std::string witness;
    const bool wrong = outer.with_parameters([&](Environment& parameters) {
      return outer.run(steps_, 0, placed_.outer, parameters, [&](Environment& environment) {
        touched_.clear();
        return instances.run(steps_, placed_.outer, steps_.size(), environment, [&](Environment& instance) {
          for (size_t a = 0; a < accesses_.size(); ++a) {
            const BlockAccess& access = accesses_[a];
            const bool met = inner.run(access.steps, 0, access.steps.size(), instance,
                                       [&](Environment& point) { return touch(access, point, inner, witness); });
            if (met) return true;
          }
          return false;
        });
      });
    });
    if (wrong) return {Verdict::wrong, witness};
    const bool all = outer.complete() && instances.complete() && inner.complete();
    return {all ? Verdict::proved : Verdict::unknown, {}};
  }

 private:
  using Numbers = std::vector<std::int64_t>;
  struct Touch {
    Numbers space, fixed;
    bool writes;
  };

  bool touch(const BlockAccess& access, const Environment& point, Enumeration& seen, std::string& witness) {
    Numbers element;
    for (const Expr& e : access.indices) {
      const std::optional<std::int64_t> value = evaluate(e, point);
      if (!value) {
        seen.miss();
        return false;
      }
      element.push_back(*value);
    }
    Touch touch{{}, {}, access.writes};
    for (const Iter& iter : placed_.block->f.iters) {
      const auto found = point.find(iter.variable.get());
      if (found == point.end()) {
        seen.miss();
        return false;
      }
      if (iter.kind == IterKind::space) touch.space.push_back(found->second);
      if (iter.kind == IterKind::ordered || iter.kind == IterKind::opaque) touch.fixed.push_back(found->second);
    }
    std::vector<Touch>& others = touched_[{access.buffer.get(), element}];
    for (const Touch& other : others) {
      if (other.space == touch.space || other.fixed != touch.fixed || !(other.writes || touch.writes)) continue;
      std::vector<Expr> at;
      for (const std::int64_t value : element) at.push_back(index(value));
      witness = fmt::format("({}) and ({}), which meet at {}", fmt::join(other.space, ", "),
                            fmt::join(touch.space, ", "), print(Load::make(access.buffer, at)));
      return true;
    }
    const bool known = std::any_of(others.begin(), others.end(), [&](const Touch& other) {
      return other.space == touch.space && other.fixed == touch.fixed && other.writes >= touch.writes;
    });
    if (!known) others.push_back(std::move(touch));
    return false;
  }

  const Func& func_;
  const PlacedBlock& placed_;
  const std::vector<BlockAccess>& accesses_;
  std::vector<Step> steps_;
  std::map<std::pair<const BufferNode*, Numbers>, std::vector<Touch>> touched_;
};

}  // namespace

void check_independent(const PlacedBlock& placed, Report& report) {
  const Block::Fields& f = placed.block->f;
  const bool has_space = std::any_of(f.iters.begin(), f.iters.end(), [](const Iter& iter) {
    return iter.kind == IterKind::space && !is_int(iter.domain.extent, 1);
  });
  if (!has_space) return;
  const std::vector<BlockAccess> accesses = block_accesses(*placed.block, false);
  std::vector<BlockAccess> of_written;
  std::string doubtful;
  for (size_t i = 0; i < accesses.size(); ++i) {
    bool written = false;
    for (size_t j = 0; j < accesses.size(); ++j) {
      if (!accesses[j].writes || storage_of(accesses[i].buffer) != storage_of(accesses[j].buffer)) continue;
      written = true;
      if (j > i && accesses[i].writes) continue;  // the pair comes again the other way round
      const bool same_buffer = accesses[i].buffer == accesses[j].buffer;
      if (doubtful.empty() && !(same_buffer && PairProof(placed, accesses[j], accesses[i]).holds())) {
        doubtful = accesses[i].buffer->name;
      }
    }
    if (written) of_written.push_back(accesses[i]);
  }
  if (doubtful.empty()) return;
  std::vector<std::string> names;
  for (const Iter& iter : f.iters) {
    if (iter.kind == IterKind::space) names.push_back(iter.variable->name);
  }
  report.decided(
      "block.space_iters_independent", Collision(report.func(), placed, of_written).find(),
      fmt::format("block {}: instances of different ({}) do not meet in {}", f.name, fmt::join(names, ", "), doubtful));
}

}  // namespace lathe
