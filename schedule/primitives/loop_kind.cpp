#include "schedule/primitives/loop_kind.h"

#include <fmt/format.h>

namespace lathe {

Stmt with_kind(const For& loop, ForKind kind) {
  return For::make(loop.variable, loop.min, loop.extent, kind, loop.body, loop.annotations);
}

void require_constant_extent(const Schedule& schedule, const std::string& application, int number, const Stmt& loop) {
  const std::int64_t* extent = as_int(loop.as<For>()->extent);
  if (!extent || *extent < 1) {
    refuse(schedule, application, number, "the extent is a constant of at least 1", loop,
           extent ? "never runs" : "has an extent that is no constant", "split it by a constant first");
  }
}

void require_space_iters(const Schedule& schedule, const std::string& application, int number, const Stmt& loop) {
  const Var* variable = loop.as<For>()->variable.get();
  for (const Stmt& s : outer_blocks(loop.as<For>()->body)) {
    const Block& block = *s.as<Block>();
    for (size_t i = 0; i < block.f.iters.size(); ++i) {
      if (block.f.iters[i].kind != IterKind::space && uses_var(block.f.bindings[i], variable)) {
        refuse(schedule, application, number,
               "no reduce, ordered or opaque iter below is bound to an expression of loop", s,
               fmt::format("binds {} iter {} to it", to_string(block.f.iters[i].kind), block.f.iters[i].variable->name),
               block.f.iters[i].kind == IterKind::reduce ? "rfactor makes a space iter of it" : "");
      }
    }
  }
}

}  // namespace lathe
