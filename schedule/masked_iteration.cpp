#include "schedule/masked_iteration.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "ir/analysis/affine.h"
#include "ir/analysis/comparison.h"
#include "ir/analysis/regions.h"
#include "ir/analysis/relax.h"
#include "ir/analysis/simplify.h"
#include "ir/conjuncts.h"
#include "ir/intrinsics.h"
#include "ir/reduction.h"
#include "ir/structural.h"
#include "schedule/access.h"
#include "schedule/carried.h"
#include "schedule/zero_borders.h"

namespace lathe {
namespace {

using Constant = std::optional<double>;

/// The integer, where a double holds it and all that are smaller as they are.
Constant exactly(std::int64_t value) {
  constexpr std::int64_t largest = std::int64_t{1} << 53;
  return -largest <= value && value <= largest ? Constant(static_cast<double>(value)) : std::nullopt;
}

/// What was folded without a limit, where the type holds it: integers wrap otherwise.
Constant in_range(DType dtype, Constant folded) {
  if (!folded || dtype.is_float() || dtype.is_bool()) return folded;
  const int bits = std::min<int>(dtype.bits, 53);
  const double end = std::ldexp(1.0, dtype.is_signed() ? bits - 1 : bits);
  return *folded < end && *folded >= (dtype.is_signed() ? -end : 0.0) ? folded : std::nullopt;
}

Constant folded(const Unary& unary, double a) {
  switch (unary.op) {
    case UnaryOp::neg:
      return -a;
    case UnaryOp::abs:
      return std::fabs(a);
    case UnaryOp::exp:
      return std::isinf(a) || a == 0 ? Constant(std::exp(a)) : std::nullopt;
    case UnaryOp::exp2:
      return std::isinf(a) || a == 0 ? Constant(std::exp2(a)) : std::nullopt;
    default:
      return std::nullopt;
  }
}

/// Results that are exact in every type.
Constant folded(const Binary& binary, double a, double b) {
  Constant result;
  switch (binary.op) {
    case BinaryOp::add:
      if (a == 0 || b == 0 || std::isinf(a) || std::isinf(b)) result = a + b;
      break;
    case BinaryOp::sub:
      if (a == 0 || b == 0 || std::isinf(a) || std::isinf(b)) result = a - b;
      break;
    case BinaryOp::mul:
      if (a == 0 || b == 0 || a == 1 || b == 1 || std::isinf(a) || std::isinf(b)) result = a * b;
      break;
    case BinaryOp::max:
      result = std::max(a, b);
      break;
    case BinaryOp::min:
      result = std::min(a, b);
      break;
    case BinaryOp::eq:
      result = a == b;
      break;
    case BinaryOp::lt:
      result = a < b;
      break;
    default:
      break;
  }
  return result && std::isnan(*result) ? std::nullopt : result;
}

/// Puts variables in the place of integers that are loaded where inner variables have no say.
class StandIns : public Mutator {
 public:
  explicit StandIns(std::optional<Relaxation> inner) : inner_(inner) {}

  Substitution loads;  ///< back

  using Mutator::mutate;
  Expr mutate(const Expr& e) override {
    const bool loaded = e.as<Load>() || (e.as<Cast>() && has_load(e));
    if (!inner_ || !loaded || e->dtype != i64 || depends_on_inner(e)) return Mutator::mutate(e);
    for (const auto& [variable, other] : loads) {
      if (equal(other, e)) return known_.at(variable);
    }
    const VarRef variable = Var::make("loaded");
    known_.emplace(variable.get(), variable);
    loads.emplace(variable.get(), e);
    return variable;
  }

 private:
  bool depends_on_inner(const Expr& e) const {
    const std::vector<VarRef> used = used_vars(e);
    return std::any_of(used.begin(), used.end(), [&](const VarRef& var) { return inner_->is_inner(Expr(var)); });
  }

