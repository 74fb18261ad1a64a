#include "schedule/primitives/fuse.h"

#include <fmt/format.h>

#include "ir/analysis/simplify.h"
#include "schedule/carried.h"

namespace lathe {

LoopRef fuse(Schedule& schedule, const LoopRef& outer, const LoopRef& inner) {
  const Path path = path_to(schedule, outer);
  const Path inner_path = path_to(schedule, inner);
  const For& a = *path.back().as<For>();
  const For& b = *inner_path.back().as<For>();
  const std::string application = fmt::format("fuse({}, {})", schedule.place(outer), schedule.place(inner));
  if (a.body != inner_path.back()) {
    refuse(schedule, application, 1, "inner is all that outer's body holds", a.body, "lies between or beside them");
  }
  if (uses_var(b.min, a.variable.get()) || uses_var(b.extent, a.variable.get())) {
    refuse(schedule, application, 2, "inner's bounds do not use outer", inner_path.back(),
           "has bounds that use " + a.variable->name);
  }
  for (const Stmt& s : {path.back(), inner_path.back()}) {
    const ForKind kind = s.as<For>()->for_kind;
    if (kind != ForKind::serial) {
      refuse(schedule, application, 3, "both loops are serial", s, "is " + std::string(to_string(kind)));
    }
  }
  const Bounds bounds = bounds_at(schedule.func(), path);
  for (const Stmt& s : outer_blocks(b.body)) {
    const Block& block = *s.as<Block>();
    for (const auto& [space, reduce] : {std::pair(&a, &b), {&b, &a}}) {
      if (!block.f.init || !drives(block, IterKind::space, *space) || !drives(block, IterKind::reduce, *reduce) ||
          proves(bounds, ge(reduce->extent, index(1)))) {
        continue;
      }
      refuse(schedule, application, 4,
             "of a block with an init they do not drive a space and a reduce iter, unless the latter is proved to run",
             s, fmt::format("would have no init where {} does not run", reduce->variable->name),
             "decompose_reduction takes the init out");
    }
  }
  const VarRef fused = Var::make(a.variable->name + "_" + b.variable->name);
  // An extent of 1 needs no division, and the index stays affine.
  const bool one_outer = is_int(a.extent, 1), one_inner = is_int(b.extent, 1);
  const Expr first = one_outer ? index(0) : one_inner ? Expr(fused) : floor_div(Expr(fused), b.extent);
  const Expr second = one_inner ? index(0) : one_outer ? Expr(fused) : floor_mod(Expr(fused), b.extent);
  Stmt body = substitute_loops(b.body, {{a.variable.get(), a.min + first}, {b.variable.get(), b.min + second}});
  Annotations annotations = a.annotations;
  annotations.insert(b.annotations.begin(), b.annotations.end());
  body = For::make(fused, index(0), a.extent * b.extent, ForKind::serial, std::move(body), std::move(annotations));
  schedule.commit(replace_last(path, body), application);
  return {fused};
}

}  // namespace lathe
