#include "schedule/primitives/part_squares.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "ir/error.h"
#include "schedule/primitives/mean_squares.h"

namespace lathe {
namespace {

class Parter {
 public:
  Parter(const Schedule& schedule, const MeanSquares& pair, const std::vector<const For*>& parts)
      : pair_(pair), parts_(parts) {
    std::vector<Expr> extents;
    std::int64_t all = 1;
    for (const For* loop : parts_) {
      extents.push_back(loop->extent);
      all *= *as_int(loop->extent);
    }
    each_ = pair_.count / all;
    const auto make = [&](const Buffer& whole) {
      std::vector<Expr> shape = whole->shape;
      shape.insert(shape.end(), extents.begin(), extents.end());
      return BufferNode::make(schedule.unique_name(whole->name + "_part"), whole->dtype, shape);
    };
    totals_ = make(pair_.total.buffer);
    squares_ = make(pair_.squared.buffer);
    names_ = {schedule.unique_name(pair_.sum_block().f.name + "_part"),
              schedule.unique_name(pair_.squares_block().f.name + "_part")};
  }

  Stmt run() const {
    const Stmt body = replace_mean_squares(
        pair_, {partial(names_[0], totals_, nullptr), partial(names_[1], squares_, totals_), total()}, {squared()});
    return add_allocation(add_allocation(body, totals_), squares_);
  }

  const std::vector<std::string>& names() const { return names_; }

 private:
  bool is_part(const For& loop) const { return std::find(parts_.begin(), parts_.end(), &loop) != parts_.end(); }

  std::vector<Expr> part_of(const MeanSquaresNest& nest) const {
    std::vector<Expr> found;
    for (const For* loop : parts_) found.emplace_back(nest.iter_of(*loop));
    return found;
  }

  Expr mean_of_part(const MeanSquaresNest& nest) const {
    return load(totals_, nest.at(pair_.total, part_of(nest))) *
           constant(pair_.dtype(), 1.0 / static_cast<double>(each_));
  }

  /// The sum over each part, or with the sums given, of the squares about their means.
  Stmt partial(const std::string& name, const Buffer& results, const Buffer& sums) const {
    MeanSquaresNest nest(pair_, [&](const For& loop) {
      return drives_reduction(pair_, loop) && !is_part(loop) ? IterKind::reduce : IterKind::space;
    });
    Expr term = substitute(pair_.term, nest.iters);
    std::vector<Stmt> lets;
    if (sums) {
      const VarRef mean = Var::make("mean", pair_.dtype());
      lets.push_back(Let::make(mean, mean_of_part(nest), Seq::make({})));
      const Expr difference = term - Expr(mean);
      term = difference * difference;
    }
    const ReductionOutput& whole = sums ? pair_.squared : pair_.total;
    const std::vector<Expr> indices = nest.at(whole, part_of(nest));
    return nest.finish_sum(name, results, indices, term, lets);
  }

  MeanSquaresNest over_parts() const {
    return MeanSquaresNest(pair_, [&](const For& loop) -> std::optional<IterKind> {
      if (!drives_reduction(pair_, loop)) return IterKind::space;
      return is_part(loop) ? std::optional(IterKind::reduce) : std::nullopt;
    });
  }

  Stmt total() const {
    MeanSquaresNest nest = over_parts();
    const Expr term = load(totals_, nest.at(pair_.total, part_of(nest)));
    return nest.finish_sum(pair_.sum_block().f.name, pair_.total.buffer, nest.at(pair_.total), term);
  }

  Stmt squared() const {
    MeanSquaresNest nest = over_parts();
    const Expr difference = mean_of_part(nest) - substitute(pair_.mean, nest.iters);
    const Expr term = load(squares_, nest.at(pair_.squared, part_of(nest))) +
                      difference * difference * constant(pair_.dtype(), static_cast<double>(each_));
    return nest.finish_sum(pair_.squares_block().f.name, pair_.squared.buffer, nest.at(pair_.squared), term);
  }

  const MeanSquares& pair_;
  const std::vector<const For*>& parts_;
  std::int64_t each_ = 1;  ///< terms of a part
  Buffer totals_, squares_;
  std::vector<std::string> names_;
};

}  // namespace

std::vector<BlockRef> part_squares(Schedule& schedule, const BlockRef& sum, const BlockRef& squares,
                                   const std::vector<LoopRef>& loops) {
  std::vector<std::string> arguments{sum.name, squares.name};
  for (const LoopRef& loop : loops) arguments.push_back(schedule.place(loop));
  const std::string application = fmt::format("part_squares({})", fmt::join(arguments, ", "));
  const MeanSquares pair = require_mean_squares(schedule, application, sum, squares);
  std::vector<const For*> parts;
  size_t along = 0;
  for (const For* loop : pair.loops()) along += drives_reduction(pair, *loop);
  for (const LoopRef& loop : loops) {
    const For& node = schedule.node(loop);
    const std::vector<const For*> own = pair.loops();
    const bool fits = std::find(own.begin(), own.end(), &node) != own.end() && drives_reduction(pair, node) &&
                      std::find(parts.begin(), parts.end(), &node) == parts.end();
    parts.push_back(&node);
    if (!fits || loops.size() >= along) {
      refuse(schedule, application, 5,
             "loops are some of those that drive the sum's reduce iters, but not all, each once",
             path_to(schedule, loop).back(), fits ? "leaves nothing within a part" : "is no such loop, or given twice");
    }
  }
  if (parts.empty()) throw InputError(Mistake::value, "part_squares: give at least one loop over parts");
  const Parter parter(schedule, pair, parts);
  schedule.commit(parter.run(), application);
  return {{parter.names()[0]}, {parter.names()[1]}};
}

}  // namespace lathe