  std::optional<Relaxation> inner_;
  std::unordered_map<const Var*, VarRef> known_;
};

/// Runs the body of a loop with constants for what its masks decide when they are false.
class Masking {
 public:
  Masking(const Schedule& schedule, const Stmt& block, const Path& loop_path, size_t whole, const RefuseMasks& refuse,
          MasksBy by)
      : schedule_(schedule),
        refuse_(refuse),
        by_(by),
        block_(block),
        loop_(*loop_path.back().as<For>()),
        outer_bounds_(bounds_at(schedule.func(), loop_path)),
        bounds_(outer_bounds_),
        outer_(bounds_.mark()),
        whole_bounds_(bounds_at(schedule.func(), Path(loop_path.begin(), after(loop_path, whole)))),
        whole_(whole_bounds_.mark()) {
    for (size_t i = 0; i < loop_path.size(); ++i) {
      const For* around = loop_path[i].as<For>();
      if (!around) continue;
      loops_.push_back(around);
      if (i >= whole && around != &loop_) whole_bounds_.bind(around->variable, Range{around->min, around->extent});
    }
    outer_bounds_.bind(loop_.variable, Range{loop_.min, loop_.extent});
    bounds_.bind(loop_.variable, Range{loop_.min, loop_.extent});
    whole_bounds_.bind(loop_.variable, Range{loop_.min, loop_.extent});
    outer_ = bounds_.mark();
    if (loop_path[whole].as<For>() == &loop_) whole_ = whole_bounds_.mark();
  }

  MaskedIteration run() {
    walk(loop_.body);
    return std::move(found_);
  }

 private:
  static Path::const_iterator after(const Path& path, size_t i) {
    return path.begin() + static_cast<std::ptrdiff_t>(i) + 1;
  }

  void walk(const Stmt& s) {
    if (const For* loop = s.as<For>()) {
      const Bounds::Mark mark = bounds_.mark(), whole_mark = whole_bounds_.mark();
      bounds_.bind(loop->variable, Range{loop->min, loop->extent});
      whole_bounds_.bind(loop->variable, Range{loop->min, loop->extent});
      walk(loop->body);
      bounds_.rollback(mark);
      whole_bounds_.rollback(whole_mark);
    } else if (const Seq* seq = s.as<Seq>()) {
      for (const Stmt& child : seq->stmts) walk(child);
    } else if (const Block* block = s.as<Block>(); block && outer_blocks(block->f.body).empty()) {
      bindings_.clear();
      for (size_t i = 0; i < block->f.iters.size(); ++i)
        bindings_[block->f.iters[i].variable.get()] = block->f.bindings[i];
      values_.clear();
      if (s == block_) {
        check_terms(*block);
        return;
      }
      if (block->f.init) execute(block->f.init);
      values_.clear();
      execute(block->f.body);
    } else {
      refuse_(2, s, "is no block, or one of tiles");
    }
  }

  void execute(const Stmt& s) {
    if (const Let* let = s.as<Let>()) {
      values_[let->variable.get()] = evaluate(let->value);
      execute(let->body);
    } else if (const Seq* seq = s.as<Seq>()) {
      for (const Stmt& child : seq->stmts) execute(child);
    } else if (const Assert* assertion = s.as<Assert>()) {
      if (!holds(assertion->condition)) refuse_(2, s, "may fail behind false masks");
    } else if (const Store* store = s.as<Store>()) {
      const Constant value = evaluate(store->value);
      const auto [known, added] = contents_.try_emplace(store->buffer.get(), value);
      if (!added && known->second != value) known->second = std::nullopt;
    } else {
      for_each_stmt(s, [&](const Stmt& at) {
        if (const Store* store = at.as<Store>()) contents_[store->buffer.get()] = std::nullopt;
      });
    }
  }

  void check_terms(const Block& block) {
    const std::optional<ReductionParts> parts = match_update(block);
    if (!parts || !block.f.reducer) refuse_(1, block_, "has another body");
    for (const Stmt& s : parts->lets) {
      const Let& let = *s.as<Let>();
      values_[let.variable.get()] = evaluate(let.value);
      if (let.value->dtype == i64) bindings_[let.variable.get()] = substitute(let.value, bindings_);
    }
    for (size_t k = 0; k < parts->terms.size(); ++k) {
      const Constant term = evaluate(parts->terms[k]), identity = evaluate(block.f.reducer->identities[k]);
      if (!term || term != identity) {
        refuse_(4, block_, fmt::format("may add to {} all the same", parts->outputs[k].buffer->name));
      }
    }
    if (found_.guards.empty()) refuse_(4, block_, "depends on no mask");
  }

