#include "schedule/primitives/skip_masked.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "ir/analysis/regions.h"
#include "ir/analysis/relax.h"
#include "ir/analysis/simplify.h"
#include "ir/intrinsics.h"
#include "ir/reduction.h"
#include "ir/structural.h"
#include "schedule/access.h"
#include "schedule/carried.h"

namespace lathe {
namespace {

constexpr const char* place_text =
    "block is a reduction without an init, by loops of which loop, a serial one, drives a reduce iter";
constexpr const char* kept_text =
    "below loop stand only blocks, which write allocations that nothing outside of loop reads, but for block";
constexpr const char* fresh_text = "below loop nothing is read of those that the iteration has not written before";
constexpr const char* identity_text =
    "where every mask that bounds can be relaxed to is false, block's terms come out as its reducer's identities";
constexpr const char* finite_text =
    "an operand that is to be finite is written whole before the nest that holds loop, where nothing writes it, or is "
    "an input";

using Constant = std::optional<double>;

/// The elements of an operand that an iteration reads.
struct Operand {
  Buffer buffer;
  std::vector<Range> ranges;  ///< over the loop and those around it
};

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

/// Runs the body of a loop with constants for what its masks decide when they are false.
class Masking {
 public:
  Masking(const Schedule& schedule, const std::string& application, const Path& path, const Path& loop_path)
      : schedule_(schedule),
        application_(application),
        block_(path.back()),
        loop_(*loop_path.back().as<For>()),
        outer_bounds_(bounds_at(schedule.func(), loop_path)),
        bounds_(outer_bounds_),
        outer_(bounds_.mark()) {
    for (const Stmt& s : loop_path) {
      if (const For* around = s.as<For>()) loops_.push_back(around);
    }
    outer_bounds_.bind(loop_.variable, Range{loop_.min, loop_.extent});
    bounds_.bind(loop_.variable, Range{loop_.min, loop_.extent});
    outer_ = bounds_.mark();
  }

  void run() { walk(loop_.body); }

  std::vector<Expr> guards;  ///< an iteration that counts has one of them true
  std::vector<Operand> operands;
  std::vector<const For*> loops_;

 private:
  [[noreturn]] void fail(int condition, const char* text, const Stmt& culprit, const std::string& note) const {
    refuse(schedule_, application_, condition, text, culprit, note);
  }

  void walk(const Stmt& s) {
    if (const For* loop = s.as<For>()) {
      const Bounds::Mark mark = bounds_.mark();
      bounds_.bind(loop->variable, Range{loop->min, loop->extent});
      walk(loop->body);
      bounds_.rollback(mark);
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
      fail(2, kept_text, s, "is no block, or one of tiles");
    }
  }

