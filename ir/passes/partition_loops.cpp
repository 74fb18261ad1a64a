#include "ir/passes/partition_loops.h"

#include <algorithm>
#include <unordered_set>

#include "ir/analysis/prove.h"
#include "ir/analysis/simplify.h"
#include "ir/passes/bounds_scope.h"
#include "ir/passes/loop_cuts.h"
#include "ir/passes/mark_shiftable_tiles.h"
#include "ir/passes/pad_temporaries.h"
#include "ir/visitor.h"

namespace lathe {
namespace {

/// Statements that emission will see below `s`: unrolled loops count for each copy.
std::int64_t weight(const Stmt& s) {
  switch (s->kind) {
    case StmtKind::For: {
      const For* loop = s.as<For>();
      std::int64_t inner = weight(loop->body);
      const std::int64_t* extent = as_int(loop->extent);
      if (loop->for_kind == ForKind::unrolled && extent) return inner * std::max<std::int64_t>(*extent, 1);
      return inner + (is_point_loop(*loop) ? 0 : 1);
    }
    case StmtKind::Block:
      return weight(s.as<Block>()->f.body);
    case StmtKind::Let:
      return weight(s.as<Let>()->body);
    case StmtKind::While:
      return 1 + weight(s.as<While>()->body);
    case StmtKind::If: {
      const If* branch = s.as<If>();
      return weight(branch->then_case) + (branch->else_case ? weight(branch->else_case) : 0);
    }
    case StmtKind::Seq: {
      std::int64_t sum = 0;
      for (const Stmt& below : s.as<Seq>()->stmts) sum += weight(below);
      return sum;
    }
    default:
      return 1;
  }
}

/// Puts true for conditions that are known to hold, or false for those that are known not to.
class Decider : public Mutator {
 public:
  explicit Decider(const std::vector<Cut>& cuts, bool holds = true) : holds_(holds) {
    for (const Cut& cut : cuts) known_.insert(cut.condition);
  }
  Expr mutate(const Expr& e) override {
    if (e && known_.count(e)) return IntImm::make(e->dtype, holds_ ? 1 : 0);
    return Mutator::mutate(e);
  }
  using Mutator::mutate;

 private:
  const bool holds_;
  std::unordered_set<Expr> known_;
};

/// Are there no statements below `s` that do something?
bool is_idle(const Stmt& s) {
  bool idle = true;
  for_each_stmt(s, [&](const Stmt& below) {
    const StmtKind kind = below->kind;
    idle &= kind == StmtKind::Seq || kind == StmtKind::For || kind == StmtKind::Block || kind == StmtKind::Let ||
            kind == StmtKind::If;
  });
  return idle;
}

/// Puts `begin` for step * variable in sums of indices.
class BeginReplacer : public Mutator {
 public:
  BeginReplacer(const VarRef& variable, std::int64_t step, const Expr& begin)
      : variable_(variable), step_(step), begin_(to_affine(begin)) {}
  bool failed = false;  ///< is the variable elsewhere too?

  using Mutator::mutate;
  Expr mutate(const Expr& e) override {
    if (!e || !uses_var(e, variable_.get())) return e;
    if (e->dtype.element() != i64) return Mutator::mutate(e);
    Affine sum = to_affine(e);
    const std::int64_t coefficient = sum.coefficient(variable_);
    if (coefficient == 0) return Mutator::mutate(e);
    Affine begin = begin_;
    begin.lanes = sum.lanes;
    failed |= coefficient % step_ != 0 || !add_term(sum, variable_, -coefficient) ||
              !add_scaled(sum, begin, coefficient / step_);
    for (const AffineTerm& term : sum.terms) failed |= holds(term.atom) && begin_.coefficient(term.atom) == 0;
    return failed ? e : to_expr(sum);
  }

 protected:
  Expr mutate_Var(const Expr& e, const Var* node) override {
    failed |= node == variable_.get();
    return e;
  }

 private:
  bool holds(const Expr& e) const { return uses_var(e, variable_.get()); }

