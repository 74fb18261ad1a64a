#include <algorithm>

#include "ir/analysis/access_walk.h"
#include "ir/analysis/prove.h"
#include "ir/analysis/regions.h"

namespace lathe {
namespace {

class RegionCollector : public AccessWalk {
 public:
  RegionCollector(const Bounds& outer, bool want_reads, bool want_writes)
      : AccessWalk(outer), around_(outer), want_reads_(want_reads), want_writes_(want_writes) {}

  std::vector<Region> reads, writes;

 protected:
  void accessed(const Access& access) override {
    if (!(access.is_write ? want_writes_ : want_reads_)) return;
    Region region = relax(access.region, bounds_, outer_, around_);
    // Regions of different provenance are never unioned: a block keeps a list.
    auto& list = access.is_write ? writes : reads;
    Region* last = nullptr;
    size_t boxes = 0;
    for (Region& known : list) {
      if (!(known.buffer == region.buffer) || known.provenance != region.provenance || known.block != region.block)
        continue;
      if (auto box = decided_box(known, region)) {
        known = std::move(*box);
        return;
      }
      last = &known;
      ++boxes;
    }
    constexpr size_t most_boxes = 4;
    if (boxes < most_boxes)
      list.push_back(std::move(region));
    else
      *last = unite(*last, region, around_);
  }

 private:
  /// The bounding box, where it is known which of the two begins first, and which ends last, in every dimension: x[i]
  /// and x[n - i] stay two elements rather than become what lies between them.
  std::optional<Region> decided_box(const Region& a, const Region& b) const {
    Region box = a;
    for (size_t d = 0; d < a.ranges.size(); ++d) {
      const Range &x = a.ranges[d], &y = b.ranges[d];
      if (identical(x.min, y.min) && identical(x.extent, y.extent)) continue;
      Affine begin = to_affine(x.min), end = to_affine(x.min + x.extent), other_begin = to_affine(y.min);
      Affine other_end = to_affine(y.min + y.extent);
      auto first = earlier(begin, other_begin);
      auto last = earlier(other_end, end);
      if (!first || !last) return std::nullopt;
      const Affine& low = *first ? begin : other_begin;
      Affine extent = *last ? end : other_end;
      if (!add_scaled(extent, low, -1)) return std::nullopt;
      box.ranges[d] = {to_expr(low), to_expr(extent)};
    }
    return box;
  }

  /// a <= b, or b <= a; nothing when neither is proved.
  std::optional<bool> earlier(const Affine& a, const Affine& b) const {
    Affine d = b, reverse = a;
    if (!add_scaled(d, a, -1) || !add_scaled(reverse, b, -1)) return std::nullopt;
    if (prove_nonnegative(around_, d, quick_effort)) return true;
    if (prove_nonnegative(around_, reverse, quick_effort)) return false;
    return std::nullopt;
  }

  const Bounds around_;
  bool want_reads_, want_writes_;
};

/// A block's own hints stay, in front; what they govern is not inferred.
std::vector<Region> with_hints(const std::vector<Region>& declared, std::vector<Region> inferred) {
  std::vector<Region> result;
  for (const Region& r : declared)
    if (is_hint(r)) result.push_back(r);
  size_t hints = result.size();
  for (Region& r : inferred) {
    bool governed =
        std::any_of(result.begin(), result.begin() + hints, [&](const Region& h) { return h.buffer == r.buffer; });
    if (!governed) result.push_back(std::move(r));
  }
  return result;
}

bool identical_regions(const std::vector<Region>& a, const std::vector<Region>& b) {
  if (a.size() != b.size()) return false;
  for (size_t i = 0; i < a.size(); ++i) {
    if (!identical(a[i], b[i]) || a[i].provenance != b[i].provenance || a[i].block != b[i].block) return false;
  }
  return true;
}

class Inference {
 public:
  explicit Inference(Bounds bounds) : bounds_(std::move(bounds)) {}

