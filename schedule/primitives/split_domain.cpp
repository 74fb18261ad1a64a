#include "schedule/primitives/split_domain.h"

#include <fmt/format.h>

#include <algorithm>

#include "ir/analysis/simplify.h"
#include "schedule/access.h"
#include "schedule/carried.h"
#include "schedule/complete.h"
#include "schedule/rewrite.h"

namespace lathe {
namespace {

/// The block with its iter over [0, count), standing for [first, first + count), and without what that decides.
Stmt part_of(const Block& block, size_t iter, std::int64_t first, std::int64_t count, const Bounds& around) {
  const Stmt part = with_fields(block, [&](Block::Fields& f) {
    f.iters[iter].domain.extent = index(count);
    Bounds bounds = around;
    for (const Iter& other : f.iters) bounds.bind(other.variable, other.domain);
    if (first > 0) {
      const VarRef& variable = f.iters[iter].variable;
      f.body = substitute(f.body, {{variable.get(), Expr(variable) + first}});
    }
    f.body = simplify(f.body, bounds);
  });
  return with_inferred_regions(*part.as<Block>());
}

/// The nest, in which a loop runs so many times, around a block.
Stmt nest_around(const Path& nest, const For& cut, std::int64_t count, const Stmt& block) {
  Stmt made = block;
  for (size_t level = nest.size() - 1; level-- > 0;) {
    const For& loop = *nest[level].as<For>();
    made = &loop == &cut
               ? For::make(loop.variable, loop.min, index(count), loop.for_kind, std::move(made), loop.annotations)
               : with_body(loop, made);
  }
  return made;
}

}  // namespace

BlockRef split_domain(Schedule& schedule, const BlockRef& block, const LoopRef& loop, std::int64_t point) {
  const std::string application = fmt::format("split_domain({}, {}, {})", block.name, schedule.place(loop), point);
  const auto [path, own, iter, extent] = require_space_domain(schedule, application, block, loop);
  const Path loop_path = path_to(schedule, loop);
  const Block& node = *path.back().as<Block>();
  if (point < 1 || point >= extent) {
    refuse(schedule, application, 3, "0 < point < n", loop_path.back(), fmt::format("runs {} times", extent));
  }
  const Bounds around(schedule.func());
  const Path nest(path.begin() + static_cast<std::ptrdiff_t>(own), path.end());
  const For& cut = *loop_path.back().as<For>();
  const std::string name = schedule.unique_name(block.name);
  const Stmt rest = rewrite_blocks(part_of(node, iter, point, extent - point, around), [&](const Block& part) {
    return with_fields(part, [&](Block::Fields& f) { f.name = name; });
  });
  const Stmt first = nest_around(nest, cut, point, part_of(node, iter, 0, point, around));
  const Stmt second = fresh_copy(nest_around(nest, cut, extent - point, rest));
  const Path above(path.begin(), path.begin() + static_cast<std::ptrdiff_t>(own) + 1);
  schedule.commit(replace_last(above, Seq::make({first, second})), application);
  return {name};
}

}  // namespace lathe
