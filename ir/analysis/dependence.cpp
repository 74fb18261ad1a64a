#include "ir/analysis/dependence.h"

#include <algorithm>
#include <unordered_set>

#include "ir/analysis/access_walk.h"
#include "ir/analysis/nest_site.h"
#include "ir/storage.h"
#include "ir/visitor.h"

namespace lathe {
namespace {

bool may_meet(const Region& a, const Region& b, const Bounds& bounds) {
  if (a.buffer == b.buffer) return !disjoint(a, b, bounds);
  return storage_of(a.buffer) == storage_of(b.buffer);
}

struct BlockAccesses {
  Stmt block;
  bool is_source = false;  ///< of the kinds
  std::vector<DependenceKind> kinds;
  std::vector<Region> reads, writes;
};

bool conflict(const std::vector<Region>& a, const std::vector<Region>& b) {
  return std::any_of(a.begin(), a.end(), [&](const Region& x) {
    return std::any_of(b.begin(), b.end(),
                       [&](const Region& y) { return storage_of(x.buffer) == storage_of(y.buffer); });
  });
}

/// By what they declare, which covers what they do.
bool may_depend(const Block& source, const Block& sink, DependenceKind kind) {
  return conflict(kind == DependenceKind::anti ? source.f.reads : source.f.writes,
                  kind == DependenceKind::flow ? sink.f.reads : sink.f.writes);
}

bool holds_blocks(const Block& block) {
  bool found = false;
  for_each_stmt(block.f.body, [&](const Stmt& s) { found |= s->kind == StmtKind::Block; });
  return found;
}

/// The regions of the wanted blocks, over all loops around them; an access belongs to the innermost block, but to
/// `own` whatever lies in it.
class BlockCollector : public AccessWalk {
 public:
  BlockCollector(std::vector<BlockAccesses> wanted, size_t own, const Bounds& outer)
      : AccessWalk(outer), blocks(std::move(wanted)), own_(&blocks[own]), around_(outer) {
    reports_allocated_ = true;
  }

  std::vector<BlockAccesses> blocks;

 protected:
  void enter(const Stmt& s) override {
    if (s->kind != StmtKind::Block) return;
    const auto found =
        std::find_if(blocks.begin(), blocks.end(), [&](const BlockAccesses& known) { return known.block == s; });
    const bool within_own = !inside_.empty() && inside_.back() == own_;
    inside_.push_back(within_own ? own_ : found == blocks.end() ? nullptr : &*found);
  }
  void leave(const Stmt& s) override {
    if (s->kind == StmtKind::Block) inside_.pop_back();
  }
  /// What rests on a dependence has no other version to fall back on; and a hint around blocks would hide which of them
  /// it is that touches the buffer.
  bool governs(const Region& hint, const Block& block, bool is_write) override {
    return hint_holds(hint, block.f.annotations, is_write) && !holds_blocks(block);
  }
  void accessed(const Access& access) override {
    if (inside_.empty() || !inside_.back()) return;
    Region region = relax(access.region, bounds_, outer_, around_);
    // Boxes are kept apart while they are few: a bounding box covers what lies between.
    constexpr size_t most_boxes = 6;
    auto& list = access.is_write ? inside_.back()->writes : inside_.back()->reads;
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
  BlockAccesses* const own_;
  const Bounds around_;
  std::vector<BlockAccesses*> inside_;
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

std::vector<Dependence> dependences(const Stmt& scope, const Stmt& block, const Bounds& outer,
                                    const WantedDependence& wanted) {
  std::vector<BlockAccesses> candidates;
  bool before = true;
  size_t own = 0;
  std::unordered_set<const StmtNode*> held;
  for_each_stmt(block.as<Block>()->f.body, [&](const Stmt& s) {
    if (s->kind == StmtKind::Block) held.insert(s.get());
  });
  for_each_stmt(scope, [&](const Stmt& s) {
    if (s->kind != StmtKind::Block || held.contains(s.get())) return;
    BlockAccesses candidate{s, before, {}, {}, {}};
    if (s == block) {
      before = false;
      own = candidates.size();
      return candidates.push_back(std::move(candidate));
    }
    const Stmt &source = before ? s : block, &sink = before ? block : s;
    for (const DependenceKind kind : {DependenceKind::flow, DependenceKind::anti, DependenceKind::output}) {
      if ((!wanted || wanted(kind, source, sink)) && may_depend(*source.as<Block>(), *sink.as<Block>(), kind))
        candidate.kinds.push_back(kind);
    }
    if (!candidate.kinds.empty()) candidates.push_back(std::move(candidate));
  });
  std::vector<Dependence> result;
  if (before || candidates.size() < 2) return result;
  BlockCollector collector(std::move(candidates), own, outer);
  collector.walk(scope);
  for (const BlockAccesses& other : collector.blocks) {
    const BlockAccesses& self = collector.blocks[own];
    const BlockAccesses &source = other.is_source ? other : self, &sink = other.is_source ? self : other;
    for (const DependenceKind kind : other.kinds) {
      std::vector<const BufferNode*> found;
      for (const Region& a : kind == DependenceKind::anti ? source.reads : source.writes) {
        for (const Region& b : kind == DependenceKind::flow ? sink.reads : sink.writes) {
          if (std::find(found.begin(), found.end(), a.buffer.get()) != found.end() || !may_meet(a, b, outer)) continue;
          found.push_back(a.buffer.get());
          result.push_back({kind, source.block, sink.block, a, b});
        }
      }
    }
  }
  return result;
}

}  // namespace lathe
