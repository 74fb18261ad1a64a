#include "schedule/primitives/decompose_padding.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "ir/analysis/comparison.h"
#include "ir/conjuncts.h"
#include "schedule/access.h"
#include "schedule/rewrite.h"

namespace lathe {
namespace {

/// value where condition, else padding.
struct Padding {
  const Store* store = nullptr;
  Expr condition, value, padding;
};

bool is_constant(const Expr& e) {
  return e.as<IntImm>() || e.as<FloatImm>();
}

std::string match_padding(const Block& block, Padding& found) {
  for (const Iter& iter : block.f.iters) {
    if (iter.kind != IterKind::space)
      return fmt::format("has the {} iter {}", to_string(iter.kind), iter.variable->name);
  }
  found.store = block.f.body.as<Store>();
  if (block.f.init || !found.store || found.store->mask) return "does more than one unmasked Store";
  const Expr& value = found.store->value;
  if (const Select* choice = value.as<Select>()) {
    const bool inside_first = is_constant(choice->when_false);
    if (!inside_first && !is_constant(choice->when_true)) return "chooses between two values";
    found.condition = inside_first ? choice->condition : logical_not(choice->condition);
    found.value = inside_first ? choice->when_true : choice->when_false;
    found.padding = inside_first ? choice->when_false : choice->when_true;
  } else if (const Load* load = value.as<Load>(); load && load->mask) {
    found.condition = load->mask;
    found.value = Load::make(load->buffer, load->indices, nullptr);
    found.padding = constant(value->dtype, 0);
  } else {
    return "stores neither a Select with a constant nor a masked Load";
  }
  bool other = false;
  for_each_expr(found.condition, [&](const Expr& e) {
    other |= e.as<Load>() || e.as<Call>();
    if (!e.as<Var>()) return;
    other |= std::none_of(block.f.iters.begin(), block.f.iters.end(),
                          [&](const Iter& iter) { return Expr(iter.variable) == e; });
  });
  return other ? "has a condition that uses more than its iters" : "";
}

/// The loops of a nest that each move an iter alone, with what a condition leaves of it.
class Inside {
 public:
  Inside(const Path& nest, const Block& block) : block_(block) {
    for (const Stmt& s : nest) {
      const For* loop = s.as<For>();
      const std::int64_t* extent = loop && loop->for_kind == ForKind::serial ? as_int(loop->extent) : nullptr;
      if (!extent || !is_int(loop->min, 0)) continue;
      if (block.f.predicate && uses_var(block.f.predicate, loop->variable.get())) continue;
      if (const auto iter = iter_moved_by(block, loop->variable)) spans_.push_back({loop, *iter, 0, *extent});
    }
  }

  /// Shortens the loops by those conjuncts that bound one iter by constants; returns the others.
  std::vector<Expr> shorten(const Expr& condition) {
    std::vector<Expr> left;
    for (const Expr& conjunct : conjuncts_of(condition))
      if (!take(conjunct)) left.push_back(conjunct);
    return left;
  }

  /// The nest with shorter loops around `inner`, which binds the iters as shifted() says.
  Stmt around(const Path& nest, Stmt inner) const {
    for (size_t i = nest.size() - 1; i-- > 0;) {
      const For* loop = nest[i].as<For>();
      const auto span =
          std::find_if(spans_.begin(), spans_.end(), [&](const Span& s) { return loop && s.loop == loop; });
      if (span == spans_.end()) {
        inner = replace_last({nest[i], nest[i + 1]}, inner);
      } else {
        const Expr extent = index(std::max<std::int64_t>(span->high - span->low, 0));
        inner = For::make(loop->variable, loop->min, extent, loop->for_kind, inner, loop->annotations);
      }
    }
    return inner;
  }

  std::vector<Expr> shifted() const {
    std::vector<Expr> bindings = block_.f.bindings;
    for (const Span& span : spans_)
      if (span.low != 0) bindings[span.iter] = bindings[span.iter] + span.low;
    return bindings;
  }