  void execute(const Stmt& s) {
    if (const Let* let = s.as<Let>()) {
      values_[let->variable.get()] = evaluate(let->value);
      execute(let->body);
    } else if (const Seq* seq = s.as<Seq>()) {
      for (const Stmt& child : seq->stmts) execute(child);
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
    if (!parts || !block.f.reducer) fail(1, place_text, block_, "has another body");
    for (const Stmt& s : parts->lets) values_[s.as<Let>()->variable.get()] = evaluate(s.as<Let>()->value);
    for (size_t k = 0; k < parts->terms.size(); ++k) {
      const Constant term = evaluate(parts->terms[k]), identity = evaluate(block.f.reducer->identities[k]);
      if (!term || term != identity) {
        fail(4, identity_text, block_, fmt::format("may add to {} all the same", parts->outputs[k].buffer->name));
      }
    }
    if (guards.empty()) fail(4, identity_text, block_, "depends on no mask");
  }

  Constant evaluate(const Expr& limited) {
    const Expr& e = without_limit(limited);
    switch (e->kind) {
      case ExprKind::FloatImm:
        return e.as<FloatImm>()->value;
      case ExprKind::Var: {
        const auto found = values_.find(e.as<Var>());
        return found == values_.end() ? std::nullopt : found->second;
      }
      case ExprKind::Broadcast:
        return evaluate(e.as<Broadcast>()->value);
      case ExprKind::Unary: {
        const Constant a = evaluate(e.as<Unary>()->a);
        return a ? folded(*e.as<Unary>(), *a) : std::nullopt;
      }
      case ExprKind::Load: {
        const auto found = contents_.find(e.as<Load>()->buffer.get());
        if (found == contents_.end() || (e.as<Load>()->mask && found->second != 0.0)) return std::nullopt;
        return found->second;
      }
      case ExprKind::Select:
        return choose(*e.as<Select>());
      case ExprKind::Binary: {
        const Binary* binary = e.as<Binary>();
        const Constant a = evaluate(binary->a), b = evaluate(binary->b);
        if (a && b) return folded(*binary, *a, *b);
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
    const Expr guard = necessary(substitute(select.condition, bindings_));
    if (!guard) return std::nullopt;
    const bool known =
        std::any_of(guards.begin(), guards.end(), [&](const Expr& other) { return equal(other, guard); });
    if (!known) guards.push_back(guard);
    return evaluate(select.when_false);
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

  SymbolicRange range(const Expr& index) const {
    SymbolicRange found = Relaxation(bounds_, outer_).range(index);
    if (found.low && !is_outer(found.low)) found.low = nullptr;
    if (found.high && !is_outer(found.high)) found.high = nullptr;
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
    const Expr low = range(rises ? binary->a : binary->b).low, high = range(rises ? binary->b : binary->a).high;
    if (!low || !high) return nullptr;
    const bool strict = binary->op == BinaryOp::lt || binary->op == BinaryOp::gt;
    return simplify(strict ? lt(low, high) : le(low, high), outer_bounds_);
  }

  /// Notes that zero times the operand is zero only where it is finite.
  bool need_finite(const Expr& e) {
    if (const Broadcast* broadcast = e.as<Broadcast>()) return need_finite(broadcast->value);
    const Load* load = e.as<Load>();
    if (!load || contents_.contains(load->buffer.get()) || !load->dtype.is_scalar() || load->dtype.bits < 32)
      return false;
    Operand operand{load->buffer, {}};
    for (size_t d = 0; d < load->indices.size(); ++d) {
      const Expr& whole = load->buffer->shape[d];
      const auto [low, high] = range(substitute(load->indices[d], bindings_));
      Range part{index(0), whole};
      if (low && high) {
        const Expr extent = simplify(high - low + 1, outer_bounds_);
        if (as_int(extent) && proves(outer_bounds_, ge(low, index(0))) && proves(outer_bounds_, lt(high, whole)))
          part = {simplify(low, outer_bounds_), extent};
      }
      operand.ranges.push_back(part);
    }
    operands.push_back(std::move(operand));
    return true;
  }

  const Schedule& schedule_;
  const std::string& application_;
  const Stmt block_;
  const For& loop_;
  Bounds outer_bounds_, bounds_;
  Bounds::Mark outer_;
  Substitution bindings_;
  std::unordered_map<const Var*, Constant> values_;
  std::unordered_map<const BufferNode*, Constant> contents_;  ///< of what the iteration writes
};

/// A nest that sums zero times the operand's elements for each iteration of the loops that decide which they are.
struct FiniteSum {
  Stmt nest;
  Buffer sums;
  Expr guard;  ///< true where one of them is not finite
};

FiniteSum sum_of_zeros(const Schedule& schedule, const Operand& operand, const std::vector<const For*>& loops) {
  const DType dtype = operand.buffer->dtype;
  FiniteSum made;
  Block::Fields fields;
  fields.name = schedule.unique_name(operand.buffer->name + "_zeros");
  std::vector<Expr> shape, at, here;
  std::vector<Range> ranges;
  Substitution iters;
  const auto add = [&](const std::string& name, const Range& domain, IterKind kind) {
    const VarRef variable = Var::make("v" + name);
    fields.iters.push_back({variable, domain, kind});
    fields.bindings.emplace_back(Var::make(name));
    ranges.push_back(domain);
    return variable;
  };
  for (const For* loop : loops) {
    const bool used = std::any_of(operand.ranges.begin(), operand.ranges.end(),
                                  [&](const Range& range) { return uses_var(range.min, loop->variable.get()); });
    if (!used) continue;
    const VarRef variable = add(loop->variable->name, {loop->min, loop->extent}, IterKind::space);
    iters[loop->variable.get()] = variable;
    shape.push_back(loop->extent);
    at.push_back(Expr(variable) - loop->min);
    here.push_back(Expr(loop->variable) - loop->min);
  }
  if (shape.empty()) {
    shape.push_back(index(1));
    at.push_back(index(0));
    here.push_back(index(0));
  }
  std::vector<Expr> indices;
  for (size_t d = 0; d < operand.ranges.size(); ++d) {
    const Expr low = substitute(operand.ranges[d].min, iters);
    if (is_int(operand.ranges[d].extent, 1)) {
      indices.push_back(low);
    } else {
      indices.push_back(low + Expr(add(fmt::format("d{}", d), {index(0), operand.ranges[d].extent}, IterKind::reduce)));
    }
  }
  made.sums = BufferNode::make(schedule.unique_name(operand.buffer->name + "_zeros"), dtype, shape);
  const Reducer reducer = simple_reducer(BinaryOp::add, dtype);
  const std::vector<ReductionOutput> outputs{{made.sums, at}};
  fields.reducer = reducer;
  fields.init = make_init(reducer, outputs);
  fields.body = make_update(reducer, outputs, {load(operand.buffer, indices) * constant(dtype, 0)});
  const Stmt block = Block::make(std::move(fields));
  made.nest = with_inferred_regions(*block.as<Block>());
  const Block& node = *made.nest.as<Block>();
  std::vector<VarRef> variables;
  variables.reserve(ranges.size());
  for (const Expr& binding : node.f.bindings) variables.emplace_back(binding.as<Var>());
  for (size_t i = ranges.size(); i-- > 0;)
    made.nest = For::make(variables[i], ranges[i].min, ranges[i].extent, ForKind::serial, made.nest);
  made.guard = ne(load(made.sums, here), constant(dtype, 0));
  return made;
}

/// The sums take in all between the elements that the loop reads, which must be written there too.
void refuse_unwritten(const Schedule& schedule, const std::string& application, const Stmt& nest, const Stmt& body,
                      const std::vector<Operand>& operands, const std::vector<Buffer>& sums) {
  std::vector<Buffer> computed;
  for_each_stmt(schedule.func()->body, [&](const Stmt& s) {
    if (!s.as<Block>()) return;
    for (const Region& region : s.as<Block>()->f.writes) computed.push_back(region.buffer);
  });
  const auto considered = [&](const Buffer& buffer) {
    const bool operand =
        std::any_of(operands.begin(), operands.end(), [&](const Operand& other) { return other.buffer == buffer; });
    return operand && std::find(computed.begin(), computed.end(), buffer) != computed.end();
  };
  const Block* root = body.as<Block>();
  const Stmt& inside = root && root->f.iters.empty() ? root->f.body : body;
  for (const ExposedRead& read : exposed_reads(inside, Bounds(schedule.func()), considered)) {
    const Block* reader = read.block ? read.block.as<Block>() : nullptr;
    const bool sum =
        reader && std::any_of(sums.begin(), sums.end(), [&](const Buffer& made) { return writes(*reader, made); });
    if (!sum) continue;
    refuse(schedule, application, 5, finite_text, nest,
           fmt::format("reads {}, of which not all between is proved to be written", read.region.buffer->name));
  }
}

}  // namespace

void skip_masked(Schedule& schedule, const BlockRef& block, const LoopRef& loop) {
  const Path path = path_to(schedule, block), loop_path = path_to(schedule, loop);
  const std::string application = fmt::format("skip_masked({}, {})", block.name, schedule.place(loop));
  const Block& node = *path.back().as<Block>();
  const For& skipped = *loop_path.back().as<For>();
  const bool around = std::find(path.begin(), path.end(), loop_path.back()) != path.end();
  if (!node.f.reducer || node.f.init || !around || skipped.for_kind != ForKind::serial ||
      !drives(node, IterKind::reduce, skipped) || drives(node, IterKind::space, skipped)) {
    refuse(schedule, application, 1, place_text, path.back(), "is no such reduction");
  }

  std::vector<Stmt> below;
  for_each_stmt(skipped.body, [&](const Stmt& s) {
    if (s.as<Block>()) below.push_back(s);
  });
  std::vector<Buffer> written;
  for (const Stmt& s : below) {
    if (s == path.back()) continue;
    for (const Region& region : s.as<Block>()->f.writes) {
      if (!is_allocated(schedule.func(), region.buffer) || region.buffer->view_of)
        refuse(schedule, application, 2, kept_text, s, fmt::format("writes {}", region.buffer->name));
      written.push_back(region.buffer);
    }
  }
  for_each_stmt(schedule.func()->body, [&](const Stmt& s) {
    const Block* other = s.as<Block>();
    if (!other || !outer_blocks(other->f.body).empty() || std::find(below.begin(), below.end(), s) != below.end())
      return;
    for (const Buffer& buffer : written) {
      if (reads(*other, buffer)) refuse(schedule, application, 2, kept_text, s, fmt::format("reads {}", buffer->name));
    }
  });
  Bounds bounds = bounds_at(schedule.func(), loop_path);
  bounds.bind(loop.variable, Range{skipped.min, skipped.extent});
  const auto considered = [&](const Buffer& buffer) {
    return std::find(written.begin(), written.end(), buffer) != written.end();
  };
  for (const ExposedRead& read : exposed_reads(skipped.body, bounds, considered)) {
    refuse(schedule, application, 3, fresh_text, read.block ? read.block : loop_path.back(),
           fmt::format("reads {}, which may be an earlier iteration's", read.region.buffer->name));
  }

  Masking masking(schedule, application, path, loop_path);
  masking.run();
  Expr guard;
  for (const Expr& e : masking.guards) guard = guard ? logical_or(guard, e) : e;
  size_t nest = 0;
  while (!loop_path[nest].as<For>()) ++nest;
  std::vector<Stmt> stmts;
  std::vector<Buffer> made;
  for (const Operand& operand : masking.operands) {
    for_each_stmt(loop_path[nest], [&](const Stmt& s) {
      if (s.as<Block>() && writes(*s.as<Block>(), operand.buffer))
        refuse(schedule, application, 5, finite_text, s, fmt::format("writes {}", operand.buffer->name));
    });
    for (const For* outer : masking.loops_) {
      const bool plain = used_vars(outer->min).empty() && used_vars(outer->extent).empty();
      const bool used = std::any_of(operand.ranges.begin(), operand.ranges.end(),
                                    [&](const Range& range) { return uses_var(range.min, outer->variable.get()); });
      if (used && !plain)
        refuse(schedule, application, 5, finite_text, loop_path[nest],
               fmt::format("decides what {} it reads by loops that depend on others", operand.buffer->name));
    }
    const FiniteSum sum = sum_of_zeros(schedule, operand, masking.loops_);
    stmts.push_back(sum.nest);
    made.push_back(sum.sums);
    guard = logical_or(guard, sum.guard);
  }
  const Stmt guarded = with_body(skipped, If::make(guard, skipped.body));
  stmts.push_back(replace_last(Path(loop_path.begin() + static_cast<std::ptrdiff_t>(nest), loop_path.end()), guarded));
  const Path above(loop_path.begin(), loop_path.begin() + static_cast<std::ptrdiff_t>(nest) + 1);
  Stmt body = replace_last(above, Seq::make(std::move(stmts)));
  refuse_unwritten(schedule, application, loop_path[nest], body, masking.operands, made);
  for (const Buffer& buffer : made) body = add_allocation(body, buffer);
  schedule.commit(body, application);
}

}  // namespace lathe
