#include "schedule/primitives/fold_lanes.h"

#include <fmt/format.h>

#include "ir/intrinsics.h"
#include "schedule/access.h"
#include "schedule/primitives/lane_fold.h"
#include "schedule/rewrite.h"

namespace lathe {

void fold_lanes(Schedule& schedule, const BlockRef& block, std::int64_t lanes) {
  const std::string application = fmt::format("fold_lanes({}, {})", block.name, lanes);
  const LaneFold fold = match_lane_fold(schedule, application, block, lanes);
  const Path path = path_to(schedule, block);
  const Expr vector = combined_vector(fold, fold.term->indices, lanes);
  const Expr value = lanes == 1 ? vector : reduce_lanes(fold.op, vector);
  const Stmt folded = with_fields(*path.back().as<Block>(), [&](Block::Fields& f) {
    f.iters.erase(f.iters.begin() + static_cast<std::ptrdiff_t>(fold.reduce_iter));
    f.bindings.erase(f.bindings.begin() + static_cast<std::ptrdiff_t>(fold.reduce_iter));
    f.reducer.reset();
    f.init = nullptr;
    f.body = Store::make(fold.output.buffer, fold.output.indices, value);
  });
  const Path loop_path(path.begin(), path.end() - 1);
  schedule.commit(replace_last(loop_path, with_inferred_regions(*folded.as<Block>())), application);
}

}  // namespace lathe
