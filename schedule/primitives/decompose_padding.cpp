#include "schedule/primitives/decompose_padding.h"

#include <fmt/format.h>

#include <algorithm>

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
  Substitution bindings;
  for (size_t i = 0; i < node.f.iters.size(); ++i) bindings[node.f.iters[i].variable.get()] = node.f.bindings[i];
  const Stmt inner = with_fields(node, [&](Block::Fields& f) {
    f.body = Store::make(padding.store->buffer, padding.store->indices, padding.value);
    f.predicate = logical_and(f.predicate, substitute(padding.condition, bindings));
  });
  const Path below(path.begin() + static_cast<std::ptrdiff_t>(loop_path.size()) - 1, path.end());
  const Stmt fill_nest = fresh_copy(replace_last(below, filling));
  const Stmt copy_nest = replace_last(below, with_inferred_regions(*inner.as<Block>()));
  schedule.commit(replace_last(loop_path, Seq::make({fill_nest, copy_nest})), application);
  return {name};
}

}  // namespace lathe
