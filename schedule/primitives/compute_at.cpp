#include "schedule/primitives/compute_at.h"

#include <fmt/format.h>

#include <algorithm>
#include <unordered_set>

#include "ir/analysis/regions.h"
#include "ir/analysis/simplify.h"
#include "ir/conjuncts.h"
#include "ir/text/print.h"
#include "schedule/access.h"
#include "schedule/carried.h"
#include "schedule/complete.h"
#include "schedule/primitives/inspector.h"
#include "schedule/primitives/required_region.h"
#include "schedule/rewrite.h"

namespace lathe {
namespace {

/// Is `variable` that of a loop of the path?
bool lies_around(const Path& path, const Var* variable) {
  return std::any_of(path.begin(), path.end(),
                     [&](const Stmt& s) { return s.as<For>() && s.as<For>()->variable.get() == variable; });
}

/// Puts `nest` before the first statement of the loop's body that reads one of the buffers.
Stmt insert_before_reader(const Stmt& body, const Stmt& nest, const std::vector<Region>& written) {
  std::vector<Stmt> stmts = body.as<Seq>() ? body.as<Seq>()->stmts : std::vector<Stmt>{body};
  const auto reads_it = [&](const Stmt& s) {
    bool found = false;
    for_each_stmt(s, [&](const Stmt& at) {
      const Block* block = at.as<Block>();
      for (const Region& region : written) found |= block && reads(*block, region.buffer);
    });
    return found;
  };
  size_t position = 0;
  while (position < stmts.size() && !reads_it(stmts[position])) ++position;
  stmts.insert(stmts.begin() + static_cast<std::ptrdiff_t>(position), nest);
  return Seq::make(std::move(stmts));
}

/// A loop that runs at once must not have the same elements computed by several of its iterations.
void refuse_shared(const Schedule& schedule, const std::string& application, const Block& producer, const Stmt& after,
                   const Path& target) {
  for (const Stmt& s : target) {
    const For* around = s.as<For>();
    if (!around || (around->for_kind != ForKind::parallel && around->for_kind != ForKind::bound)) continue;
    const Path path =
        find_path(after, [&](const Stmt& at) { return at.as<For>() && at.as<For>()->variable == around->variable; });
    const auto computed = [&](const Buffer& buffer) { return writes(producer, buffer); };
    if (carried_dependences(path.back(), bounds_at(schedule.func(), path), 1, computed).empty()) continue;
    refuse(schedule, application, 7, "iterations of a parallel or bound loop around loop compute elements of their own",
           s, fmt::format("has iterations that compute the same elements of block {}", producer.f.name),
           "compute_at comes before the loop is parallel or bound");
  }
}

/// What stops the kernel must still be met: refuses where an instance is not proved to run in `body`, the program as
/// moved. Each writes an element of its own.
void refuse_left_out(const Schedule& schedule, const std::string& application, const Stmt& block, const Stmt& body) {
  const Block& producer = *block.as<Block>();
  const Bounds bounds(schedule.func());
  const auto written = [&](const Buffer& buffer) { return writes(producer, buffer); };
  std::vector<Region> covered;
  for_each_stmt(body, [&](const Stmt& s) {
    const Block* around = s.as<Block>();
    if (!around || std::none_of(around->f.allocs.begin(), around->f.allocs.end(), written)) return;
    for (Region& region : must_write_regions(around->f.body, bounds, written)) covered.push_back(std::move(region));
  });
  for (const Region& region : producer.f.writes) {
    const Region whole = full_region(region.buffer);
    const bool found = std::any_of(covered.begin(), covered.end(), [&](const Region& part) {
      return part.buffer == whole.buffer && contains(part, whole, bounds);
    });
    if (found) continue;
    refuse(schedule, application, 8, "block asserts nothing, or is proved to run every instance", block,
           fmt::format("asserts, and is not proved to write all of {}", region.buffer->name));
  }
}

/// What guards the one reader below `loop` at the elements that it reads of dimension `d`, said of `place`, by which
/// the producer walks these beginning with `region`: elements beyond it are not needed, so that the producer may leave
/// them out as the reader does. Nothing where the reader walks them otherwise.
Expr reader_guard(const Stmt& loop, const Buffer& buffer, size_t d, const Range& region, const VarRef& place) {
  const Block* reader = nullptr;
  size_t readers = 0;
  std::vector<const For*> inner;
  for_each_stmt(loop.as<For>()->body, [&](const Stmt& s) {
    if (s.as<For>()) inner.push_back(s.as<For>());
    const Block* block = s.as<Block>();
    if (!block || !reads(*block, buffer)) return;
    reader = block;
    ++readers;
  });
  if (readers != 1 || !reader->f.predicate || has_blocks(*reader)) return {};
  const auto read =
      std::find_if(reader->f.reads.begin(), reader->f.reads.end(), [&](const Region& r) { return r.buffer == buffer; });
  for (size_t i = 0; i < reader->f.iters.size(); ++i) {
    if (!is_int(read->ranges[d].extent, 1) || read->ranges[d].min != Expr(reader->f.iters[i].variable)) continue;
    for (const For* walk : inner) {
      const Expr& binding = reader->f.bindings[i];
      if (constant_difference(binding, region.min + Expr(walk->variable)) != 0 || !is_int(walk->min, 0) ||
          constant_difference(walk->extent, region.extent) != 0)
        continue;
      std::vector<Expr> guards;
      for (const Expr& conjunct : conjuncts_of(reader->f.predicate)) {
        const bool others = std::any_of(inner.begin(), inner.end(), [&](const For* other) {
          return other != walk && uses_var(conjunct, other->variable.get());
        });
        if (uses_var(conjunct, walk->variable.get()) && !others)
          guards.push_back(substitute(conjunct, {{walk->variable.get(), place}}));
      }
      return conjunction(guards);
    }
  }
  return {};
}

/// What of the range lies in the domain, where that is known: readers that guard a read need nothing beyond.
Range within(const Range& range, const Range& domain) {
  const std::int64_t *min = as_int(range.min), *extent = as_int(range.extent), *domain_min = as_int(domain.min),
                     *domain_extent = as_int(domain.extent);
  if (!min || !extent || !domain_min || !domain_extent) return range;
  const std::int64_t first = std::max(*min, *domain_min), end = std::min(*min + *extent, *domain_min + *domain_extent);
  return first < end ? Range{index(first), index(end - first)} : range;
}

/// Does the predicate speak of the block's own iters alone, so that it says the same in other loops?
bool movable_predicate(const Block& block) {
  if (!block.f.predicate) return true;
  bool movable = true;
  for_each_expr(block.f.predicate, [&](const Expr& e) {
    if (e.as<Var>()) {
      movable &= std::any_of(block.f.bindings.begin(), block.f.bindings.end(), [&](const Expr& b) { return b == e; });
    } else if (e.as<Load>() || e.as<Call>()) {
      movable = false;
    }
  });
  return movable;
}

}  // namespace

void compute_at(Schedule& schedule, const BlockRef& block, const LoopRef& loop) {
  const Path path = path_to(schedule, block), loop_path = path_to(schedule, loop);
  const Block& producer = *path.back().as<Block>();
  const std::string application = fmt::format("compute_at({}, {})", block.name, schedule.place(loop));
  const std::string whole =
      "block runs over its whole domain, each iter by a serial loop of its own, with no other block in those loops but "
      "those around loop";

  for (const Stmt& s : path) {
    if (s == loop_path.back()) {
      refuse(schedule, application, 4, "loop is not around block, nor below it, nor within a tile", s,
             "is around it already");
    }
  }
  for (const Stmt& s : loop_path) {
    if (!s.as<Block>() || s.as<Block>()->f.iters.empty()) continue;
    refuse(schedule, application, 4, "loop is not around block, nor below it, nor within a tile", s,
           "is a tile, whose instances would each compute it");
  }
  if (const std::string reason =
          movable_predicate(producer) ? why_incomplete_unless_left_out(path) : why_incomplete(path);
      !reason.empty()) {
    refuse(schedule, application, 1, whole, path.back(), reason,
           "compute_at comes before the producer's loops are split");
  }
  const size_t own = own_level(path);
  for (size_t i = 0; i < producer.f.iters.size(); ++i) {
    const Var* variable = producer.f.bindings[i].as<Var>();
    bool found = !variable;
    for (size_t level = own; level < path.size(); ++level) {
      const For* around = path[level].as<For>();
      found |= around && around->variable.get() == variable;
    }
    if (!found && !lies_around(loop_path, variable))
      refuse(schedule, application, 1, whole, path[own], "holds a part of its loops, beside other blocks");
  }

  const std::string pointwise = "what block writes are allocations, at its space iters, each once and the same for all";
  if (const std::string reason = why_not_pointwise(producer); !reason.empty()) {
    refuse(schedule, application, 2, pointwise, path.back(), reason);
  }
  for (const Region& region : producer.f.writes) {
    if (!is_allocated(schedule.func(), region.buffer)) {
      refuse(schedule, application, 2, pointwise, path.back(),
             fmt::format("writes {}, which is no allocation", region.buffer->name));
    }
    for (size_t d = 0; d < region.ranges.size(); ++d) {
      const Region& first = producer.f.writes[0];
      if (region.ranges.size() != first.ranges.size() ||
          constant_difference(region.ranges[d].min, first.ranges[d].min) != 0) {
        refuse(schedule, application, 2, pointwise, path.back(), "writes two buffers at different indices");
      }
    }
  }

  const std::string readers =
      "block is the only writer of its buffers, something under loop reads them, and any other reader comes behind "
      "loop, which is proved to compute what it reads";
  std::unordered_set<const StmtNode*> under;
  const StmtNode* last_under = nullptr;
  for_each_stmt(loop_path.back(), [&](const Stmt& s) {
    if (s.as<Block>()) under.insert(last_under = s.get());
  });
  std::unordered_set<const StmtNode*> overtaken;  // from block to the end of loop
  bool any_reader = false, others = false, behind = false, loop_done = false;
  for_each_stmt(schedule.func()->body, [&](const Stmt& s) {
    if (s == path.back()) behind = true;
    const Block* other = s.as<Block>();
    if (!other || other == &producer || s == path.front()) return;
    const bool inside = under.contains(s.get());
    if (behind && (inside || !loop_done)) overtaken.insert(s.get());
    loop_done |= s.get() == last_under;
    if (has_blocks(*other)) return;
    for (const Region& region : producer.f.writes) {
      if (writes(*other, region.buffer))
        refuse(schedule, application, 3, readers, s, fmt::format("writes {} too", region.buffer->name));
      if (!reads(*other, region.buffer)) continue;
      (inside ? any_reader : others) = true;
    }
  });
  const auto apart = std::mismatch(path.begin(), path.end(), loop_path.begin(), loop_path.end()).first;
  const Path shared(path.begin(), apart);
  const auto overtakes = [&](DependenceKind kind, const Stmt&, const Stmt& sink) {
    return kind == DependenceKind::anti && overtaken.contains(sink.get());
  };
  for (const Dependence& dependence :
       dependences(shared.back(), path.back(), bounds_at(schedule.func(), shared), overtakes)) {
    refuse_dependence(schedule, application, 5, "no block between them, or under loop, writes what block reads",
                      dependence, path.back());
  }
  if (!any_reader) refuse(schedule, application, 3, readers, path.back(), "is read by nothing under it");

  std::vector<Range> ranges;
  ranges.reserve(producer.f.iters.size());
  for (const Iter& iter : producer.f.iters) ranges.push_back(iter.domain);
  const Bounds around_loop = bounds_at(schedule.func(), loop_path);
  Bounds bounds = around_loop;
  bounds.bind(loop.variable, Range{schedule.node(loop).min, schedule.node(loop).extent});
  Expr predicate;
  const Block* moved = &producer;
  std::vector<std::optional<Range>> cut(ranges.size());
  const auto [required, relied] = required_region(producer, loop_path.back(), around_loop);
  for (size_t d = 0; d < required.ranges.size(); ++d) {
    const Expr& stored_at = producer.f.writes[0].ranges[d].min;
    for (size_t i = 0; i < ranges.size(); ++i) {
      if (stored_at != Expr(producer.f.iters[i].variable)) continue;
      const Range domain = ranges[i];
      const Range region = within(required.ranges[d], domain);
      if (constant_difference(region.extent, domain.extent) == 0 && constant_difference(region.min, domain.min) == 0)
        continue;
      ranges[i] = region;
      cut[i] = domain;
    }
  }
  for (size_t i = 0; i < ranges.size(); ++i) {
    const Var* shared = producer.f.bindings[i].as<Var>();
    if (!shared || !lies_around(loop_path, shared) ||
        (is_int(ranges[i].extent, 1) && ranges[i].min == producer.f.bindings[i]))
      continue;
    refuse(schedule, application, 1, whole, loop_path.back(),
           fmt::format("needs more of it than one iteration of {}", shared->name));
  }
  Stmt nest = make_nest(*moved, ranges);
  for (Stmt s = nest; s.as<For>(); s = s.as<For>()->body) {
    bounds.bind(s.as<For>()->variable, Range{s.as<For>()->min, s.as<For>()->extent});
  }
  const Stmt placed = outer_blocks(nest).front();
  const auto own_guard = [&](size_t i, const Expr& binding) -> Expr {
    const Region& written = producer.f.writes[0];
    for (Stmt s = nest; s.as<For>(); s = s.as<For>()->body) {
      const VarRef& place = s.as<For>()->variable;
      if (constant_difference(binding, ranges[i].min + Expr(place)) != 0) continue;
      for (size_t d = 0; d < written.ranges.size(); ++d) {
        if (written.ranges[d].min == Expr(producer.f.iters[i].variable))
          return reader_guard(loop_path.back(), written.buffer, d, ranges[i], place);
      }
    }
    return {};
  };
  for (size_t i = 0; i < ranges.size(); ++i) {
    if (!cut[i]) continue;
    const Expr& binding = placed.as<Block>()->f.bindings[i];
    const Expr low = ge(binding, cut[i]->min), high = lt(binding, cut[i]->min + cut[i]->extent);
    const bool above = proves(bounds, low), below = proves(bounds, high);
    if (above && below) continue;
    if (const Expr guard = own_guard(i, binding)) {
      Bounds guarded = bounds, inside = bounds;
      guarded.assume(guard);
      inside.assume(low);
      inside.assume(high);
      if (!proves(inside, guard) && proves(guarded, low) && proves(guarded, high)) {
        predicate = logical_and(predicate, guard);
        continue;
      }
    }
    if (!above) predicate = logical_and(predicate, low);
    if (!below) predicate = logical_and(predicate, high);
  }
  if (producer.f.predicate) {
    Substitution moved_to;
    for (size_t i = 0; i < ranges.size(); ++i) {
      if (const Var* variable = producer.f.bindings[i].as<Var>())
        moved_to[variable] = placed.as<Block>()->f.bindings[i];
    }
    const Expr kept = substitute(producer.f.predicate, moved_to);
    nest = rewrite_blocks(
        nest, [&](const Block& at) { return with_fields(at, [&](Block::Fields& f) { f.predicate = kept; }); });
  }
  if (predicate) {
    nest = rewrite_blocks(nest, [&](const Block& at) { return add_predicate(at, predicate); });
  }

  const Stmt without = remove_last(path);
  const Path target =
      find_path(without, [&](const Stmt& s) { return s.as<For>() && s.as<For>()->variable == loop.variable; });
  const For& node = *target.back().as<For>();
  const auto commit = [&](const Stmt& body) {
    const std::vector<ExposedRead> exposed =
        others ? exposed_reads_of(schedule.func(), producer, body) : std::vector<ExposedRead>();
    if (!exposed.empty()) {
      refuse(schedule, application, 3, readers, exposed.front().block,
             fmt::format("reads {}, which {} is not proved to compute before", print(exposed.front().region),
                         loop.variable->name));
    }
    refuse_shared(schedule, application, producer, body, target);
    if (asserts(producer)) refuse_left_out(schedule, application, path.back(), body);
    schedule.commit(body, application);
  };
  const bool narrowed = std::any_of(cut.begin(), cut.end(), [](const auto& domain) { return domain.has_value(); });
  if (relied.empty() || !narrowed) {
    const Stmt body = insert_before_reader(node.body, nest, producer.f.writes);
    return commit(replace_last(target, with_body(node, body)));
  }
  const Versioning versioning(schedule, application, 6, loop_path, path, relied);
  const Stmt tile = insert_before_reader(versioning.marked_body(), nest, producer.f.writes);
  Path above = target;
  Stmt body = with_body(node, versioning.versioned(tile));
  // The flags live in the block whose loops they are told apart by.
  while (above.size() > 1 && !above[above.size() - 2].as<Block>()) {
    body = replace_last(Path(above.end() - 2, above.end()), body);
    above.pop_back();
  }
  if (above.size() == 1) return commit(add_allocation(body, versioning.flags()));
  above.pop_back();
  body = with_fields(*above.back().as<Block>(), [&](Block::Fields& f) {
    f.allocs.push_back(versioning.flags());
    f.body = body;
  });
  commit(replace_last(above, body));
}

}  // namespace lathe
