#include "ir/analysis/dependence.h"

#include <algorithm>

#include "ir/analysis/access_walk.h"
#include "ir/analysis/nest_site.h"
#include "ir/storage.h"

namespace lathe {
namespace {

bool may_meet(const Region& a, const Region& b, const Bounds& bounds) {
  if (a.buffer == b.buffer) return !disjoint(a, b, bounds);
  return storage_of(a.buffer) == storage_of(b.buffer);
}

struct BlockAccesses {
  Stmt block;
  std::vector<Region> reads, writes;
};

/// The regions of each outermost block, over all loops around it.
class BlockCollector : public AccessWalk {
 public:
  explicit BlockCollector(const Bounds& outer) : AccessWalk(outer), around_(outer) {}

  std::vector<BlockAccesses> blocks;

 protected:
  void enter(const Stmt& s) override {
    if (s->kind == StmtKind::Block && depth_++ == 0) blocks.push_back({s, {}, {}});
  }
  void leave(const Stmt& s) override {
    if (s->kind == StmtKind::Block) --depth_;
  }
  /// What rests on a dependence has no other version to fall back on.
  bool governs(const Region& hint, const Block& block, bool is_write) override {
    return hint_holds(hint, block.f.annotations, is_write);
  }
  void accessed(const Access& access) override {
    if (depth_ == 0) return;
    Region region = relax(access.region, bounds_, outer_, around_);
    // Boxes are kept apart while they are few: a bounding box covers what lies between.
    constexpr size_t most_boxes = 6;
    auto& list = access.is_write ? blocks.back().writes : blocks.back().reads;
    Region* last = nullptr;
    size_t count = 0;
    for (Region& known : list) {
      if (!(known.buffer == region.buffer) || known.provenance != region.provenance || known.block != region.block)
        continue;
      if (contains(known, region, around_)) return;
      last = &known;
      ++count;
    }
    if (count >= most_boxes)
      *last = unite(*last, region, around_);
    else
      list.push_back(std::move(region));
  }

 private:
  const Bounds around_;
  int depth_ = 0;
};

}  // namespace

std::string_view to_string(DependenceKind kind) {
  switch (kind) {
    case DependenceKind::flow:
      return "flow";
    case DependenceKind::anti:
      return "anti";
    default:
      return "output";
  }
}

std::vector<Dependence> dependences(const Stmt& scope, const Bounds& outer) {
  BlockCollector collector(outer);
  collector.walk(scope);
  std::vector<Dependence> result;
  auto between = [&](const BlockAccesses& source, const BlockAccesses& sink, DependenceKind kind,
                     const std::vector<Region>& from, const std::vector<Region>& to) {
    std::vector<const BufferNode*> found;
    for (const Region& a : from)
      for (const Region& b : to) {
        if (std::find(found.begin(), found.end(), a.buffer.get()) != found.end() || !may_meet(a, b, outer)) continue;
        found.push_back(a.buffer.get());
        result.push_back({kind, source.block, sink.block, a, b});
      }
  };
  const auto& blocks = collector.blocks;
  for (size_t j = 1; j < blocks.size(); ++j)
    for (size_t i = 0; i < j; ++i) {
      between(blocks[i], blocks[j], DependenceKind::flow, blocks[i].writes, blocks[j].reads);
      between(blocks[i], blocks[j], DependenceKind::anti, blocks[i].reads, blocks[j].writes);
      between(blocks[i], blocks[j], DependenceKind::output, blocks[i].writes, blocks[j].writes);
    }
  return result;
}

std::vector<Dependence> dependences(const Func& func) {
  auto* root = func->body.as<Block>();
  return dependences(root && root->f.iters.empty() ? root->f.body : func->body, Bounds(func));
}

}  // namespace lathe
