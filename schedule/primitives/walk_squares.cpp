#include "schedule/primitives/walk_squares.h"

#include <fmt/format.h>

#include <algorithm>

#include "schedule/primitives/mean_squares.h"

namespace lathe {
namespace {

class Walker {
 public:
  Walker(const Schedule& schedule, const MeanSquares& pair, const For& within)
      : pair_(pair), within_(within), each_(*as_int(within.extent)) {
    std::vector<Expr> extents;
    for (const For* loop : pair_.loops()) {
      if (is_outer(*loop)) extents.push_back(loop->extent);
    }
    const auto make = [&](const Buffer& whole) {
      std::vector<Expr> shape = whole->shape;
      shape.insert(shape.end(), extents.begin(), extents.end());
      return BufferNode::make(schedule.unique_name(whole->name + "_part"), whole->dtype, shape);
    };
    totals_ = make(pair_.total.buffer);
    squares_ = make(pair_.squared.buffer);
    const std::string &sum = pair_.sum_block().f.name, &squares = pair_.squares_block().f.name;
    names_ = {schedule.unique_name(sum + "_part"), schedule.unique_name(squares + "_part"), sum};
    zero_ = schedule.unique_name(sum + "_zero");
  }

  Stmt run() const {
    const Stmt body = replace_mean_squares(
        pair_, {zero(), partial(names_[0], totals_, nullptr), partial(names_[1], squares_, totals_), merged()}, {});
    return add_allocation(add_allocation(body, totals_), squares_);
  }

  const std::vector<std::string>& names() const { return names_; }

 private:
  /// Does the loop go over blocks of terms?
  bool is_outer(const For& loop) const { return drives_reduction(pair_, loop) && &loop != &within_; }

  std::vector<Expr> block_of(const MeanSquaresNest& nest) const {
    std::vector<Expr> found;
    for (const For* loop : pair_.loops()) {
      if (is_outer(*loop)) found.emplace_back(nest.iter_of(*loop));
    }
    return found;
  }

  Expr mean_of_block(const MeanSquaresNest& nest) const {
    return load(totals_, nest.at(pair_.total, block_of(nest))) *
           constant(pair_.dtype(), 1.0 / static_cast<double>(each_));
  }

  Stmt zero() const {
    MeanSquaresNest nest(pair_, [&](const For& loop) {
      return drives_reduction(pair_, loop) ? std::nullopt : std::optional(IterKind::space);
    });
    const Expr nothing = constant(pair_.dtype(), 0);
    nest.fields.body = Seq::make({Store::make(pair_.total.buffer, nest.at(pair_.total), nothing),
                                  Store::make(pair_.squared.buffer, nest.at(pair_.squared), nothing)});
    return nest.finish(zero_);
  }

  /// The sum over each block, or with the sums given, of the squares about their means.
  Stmt partial(const std::string& name, const Buffer& results, const Buffer& sums) const {
    MeanSquaresNest nest(pair_,
                         [&](const For& loop) { return &loop == &within_ ? IterKind::reduce : IterKind::space; });
    Expr term = substitute(pair_.term, nest.iters);
    std::vector<Stmt> lets;
    if (sums) {
      const VarRef mean = Var::make("mean", pair_.dtype());
      lets.push_back(Let::make(mean, mean_of_block(nest), Seq::make({})));
      const Expr difference = term - Expr(mean);
      term = difference * difference;
    }
    const ReductionOutput& whole = sums ? pair_.squared : pair_.total;
    const std::vector<Expr> indices = nest.at(whole, block_of(nest));
    return nest.finish_sum(name, results, indices, term, lets);
  }

  Stmt merged() const {
    MeanSquaresNest nest(pair_, [&](const For& loop) -> std::optional<IterKind> {
      if (!drives_reduction(pair_, loop)) return IterKind::space;
      return is_outer(loop) ? std::optional(IterKind::ordered) : std::nullopt;
    });
    const DType dtype = pair_.dtype();
    Expr blocks = index(0);  // before this one
    for (const For* loop : pair_.loops()) {
      if (is_outer(*loop)) blocks = blocks * *as_int(loop->extent) + Expr(nest.iter_of(*loop));
    }
    const Expr before = cast(dtype, blocks), one = constant(dtype, 1),
               each = constant(dtype, static_cast<double>(each_));
    const VarRef sum = Var::make("before", dtype), off = Var::make("off", dtype);
    const std::vector<Expr> total = nest.at(pair_.total), squared = nest.at(pair_.squared),
                            part = nest.at(pair_.total, block_of(nest)),
                            squared_part = nest.at(pair_.squared, block_of(nest));
    // The weight, 0 of the first block, comes before the second factor: a square could leave the range.
    const Expr weight = before * each * div(one, before + one);
    const Stmt stores = Seq::make({Store::make(pair_.squared.buffer, squared,
                                               load(pair_.squared.buffer, squared) +
                                                   (load(squares_, squared_part) + Expr(off) * weight * Expr(off))),
                                   Store::make(pair_.total.buffer, total, Expr(sum) + load(totals_, part))});
    const Expr mean_before = Expr(sum) * div(one, max(before, one) * each);
    nest.fields.body =
        Let::make(sum, load(pair_.total.buffer, total), Let::make(off, mean_of_block(nest) - mean_before, stores));
    return nest.finish(names_[2]);
  }

  const MeanSquares& pair_;
  const For& within_;
  const std::int64_t each_;  ///< terms of a block
  Buffer totals_, squares_;
  std::vector<std::string> names_;
  std::string zero_;
};

}  // namespace

std::vector<BlockRef> walk_squares(Schedule& schedule, const BlockRef& sum, const BlockRef& squares,
                                   const LoopRef& loop) {
  const std::string application = fmt::format("walk_squares({}, {}, {})", sum.name, squares.name, schedule.place(loop));
  const MeanSquares pair = require_mean_squares(schedule, application, sum, squares);
  const For& within = schedule.node(loop);
  const std::vector<const For*> own = pair.loops();
  if (std::find(own.begin(), own.end(), &within) == own.end() || !drives_reduction(pair, within))
    refuse(schedule, application, 5, "loop drives reduce iters of sum", path_to(schedule, loop).back(), "does not");
  const Walker walker(schedule, pair, within);
  schedule.commit(walker.run(), application);
  return {{walker.names()[0]}, {walker.names()[1]}, {walker.names()[2]}};
}

}  // namespace lathe