  /// Is a condition true where masks are false, as those are that its parts name the contrary of?
  bool holds(const Expr& condition) {
    if (const Constant decided = evaluate(condition)) return *decided != 0;
    const Binary* binary = condition.as<Binary>();
    if (!binary) return false;
    if (binary->op == BinaryOp::logical_or) return holds(binary->a) || holds(binary->b);
    if (binary->op == BinaryOp::logical_and) return holds(binary->a) && holds(binary->b);
    const bool orders = binary->op == BinaryOp::lt || binary->op == BinaryOp::le || binary->op == BinaryOp::gt ||
                        binary->op == BinaryOp::ge;
    return orders && binary->a->dtype == i64 &&
           depends_on({substitute(Binary::make(negated(binary->op), binary->a, binary->b), bindings_)});
  }

  Constant evaluate(const Expr& limited) {
    const Expr& e = without_limit(limited);
    switch (e->kind) {
      case ExprKind::FloatImm:
        return e.as<FloatImm>()->value;
      case ExprKind::IntImm:
        return exactly(e.as<IntImm>()->value);
      case ExprKind::Var: {
        const auto found = values_.find(e.as<Var>());
        return found == values_.end() ? std::nullopt : found->second;
      }
      case ExprKind::Broadcast:
        return evaluate(e.as<Broadcast>()->value);
      case ExprKind::Unary: {
        const Constant a = evaluate(e.as<Unary>()->a);
        return a ? in_range(e->dtype, folded(*e.as<Unary>(), *a)) : std::nullopt;
      }
      case ExprKind::Load: {
        const auto found = contents_.find(e.as<Load>()->buffer.get());
        if (found == contents_.end()) return zero_border(*e.as<Load>());
        if (e.as<Load>()->mask && found->second != 0.0) return std::nullopt;
        return found->second;
      }
      case ExprKind::Select:
        return choose(*e.as<Select>());
      case ExprKind::Binary: {
        const Binary* binary = e.as<Binary>();
        const Constant a = evaluate(binary->a), b = evaluate(binary->b);
        if (a && b) return in_range(e->dtype, folded(*binary, *a, *b));
        if (binary->op != BinaryOp::mul || (a != 0.0 && b != 0.0)) return std::nullopt;
        return need_finite(a ? binary->b : binary->a) ? Constant(0) : std::nullopt;
      }
      default:
        return std::nullopt;
    }
  }

  Constant choose(const Select& select) {
    if (const Constant decided = evaluate(select.condition))
      return evaluate(*decided != 0 ? select.when_true : select.when_false);
    return depends_on(conjuncts_of(substitute(select.condition, bindings_))) ? evaluate(select.when_false)
                                                                             : std::nullopt;
  }

  /// Zero, as the border of a padded copy is, where that can be told.
  Constant zero_border(const Load& load) {
    if (load.mask || !load.dtype.is_scalar()) return std::nullopt;
    std::vector<Expr> at;
    for (const Expr& index : load.indices) at.push_back(substitute(index, bindings_));
    return depends_on(nonzero_conditions(schedule_, load.buffer, at)) ? Constant(0) : std::nullopt;
  }

  /// Notes that an iteration counts where all of the conditions hold for some instance; of these those that depend on
  /// the loop, where there are any. False where that is not known.
  bool depends_on(const std::vector<Expr>& conditions) {
    Expr guard, of_loop;
    for (const Expr& condition : conditions) {
      const Expr needed = necessary(condition);
      if (!needed || is_int(needed, 1)) continue;
      guard = guard ? logical_and(guard, needed) : needed;
      if (uses_var(needed, loop_.variable.get())) of_loop = of_loop ? logical_and(of_loop, needed) : needed;
    }
    if (of_loop) guard = of_loop;
    if (!guard) return false;
    const bool known =
        std::any_of(found_.guards.begin(), found_.guards.end(), [&](const Expr& other) { return equal(other, guard); });
    if (!known) found_.guards.push_back(guard);
    return true;
  }

