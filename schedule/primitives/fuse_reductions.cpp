#include "schedule/primitives/fuse_reductions.h"

#include <limits>

#include "ir/reduction.h"
#include "schedule/access.h"
#include "schedule/complete.h"
#include "schedule/primitives/merged_reductions.h"

namespace lathe {
namespace {

/// Makes the nests. Every block gets iters of its own; a prefix of space iters is first's.
class Fuser {
 public:
  Fuser(const Schedule& schedule, const MergedReductions& plan, std::int64_t step)
      : schedule_(schedule), plan_(plan), step_(step) {}

  Stmt run() {
    std::vector<Stmt> nests;
    make_buffers();
    nests.push_back(partial_first());
    for (const MergedBetween& between : plan_.between) nests.push_back(partial_between(between));
    for (size_t j = 0; j < plan_.sums.size(); ++j) nests.push_back(partial_sum(j));
    nests.push_back(tuple());
    for (size_t j = 0; j < plan_.sums.size(); ++j) nests.push_back(whole(j));
    std::vector<Stmt> stmts = plan_.before;
    stmts.insert(stmts.end(), nests.begin(), nests.end());
    stmts.insert(stmts.end(), plan_.behind.begin(), plan_.behind.end());
    Path outer(plan_.first.path.begin(), plan_.first.path.begin() + static_cast<std::ptrdiff_t>(plan_.first.own));
    Stmt body = replace_last(outer, Seq::make(std::move(stmts)));
    for (const MergedBetween& between : plan_.between) body = remove_allocation(body, between.store->buffer);
    for (const Buffer& buffer : made_) body = add_allocation(body, buffer);
    return body;
  }

 private:
  struct Frame {
    std::vector<Iter> iters;
    std::vector<Expr> bindings;
    std::vector<Range> ranges;
    Substitution map;          ///< first's iters to these
    std::vector<Expr> prefix;  ///< first's output indices over these
    Expr outer;                ///< the step of the axis
    void add(const std::string& name, const Range& domain, IterKind kind) {
      const VarRef variable = Var::make("v" + name);
      iters.push_back({variable, domain, kind});
      bindings.emplace_back(Var::make(name));
      ranges.push_back(domain);
    }
    Expr last() const { return iters.back().variable; }
  };

  /// First's space iters, then the step of the axis.
  Frame frame(IterKind outer_kind) const;
  /// The place within a step, and with it the axis.
  void add_inner(Frame& f, IterKind kind) const;
  Stmt finish(Frame f, Block::Fields fields) const;
  void make_buffers();
  Expr base(const Expr& value) const;
  std::vector<Expr> at(const Frame& f, const std::vector<Expr>& more) const;
  Stmt partial_first() const;
  Stmt partial_between(const MergedBetween& between) const;
  Stmt partial_sum(size_t j) const;
  Stmt tuple() const;
  Stmt whole(size_t j) const;
  /// `e`, over `iters`' own variables, with partial results for whole ones.
  Expr partial(const Expr& e, const Substitution& iters, const Frame& f) const;

