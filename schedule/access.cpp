#include "schedule/access.h"

#include <algorithm>
#include <unordered_set>

#include "ir/analysis/regions.h"
#include "ir/structural.h"
#include "ir/visitor.h"
#include "schedule/rewrite.h"

namespace lathe {
namespace {

void accumulate(const Expr& e, std::int64_t factor, LinearForm& form) {
  if (factor == 0) return;
  if (const std::int64_t* value = as_int(e)) {
    form.constant += factor * *value;
    return;
  }
  if (const Binary* node = e.as<Binary>()) {
    if (node->op == BinaryOp::add || node->op == BinaryOp::sub) {
      accumulate(node->a, factor, form);
      accumulate(node->b, node->op == BinaryOp::add ? factor : -factor, form);
      return;
    }
    if (node->op == BinaryOp::mul) {
      if (const std::int64_t* right = as_int(node->b)) return accumulate(node->a, factor * *right, form);
      if (const std::int64_t* left = as_int(node->a)) return accumulate(node->b, factor * *left, form);
    }
  }
  if (const Unary* node = e.as<Unary>(); node && node->op == UnaryOp::neg) return accumulate(node->a, -factor, form);
  for (auto& [atom, coefficient] : form.terms) {
    if (atom == e || (!e.as<Var>() && equal(atom, e))) {
      coefficient += factor;
      return;
    }
  }
  form.terms.emplace_back(e, factor);
}

bool same(const Expr& a, const Expr& b) {
  return a == b || constant_difference(a, b) == 0;
}

bool same_ranges(const Region& a, const Region& b) {
  for (size_t d = 0; d < a.ranges.size(); ++d) {
    if (!same(a.ranges[d].min, b.ranges[d].min) || !same(a.ranges[d].extent, b.ranges[d].extent)) return false;
  }
  return true;
}

bool contains_load(const Expr& e) {
  bool found = false;
  for_each_expr(e, [&](const Expr& sub) { found |= sub.as<Load>() != nullptr || sub.as<Call>() != nullptr; });
  return found;
}

/// Collects the accesses of a block body that hold no loops, with the values of Lets put in where indices use them.
class Accesses : public Visitor {
 public:
  explicit Accesses(bool want_reads) : want_reads_(want_reads) {}
  using Visitor::visit;

  void visit(const Expr& e) override {
    if (e && seen_.insert(e.get())) Visitor::visit(e);
  }

  std::vector<Region> found;

 protected:
  void visit_Let(const Let* node) override {
    visit(node->value);
    if (node->variable->dtype.element() == i64) {
      values_[node->variable.get()] = substitute(node->value, values_);
    } else {
      local_.insert(node->variable.get());
    }
    visit(node->body);
  }
  void visit_For(const For* node) override {
    inner_.push_back({node->variable, {node->min, node->extent}});
    Visitor::visit_For(node);
    inner_.pop_back();
  }
  void visit_Load(const Load* node) override {
    if (want_reads_) add(node->buffer, node->indices);
    Visitor::visit_Load(node);
  }
  void visit_AddressOf(const AddressOf* node) override {
    if (want_reads_) found.push_back(full_region(node->buffer));
    Visitor::visit_AddressOf(node);
  }
  void visit_Store(const Store* node) override {
    if (!want_reads_) add(node->buffer, node->indices);
    Visitor::visit_Store(node);
  }

 private:
  void add(const Buffer& buffer, const std::vector<Expr>& indices) {
    Region region = full_region(buffer);
    if (indices.size() == region.ranges.size()) {
      for (size_t d = 0; d < indices.size(); ++d) {
        const Expr index = substitute(indices[d], values_);
        if (!local_.empty() && uses_local(index)) continue;
        if (const Ramp* ramp = index.as<Ramp>(); ramp && as_int(ramp->stride) && !contains_load(index)) {
          region.ranges[d] = {ramp->base, lathe::index((ramp->dtype.lanes - 1) * *as_int(ramp->stride) + 1)};
        } else if (index->dtype.is_scalar() && !contains_load(index)) {
          region.ranges[d] = {index, lathe::index(1)};
        }
      }
    }
    region = eliminate(region, inner_);
    for (const Region& other : found) {
      if (other.buffer == buffer && same_ranges(other, region)) return;
    }
    found.push_back(std::move(region));
  }

  /// Is the index made of what the body computes, of another type than indices?
  bool uses_local(const Expr& index) const {
    const std::vector<VarRef> used = used_vars(index);
    return std::any_of(used.begin(), used.end(), [&](const VarRef& v) { return local_.contains(v.get()); });
  }

