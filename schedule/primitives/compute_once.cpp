#include "schedule/primitives/compute_once.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "schedule/carried.h"
#include "schedule/complete.h"
#include "schedule/rewrite_accesses.h"

namespace lathe {
namespace {

/// Does anything but the bindings use the iter?
bool computes_with(const Block& block, const Var* iter) {
  const auto used = [&](const Stmt& s) {
    bool found = false;
    for_each_expr(s, [&](const Expr& e) { found |= e.get() == iter; });
    return found;
  };
  return (block.f.predicate && uses_var(block.f.predicate, iter)) || used(block.f.body) ||
         (block.f.init && used(block.f.init));
}

/// The dimension that the block's stores walk by the iter; nothing where they do not.
std::optional<size_t> dimension_of_iter(const Block& block, const Var* iter) {
  std::optional<size_t> dimension;
  for_each_stmt(block.f.body, [&](const Stmt& s) {
    const Store* store = s.as<Store>();
    for (size_t d = 0; store && d < store->indices.size(); ++d) {
      if (store->indices[d].as<Var>() == iter) dimension = d;
    }
  });
  return dimension;
}

}  // namespace

void compute_once(Schedule& schedule, const BlockRef& block, const LoopRef& loop) {
  const std::string application = fmt::format("compute_once({}, {})", block.name, schedule.place(loop));
  const IterDomain domain = require_unordered_domain(schedule, application, block, loop);
  const Block& node = *domain.path.back().as<Block>();
  const auto fail = [&](int condition, const char* text, const Stmt& culprit, const std::string& note) {
    refuse(schedule, application, condition, text, culprit, note);
  };
  const Iter& iter = node.f.iters[domain.iter];
  if (iter.kind != IterKind::space || domain.extent < 1) {
    fail(2, "loop drives a space iter of block, from 0 over a constant extent of at least 1", domain.path.back(),
         iter.kind == IterKind::space ? "has no instance" : "has a reduce iter there");
  }
  const char* alone =
      "block alone writes one buffer, an allocation, at its space iters, each once, or 0 in a dimension of one element";
  if (node.f.writes.size() != 1) fail(3, alone, domain.path.back(), "writes several buffers");
  const Buffer old = node.f.writes[0].buffer;
  if (!is_allocated(schedule.func(), old) || old->view_of)
    fail(3, alone, domain.path.back(), fmt::format("writes {}, which is no allocation", old->name));
  if (const std::string reason = why_not_pointwise(node); !reason.empty()) fail(3, alone, domain.path.back(), reason);
  const std::optional<size_t> dimension = dimension_of_iter(node, iter.variable.get());
  if (!dimension)
    fail(3, alone, domain.path.back(), fmt::format("stores to {} without {}", old->name, iter.variable->name));
  for_each_stmt(schedule.func()->body, [&](const Stmt& s) {
    const Block* other = s.as<Block>();
    if (other && other != &node && !has_blocks(*other) && writes(*other, old))
      fail(3, alone, s, fmt::format("writes {} too", old->name));
  });
  if (const UnclearUse use = find_unclear_use(schedule.func()->body, old)) {
    fail(4, "everything that touches the buffer is a Load or a Store at scalar indices, without a hint", use.block,
         use.note);
  }

  std::vector<Expr> shape = old->shape;
  shape[*dimension] = index(1);
  const Buffer made =
      BufferNode::make(old->name, old->dtype, std::move(shape), old->space, {}, nullptr, old->alignment);
  const Stmt body = rewrite_accesses(schedule.func(), schedule.func()->body, old, made,
                                     [&](const Block&, const std::vector<Expr>& indices) {
                                       std::vector<Expr> result = indices;
                                       result[*dimension] = index(0);
                                       return result;
                                     });
  const Path path = find_path(body, [&](const Stmt& s) {
    const Block* found = s.as<Block>();
    return found && found->f.name == node.f.name;
  });
  const Block& rewritten = *path.back().as<Block>();
  if (computes_with(rewritten, iter.variable.get())) {
    fail(5, "nothing that block computes uses the iter, but to read what it has written itself", domain.path.back(),
         fmt::format("uses {}", iter.variable->name));
  }
  Stmt once = with_fields(rewritten, [&](Block::Fields& f) {
    f.iters.erase(f.iters.begin() + static_cast<std::ptrdiff_t>(domain.iter));
    f.bindings.erase(f.bindings.begin() + static_cast<std::ptrdiff_t>(domain.iter));
  });
  for (size_t level = path.size() - 1; level-- > domain.own;) {
    const For& around = *path[level].as<For>();
    if (around.variable != loop.variable) once = with_body(around, once);
  }
  const Path above(path.begin(), path.begin() + static_cast<std::ptrdiff_t>(domain.own) + 1);
  schedule.commit(replace_last(above, once), application);
}

}  // namespace lathe