  Stmt rewrite(const Stmt& s) {
    if (!s) return s;
    Bounds::Mark mark = bounds_.mark();
    switch (s->kind) {
      case StmtKind::For: {
        auto* loop = s.as<For>();
        bounds_.bind(loop->variable, Range{loop->min, loop->extent});
        Stmt body = rewrite(loop->body);
        bounds_.rollback(mark);
        if (body == loop->body) return s;
        return For::make(loop->variable, loop->min, loop->extent, loop->for_kind, body, loop->annotations,
                         loop->thread_axis);
      }
      case StmtKind::Let: {
        auto* let = s.as<Let>();
        bounds_.bind_value(let->variable, let->value);
        Stmt body = rewrite(let->body);
        bounds_.rollback(mark);
        return body == let->body ? s : Let::make(let->variable, let->value, body);
      }
      case StmtKind::If: {
        auto* node = s.as<If>();
        Stmt then_case = rewrite(node->then_case), else_case = rewrite(node->else_case);
        if (then_case == node->then_case && else_case == node->else_case) return s;
        return If::make(node->condition, then_case, else_case);
      }
      case StmtKind::While: {
        Stmt body = rewrite(s.as<While>()->body);
        return body == s.as<While>()->body ? s : While::make(s.as<While>()->condition, body);
      }
      case StmtKind::Seq: {
        std::vector<Stmt> stmts;
        bool changed = false;
        for (const Stmt& child : s.as<Seq>()->stmts) {
          stmts.push_back(rewrite(child));
          changed |= !(stmts.back() == child);
        }
        return changed ? Seq::make(std::move(stmts)) : s;
      }
      case StmtKind::Block: {
        Block::Fields f = s.as<Block>()->f;
        for (const Iter& iter : f.iters) bounds_.bind(iter.variable, iter.domain);
        f.body = rewrite(f.body);
        f.init = rewrite(f.init);
        bounds_.rollback(mark);
        bool changed = !(f.body == s.as<Block>()->f.body) || !(f.init == s.as<Block>()->f.init);
        return infer_regions(changed ? Block::make(std::move(f)) : s, bounds_);
      }
      default:
        return s;
    }
  }

 private:
  Bounds bounds_;
};

std::vector<Region> collect(const Stmt& body, const Bounds& outer, bool writes) {
  RegionCollector collector(outer, !writes, writes);
  collector.walk(body);
  return std::move(writes ? collector.writes : collector.reads);
}

}  // namespace

std::vector<Region> read_regions(const Stmt& body, const Bounds& outer) {
  return collect(body, outer, false);
}
std::vector<Region> write_regions(const Stmt& body, const Bounds& outer) {
  return collect(body, outer, true);
}

Stmt infer_regions(const Stmt& block, const Bounds& outer) {
  const Block::Fields& f = block.as<Block>()->f;
  Bounds bounds = outer;
  for (const Iter& iter : f.iters) bounds.bind(iter.variable, iter.domain);
  RegionCollector collector(bounds, true, true);
  collector.walk(f.init);
  collector.walk(f.body);
  auto own = [&](std::vector<Region> regions) {
    std::erase_if(regions, [&](const Region& r) {
      return std::find(f.allocs.begin(), f.allocs.end(), r.buffer) != f.allocs.end();
    });
    return regions;
  };
  std::vector<Region> reads = with_hints(f.reads, own(std::move(collector.reads)));
  std::vector<Region> writes = with_hints(f.writes, own(std::move(collector.writes)));
  // What a reduction accumulates in stands last, behind its terms.
  if (f.reducer) {
    std::stable_partition(reads.begin(), reads.end(), [&](const Region& r) {
      return std::none_of(writes.begin(), writes.end(), [&](const Region& w) { return w.buffer == r.buffer; });
    });
  }
  if (identical_regions(reads, f.reads) && identical_regions(writes, f.writes)) return block;
  Block::Fields result = f;
  result.reads = std::move(reads);
  result.writes = std::move(writes);
  return Block::make(std::move(result));
}

Func infer_regions(const Func& func) {
  Stmt body = Inference(Bounds(func)).rewrite(func->body);
  return body == func->body ? func : with_body(func, body);
}

}  // namespace lathe