  bool want_reads_;
  Substitution values_;
  std::unordered_set<const Var*> local_;
  std::vector<Axis> inner_;
  NodeSet<const ExprNode*> seen_;
};

std::vector<Region> infer(const Block& block, bool want_reads) {
  Accesses accesses(want_reads);
  if (block.f.init) accesses.visit(block.f.init);
  accesses.visit(block.f.body);
  return std::move(accesses.found);
}

}  // namespace

LinearForm linear_form(const Expr& e) {
  LinearForm form;
  accumulate(e, 1, form);
  std::erase_if(form.terms, [](const auto& term) { return term.second == 0; });
  return form;
}

std::optional<std::int64_t> constant_difference(const Expr& a, const Expr& b) {
  if (a == b) return 0;
  LinearForm form;
  accumulate(a, 1, form);
  accumulate(b, -1, form);
  for (const auto& [atom, coefficient] : form.terms) {
    if (coefficient != 0) return std::nullopt;
  }
  return form.constant;
}

std::optional<std::pair<std::int64_t, Expr>> split_linear(const Expr& e, const VarRef& variable) {
  if (e == Expr(variable)) return std::pair{std::int64_t{1}, index(0)};
  if (!uses_var(e, variable.get())) return std::pair{std::int64_t{0}, e};
  const LinearForm form = linear_form(e);
  std::int64_t coefficient = 0;
  Expr rest = index(form.constant);
  for (const auto& [atom, factor] : form.terms) {
    if (atom == Expr(variable)) {
      coefficient = factor;
    } else if (uses_var(atom, variable.get())) {
      return std::nullopt;
    } else {
      rest = atom * factor + rest;
    }
  }
  return std::pair{coefficient, rest};
}

std::optional<size_t> dimension_of(const std::vector<Expr>& indices, const VarRef& iter) {
  std::optional<size_t> found;
  for (size_t d = 0; d < indices.size(); ++d) {
    if (indices[d] == Expr(iter)) {
      if (found) return std::nullopt;
      found = d;
    } else if (uses_var(indices[d], iter.get())) {
      return std::nullopt;
    }
  }
  return found;
}

std::optional<Range> eliminate(Range range, const std::vector<Axis>& inner) {
  for (size_t i = inner.size(); i-- > 0;) {
    const auto& [variable, domain] = inner[i];
    if (uses_var(range.extent, variable.get())) return std::nullopt;
    const auto parts = split_linear(range.min, variable);
    if (!parts) return std::nullopt;
    const auto& [coefficient, rest] = *parts;
    if (coefficient == 0) continue;
    range.min =
        coefficient > 0 ? rest + domain.min * coefficient : rest + (domain.min + domain.extent - 1) * coefficient;
    range.extent = range.extent + (domain.extent - 1) * (coefficient > 0 ? coefficient : -coefficient);
  }
  return range;
}

Region eliminate(const Region& region, const std::vector<Axis>& inner) {
  Region result = region;
  for (size_t d = 0; d < region.ranges.size(); ++d) {
    const std::optional<Range> range = eliminate(region.ranges[d], inner);
    result.ranges[d] = range ? *range : Range{index(0), region.buffer->shape[d]};
  }
  return result;
}

Region bounding_region(const Region& a, const Region& b) {
  Region result = a;
  for (size_t d = 0; d < a.ranges.size(); ++d) {
    const Range& left = a.ranges[d];
    const Range& right = b.ranges[d];
    const auto min = constant_difference(right.min, left.min);
    const auto end = constant_difference(right.min + right.extent, left.min + left.extent);
    if (!min || !end) {
      result.ranges[d] = {index(0), a.buffer->shape[d]};
      continue;
    }
    const std::int64_t down = *min < 0 ? -*min : 0, up = *end > 0 ? *end : 0;
    result.ranges[d] = {left.min - down, left.extent + (down + up)};
  }
  return result;
}

std::vector<Region> infer_reads(const Block& block) {
  return infer(block, true);
}
std::vector<Region> infer_writes(const Block& block) {
  return infer(block, false);
}

Stmt with_inferred_regions(const Block& block) {
  // A hint stands for whatever would be inferred of its buffer, and goes with the last access to it.
  const auto with_hints = [](const std::vector<Region>& declared, std::vector<Region> inferred) {
    std::vector<Region> result;
    for (const Region& hint : declared) {
      const auto of_its_buffer = [&](const Region& r) { return r.buffer == hint.buffer; };
      if (is_hint(hint) && std::any_of(inferred.begin(), inferred.end(), of_its_buffer)) result.push_back(hint);
    }
    const size_t hints = result.size();
    for (Region& region : inferred) {
      const bool governed = std::any_of(result.begin(), result.begin() + static_cast<std::ptrdiff_t>(hints),
                                        [&](const Region& hint) { return hint.buffer == region.buffer; });
      if (!governed) result.push_back(std::move(region));
    }
    return result;
  };
  return with_fields(block, [&](Block::Fields& f) {
    f.reads = with_hints(f.reads, infer_reads(block));
    f.writes = with_hints(f.writes, infer_writes(block));
  });
}

namespace {

/// What the blocks below a tile declare, as functions of the tile's iters.
class TileRegions {
 public:
  explicit TileRegions(const Block& tile) {
    for (const Buffer& buffer : tile.f.allocs) own_.insert(buffer.get());
    walk(tile.f.body);
    for (Region& region : reads) say_whole(region);
    for (Region& region : writes) say_whole(region);
  }