  const VarRef variable_;
  const std::int64_t step_;
  const Affine begin_;
};

class Partitioner : public Mutator {
 public:
  explicit Partitioner(const Func& func)
      : bounds_(func), budget_(std::max<std::int64_t>(3 * weight(func->body), least_budget)) {}
  bool changed = false;

 protected:
  Stmt mutate_For(const Stmt& s, const For* node) override {
    BoundsScope scope(bounds_);
    if (is_point_loop(*node) || node->for_kind == ForKind::bound || is_int(node->extent, 1)) {
      bounds_.bind(node->variable, Range{node->min, node->extent});
      return Mutator::mutate_For(s, node);
    }
    if (Stmt parts = partition(*node)) return parts;
    bounds_.bind(node->variable, Range{node->min, node->extent});
    return Mutator::mutate_For(s, node);
  }

 private:
  static constexpr std::int64_t least_budget = 64;

  Stmt partition(const For& loop) {
    if (Stmt shifted = shift(loop)) return shifted;
    const bool of_loads = !loop.annotations.contains(masked_loads_key);
    bool conflict = false;
    Stmt parts = cut(loop, of_loads, conflict);
    // Masks of loads at both ends of short rows leave no iteration between them; what runs at all may still be told.
    return conflict && of_loads ? cut(loop, false, conflict) : parts;
  }

  /// `conflict` becomes whether there is no iteration in which all conditions hold.
  Stmt cut(const For& loop, bool of_loads, bool& conflict) {
    CutFinder finder(loop.variable, bounds_, false, of_loads);
    finder.visit(loop.body);
    if (finder.cuts.empty()) return nullptr;
    Expr first = loop.min, end = loop.min + loop.extent;
    Expr low, high;  // main part: [low, high) where given
    Ends ends;
    for (const Cut& cut : finder.cuts) {
      if (cut.high_numerator) {
        const Expr bound = behind(*cut.high_numerator, cut.divisor);
        if (cut.most_numerator) ends.emplace_back(cut, behind(*cut.most_numerator, cut.divisor));
        high = high ? min(high, bound) : bound;
      } else if (cut.low_numerator) {
        // variable * c + rest >= 0 from ceil(-rest / c) on.
        Affine negated = Affine::of(cut.divisor - 1);
        if (!add_scaled(negated, *cut.low_numerator, -1)) return nullptr;
        Expr bound = floor_div(to_expr(negated), cut.divisor);
        low = low ? max(low, bound) : bound;
      }
    }
    low = simplify(low ? min(max(low, first), end) : first, bounds_);
    const Expr cut_at = high ? simplify(high, bounds_) : nullptr;
    high = simplify(high ? max(min(high, end), low) : end, bounds_);
    conflict = proves(bounds_, ge(low, high));
    if (conflict) return nullptr;
    // Iterations behind `high` lie behind the cut: that the loop ends earlier does not matter to them.
    const std::vector<Cut> over = over_by(ends, cut_at);
    end = least_end(loop, ends, high, end);
    const Expr extent =
        proves_equal(bounds_, end, loop.min + loop.extent) ? loop.extent : simplify(end - loop.min, bounds_);
    bool has_front = !proves_equal(bounds_, low, first), has_back = !proves_equal(bounds_, high, end);

    const bool serial = loop.for_kind == ForKind::serial;
    if (serial && !has_front && !has_back && extent != loop.extent) {
      changed = true;
      return piece(loop, low, high, Decider(finder.cuts).mutate(loop.body));
    }

    Stmt part = loop.body;
    bool direct = true;  // no loop of its own between this one and the part
    narrow(finder, &part, &direct);
    std::int64_t cost = weight(part) * (int(has_front) + int(has_back));
    const bool over_budget = cost > budget_;
    if (over_budget && extent == loop.extent) return nullptr;
    changed = true;
    if (over_budget) return with_extent(loop, extent, loop.body);
    budget_ -= cost;

    bool whole = 4 * weight(loop.body) <= 5 * weight(part);
    if (!has_front && !has_back) {
      return with_extent(loop, loop.extent, Decider(finder.cuts).mutate(loop.body));
    }
    if (serial && whole && direct) {
      std::vector<Stmt> pieces;
      if (has_front) pieces.push_back(piece(loop, first, low, fresh_copy(loop.body)));
      pieces.push_back(piece(loop, low, high, Decider(finder.cuts).mutate(loop.body)));
      if (has_back) {
        const bool once = leaves_constants(finder.cuts, cut_at) && proves(bounds_, le(end, cut_at + 1));
        pieces.push_back(once ? iteration(loop, cut_at, lt(high, end)) : piece(loop, high, end, fresh_copy(loop.body)));
      }
      return Seq::make(std::move(pieces));
    }
    Expr inside;
    if (has_front) inside = ge(loop.variable, low);
    if (has_back) inside = logical_and(inside, lt(loop.variable, high));
    const Stmt otherwise = !has_front && does_nothing(part, over) ? nullptr : fresh_copy(part);
    Stmt branch = If::make(inside, Decider(finder.cuts).mutate(part), otherwise);
    return with_extent(loop, extent, replace(loop.body, part, branch));
  }

