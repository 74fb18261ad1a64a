#pragma once
#include <optional>
#include <vector>

#include "schedule/auto/block_model.h"
#include "schedule/auto/choice_points.h"
#include "schedule/auto/contraction.h"

namespace lathe {

/// While one stands, what rules ask of a block again and again is kept on this thread. What is kept follows from the
/// block's iters and from what it does with them, which stay the same while loops around it change.
class BlockMemo {
 public:
  struct Known {
    Stmt block;
    std::optional<Accesses> accesses;
    std::optional<std::optional<ReductionShape>> reduction_shape;
    std::optional<std::optional<JoinedAxis>> joined_axis;
    std::optional<double> cost;
    std::optional<bool> sealed;
  };

  BlockMemo();
  ~BlockMemo();
  BlockMemo(const BlockMemo&) = delete;
  BlockMemo& operator=(const BlockMemo&) = delete;

  /// What `find` says of a block, unless it is known.
  template <typename T, typename Find>
  static T ask(const Block& block, std::optional<T> Known::* what, const Find& find) {
    if (const Known* known = current(block, false); known && known->*what) return *(known->*what);
    T found = find();
    if (Known* known = current(block, true)) known->*what = found;
    return found;
  }

 private:
  /// What this thread's memo has of the block: null without a memo, and, unless it is to `add`, of an unknown block.
  static Known* current(const Block& block, bool add);

  /// Blocks to keep at the most: those that a rule has at hand.
  static constexpr size_t most = 32;
  std::vector<Known> known_;
  size_t oldest_ = 0;
  BlockMemo* const around_;
};

}  // namespace lathe
