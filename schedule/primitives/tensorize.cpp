#include "schedule/primitives/tensorize.h"

#include <fmt/format.h>

#include <algorithm>

#include "ir/analysis/match_intrinsic.h"
#include "ir/device.h"
#include "ir/error.h"
#include "ir/text/print.h"
#include "schedule/rewrite.h"

namespace lathe {
namespace {

/// A Func in one line of a record: blanks for line ends, and ' for the quotes around its strings.
std::string in_one_line(const Func& func) {
  std::string text = print(func), line;
  if (text.find('\'') != std::string::npos) {
    throw InputError(Mistake::value,
                     fmt::format("intrinsic {}: its text has a ', which a record cannot hold", func->name));
  }
  for (const char c : text) {
    const bool blank = c == '\n' || c == ' ';
    if (blank && (line.empty() || line.back() == ' ')) continue;
    line += blank ? ' ' : c == '"' ? '\'' : c;
  }
  while (!line.empty() && line.back() == ' ') line.pop_back();
  return line;
}

}  // namespace

std::string tensorized(const Block& block) {
  const auto found = block.f.annotations.find("tensorize");
  const std::string* name = found == block.f.annotations.end() ? nullptr : std::get_if<std::string>(&found->second);
  return name ? *name : "";
}

void tensorize(Schedule& schedule, const BlockRef& block, const Func& intrinsic) {
  check_intrinsic(intrinsic);
  const Path path = path_to(schedule, block);
  const Block& node = *path.back().as<Block>();
  const std::string application = fmt::format("tensorize({}, \"{}\")", block.name, intrinsic->name);
  const bool tile = !node.f.iters.empty() && has_blocks(node);
  if (!tile || !node.f.allocs.empty() || node.f.init) {
    refuse(schedule, application, 1,
           "block has iters and holds others, as blockize makes it, and neither allocates nor has an init", path.back(),
           tile ? "has more than that" : "is no such block");
  }
  if (const std::string name = tensorized(node); !name.empty()) {
    refuse(schedule, application, 2, "block is not marked already", path.back(), "is an instance of " + name);
  }
  if (const std::string difference = match_intrinsic(intrinsic, node.f.body).difference; !difference.empty()) {
    refuse(schedule, application, 3, "block's body is the same as the intrinsic's node for node", path.back(),
           difference);
  }
  const Stmt marked = with_fields(node, [&](Block::Fields& f) { f.annotations["tensorize"] = intrinsic->name; });
  schedule.commit(replace_last(path, marked), fmt::format("tensorize({}, \"{}\")", block.name, in_one_line(intrinsic)));
}

}  // namespace lathe