  /// Conditions, and from where on they hold nowhere.
  using Ends = std::vector<std::pair<Cut, Expr>>;

  static Expr behind(Affine last_numerator, std::int64_t divisor) {
    last_numerator.constant += divisor;
    return floor_div(to_expr(last_numerator), divisor);
  }

  /// Are the conditions the same in all runs of the loop, where its variable has the value?
  static bool leaves_constants(const std::vector<Cut>& cuts, const Expr& value) {
    return value && std::all_of(cuts.begin(), cuts.end(), [&](const Cut& cut) {
             Affine distance = cut.high_numerator ? *cut.high_numerator : *cut.low_numerator;
             return add_scaled(distance, to_affine(value), cut.high_numerator ? -cut.divisor : cut.divisor) &&
                    distance.is_constant();
           });
  }

  /// Those that hold nowhere from `bound` on.
  std::vector<Cut> over_by(const Ends& ends, const Expr& bound) const {
    std::vector<Cut> over;
    for (const auto& [cut, end] : ends)
      if (proves(bounds_, le(end, bound))) over.push_back(cut);
    return over;
  }

  /// The end without iterations behind `high` in which nothing is done.
  Expr least_end(const For& loop, const Ends& ends, const Expr& high, Expr end) const {
    if (loop.for_kind != ForKind::serial) return end;
    for (const auto& [cut, from] : ends) {
      const Expr bound = simplify(max(from, high), bounds_);
      if (!proves(bounds_, ge(bound, end)) && does_nothing(loop.body, over_by(ends, bound)))
        end = simplify(min(end, bound), bounds_);
    }
    return end;
  }

  /// Is nothing left of the statement where the conditions do not hold?
  bool does_nothing(const Stmt& s, const std::vector<Cut>& conditions) const {
    return !conditions.empty() && is_idle(simplify(Decider(conditions, false).mutate(s), bounds_));
  }

  /// The loop with its last tile moved back to where it is whole; null where that is not proved to be allowed.
  Stmt shift(const For& loop) {
    const auto tile = loop.annotations.find(shiftable_key);
    if (tile == loop.annotations.end() || loop.for_kind != ForKind::serial) return nullptr;
    CutFinder finder(loop.variable, bounds_, true);
    finder.visit(loop.body);
    if (finder.cuts.empty() || finder.others) return nullptr;
    const std::int64_t step = std::get<std::int64_t>(tile->second);
    Expr begin = Expr(loop.variable) * step, extent = loop.extent;
    for (const Cut& cut : finder.cuts) {
      if (!cut.high_numerator || cut.divisor != step || !prove_nonnegative(bounds_, *cut.high_numerator))
        return nullptr;
      const Expr last = to_expr(*cut.high_numerator);
      begin = min(begin, last);
      // No tile behind the one that ends the range.
      extent = min(extent, floor_div(last + (2 * step - 1), step));
    }
    BoundsScope scope(bounds_);
    bounds_.bind(loop.variable, Range{loop.min, loop.extent});
    BeginReplacer replacer(loop.variable, step, simplify(begin, bounds_));
    const Stmt body = replacer.mutate(Decider(finder.cuts).mutate(loop.body));
    if (replacer.failed) return nullptr;
    changed = true;
    Annotations annotations = loop.annotations;
    annotations.erase(shiftable_key);
    return For::make(loop.variable, loop.min, simplify(extent, bounds_), loop.for_kind, mutate(body), annotations);
  }