  bool is_outer(const Expr& e) const {
    const std::vector<VarRef> scalars = scalar_params(schedule_.func());
    for (const VarRef& used : used_vars(e)) {
      const bool around =
          std::any_of(loops_.begin(), loops_.end(), [&](const For* loop) { return loop->variable == used; });
      if (!around && std::find(scalars.begin(), scalars.end(), used) == scalars.end()) return false;
    }
    return true;
  }

  SymbolicRange range(const Expr& index, const Bounds& bounds, const Bounds::Mark& outer) const {
    StandIns loads(by_ == MasksBy::loops_and_loads ? Relaxation(bounds, outer) : std::optional<Relaxation>());
    const Expr opaque = loads.mutate(index);
    // A sum of what is loaded and of inner variables that may wrap has no ends.
    if (!loads.loads.empty() && Relaxation(bounds, outer).is_inner(opaque) && may_wrap(bounds, index)) return {};
    SymbolicRange found = Relaxation(bounds, outer).range(opaque);
    for (Expr* end : {&found.low, &found.high}) {
      if (*end) *end = substitute(*end, loads.loads);
      if (*end && !is_outer(*end)) *end = nullptr;
    }
    return found;
  }

  /// What holds of the loops around wherever `condition` does for some of those within; null when that is not known.
  Expr necessary(const Expr& condition) const {
    const Binary* binary = condition.as<Binary>();
    if (!binary) return nullptr;
    if (binary->op == BinaryOp::logical_and || binary->op == BinaryOp::logical_or) {
      const Expr a = necessary(binary->a), b = necessary(binary->b);
      if (binary->op == BinaryOp::logical_or) return a && b ? logical_or(a, b) : nullptr;
      return a && b ? logical_and(a, b) : a ? a : b;
    }
    if (binary->a->dtype != i64) return nullptr;
    const bool rises = binary->op == BinaryOp::lt || binary->op == BinaryOp::le;
    if (!rises && binary->op != BinaryOp::gt && binary->op != BinaryOp::ge) return nullptr;
    const Expr low = range(rises ? binary->a : binary->b, bounds_, outer_).low,
               high = range(rises ? binary->b : binary->a, bounds_, outer_).high;
    if (!low || !high) return nullptr;
    const bool strict = binary->op == BinaryOp::lt || binary->op == BinaryOp::gt;
    return simplify(strict ? lt(low, high) : le(low, high), outer_bounds_);
  }

  /// Notes that zero times the operand is zero only where it is finite.
  bool need_finite(const Expr& e) {
    if (const Broadcast* broadcast = e.as<Broadcast>()) return need_finite(broadcast->value);
    const Load* load = e.as<Load>();
    if (!load || contents_.contains(load->buffer.get()) || !load->dtype.is_scalar()) return false;
    if (!load->dtype.is_float()) return true;
    if (load->dtype.bits < 32 || is_viewed(load->buffer)) return false;
    FiniteOperand operand{load->buffer, {}, true};
    std::vector<const Var*> walked;
    for (size_t d = 0; d < load->indices.size(); ++d) {
      const Expr& whole = load->buffer->shape[d];
      const Expr at = simplify(substitute(load->indices[d], bindings_), whole_bounds_);
      const auto [low, high] = range(at, whole_bounds_, whole_);
      Range part{index(0), whole};
      bool tight = false;
      if (low && high) {
        const Expr extent = simplify(high - low + 1, outer_bounds_);
        if (as_int(extent) && proves(outer_bounds_, ge(low, index(0))) && proves(outer_bounds_, lt(high, whole))) {
          part = {simplify(low, outer_bounds_), extent};
          tight = walks_alone(at, walked);
        }
      }
      operand.exact &= tight;
      operand.ranges.push_back(part);
    }
    // A predicate that decides by other loops leaves out no element.
    const Expr& predicate = block_.as<Block>()->f.predicate;
    operand.exact &= !predicate || std::none_of(walked.begin(), walked.end(),
                                                [&](const Var* var) { return uses_var(predicate, var); });
    found_.operands.push_back(std::move(operand));
    return true;
  }

