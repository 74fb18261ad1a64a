#include "schedule/primitives/reverse_compute_at.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <unordered_set>

#include "ir/analysis/simplify.h"
#include "ir/text/print.h"
#include "schedule/access.h"
#include "schedule/carried.h"
#include "schedule/complete.h"

namespace lathe {
namespace {

class Mover {
 public:
  Mover(const Schedule& schedule, const BlockRef& block, const LoopRef& loop)
      : application(fmt::format("reverse_compute_at({}, {})", block.name, schedule.place(loop))),
        schedule_(schedule),
        path_(path_to(schedule, block)),
        loop_path_(path_to(schedule, loop)),
        consumer_(*path_.back().as<Block>()),
        loop_(*loop_path_.back().as<For>()) {}

  const std::string application;

  Stmt run() {
    check_place();
    check_whole();
    find_produced();
    check_final();
    check_between();
    const Stmt nest = make_moved();
    const Stmt body = with_body(loop_, Seq::make({loop_.body, nest}));
    check_written(body);
    check_covered(body);
    const Stmt without = remove_last(path_);
    return replace_last(find_path(without, [&](const Stmt& s) { return s == loop_path_.back(); }), body);
  }

 private:
  void check_place() {
    const std::string text = "block comes behind loop, which is not around it";
    if (std::find(path_.begin(), path_.end(), loop_path_.back()) != path_.end()) {
      refuse(schedule_, application, 2, text, loop_path_.back(), "is around it already");
    }
    bool seen = false, behind = false;
    for_each_stmt(schedule_.func()->body, [&](const Stmt& s) {
      seen |= s == loop_path_.back();
      if (s == path_.back()) behind = seen;
    });
    if (!behind) refuse(schedule_, application, 2, text, path_.back(), "comes before it");
  }

  void check_whole() {
    const std::string text =
        "block runs over its whole domain, each iter by a serial loop of its own, with no other block in those loops";
    if (const std::string reason = why_incomplete(path_); !reason.empty()) {
      refuse(schedule_, application, 1, text, path_.back(), reason);
    }
    own_ = path_.size() - 1;
    while (own_ > 0 && path_[own_ - 1].as<For>()) --own_;
    for (const Expr& binding : consumer_.f.bindings) {
      bool found = !binding.as<Var>();
      for (size_t level = own_; level < path_.size(); ++level) {
        const For* around = path_[level].as<For>();
        found |= around && Expr(around->variable) == binding;
      }
      if (!found)
        refuse(schedule_, application, 1, text, path_[own_], "holds a part of its loops, beside other blocks");
    }
  }

  /// What one iteration may write of what the block reads, by buffer, over the loop and those around it.
  void find_produced() {
    std::vector<Axis> axes;
    const std::function<void(const Stmt&)> walk = [&](const Stmt& s) {
      if (const For* loop = s.as<For>()) {
        axes.push_back({loop->variable, {loop->min, loop->extent}});
        walk(loop->body);
        axes.pop_back();
      } else if (const Seq* seq = s.as<Seq>()) {
        for (const Stmt& child : seq->stmts) walk(child);
      } else if (const Block* block = s.as<Block>()) {
        add_produced(*block, axes);
      }
    };
    walk(loop_.body);
    if (produced_.empty()) refuse(schedule_, application, 3, condition_3, path_.back(), "reads nothing of that");
  }

  void add_produced(const Block& block, const std::vector<Axis>& axes) {
    Substitution bindings;
    for (size_t i = 0; i < block.f.iters.size(); ++i) {
      bindings[block.f.iters[i].variable.get()] = block.f.bindings[i];
    }
    for (const Region& region : block.f.writes) {
      if (!reads(consumer_, region.buffer)) continue;
      const Region written = eliminate(substitute(region, bindings), axes);
      const auto known = std::find_if(produced_.begin(), produced_.end(),
                                      [&](const Region& other) { return other.buffer == region.buffer; });
      if (known == produced_.end()) {
        produced_.push_back(written);
      } else {
        *known = bounding_region(*known, written);
      }
    }
  }

  bool is_produced(const Buffer& buffer) const {
    return std::any_of(produced_.begin(), produced_.end(), [&](const Region& r) { return r.buffer == buffer; });
  }

  void check_final() {
    for (size_t level = 0; level < loop_path_.size(); ++level) {
      if (!loop_path_[level].as<For>()) continue;
      const Path path(loop_path_.begin(), loop_path_.begin() + static_cast<std::ptrdiff_t>(level) + 1);
      const auto found =
          carried_dependences(path.back(), bounds_at(schedule_.func(), path), std::numeric_limits<size_t>::max(),
                              [&](const Buffer& buffer) { return is_produced(buffer); });
      for (const CarriedDependence& carried : found) {
        if (!carried.second.is_write) continue;
        refuse_carried(schedule_, application, 4,
                       "no later iteration, of loop or of a loop around it, may write that again", carried,
                       {path.back().as<For>()});
      }
    }
  }

