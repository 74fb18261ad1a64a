#include "schedule/primitives/transform_layout.h"

#include <fmt/format.h>

#include <algorithm>

#include "ir/analysis/dependence.h"
#include "ir/analysis/simplify.h"
#include "ir/error.h"
#include "ir/text/print.h"
#include "schedule/access.h"
#include "schedule/rewrite.h"

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

/// Puts the new indices in the place of the old, wherever the buffer is touched.
class Layouter : public Mutator {
 public:
  Layouter(const Buffer& old, const Buffer& made, const LayoutMap& map, const Func& func)
      : old_(old), made_(made), map_(map), bounds_(func) {}

 protected:
  Expr mutate_Load(const Expr& e, const Load* node) override {
    const Expr changed = Mutator::mutate_Load(e, node);
    const Load* load = changed.as<Load>();
    return load->buffer == old_ ? Load::make(made_, mapped(load->indices), load->mask) : changed;
  }
  Stmt mutate_Store(const Stmt& s, const Store* node) override {
    const Stmt changed = Mutator::mutate_Store(s, node);
    const Store* store = changed.as<Store>();
    return store->buffer == old_ ? Store::make(made_, mapped(store->indices), store->value, store->mask) : changed;
  }
  Stmt mutate_For(const Stmt& s, const For* node) override {
    const Bounds::Mark mark = bounds_.mark();
    bounds_.bind(node->variable, Range{node->min, node->extent});
    Stmt changed = Mutator::mutate_For(s, node);
    bounds_.rollback(mark);
    return changed;
  }
  Stmt mutate_Block(const Stmt& s, const Block* node) override {
    const bool declared = reads(*node, old_) || writes(*node, old_);
    const bool is_leaf = outer_blocks(node->f.body).empty();
    if (is_leaf && !declared) return s;
    forget();
    const Bounds::Mark mark = bounds_.mark();
    for (const Iter& iter : node->f.iters) bounds_.bind(iter.variable, iter.domain);
    Stmt changed = Mutator::mutate_Block(s, node);
    bounds_.rollback(mark);
    forget();
    if (changed == s) return s;
    if (is_leaf) return with_inferred_regions(*changed.as<Block>());
    return with_fields(*changed.as<Block>(), [&](Block::Fields& f) {
      for (std::vector<Region>* regions : {&f.reads, &f.writes}) {
        for (Region& region : *regions) {
          if (region.buffer == old_) region = full_region(made_);
        }
      }
    });
  }
  Buffer mutate_buffer(const Buffer& buffer) override { return buffer; }

 private:
  std::vector<Expr> mapped(const std::vector<Expr>& indices) {
    Substitution values;
    for (size_t d = 0; d < indices.size(); ++d) values[map_.from[d].get()] = indices[d];
    std::vector<Expr> result;
    for (const Expr& e : map_.to) result.push_back(simplify(substitute(e, values), bounds_));
    return result;
  }

  const Buffer& old_;
  const Buffer& made_;
  const LayoutMap& map_;
  Bounds bounds_;
};

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
    for (const Expr& e : map_.to) shape.push_back(simplify(extent(e), Bounds(schedule_.func())));
    const Buffer made =
        BufferNode::make(old_->name, old_->dtype, std::move(shape), old_->space, {}, nullptr, old_->alignment);
    const Stmt body = Layouter(old_, made, map_, schedule_.func()).mutate(schedule_.func()->body);
    return replace_allocation(body, made);
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
    for_each_stmt(schedule_.func()->body, [&](const Stmt& s) {
      const Block* block = s.as<Block>();
      if (!block) return;
      for (const Buffer& other : block->f.allocs) {
        if (other->view_of && other->view_of->buffer == old_)
          refuse_use(s, fmt::format("allocates a view of {}", buffer));
      }
      if (!reads(*block, old_) && !writes(*block, old_)) return;
      for (const std::vector<Region>* regions : {&block->f.reads, &block->f.writes}) {
        for (const Region& region : *regions) {
          if (region.buffer == old_ && region.provenance != Provenance::inferred) refuse_use(s, "has a hint of it");
        }
      }
      if (!outer_blocks(block->f.body).empty()) return;
      const auto check = [&](const std::vector<Expr>& indices) {
        for (const Expr& e : indices) {
          if (!e->dtype.is_scalar()) refuse_use(s, fmt::format("touches {} at vector indices", buffer));
        }
      };
      for_each_stmt(block->f.body, [&](const Stmt& at) {
        const Store* store = at.as<Store>();
        if (store && store->buffer == old_) check(store->indices);
      });
      for_each_expr(block->f.body, [&](const Expr& e) {
        const AddressOf* address = e.as<AddressOf>();
        if (address && address->buffer == old_) refuse_use(s, fmt::format("takes the address of {}", buffer));
        const Load* load = e.as<Load>();
        if (load && load->buffer == old_) check(load->indices);
      });
    });
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

  /// A loop nest over the old indices that stores at the new ones: no element may be met twice.
  void check_injective() {
    std::vector<Expr> whatever(map_.to.size(), index(std::int64_t{1} << 40));
    const Buffer target = BufferNode::make(old_->name, old_->dtype, std::move(whatever));
    Stmt body = Store::make(target, map_.to, constant(old_->dtype, 0));
    std::vector<const For*> nest;
    std::vector<Stmt> loops;
    for (size_t d = map_.from.size(); d-- > 0;) {
      body = For::make(map_.from[d], index(0), old_->shape[d], ForKind::serial, body);
      loops.push_back(body);
      nest.insert(nest.begin(), body.as<For>());
    }
    const NestDependences dependences(nest, Bounds(schedule_.func()));
    for (size_t q = 0; q < nest.size(); ++q) {
      std::vector<Direction> directions(nest.size(), Direction::any);
      for (size_t i = 0; i < q; ++i) directions[i] = Direction::equal;
      directions[q] = Direction::later;
      if (dependences.find(directions, 1).empty()) continue;
      refuse(schedule_, application, 3, "the map is proved to send no two elements to one place", path_.back(),
             fmt::format("touches {}, of which two elements that differ in {} are not proved to stay apart", old_->name,
                         map_.from[q]->name));
    }
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

  Stmt replace_allocation(const Stmt& body, const Buffer& made) const {
    class Replacer : public Mutator {
     public:
      Replacer(const Buffer& old, const Buffer& made) : old_(old), made_(made) {}
      using Mutator::mutate;
      Expr mutate(const Expr& e) override { return e; }

     protected:
      Stmt mutate_Block(const Stmt& s, const Block* node) override {
        const auto found = std::find(node->f.allocs.begin(), node->f.allocs.end(), old_);
        if (found == node->f.allocs.end())
          return outer_blocks(node->f.body).empty() ? s : Mutator::mutate_Block(s, node);
        return with_fields(*node,
                           [&](Block::Fields& f) { std::replace(f.allocs.begin(), f.allocs.end(), old_, made_); });
      }

     private:
      const Buffer& old_;
      const Buffer& made_;
    };
    return Replacer(old_, made).mutate(body);
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