  /// May the elements be written by another name?
  bool is_viewed(const Buffer& buffer) const {
    bool viewed = bool(buffer->view_of);
    for_each_stmt(schedule_.func()->body, [&](const Stmt& s) {
      if (!s.as<Block>()) return;
      for (const Buffer& other : s.as<Block>()->f.allocs) viewed |= other->view_of && other->view_of->buffer == buffer;
    });
    return viewed;
  }

  /// Do the loops within that the index goes by, each of which no index before does, make up a number as its digits?
  bool walks_alone(const Expr& at, std::vector<const Var*>& walked) const {
    std::vector<std::pair<std::int64_t, std::int64_t>> digits;  // places and extents
    for (const AffineTerm& term : to_affine(at).terms) {
      for (const VarRef& used : used_vars(term.atom)) {
        if (whole_bounds_.position(used.get()) < static_cast<int>(whole_.entries)) continue;
        const Range* domain = whole_bounds_.domain(used.get());
        const std::int64_t* extent = domain ? as_int(domain->extent) : nullptr;
        if (!extent || term.atom != Expr(used) || std::find(walked.begin(), walked.end(), used.get()) != walked.end())
          return false;
        digits.emplace_back(std::abs(term.coefficient), *extent);
        walked.push_back(used.get());
      }
    }
    std::sort(digits.begin(), digits.end());
    std::int64_t place = 1;
    return std::all_of(digits.begin(), digits.end(), [&](const auto& digit) {
      const bool fits = digit.first == place;
      place *= digit.second;
      return fits;
    });
  }

  const Schedule& schedule_;
  const RefuseMasks& refuse_;
  const MasksBy by_;
  const Stmt block_;
  const For& loop_;
  Bounds outer_bounds_, bounds_;
  Bounds::Mark outer_;
  Bounds whole_bounds_;
  Bounds::Mark whole_;
  std::vector<const For*> loops_;
  Substitution bindings_;
  std::unordered_map<const Var*, Constant> values_;
  std::unordered_map<const BufferNode*, Constant> contents_;  ///< of what the iteration writes
  MaskedIteration found_;
};

}  // namespace

MaskedIteration masked_iteration(const Schedule& schedule, const Stmt& block, const Path& loop_path, size_t whole,
                                 const RefuseMasks& refuse, MasksBy by) {
  return Masking(schedule, block, loop_path, whole, refuse, by).run();
}

void refuse_what_stays(const Schedule& schedule, const Stmt& block, const Path& loop_path, const RefuseMasks& refuse) {
  const For& loop = *loop_path.back().as<For>();
  std::vector<Stmt> below;
  for_each_stmt(loop.body, [&](const Stmt& s) {
    if (s.as<Block>()) below.push_back(s);
  });
  std::vector<Buffer> written;
  for (const Stmt& s : below) {
    if (s == block) continue;
    for (const Region& region : s.as<Block>()->f.writes) {
      if (!is_allocated(schedule.func(), region.buffer) || region.buffer->view_of)
        refuse(2, s, fmt::format("writes {}", region.buffer->name));
      written.push_back(region.buffer);
    }
  }
  if (written.empty()) return;
  for_each_stmt(schedule.func()->body, [&](const Stmt& s) {
    const Block* other = s.as<Block>();
    if (!other || has_blocks(*other) || std::find(below.begin(), below.end(), s) != below.end()) return;
    for (const Buffer& buffer : written) {
      if (reads(*other, buffer)) refuse(2, s, fmt::format("reads {}", buffer->name));
    }
  });
  Bounds bounds = bounds_at(schedule.func(), loop_path);
  bounds.bind(loop.variable, Range{loop.min, loop.extent});
  const auto considered = [&](const Buffer& buffer) {
    return std::find(written.begin(), written.end(), buffer) != written.end();
  };
  for (const ExposedRead& read : exposed_reads(loop.body, bounds, considered)) {
    refuse(3, read.block ? read.block : loop_path.back(),
           fmt::format("reads {}, which may be an earlier iteration's", read.region.buffer->name));
  }
}

}  // namespace lathe