  void check_between() {
    const std::string text =
        "no block under loop or between them touches what block writes, nor writes, between them, what block reads";
    std::unordered_set<const StmtNode*> below, overtaken;
    for_each_stmt(loop_path_.back(), [&](const Stmt& s) { below.insert(s.get()); });
    // From the outermost loop around: its other blocks come behind in its next iteration.
    const auto start = std::find_if(loop_path_.begin(), loop_path_.end(), [](const Stmt& s) { return s.as<For>(); });
    bool reached = false, done = false;
    for_each_stmt(schedule_.func()->body, [&](const Stmt& s) {
      reached |= s == *start;
      done |= s == path_.back();
      if (reached && !done) overtaken.insert(s.get());
    });
    const auto overtakes = [&](DependenceKind kind, const Stmt& source, const Stmt&) {
      return overtaken.contains(source.get()) && (kind != DependenceKind::flow || !below.contains(source.get()));
    };
    for (const Dependence& dependence :
         dependences(schedule_.func()->body, path_.back(), Bounds(schedule_.func()), overtakes)) {
      refuse_dependence(schedule_, application, 5, text, dependence, path_.back());
    }
  }

  Stmt make_moved() {
    std::vector<Range> ranges;
    ranges.reserve(consumer_.f.iters.size());
    for (const Iter& iter : consumer_.f.iters) ranges.push_back(narrowed(iter));
    Bounds bounds = bounds_at(schedule_.func(), loop_path_);
    bounds.bind(loop_.variable, Range{loop_.min, loop_.extent});
    Stmt nest = make_nest(consumer_, ranges);
    for (Stmt s = nest; s.as<For>(); s = s.as<For>()->body) {
      bounds.bind(s.as<For>()->variable, Range{s.as<For>()->min, s.as<For>()->extent});
    }
    const Block& placed = *outer_blocks(nest).front().as<Block>();
    Expr predicate;
    for (size_t i = 0; i < ranges.size(); ++i) {
      const Range& domain = placed.f.iters[i].domain;
      for (const Expr& inside :
           {ge(placed.f.bindings[i], domain.min), lt(placed.f.bindings[i], domain.min + domain.extent)}) {
        if (!proves(bounds, inside)) predicate = logical_and(predicate, inside);
      }
    }
    if (!predicate) return nest;
    return rewrite_blocks(nest, [&](const Block& at) { return add_predicate(at, predicate); });
  }

  /// The values of an iter whose reads one iteration may have written.
  Range narrowed(const Iter& iter) const {
    Range range = iter.domain;
    if (iter.kind != IterKind::space) return range;
    for (const Region& written : produced_) {
      for (const Region& read : consumer_.f.reads) {
        if (read.buffer != written.buffer) continue;
        for (size_t d = 0; d < read.ranges.size(); ++d) {
          const auto shift = constant_difference(read.ranges[d].min, iter.variable);
          if (!shift || !is_int(read.ranges[d].extent, 1)) continue;
          const Range here{written.ranges[d].min - *shift, written.ranges[d].extent};
          const auto wider = constant_difference(range.extent, here.extent);
          if (!wider || *wider > 0) range = here;
        }
      }
    }
    const Bounds bounds(schedule_.func());
    return {simplify(range.min, bounds), simplify(range.extent, bounds)};
  }

  void check_written(const Stmt& body) {
    Bounds bounds = bounds_at(schedule_.func(), loop_path_);
    bounds.bind(loop_.variable, Range{loop_.min, loop_.extent});
    const auto exposed = exposed_reads(body.as<For>()->body, bounds, [&](const Buffer& b) { return is_produced(b); });
    // A tile reads in the blocks that it holds.
    std::unordered_set<std::string> mine;
    for_each_stmt(path_.back(), [&](const Stmt& s) {
      if (const Block* block = s.as<Block>()) mine.insert(block->f.name);
    });
    for (const ExposedRead& read : exposed) {
      if (!read.block || !mine.contains(read.block.as<Block>()->f.name)) continue;
      refuse(schedule_, application, 3, condition_3, path_.back(),
             fmt::format("reads {}, which the iteration is not proved to write", print(read.region)));
    }
  }

  void check_covered(const Stmt& body) {
    Stmt all = body;
    for (size_t level = loop_path_.size() - 1; level-- > 0;) {
      if (const For* around = loop_path_[level].as<For>()) all = with_body(*around, all);
    }
    const Bounds bounds(schedule_.func());
    const auto mine = [&](const Buffer& buffer) { return writes(consumer_, buffer); };
    const std::vector<Region> covered = must_write_regions(all, bounds, mine);
    for (const Region& whole : write_regions(path_[own_], bounds)) {
      const bool found = std::any_of(covered.begin(), covered.end(), [&](const Region& region) {
        return region.buffer == whole.buffer && contains(region, whole, bounds);
      });
      if (found) continue;
      refuse(schedule_, application, 6, "the iterations are proved to run every instance of block", path_.back(),
             fmt::format("writes {} as a whole", print(whole)));
    }
  }

  const std::string condition_3 =
      "block reads something that is written below loop, and what it reads of it in an iteration is proved to be "
      "written "
      "for sure in that iteration";
  const Schedule& schedule_;
  const Path path_, loop_path_;
  const Block& consumer_;
  const For& loop_;
  size_t own_ = 0;
  std::vector<Region> produced_;
};

}  // namespace

void reverse_compute_at(Schedule& schedule, const BlockRef& block, const LoopRef& loop) {
  Mover mover(schedule, block, loop);
  Stmt body = mover.run();
  schedule.commit(std::move(body), mover.application);
}

}  // namespace lathe
