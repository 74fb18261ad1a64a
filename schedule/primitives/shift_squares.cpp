#include "schedule/primitives/shift_squares.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "ir/reduction.h"
#include "schedule/access.h"
#include "schedule/primitives/mean_squares.h"

namespace lathe {
namespace {

/// A nest over iters that are the sum's anew.
struct Nest {
  Block::Fields fields;
  std::vector<Range> ranges;
  Substitution iters;

  /// Those that reduce, where `extents` has one for each; without, none of them.
  Nest(const Block& block, const std::vector<std::int64_t>& extents) {
    size_t reduced = 0;
    for (size_t i = 0; i < block.f.iters.size(); ++i) {
      const Iter& iter = block.f.iters[i];
      const bool reduces = iter.kind == IterKind::reduce;
      if (reduces && extents.empty()) continue;
      const VarRef variable = Var::make(iter.variable->name);
      const Range domain = reduces ? Range{index(0), index(extents[reduced++])} : iter.domain;
      iters[iter.variable.get()] = variable;
      fields.iters.push_back({variable, domain, iter.kind});
      fields.bindings.emplace_back(Var::make(loop_name(block, i)));
      ranges.push_back(domain);
    }
  }

  std::vector<Expr> at(const ReductionOutput& output) const {
    std::vector<Expr> indices;
    for (const Expr& e : output.indices) indices.push_back(substitute(e, iters));
    return indices;
  }

  Stmt finish(const std::string& name) {
    fields.name = name;
    const Stmt made = Block::make(std::move(fields));
    const Stmt block = with_inferred_regions(*made.as<Block>());
    return make_nest(*block.as<Block>(), ranges);
  }

  Stmt finish_sum(const std::string& name, const ReductionOutput& output, const Expr& term) {
    const Reducer reducer = simple_reducer(BinaryOp::add, output.buffer->dtype);
    fields.init = make_init(reducer, {output});
    fields.body = make_update(reducer, {output}, {term});
    fields.reducer = reducer;
    return finish(name);
  }
};

class Shifter {
 public:
  Shifter(const Schedule& schedule, const MeanSquares& pair, std::int64_t terms) : pair_(pair) {
    const auto make = [&](const Buffer& whole, const char* what) {
      made_.push_back(BufferNode::make(schedule.unique_name(whole->name + what), whole->dtype, whole->shape));
      return made_.back();
    };
    sample_ = make(pair_.total.buffer, "_sample");
    centre_ = make(pair_.total.buffer, "_centre");
    total_off_ = make(pair_.total.buffer, "_off");
    squared_off_ = make(pair_.squared.buffer, "_off");
    const std::string &sum = pair_.sum_block().f.name, &squares = pair_.squares_block().f.name;
    sample_name_ = schedule.unique_name(sum + "_sample");
    centre_name_ = schedule.unique_name(sum + "_centre");
    names_ = {schedule.unique_name(sum + "_shifted"), schedule.unique_name(squares + "_shifted")};
    choose_sample(terms);
  }

  Stmt run() const {
    std::vector<Stmt> nests{sample(), centre(), shifted(false), shifted(true)};
    if (pair_.total_needed) nests.push_back(total());
    Stmt body = replace_mean_squares(pair_, nests, {squared()});
    for (const Buffer& buffer : made_) body = add_allocation(body, buffer);
    if (pair_.mean) body = remove_allocation(body, pair_.mean);
    if (!pair_.total_needed) body = remove_allocation(body, pair_.total.buffer);
    return body;
  }

  const std::vector<std::string>& names() const { return names_; }

 private:
  /// The first of each reduced iter, the outermost ones cut first: no fewer terms than asked for.
  void choose_sample(std::int64_t terms) {
    std::int64_t share = pair_.count / terms;
    for (const Iter& iter : pair_.sum_block().f.iters) {
      if (iter.kind != IterKind::reduce) continue;
      const std::int64_t extent = *as_int(iter.domain.extent), taken = (extent + share - 1) / share;
      whole_.push_back(extent);
      sampled_.push_back(taken);
      share = std::max<std::int64_t>(1, share * taken / extent);
      sample_terms_ *= taken;
    }
  }

