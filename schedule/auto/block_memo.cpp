#include "schedule/auto/block_memo.h"

#include <algorithm>
#include <utility>

namespace lathe {
namespace {

thread_local BlockMemo* memo = nullptr;

/// Do two blocks do the same over the same iters?
bool alike(const Block& a, const Block& b) {
  const auto same_iter = [](const Iter& x, const Iter& y) {
    return x.variable == y.variable && x.kind == y.kind && x.domain.min == y.domain.min &&
           x.domain.extent == y.domain.extent;
  };
  return &a == &b ||
         (a.f.body == b.f.body && a.f.init == b.f.init && a.f.reducer.has_value() == b.f.reducer.has_value() &&
          (!a.f.reducer || (a.f.reducer->results == b.f.reducer->results && a.f.reducer->lhs == b.f.reducer->lhs &&
                            a.f.reducer->rhs == b.f.reducer->rhs)) &&
          std::equal(a.f.iters.begin(), a.f.iters.end(), b.f.iters.begin(), b.f.iters.end(), same_iter));
}

}  // namespace

BlockMemo::BlockMemo() : around_(std::exchange(memo, this)) {}

BlockMemo::~BlockMemo() {
  memo = around_;
}

BlockMemo::Known* BlockMemo::current(const Block& block, bool add) {
  // A block that nobody counts may be gone, and another stand in its place.
  if (!memo || block.references.load(std::memory_order_relaxed) == 0) return nullptr;
  std::vector<Known>& known = memo->known_;
  const auto found =
      std::find_if(known.begin(), known.end(), [&](const Known& k) { return alike(*k.block.as<Block>(), block); });
  if (found != known.end()) return &*found;
  if (!add) return nullptr;
  Known fresh;
  fresh.block = Stmt(&block);
  if (known.size() < most) {
    known.push_back(std::move(fresh));
    return &known.back();
  }
  Known& oldest = known[memo->oldest_++ % most];
  oldest = std::move(fresh);
  return &oldest;
}

}  // namespace lathe