 private:
  struct Span {
    const For* loop;
    size_t iter;
    std::int64_t low, high;
  };

  /// The span of the one iter that stands alone in the bound; null where there is none.
  Span* bounded_by(const Affine& bound) {
    if (bound.terms.size() != 1 || std::abs(bound.terms[0].coefficient) != 1) return nullptr;
    const auto span = std::find_if(spans_.begin(), spans_.end(), [&](const Span& s) {
      return bound.terms[0].atom == Expr(block_.f.iters[s.iter].variable);
    });
    return span == spans_.end() ? nullptr : &*span;
  }

  bool take(const Expr& conjunct) {
    const Binary* comparison = conjunct.as<Binary>();
    std::vector<Affine> bounds;
    if (comparison && is_comparison(comparison->op) && comparison->a->dtype == i64)
      append_inequalities(comparison->op, *comparison, bounds);
    if (bounds.empty() || !std::all_of(bounds.begin(), bounds.end(), [&](const Affine& b) { return bounded_by(b); }))
      return false;
    for (const Affine& bound : bounds) {
      Span& span = *bounded_by(bound);
      if (bound.terms[0].coefficient > 0) {
        span.low = std::max(span.low, -bound.constant);
      } else {
        span.high = std::min(span.high, bound.constant + 1);
      }
    }
    return true;
  }

  const Block& block_;
  std::vector<Span> spans_;
};

}  // namespace

BlockRef decompose_padding(Schedule& schedule, const BlockRef& block, const LoopRef& loop) {
  const Path path = path_to(schedule, block), loop_path = path_to(schedule, loop);
  const Block& node = *path.back().as<Block>();
  const std::string application = fmt::format("decompose_padding({}, {})", block.name, schedule.place(loop));
  Padding padding;
  if (const std::string reason = match_padding(node, padding); !reason.empty()) {
    refuse(schedule, application, 1,
           "block has only space iters and its body is one Store without a mask, of a Select between a value and a "
           "constant, or of a Load with a mask; the condition uses nothing but iters",
           path.back(), reason);
  }
  const std::string alone = "loop is around block, and no other block lies below it";
  if (std::find(path.begin(), path.end(), loop_path.back()) == path.end()) {
    refuse(schedule, application, 2, alone, loop_path.back(), "is not around it");
  }
  for (const Stmt& s : outer_blocks(loop_path.back())) {
    if (s != path.back()) refuse(schedule, application, 2, alone, s, "lies below the loop too");
  }
  for (const Region& region : node.f.writes) {
    if (reads(node, region.buffer)) {
      refuse(schedule, application, 3, "block does not read what it writes", path.back(),
             fmt::format("reads {}", region.buffer->name));
    }
  }

  const std::string name = schedule.unique_name(block.name + "_fill");
  const Stmt filling = with_fields(node, [&](Block::Fields& f) {
    f.name = name;
    f.body = Store::make(padding.store->buffer, padding.store->indices, padding.padding);
    f.reads.clear();
  });
  const Path below(path.begin() + static_cast<std::ptrdiff_t>(loop_path.size()) - 1, path.end());
  const Stmt fill_nest = fresh_copy(replace_last(below, filling));
  Inside inside(below, node);
  const Expr left = conjunction(inside.shorten(padding.condition));
  const Stmt inner = with_fields(node, [&](Block::Fields& f) {
    f.body = Store::make(padding.store->buffer, padding.store->indices, padding.value);
    f.bindings = inside.shifted();
    Substitution bindings;
    for (size_t i = 0; i < f.iters.size(); ++i) bindings[f.iters[i].variable.get()] = f.bindings[i];
    if (left) f.predicate = logical_and(f.predicate, substitute(left, bindings));
  });
  const Stmt copy_nest = inside.around(below, with_inferred_regions(*inner.as<Block>()));
  schedule.commit(replace_last(loop_path, Seq::make({fill_nest, copy_nest})), application);
  return {name};
}

}  // namespace lathe