  Expr number(double value) const { return constant(pair_.dtype(), value); }

  Stmt sample() const {
    Nest nest(pair_.sum_block(), sampled_);
    return nest.finish_sum(sample_name_, {sample_, nest.at(pair_.total)}, substitute(pair_.term, nest.iters));
  }

  Stmt centre() const {
    Nest nest(pair_.sum_block(), {});
    const VarRef mean = Var::make("mean", pair_.dtype());
    const Expr finite = lt(unary(UnaryOp::abs, mean), number(std::numeric_limits<double>::infinity()));
    const std::vector<Expr> indices = nest.at(pair_.total);
    nest.fields.body = Let::make(mean, load(sample_, indices) * number(1.0 / static_cast<double>(sample_terms_)),
                                 Store::make(centre_, indices, select(finite, Expr(mean), number(0))));
    return nest.finish(centre_name_);
  }

  Stmt shifted(bool squares) const {
    Nest nest(pair_.sum_block(), whole_);
    const Expr off = substitute(pair_.term, nest.iters) - load(centre_, nest.at(pair_.total));
    const ReductionOutput output{squares ? squared_off_ : total_off_, nest.at(squares ? pair_.squared : pair_.total)};
    return nest.finish_sum(names_[squares ? 1 : 0], output, squares ? off * off : off);
  }

  Stmt total() const {
    Nest nest(pair_.sum_block(), {});
    const std::vector<Expr> indices = nest.at(pair_.total);
    nest.fields.body =
        Store::make(pair_.total.buffer, indices,
                    load(total_off_, indices) + load(centre_, indices) * number(static_cast<double>(pair_.count)));
    return nest.finish(pair_.sum_block().f.name);
  }

  Stmt squared() const {
    Nest nest(pair_.sum_block(), {});
    const VarRef off = Var::make("off", pair_.dtype()), sum = Var::make("sum", pair_.dtype()),
                 found = Var::make("found", pair_.dtype());
    const std::vector<Expr> indices = nest.at(pair_.squared);
    const Expr infinite = number(std::numeric_limits<double>::infinity());
    // Squares of finite terms may leave the range, and then what is taken off does too. Rounding may leave less than
    // nothing of terms that are alike. NaN stays.
    const Expr overflown = logical_and(eq(sum, infinite), lt(unary(UnaryOp::abs, off), infinite));
    const Expr value = select(overflown, Expr(sum), select(lt(found, number(0)), number(0), Expr(found)));
    nest.fields.body = Let::make(
        off, load(total_off_, nest.at(pair_.total)),
        Let::make(sum, load(squared_off_, indices),
                  Let::make(found, Expr(sum) - off * (Expr(off) * number(1.0 / static_cast<double>(pair_.count))),
                            Store::make(pair_.squared.buffer, indices, value))));
    return nest.finish(pair_.squares_block().f.name);
  }

  const MeanSquares& pair_;
  Buffer sample_, centre_, total_off_, squared_off_;
  std::vector<Buffer> made_;
  std::string sample_name_, centre_name_;
  std::vector<std::string> names_;
  std::vector<std::int64_t> whole_, sampled_;  ///< extents of what is reduced
  std::int64_t sample_terms_ = 1;
};

}  // namespace

std::vector<BlockRef> shift_squares(Schedule& schedule, const BlockRef& sum, const BlockRef& squares,
                                    std::int64_t terms) {
  const std::string application = fmt::format("shift_squares({}, {}, {})", sum.name, squares.name, terms);
  const MeanSquares pair = require_mean_squares(schedule, application, sum, squares);
  if (terms < 1 || terms > pair.count) {
    refuse(schedule, application, 5, "terms is from 1 to the number of terms", pair.sum.back(),
           fmt::format("has {} terms", pair.count));
  }
  const Shifter shifter(schedule, pair, terms);
  schedule.commit(shifter.run(), application);
  return {{shifter.names()[0]}, {shifter.names()[1]}};
}

}  // namespace lathe
