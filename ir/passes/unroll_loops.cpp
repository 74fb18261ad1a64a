#include "ir/passes/unroll_loops.h"

#include "ir/analysis/simplify.h"
#include "ir/visitor.h"

namespace lathe {
namespace {

bool binds_names(const Stmt& s) {
  bool binds = false;
  for_each_stmt(s, [&](const Stmt& below) {
    binds |= below.as<For>() || below.as<Let>() || below.as<Block>();
  });
  return binds;
}

class Unroller : public Mutator {
 public:
  bool changed = false;

 protected:
  Stmt mutate_For(const Stmt& s, const For* node) override {
    if (node->for_kind != ForKind::unrolled) return Mutator::mutate_For(s, node);
    changed = true;
    Stmt body = mutate(node->body);
    Expr extent = simplify(node->extent);
    const std::int64_t* count = as_int(extent);
    if (!count) {
      return For::make(node->variable, node->min, node->extent, ForKind::serial, std::move(body), node->annotations);
    }
    bool renames = binds_names(body);
    std::vector<Stmt> copies;
    for (std::int64_t i = 0; i < *count; ++i) {
      Stmt copy = renames && i > 0 ? fresh_copy(body) : body;
      copies.push_back(substitute(copy, {{node->variable.get(), node->min + i}}));
    }
    return Seq::make(std::move(copies));
  }
};

}  // namespace

Func unroll_loops(const Func& func) {
  Unroller unroller;
  Stmt body = unroller.mutate(func->body);
  if (!unroller.changed) return func;
  return with_body(func, simplify(body, Bounds(func)));
}

}  // namespace lathe