  const Schedule& schedule_;
  const MergedReductions& plan_;
  const std::int64_t step_;
  Buffer first_part_;
  std::vector<Buffer> between_parts_, sum_parts_, sum_wholes_, made_;
};

Fuser::Frame Fuser::frame(IterKind outer_kind) const {
  Frame f;
  const Block& block = plan_.first.block();
  for (size_t i = 0; i < block.f.iters.size(); ++i) {
    if (i == plan_.axis) continue;
    f.add(loop_name(block, i), block.f.iters[i].domain, IterKind::space);
    f.map[block.f.iters[i].variable.get()] = f.last();
  }
  for (const Expr& e : plan_.parts.outputs[0].indices) f.prefix.push_back(substitute(e, f.map));
  f.add(loop_name(block, plan_.axis) + "o", {index(0), index(plan_.extent / step_)}, outer_kind);
  f.outer = f.last();
  return f;
}

void Fuser::add_inner(Frame& f, IterKind kind) const {
  const Block& block = plan_.first.block();
  f.add(loop_name(block, plan_.axis) + "i", {index(0), index(step_)}, kind);
  f.map[block.f.iters[plan_.axis].variable.get()] = f.outer * step_ + f.last();
}

Stmt Fuser::finish(Frame f, Block::Fields fields) const {
  fields.iters = std::move(f.iters);
  fields.bindings = std::move(f.bindings);
  const Stmt made = Block::make(std::move(fields));
  const Stmt block = with_inferred_regions(*made.as<Block>());
  return make_nest(*block.as<Block>(), f.ranges);
}

void Fuser::make_buffers() {
  const auto make = [&](const std::string& name, const std::vector<Expr>& more) {
    std::vector<Expr> shape = plan_.result()->shape;
    shape.insert(shape.end(), more.begin(), more.end());
    made_.push_back(BufferNode::make(schedule_.unique_name(name), plan_.result()->dtype, shape));
    return made_.back();
  };
  const Expr steps = index(plan_.extent / step_);
  first_part_ = make(plan_.result()->name + "_part", {steps});
  for (const MergedBetween& between : plan_.between)
    between_parts_.push_back(make(between.store->buffer->name + "_part", {steps, index(step_)}));
  for (const MergedSum& sum : plan_.sums) {
    const std::string& name = sum.parts.outputs[0].buffer->name;
    std::vector<Expr> columns;
    if (sum.column) columns.push_back(sum.member.block().f.iters[*sum.column].domain.extent);
    std::vector<Expr> more = columns;
    more.insert(more.begin(), steps);
    sum_parts_.push_back(make(name + "_part", more));
    sum_wholes_.push_back(make(name + "_sum", columns));
  }
}

/// What stands for a partial result in terms: all that was seen is an infinite identity, which terms could not take.
Expr Fuser::base(const Expr& value) const {
  return select(eq(value, plan_.identity), constant(value->dtype, 0), value);
}

std::vector<Expr> Fuser::at(const Frame& f, const std::vector<Expr>& more) const {
  std::vector<Expr> indices = f.prefix;
  indices.insert(indices.end(), more.begin(), more.end());
  return indices;
}

Expr Fuser::partial(const Expr& e, const Substitution& iters, const Frame& f) const {
  Expr changed = e;
  for (size_t b = 0; b < plan_.between.size(); ++b) {
    changed = replace_loads(changed, plan_.between[b].store->buffer, [&](const Load&) {
      return load(between_parts_[b], at(f, {f.outer, f.iters.back().variable}));
    });
  }
  changed =
      replace_loads(changed, plan_.result(), [&](const Load&) { return base(load(first_part_, at(f, {f.outer}))); });
  return substitute(changed, iters);
}

/// Iters of another block, by way of first's, to those of the frame.
Substitution composed(const Substitution& to_first, const Substitution& map) {
  Substitution iters;
  for (const auto& [variable, e] : to_first) iters[variable] = substitute(e, map);
  return iters;
}

Stmt Fuser::partial_first() const {
  Frame f = frame(IterKind::space);
  add_inner(f, IterKind::reduce);
  const Reducer reducer = passes_over_nan(plan_.reducer) ? extreme_of_numbers(plan_.op, plan_.result()->dtype)
                                                         : simple_reducer(plan_.op, plan_.result()->dtype);
  const std::vector<ReductionOutput> outputs{{first_part_, at(f, {f.outer})}};
  Block::Fields fields;
  fields.name = schedule_.unique_name(plan_.first.block().f.name + "_part");
  fields.reducer = reducer;
  fields.init = make_init(reducer, outputs);
  fields.body = make_update(reducer, outputs, {substitute(plan_.term, f.map)});
  return finish(std::move(f), std::move(fields));
}

Stmt Fuser::partial_between(const MergedBetween& between) const {
  Frame f = frame(IterKind::space);
  add_inner(f, IterKind::space);
  Substitution iters = composed(between.to_first, f.map);
  iters[between.member.block().f.iters[between.axis].variable.get()] =
      f.map.at(plan_.first.block().f.iters[plan_.axis].variable.get());
  const auto b = static_cast<size_t>(&between - plan_.between.data());
  Block::Fields fields;
  fields.name = between.member.block().f.name;
  fields.body = Store::make(between_parts_[b], at(f, {f.outer, f.last()}), partial(between.value, iters, f));
  return finish(std::move(f), std::move(fields));
}

Stmt Fuser::partial_sum(size_t j) const {
  const MergedSum& sum = plan_.sums[j];
  Frame f = frame(IterKind::space);
  const Block& block = sum.member.block();
  std::vector<Expr> place{f.outer};
  Substitution columns;
  if (sum.column) {
    f.add(loop_name(block, *sum.column), block.f.iters[*sum.column].domain, IterKind::space);
    columns[block.f.iters[*sum.column].variable.get()] = f.last();
    place.push_back(f.last());
  }
  add_inner(f, IterKind::reduce);
  Substitution iters = composed(sum.to_first, f.map);
  iters.insert(columns.begin(), columns.end());
  const Reducer reducer = simple_reducer(BinaryOp::add, plan_.result()->dtype);
  const std::vector<ReductionOutput> outputs{{sum_parts_[j], at(f, place)}};
  Block::Fields fields;
  fields.name = schedule_.unique_name(block.f.name + "_part");
  fields.reducer = reducer;
  fields.init = make_init(reducer, outputs);
  fields.body = make_update(reducer, outputs, {partial(term_without_lets(sum.parts), iters, f)});
  return finish(std::move(f), std::move(fields));
}

Stmt Fuser::tuple() const {
  const DType dtype = plan_.result()->dtype;
  Frame f = frame(IterKind::reduce);
  Reducer reducer;
  const VarRef left = Var::make("lhs", dtype), right = Var::make("rhs", dtype);
  reducer.lhs = {left};
  reducer.rhs = {right};
  reducer.identities = {plan_.identity};
  const Expr whole = combine(plan_.reducer, {left}, {right})[0];
  reducer.results = {whole};
  std::vector<ReductionOutput> outputs{{plan_.result(), f.prefix}};
  std::vector<Expr> terms{load(first_part_, at(f, {f.outer}))};
  const Expr target = base(whole);
  // A side that has seen nothing but the identity holds sums of zero, which need no factor.
  const auto weight = [&](const Homomorphism& factor, const VarRef& side) {
    return carry_factor(factor, select(eq(side, plan_.identity), target, side), target);
  };
  for (size_t j = 0; j < plan_.sums.size(); ++j) {
    const MergedSum& sum = plan_.sums[j];
    std::vector<Expr> columns;
    int lanes = 1;
    if (sum.column) {
      lanes = static_cast<int>(*as_int(sum.member.block().f.iters[*sum.column].domain.extent));
      columns.push_back(lanes == 1 ? index(0) : Ramp::make(index(0), index(1), lanes));
    }
    const DType vector = dtype.with_lanes(lanes);
    const VarRef l = Var::make("lhs", vector), r = Var::make("rhs", vector);
    reducer.lhs.push_back(l);
    reducer.rhs.push_back(r);
    reducer.identities.push_back(constant(vector, 0));
    reducer.results.push_back(l * Broadcast::make(weight(sum.factor, left), lanes) +
                              r * Broadcast::make(weight(sum.factor, right), lanes));
    outputs.push_back({sum_wholes_[j], at(f, columns)});
    columns.insert(columns.begin(), f.outer);
    terms.push_back(load(sum_parts_[j], at(f, columns)));
  }
  Block::Fields fields;
  fields.name = plan_.first.block().f.name;
  fields.reducer = reducer;
  fields.init = make_init(reducer, outputs);
  fields.body = make_update(reducer, outputs, terms);
  return finish(std::move(f), std::move(fields));
}

Stmt Fuser::whole(size_t j) const {
  const MergedSum& sum = plan_.sums[j];
  const Block& block = sum.member.block();
  Frame f;
  for (size_t i = 0; i < block.f.iters.size(); ++i) {
    if (i == sum.axis) continue;
    f.add(loop_name(block, i), block.f.iters[i].domain, IterKind::space);
    f.map[block.f.iters[i].variable.get()] = f.last();
  }
  // First's iters are those of the sum that stand for them.
  Substitution own;
  for (const auto& [variable, e] : sum.to_first) {
    if (const Var* to = e.as<Var>(); to && f.map.contains(variable)) own[to] = f.map[variable];
  }
  std::vector<Expr> prefix;
  for (const Expr& e : plan_.parts.outputs[0].indices) prefix.push_back(substitute(e, own));
  std::vector<Expr> indices = prefix, to;
  if (sum.column) indices.push_back(f.map[block.f.iters[*sum.column].variable.get()]);
  for (const Expr& e : sum.parts.outputs[0].indices) to.push_back(substitute(e, f.map));
  const Expr infinite = constant(plan_.result()->dtype, std::numeric_limits<double>::infinity());
  const Expr correction =
      select(eq(load(plan_.result(), prefix), plan_.identity), infinite, constant(plan_.result()->dtype, 1));
  Block::Fields fields;
  fields.name = block.f.name;
  fields.body = Store::make(sum.parts.outputs[0].buffer, to, load(sum_wholes_[j], indices) * correction);
  return finish(std::move(f), std::move(fields));
}

}  // namespace

BlockRef fuse_reductions(Schedule& schedule, const BlockRef& first, const std::vector<BlockRef>& rest,
                         std::int64_t step) {
  const MergedReductions plan = match_merged_reductions(schedule, first, rest, step);
  schedule.commit(Fuser(schedule, plan, step).run(), plan.application);
  return first;
}

}  // namespace lathe
