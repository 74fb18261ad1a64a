#include "schedule/primitives/join_rows.h"

#include <fmt/format.h>

#include <algorithm>

#include "ir/analysis/simplify.h"
#include "ir/text/print.h"
#include "schedule/access.h"
#include "schedule/beforehand.h"
#include "schedule/complete.h"
#include "schedule/copy_block.h"
#include "schedule/rewrite.h"

namespace lathe {
namespace {

class Joiner {
 public:
  Joiner(const Schedule& schedule, const LoopRef& outer, const LoopRef& inner, std::int64_t pitch)
      : application(fmt::format("join_rows({}, {}, {})", schedule.place(outer), schedule.place(inner), pitch)),
        schedule_(schedule),
        pitch_(pitch) {
    find_block(outer, inner);
    outer_ = iter_of(outer);
    inner_ = iter_of(inner);
    if (outer_ == inner_) refuse_loops("drives no two iters");
    if (node().f.iters[outer_].kind != node().f.iters[inner_].kind) refuse_loops("has iters of two kinds");
    rows_ = extent_of(outer_);
    row_ = extent_of(inner_);
    if (pitch_ < row_) {
      refuse(schedule_, application, 3, "pitch is no less than inner's extent", path_.back(),
             fmt::format("has rows of {} elements", row_));
    }
    if (node().f.iters[outer_].kind != IterKind::space) {
      if (gaps()) refuse_loops("would reduce what is in the gaps");
      if (path_to(schedule_, outer).back().as<For>()->body != path_to(schedule_, inner).back())
        refuse_loops("would be reduced in another order");
    }
    joined = {Var::make(outer.variable->name + "_" + inner.variable->name)};
  }

  const std::string application;
  LoopRef joined;

  Stmt run() {
    const Stmt block = joined_block();
    if (gaps()) check_gaps(*block.as<Block>());
    // The joined loop stands where the outer one was.
    Stmt nest = block;
    for (size_t level = path_.size() - 1; level-- > own_;) {
      const For& loop = *path_[level].as<For>();
      const Expr variable = loop.variable;
      if (variable == node().f.bindings[inner_]) continue;
      if (variable == node().f.bindings[outer_]) {
        nest = For::make(joined.variable, index(0), index(length()), ForKind::serial, nest, loop.annotations);
      } else {
        nest = with_body(loop, nest);
      }
    }
    const Stmt body = replace_last(Path(path_.begin(), path_.begin() + static_cast<std::ptrdiff_t>(own_) + 1), nest);
    if (gaps()) {
      for (const Region& region : block.as<Block>()->f.reads) {
        if (!writes(node(), region.buffer)) require_written(schedule_, application, 6, path_, region.buffer, body);
      }
    }
    return body;
  }

 private:
  const Block& node() const { return *path_.back().as<Block>(); }
  bool gaps() const { return rows_ > 1 && pitch_ > row_; }
  std::int64_t length() const { return (rows_ - 1) * pitch_ + row_; }

  void find_block(const LoopRef& outer, const LoopRef& inner) {
    const std::string text =
        "one block lies below the loops; it runs over its whole domain, each iter by a serial loop of its own that "
        "holds nothing else";
    const Stmt loop = path_to(schedule_, outer).back();
    const std::vector<Stmt> blocks = outer_blocks(loop);
    if (blocks.size() != 1) refuse(schedule_, application, 1, text, loop, "holds other than one block");
    path_ = path_to(schedule_, BlockRef{blocks[0].as<Block>()->f.name});
    if (has_blocks(node())) refuse(schedule_, application, 1, text, path_.back(), "holds blocks");
    if (const std::string reason = why_not_alone(path_, own_); !reason.empty())
      refuse(schedule_, application, 1, text, path_.back(), reason);
    const auto around = [&](const LoopRef& wanted) {
      return std::any_of(path_.begin() + static_cast<std::ptrdiff_t>(own_), path_.end(),
                         [&](const Stmt& s) { return s.as<For>() && s.as<For>()->variable == wanted.variable; });
    };
    if (!around(outer) || !around(inner)) refuse(schedule_, application, 1, text, path_.back(), "has no such loop");
  }

