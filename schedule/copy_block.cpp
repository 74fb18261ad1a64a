#include "schedule/copy_block.h"

#include <fmt/format.h>

#include "ir/analysis/regions.h"
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
  const Expr value = load(from, indices);
  f.body = Store::make(to, indices, from->dtype == to->dtype ? value : Cast::make(to->dtype, value));
  f.reads = {point_region(from, indices)};
  f.writes = {point_region(to, indices)};
  const Stmt block = Block::make(std::move(f));
  return make_nest(*block.as<Block>(), ranges);
}

namespace {

/// Where on the path a copy for the whole nest stands: the statement directly in the innermost block around the one at
/// its end, or around the loops and tiles that hold that.
size_t nest_level(const Path& path) {
  size_t nest = path.size() - 1;
  while (nest > 0 && !path[nest - 1].as<Block>() && !path[nest - 1].as<Seq>()) --nest;
  size_t outermost = nest;
  for (size_t level = nest; level-- > 0;) {
    const Block* around = path[level].as<Block>();
    // A tile would make a copy for itself, where each instance is to have its own part.
    if (path[level].as<For>() || (around && !around->f.iters.empty())) outermost = level;
  }
  return outermost;
}

}  // namespace

void require_unwritten(const Schedule& schedule, const std::string& application, int condition, const Path& path,
                       const Buffer& source) {
  for_each_stmt(path[nest_level(path)], [&](const Stmt& s) {
    const Block* other = s.as<Block>();
    if (other && writes(*other, source)) {
      refuse(schedule, application, condition, "nothing in the nest that holds block writes the buffer", s,
             fmt::format("writes {}", source->name));
    }
  });
}

Stmt copied_before(const Schedule& schedule, const std::string& application, int condition, const Path& path,
                   const Buffer& source, const Stmt& copy, const Stmt& reader) {
  require_unwritten(schedule, application, condition, path, source);
  const auto nest = static_cast<std::ptrdiff_t>(nest_level(path));
  const Stmt rest = replace_last(Path(path.begin() + nest, path.end()), reader);
  return replace_last(Path(path.begin(), path.begin() + nest + 1), Seq::make({copy, rest}));
}

void require_written(const Schedule& schedule, const std::string& application, int condition, const Path& path,
                     const Buffer& source, const Stmt& body) {
  if (!is_allocated(schedule.func(), source)) return;
  const Block* root = body.as<Block>();
  const auto exposed = exposed_reads(root ? root->f.body : body, Bounds(schedule.func()),
                                     [&](const Buffer& read) { return read == source; });
  if (exposed.empty()) return;
  refuse(schedule, application, condition,
         "where the buffer is an allocation, all of it is proved to be written before", path.back(),
         fmt::format("reads {}, of which a part may have no value", source->name));
}

}  // namespace lathe
