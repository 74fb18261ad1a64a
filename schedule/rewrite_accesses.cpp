#include "schedule/rewrite_accesses.h"

#include <fmt/format.h>

#include <algorithm>

#include "ir/analysis/regions.h"
#include "ir/analysis/simplify.h"
#include "schedule/access.h"

namespace lathe {
namespace {

class Rewriter : public Mutator {
 public:
  Rewriter(const Func& func, const Buffer& old, const Buffer& made, const IndexMap& map)
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
    const bool is_leaf = !has_blocks(*node);
    if (is_leaf && !reads(*node, old_) && !writes(*node, old_)) return s;
    forget();
    const Bounds::Mark mark = bounds_.mark();
    for (const Iter& iter : node->f.iters) bounds_.bind(iter.variable, iter.domain);
    const Block* around = std::exchange(block_, node);
    Stmt changed = Mutator::mutate_Block(s, node);
    block_ = around;
    bounds_.rollback(mark);
    forget();
    const bool allocates = std::find(node->f.allocs.begin(), node->f.allocs.end(), old_) != node->f.allocs.end();
    if (changed == s && !allocates) return s;
    if (is_leaf) return with_inferred_regions(*changed.as<Block>());
    return with_fields(*changed.as<Block>(), [&](Block::Fields& f) {
      std::replace(f.allocs.begin(), f.allocs.end(), old_, made_);
      for (std::vector<Region>* regions : {&f.reads, &f.writes}) {
        for (Region& region : *regions) {
          if (region.buffer == old_) region = full_region(made_);
        }
      }
    });
  }

 private:
  std::vector<Expr> mapped(const std::vector<Expr>& indices) {
    std::vector<Expr> result = map_(*block_, indices);
    for (Expr& e : result) e = simplify(e, bounds_);
    return result;
  }

  const Buffer& old_;
  const Buffer& made_;
  const IndexMap& map_;
  Bounds bounds_;
  const Block* block_ = nullptr;
};

}  // namespace

UnclearUse find_unclear_use(const Stmt& s, const Buffer& buffer) {
  UnclearUse found;
  const auto check_bare = [&](const Stmt& body) {
    for (const Stmt& bare : bare_statements(body)) {
      bool touches = false;
      for_each_stmt(bare, [&](const Stmt& at) { touches |= at.as<Store>() && at.as<Store>()->buffer == buffer; });
      for_each_expr(bare, [&](const Expr& e) { touches |= e.as<Load>() && e.as<Load>()->buffer == buffer; });
      if (touches) found = {bare, fmt::format("touches {} in no block", buffer->name)};
    }
  };
  check_bare(s);
  for_each_stmt(s, [&](const Stmt& at) {
    const Block* block = at.as<Block>();
    if (!block || found) return;
    for (const Buffer& other : block->f.allocs) {
      if (other->view_of && other->view_of->buffer == buffer) {
        found = {at, fmt::format("allocates a view of {}", buffer->name)};
        return;
      }
    }
    if (!reads(*block, buffer) && !writes(*block, buffer)) {
      if (has_blocks(*block)) check_bare(block->f.body);
      return;
    }
    for (const std::vector<Region>* regions : {&block->f.reads, &block->f.writes}) {
      for (const Region& region : *regions) {
        if (region.buffer == buffer && is_hint(region)) {
          found = {at, fmt::format("has a hint of {}", buffer->name)};
        }
      }
    }
    if (has_blocks(*block)) return check_bare(block->f.body);
    const auto check = [&](const std::vector<Expr>& indices) {
      for (const Expr& e : indices) {
        if (!e->dtype.is_scalar()) found = {at, fmt::format("touches {} at vector indices", buffer->name)};
      }
    };
    for_each_stmt(block->f.body, [&](const Stmt& part) {
      const Store* store = part.as<Store>();
      if (store && store->buffer == buffer) check(store->indices);
    });
    for_each_expr(block->f.body, [&](const Expr& e) {
      const AddressOf* address = e.as<AddressOf>();
      if (address && address->buffer == buffer) found = {at, fmt::format("takes the address of {}", buffer->name)};
      const Load* load = e.as<Load>();
      if (load && load->buffer == buffer) check(load->indices);
    });
  });
  return found;
}

Stmt rewrite_accesses(const Func& func, const Stmt& s, const Buffer& old, const Buffer& made, const IndexMap& map) {
  return Rewriter(func, old, made, map).mutate(s);
}

}  // namespace lathe