  [[noreturn]] void refuse_loops(const std::string& note) const {
    refuse(
        schedule_, application, 2,
        "the loops drive two space iters, or without gaps two reduce iters of neighbouring loops, that begin at 0 and "
        "have constant extents",
        path_.back(), note);
  }

  size_t iter_of(const LoopRef& loop) const {
    for (size_t i = 0; i < node().f.iters.size(); ++i) {
      if (node().f.bindings[i] == Expr(loop.variable)) return i;
    }
    refuse_loops(fmt::format("has no iter that {} drives", loop.variable->name));
  }

  std::int64_t extent_of(size_t i) const {
    const Iter& iter = node().f.iters[i];
    const std::int64_t* extent = as_int(iter.domain.extent);
    if ((iter.kind != IterKind::space && iter.kind != IterKind::reduce) || !is_int(iter.domain.min, 0) || !extent ||
        *extent < 1)
      refuse_loops(fmt::format("has iter {}", iter.variable->name));
    return *extent;
  }

  Stmt joined_block() const {
    const VarRef position =
        Var::make(node().f.iters[outer_].variable->name + "_" + node().f.iters[inner_].variable->name);
    const Substitution places = {{node().f.iters[outer_].variable.get(), floor_div(Expr(position), pitch_)},
                                 {node().f.iters[inner_].variable.get(), floor_mod(Expr(position), pitch_)}};
    Bounds bounds(schedule_.func());
    const Stmt changed = with_fields(node(), [&](Block::Fields& f) {
      f.iters[outer_] = {position, {index(0), index(length())}, f.iters[outer_].kind};
      f.bindings[outer_] = joined.variable;
      f.iters.erase(f.iters.begin() + static_cast<std::ptrdiff_t>(inner_));
      f.bindings.erase(f.bindings.begin() + static_cast<std::ptrdiff_t>(inner_));
      for (const Iter& iter : f.iters) bounds.bind(iter.variable, iter.domain);
      if (f.init) f.init = simplify(substitute(f.init, places), bounds);
      f.body = simplify(substitute(f.body, places), bounds);
      for (std::vector<Region>* regions : {&f.reads, &f.writes}) {
        for (Region& region : *regions) region = substitute(region, places);
      }
    });
    return with_inferred_regions(*changed.as<Block>());
  }

  void check_gaps(const Block& block) const {
    const std::string text =
        "with gaps, block writes an allocation at its space iters, one index being outer * pitch + inner, over whole "
        "dimensions, and nothing else writes there";
    if (const std::string reason = why_not_pointwise(block); !reason.empty())
      refuse(schedule_, application, 4, text, path_.back(), reason);
    for (const Region& written : block.f.writes) {
      if (!is_allocated(schedule_.func(), written.buffer) || written.buffer->view_of) {
        refuse(schedule_, application, 4, text, path_.back(),
               fmt::format("writes {}, which is no allocation", written.buffer->name));
      }
      for_each_stmt(schedule_.func()->body, [&](const Stmt& s) {
        const Block* other = s.as<Block>();
        if (other && other != &node() && s != path_.front() && writes(*other, written.buffer))
          refuse(schedule_, application, 4, text, s, fmt::format("writes {} too", written.buffer->name));
      });
    }
    Bounds bounds(schedule_.func());
    for (const Iter& iter : block.f.iters) bounds.bind(iter.variable, iter.domain);
    for_each_expr(block.f.body, [&](const Expr& e) {
      const Load* load = e.as<Load>();
      if (!load) return;
      if (!load->mask && lies_inside(*load, bounds)) return;
      refuse(schedule_, application, 5,
             "with gaps, every index of a Load is proved to lie in its buffer, and no Load has a mask", path_.back(),
             fmt::format("reads {} in the gaps", print(e)));
    });
  }

  const Schedule& schedule_;
  const std::int64_t pitch_;
  Path path_;
  size_t own_ = 0, outer_ = 0, inner_ = 0;
  std::int64_t rows_ = 0, row_ = 0;
};

}  // namespace

LoopRef join_rows(Schedule& schedule, const LoopRef& outer, const LoopRef& inner, std::int64_t pitch) {
  Joiner joiner(schedule, outer, inner, pitch);
  schedule.commit(joiner.run(), joiner.application);
  return joiner.joined;
}

}  // namespace lathe
