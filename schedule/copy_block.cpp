#include "schedule/copy_block.h"

#include <fmt/format.h>

#include "schedule/complete.h"

namespace lathe {

Stmt copy_nest(const std::string& name, const Buffer& from, const Buffer& to) {
  Block::Fields f;
  f.name = name;
  std::vector<Expr> indices;
  std::vector<Range> ranges;
  for (size_t d = 0; d < to->shape.size(); ++d) {
    const VarRef iter = Var::make(fmt::format("v{}", d));
    ranges.push_back({index(0), to->shape[d]});
    f.iters.push_back({iter, ranges.back(), IterKind::space});
    f.bindings.push_back(index(0));
    indices.emplace_back(iter);
  }
  f.body = Store::make(to, indices, load(from, indices));
  f.reads = {point_region(from, indices)};
  f.writes = {point_region(to, indices)};
  const Stmt block = Block::make(std::move(f));
  return make_nest(*block.as<Block>(), ranges);
}

}  // namespace lathe