  /// The loop with another extent and body, and the loops in that body partitioned too.
  Stmt with_extent(const For& loop, const Expr& extent, const Stmt& body) {
    BoundsScope scope(bounds_);
    bounds_.bind(loop.variable, Range{loop.min, loop.extent});
    return For::make(loop.variable, loop.min, extent, loop.for_kind, mutate(body), loop.annotations);
  }

  Stmt piece(const For& loop, const Expr& from, const Expr& to, const Stmt& body) {
    VarRef variable = Var::make(loop.variable->name);
    Expr extent = simplify(to - from, bounds_);
    BoundsScope scope(bounds_);
    bounds_.bind(variable, Range{from, extent});
    Stmt renamed = substitute(body, {{loop.variable.get(), variable}});
    return For::make(variable, from, extent, loop.for_kind, mutate(renamed), loop.annotations);
  }

  /// One iteration, where there is one.
  Stmt iteration(const For& loop, const Expr& value, const Expr& exists) {
    BoundsScope scope(bounds_);
    const Expr condition = simplify(exists, bounds_);
    bounds_.assume(condition);
    const Stmt body = mutate(substitute(fresh_copy(loop.body), {{loop.variable.get(), value}}));
    return is_int(condition, 1) ? body : If::make(condition, body);
  }

  /// The least statement that holds every conditional one, then outwards as long as that adds little: a branch further
  /// out runs less often.
  static void narrow(const CutFinder& finder, Stmt* part, bool* direct) {
    std::vector<Stmt> chain{*part};
    while (Stmt inner = only_holder(finder, chain.back())) chain.push_back(inner);
    size_t at = chain.size() - 1;
    std::int64_t least = weight(chain[at]);
    while (at > 0 && (4 * weight(chain[at - 1]) <= 5 * least || repeats(chain[at - 1], chain[at]))) --at;
    *part = chain[at];
    for (size_t i = 0; i < at; ++i) {
      if (const For* loop = chain[i].as<For>()) *direct &= is_point_loop(*loop);
    }
  }

  /// Is it a loop of that and nothing else? What stays the same in it is worked out ahead of it where no branch is
  /// inside.
  static bool repeats(const Stmt& s, const Stmt& body) {
    const For* loop = s.as<For>();
    return loop && loop->for_kind == ForKind::serial && loop->body == body;
  }

  static Stmt only_holder(const CutFinder& finder, const Stmt& s) {
    auto holds = [&](const Stmt& below) { return below && finder.holders.count(below.get()) != 0; };
    if (const For* loop = s.as<For>()) return is_point_loop(*loop) ? nullptr : loop->body;
    if (const Block* block = s.as<Block>()) return holds(block->f.body) ? block->f.body : nullptr;
    if (const Seq* seq = s.as<Seq>()) {
      Stmt only;
      for (const Stmt& below : seq->stmts) {
        if (!holds(below)) continue;
        if (only) return nullptr;
        only = below;
      }
      return only;
    }
    return nullptr;
  }

  static Stmt replace(const Stmt& s, const Stmt& part, const Stmt& by) {
    class Replacer : public Mutator {
     public:
      Replacer(const Stmt& part, const Stmt& by) : part_(part), by_(by) {}
      Stmt mutate(const Stmt& s) override { return s == part_ ? by_ : Mutator::mutate(s); }
      Expr mutate(const Expr& e) override { return e; }

     private:
      const Stmt &part_, &by_;
    };
    return Replacer(part, by).mutate(s);
  }

  Bounds bounds_;
  std::int64_t budget_;
};

}  // namespace

Func partition_loops(const Func& func) {
  Partitioner partitioner(func);
  Stmt body = partitioner.mutate(func->body);
  if (!partitioner.changed) return func;
  return with_body(func, simplify(body, Bounds(func)));
}

}  // namespace lathe
