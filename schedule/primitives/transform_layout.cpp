#include "schedule/primitives/transform_layout.h"

#include <fmt/format.h>

#include <algorithm>

#include "ir/analysis/simplify.h"
#include "ir/error.h"
#include "ir/text/print.h"
#include "schedule/carried.h"
#include "schedule/rewrite_accesses.h"

namespace lathe {
namespace {

/// One more than the greatest value of an index of the map; null when that is not found.
Expr end_of(const Expr& e, const Bounds& bounds) {
  if (const std::int64_t* value = as_int(e)) return index(*value + 1);
  if (const Var* variable = e.as<Var>()) {
    const Range* domain = bounds.domain(variable);
    return domain ? domain->min + domain->extent : nullptr;
  }
  const Binary* node = e.as<Binary>();
  if (!node) return nullptr;
  const std::int64_t* right = as_int(node->b);
  const Expr end = end_of(node->a, bounds);
  switch (node->op) {
    case BinaryOp::add: {
      const Expr other = end_of(node->b, bounds);
      return end && other ? end + other - 1 : nullptr;
    }
    case BinaryOp::sub:
      return end && proves(bounds, ge(node->b, index(0))) ? end : nullptr;
    case BinaryOp::mul:
      return end && right && *right > 0 ? (end - 1) * *right + 1 : nullptr;
    case BinaryOp::floor_div:
      return end && right && *right > 0 ? floor_div(end - 1, *right) + 1 : nullptr;
    case BinaryOp::floor_mod:
      return right && *right > 0 ? index(*right) : nullptr;
    default:
      return nullptr;
  }
}

class Transformation {
 public:
  Transformation(const Schedule& schedule, const BlockRef& block, const std::string& buffer, const LayoutMap& map)
      : application(fmt::format("transform_layout({}, \"{}\", \"{}\")", block.name, buffer, print(map))),
        schedule_(schedule),
        path_(path_to(schedule, block)),
        map_(map) {
    find(buffer);
  }

  const std::string application;

  Stmt run() {
    check_map();
    std::vector<Expr> shape;
    shape.reserve(map_.to.size());
    for (const Expr& e : map_.to) shape.push_back(simplify(extent(e), Bounds(schedule_.func())));
    const Buffer made =
        BufferNode::make(old_->name, old_->dtype, std::move(shape), old_->space, {}, nullptr, old_->alignment);
    return rewrite_accesses(schedule_.func(), schedule_.func()->body, old_, made,
                            [&](const Block&, const std::vector<Expr>& indices) {
                              Substitution values;
                              for (size_t d = 0; d < indices.size(); ++d) values[map_.from[d].get()] = indices[d];
                              std::vector<Expr> result;
                              result.reserve(map_.to.size());
                              for (const Expr& e : map_.to) result.push_back(substitute(e, values));
                              return result;
                            });
  }

 private:
  void find(const std::string& buffer) {
    const Block& node = *path_.back().as<Block>();
    const std::string text =
        "block reads or writes an allocation of that name, and everything that touches it is a Load or a Store at "
        "scalar indices, without a hint";
    const auto refuse_use = [&](const Stmt& s, const std::string& note) {
      refuse(schedule_, application, 1, text, s, note);
    };
    for (const std::vector<Region>* regions : {&node.f.reads, &node.f.writes}) {
      for (const Region& region : *regions) {
        if (region.buffer->name == buffer) old_ = region.buffer;
      }
    }
    if (!old_) refuse_use(path_.back(), fmt::format("touches no {}", buffer));
    if (!is_allocated(schedule_.func(), old_) || old_->view_of) {
      refuse_use(path_.back(), fmt::format("touches {}, which is no allocation", buffer));
    }
    if (const UnclearUse use = find_unclear_use(schedule_.func()->body, old_)) refuse_use(use.block, use.note);
  }

  void check_map() {
    const std::string text = "the map takes one index a dimension, and its expressions use nothing else";
    if (map_.from.size() != old_->rank() || map_.to.empty()) {
      refuse(schedule_, application, 2, text, path_.back(),
             fmt::format("touches {}, which has {} dimensions", old_->name, old_->rank()));
    }
    for (const Expr& e : map_.to) {
      bool foreign = !e->dtype.is_scalar() || e->dtype != i64;
      for (const VarRef& used : used_vars(e)) {
        foreign |= std::find(map_.from.begin(), map_.from.end(), used) == map_.from.end();
      }
      for_each_expr(e, [&](const Expr& part) { foreign |= part.as<Load>() || part.as<Call>(); });
      if (foreign) {
        refuse(schedule_, application, 2, text, path_.back(), fmt::format("would be laid out by {}", print(e)));
      }
    }
    check_injective();
    bounds_ = Bounds(schedule_.func());
    for (size_t d = 0; d < map_.from.size(); ++d) bounds_.bind(map_.from[d], Range{index(0), old_->shape[d]});
  }

  void check_injective() {
    std::vector<const For*> nest;
    std::vector<Stmt> loops;
    for (size_t d = 0; d < map_.from.size(); ++d) {
      loops.push_back(For::make(map_.from[d], index(0), old_->shape[d], ForKind::serial, Seq::make({})));
      nest.push_back(loops.back().as<For>());
    }
    const For* twice = repeating_loop(nest, map_.to, Bounds(schedule_.func()));
    if (!twice) return;
    refuse(schedule_, application, 3, "the map is proved to send no two elements to one place", path_.back(),
           fmt::format("touches {}, of which two elements that differ in {} are not proved to stay apart", old_->name,
                       twice->variable->name));
  }

  Expr extent(const Expr& e) const {
    const std::string text = "every new index is proved to be at least 0, and its greatest value is known";
    if (!proves(bounds_, ge(e, index(0)))) {
      refuse(schedule_, application, 4, text, path_.back(), fmt::format("is not proved to have {} >= 0", print(e)));
    }
    // What intervals give is exact where all is constant; a symbolic end is better than the greatest that facts allow.
    const bool constant_shape =
        std::all_of(old_->shape.begin(), old_->shape.end(), [](const Expr& x) { return as_int(x); });
    const Interval interval = bounds_.interval(e);
    Expr end = constant_shape ? nullptr : end_of(e, bounds_);
    if (!end && interval.max) end = index(*interval.max + 1);
    if (!end) {
      refuse(schedule_, application, 4, text, path_.back(), fmt::format("has no known end of {}", print(e)));
    }
    return end;
  }

  const Schedule& schedule_;
  const Path path_;
  const LayoutMap& map_;
  Buffer old_;
  Bounds bounds_;
};

}  // namespace

void transform_layout(Schedule& schedule, const BlockRef& block, const std::string& buffer, const LayoutMap& map) {
  Transformation transformation(schedule, block, buffer, map);
  Stmt body = transformation.run();
  schedule.commit(std::move(body), transformation.application);
}

}  // namespace lathe