  std::vector<Region> reads, writes;

 private:
  void walk(const Stmt& s) {
    if (const For* loop = s.as<For>()) {
      axes_.push_back({loop->variable, {loop->min, loop->extent}});
      walk(loop->body);
      axes_.pop_back();
    } else if (const Seq* seq = s.as<Seq>()) {
      for (const Stmt& child : seq->stmts) walk(child);
    } else if (const Block* block = s.as<Block>(); block && block->f.iters.empty() && has_blocks(*block)) {
      for (const Buffer& buffer : block->f.allocs) own_.insert(buffer.get());
      walk(block->f.body);
    } else if (block) {
      Substitution bindings;
      for (size_t i = 0; i < block->f.iters.size(); ++i)
        bindings[block->f.iters[i].variable.get()] = block->f.bindings[i];
      for (const Region& region : block->f.reads) add(reads, region, bindings);
      for (const Region& region : block->f.writes) add(writes, region, bindings);
    }
  }

  /// Of all blocks together: what one of them masks beyond a border, another one's region need not reach.
  static void say_whole(Region& region) {
    for (size_t d = 0; d < region.ranges.size(); ++d) {
      const std::int64_t *min = as_int(region.ranges[d].min), *extent = as_int(region.ranges[d].extent),
                         *whole = as_int(region.buffer->shape[d]);
      const bool covers = min && extent && whole && *min <= 0 && *min + *extent >= *whole;
      if (covers) region.ranges[d] = {index(0), region.buffer->shape[d]};
    }
  }

  void add(std::vector<Region>& list, const Region& region, const Substitution& bindings) {
    if (own_.contains(region.buffer.get())) return;
    Region freed = eliminate(substitute(region, bindings), axes_);
    for (Range& range : freed.ranges) {
      for (Expr* e : {&range.min, &range.extent}) {
        const LinearForm form = linear_form(*e);
        if (form.terms.empty()) *e = index(form.constant);
      }
    }
    // What a hint says stays apart, and stays that hint's.
    for (Region& known : list) {
      if (known.buffer != freed.buffer || known.provenance != freed.provenance || known.block != freed.block) continue;
      known = bounding_region(known, freed);
      return;
    }
    list.push_back(std::move(freed));
  }

  std::unordered_set<const BufferNode*> own_;
  std::vector<Axis> axes_;
};

}  // namespace

bool has_tiles(const Stmt& s) {
  bool found = false;
  for (const Stmt& at : outer_blocks(s)) {
    const Block* block = at.as<Block>();
    const bool is_leaf = !has_blocks(*block);
    found |= !is_leaf && (!block->f.iters.empty() || block->f.predicate || has_tiles(block->f.body));
  }
  return found;
}

Stmt with_tile_regions(const Stmt& s) {
  return rewrite_blocks(s, [](const Block& block) -> Stmt {
    if (!has_blocks(block)) return Stmt(&block);
    Stmt inside = with_fields(block, [&](Block::Fields& f) { f.body = with_tile_regions(f.body); });
    if (block.f.iters.empty() && !block.f.predicate) return inside;
    TileRegions regions(*inside.as<Block>());
    return with_fields(*inside.as<Block>(), [&](Block::Fields& f) {
      for (const auto& [now, old] : {std::pair(&regions.reads, &f.reads), {&regions.writes, &f.writes}}) {
        for (const Region& region : *old) {
          if (!region.block.empty() && region.block == f.name) now->push_back(region);
        }
        *old = std::move(*now);
      }
    });
  });
}

bool is_constant_zero(const Expr& e) {
  const FloatImm* real = e.as<FloatImm>();
  return is_int(e, 0) || (real && real->value == 0);
}

Stmt add_predicate(const Block& block, const Expr& condition) {
  return with_fields(block, [&](Block::Fields& f) { f.predicate = logical_and(f.predicate, condition); });
}

}  // namespace lathe
