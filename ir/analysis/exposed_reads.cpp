#include <algorithm>
#include <unordered_map>
#include <unordered_set>

#include "ir/analysis/regions.h"
#include "ir/analysis/simplify.h"
#include "ir/visitor.h"

namespace lathe {
namespace {

/// Follows a statement in program order, with what is written for sure at the place reached.
class ExposedCollector {
 public:
  ExposedCollector(const Bounds& outer, const std::function<bool(const Buffer&)>& considered)
      : bounds_(outer), considered_(considered) {}

  std::vector<ExposedRead> exposed;

  void run(const Stmt& s) {
    mark_relevant(s);
    walk(s);
  }

 private:
  void walk(const Stmt& s) {
    if (!s || !is_relevant(s)) return;
    switch (s->kind) {
      case StmtKind::Seq: {
        const std::vector<Stmt>& stmts = s.as<Seq>()->stmts;
        const auto last =
            std::find_if(stmts.rbegin(), stmts.rend(), [&](const Stmt& child) { return is_relevant(child); });
        for (auto child = stmts.begin(); child != last.base(); ++child) {
          walk(*child);
          if (child + 1 != last.base()) note_writes(*child);
        }
        return;
      }
      case StmtKind::For: {
        const For* loop = s.as<For>();
        read(loop->min);
        read(loop->extent);
        const Scope scope(*this);
        bounds_.bind(loop->variable, Range{loop->min, loop->extent});
        return walk(loop->body);
      }
      case StmtKind::Block:
        return walk_block(s);
      case StmtKind::Let: {
        const Let* let = s.as<Let>();
        read(let->value);
        const Scope scope(*this);
        bounds_.bind_value(let->variable, let->value);
        return walk(let->body);
      }
      case StmtKind::If: {
        const If* node = s.as<If>();
        read(node->condition);
        walk_arm(node->then_case, node->condition);
        return walk_arm(node->else_case, logical_not(node->condition));
      }
      case StmtKind::While: {
        read(s.as<While>()->condition);
        const Scope scope(*this);
        return walk(s.as<While>()->body);
      }
      case StmtKind::Store: {
        const Store* store = s.as<Store>();
        for (const Expr& i : store->indices) read(i);
        read(store->mask);
        return read(store->value);
      }
      case StmtKind::Eval:
        return read(s.as<Eval>()->value);
      case StmtKind::Assert:
        read(s.as<Assert>()->condition);
        return read(s.as<Assert>()->index);
    }
  }

  /// Forgets at its end what was learned and written since.
  struct Scope {
    explicit Scope(ExposedCollector& owner)
        : owner(owner), mark(owner.bounds_.mark()), written(owner.written_.size()) {}
    ~Scope() {
      owner.bounds_.rollback(mark);
      owner.written_.resize(written);
    }
    ExposedCollector& owner;
    const Bounds::Mark mark;
    const size_t written;
  };

  void walk_arm(const Stmt& arm, const Expr& condition) {
    if (!arm) return;
    const Scope scope(*this);
    bounds_.assume(condition);
    walk(arm);
  }

  void walk_block(const Stmt& s) {
    const Block::Fields& f = s.as<Block>()->f;
    for (const Expr& binding : f.bindings) read(binding);
    read(f.predicate);
    const Scope scope(*this);
    if (f.predicate) bounds_.assume(f.predicate);
    for (size_t i = 0; i < f.iters.size(); ++i) {
      bounds_.bind(f.iters[i].variable, f.iters[i].domain);
      if (i < f.bindings.size()) bounds_.bind_value(f.iters[i].variable, f.bindings[i]);
    }
    const Stmt around = std::exchange(block_, s);
    for (const Buffer& buffer : f.allocs) local_.insert(buffer.get());
    const size_t governed = governed_.size();
    for (const Region& hint : f.reads) {
      if (!is_hint(hint) || !hint_holds(hint, f.annotations, false) || is_governed(hint.buffer)) continue;
      if (is_considered(hint.buffer) && !is_written(clip(hint, bounds_))) expose(hint);
      governed_.push_back(hint.buffer.get());
    }
    if (f.init) {
      walk(f.init);
      note_writes(f.init);
    }
    walk(f.body);
    governed_.resize(governed);
    block_ = around;
  }

  /// Notes the loops, lists and blocks that hold what may touch a considered buffer, by what blocks declare: the others
  /// are passed over. A block that declares nothing has not been asked.
  bool mark_relevant(const Stmt& s) {
    if (!s) return false;
    bool found = false;
    switch (s->kind) {
      case StmtKind::For: {
        const For* loop = s.as<For>();
        found = !is_plain(loop->min) || !is_plain(loop->extent);
        found |= mark_relevant(loop->body);
        break;
      }
      case StmtKind::Seq:
        for (const Stmt& child : s.as<Seq>()->stmts) found |= mark_relevant(child);
        break;
      case StmtKind::Block: {
        const Block::Fields& f = s.as<Block>()->f;
        const auto considered = [&](const Region& region) { return !considered_ || considered_(region.buffer); };
        found = (f.reads.empty() && f.writes.empty()) || (f.predicate && !is_plain(f.predicate)) ||
                !std::all_of(f.bindings.begin(), f.bindings.end(), is_plain) ||
                std::any_of(f.reads.begin(), f.reads.end(), considered) ||
                std::any_of(f.writes.begin(), f.writes.end(), considered);
        if (!found) return false;
        mark_relevant(f.init);
        mark_relevant(f.body);
        break;
      }
      case StmtKind::Let:
        mark_relevant(s.as<Let>()->body);
        return true;
      case StmtKind::If:
        mark_relevant(s.as<If>()->then_case);
        mark_relevant(s.as<If>()->else_case);
        return true;
      case StmtKind::While:
        mark_relevant(s.as<While>()->body);
        return true;
      default:
        return true;
    }
    if (found) relevant_.insert(s.get());
    return found;
  }

  /// Has it no room for a Load?
  static bool is_plain(const Expr& e) {
    if (const Binary* node = e.as<Binary>()) return is_plain(node->a) && is_plain(node->b);
    return e->kind == ExprKind::IntImm || e->kind == ExprKind::Var;
  }

  bool is_relevant(const Stmt& s) const {
    if (s->kind != StmtKind::For && s->kind != StmtKind::Seq && s->kind != StmtKind::Block) return true;
    return relevant_.contains(s.get());
  }

  /// Has a block around said what of the buffer is read in it?
  bool is_governed(const Buffer& buffer) const {
    return std::find(governed_.begin(), governed_.end(), buffer.get()) != governed_.end();
  }

  bool is_written(const Region& region) const {
    return std::any_of(written_.rbegin(), written_.rend(), [&](const Region& known) {
      return known.buffer == region.buffer && contains(known, region, bounds_);
    });
  }

  bool is_considered(const Buffer& buffer) const {
    return !local_.contains(buffer.get()) && (!considered_ || considered_(buffer));
  }

  void note_writes(const Stmt& s) {
    if (!is_relevant(s)) return;
    bool any = false;
    for_each_stmt(s, [&](const Stmt& at) {
      const Store* store = at.as<Store>();
      any |= store && is_considered(store->buffer);
    });
    if (!any) return;
    const auto wanted = [&](const Buffer& buffer) { return is_considered(buffer); };
    for (Region& region : must_write_regions(s, bounds_, wanted)) add(std::move(region));
  }

  /// Boxes that continue each other become one.
  void add(Region region) {
    for (size_t i = written_.size(); i-- > 0;) {
      const Region& known = written_[i];
      if (known.buffer != region.buffer) continue;
      size_t differing = 0, dimension = 0;
      for (size_t d = 0; d < known.ranges.size(); ++d) {
        if (proves_equal(bounds_, known.ranges[d].min, region.ranges[d].min) &&
            proves_equal(bounds_, known.ranges[d].extent, region.ranges[d].extent))
          continue;
        ++differing;
        dimension = d;
      }
      if (differing != 1) continue;
      const Range &a = known.ranges[dimension], &b = region.ranges[dimension];
      if (proves_equal(bounds_, a.min + a.extent, b.min)) {
        region.ranges[dimension] = {a.min, a.extent + b.extent};
      } else if (proves_equal(bounds_, b.min + b.extent, a.min)) {
        region.ranges[dimension] = {b.min, a.extent + b.extent};
      }
    }
    written_.push_back(std::move(region));
  }

  void read(const Expr& e) {
    if (!e) return;
    for_each_expr(e, [&](const Expr& part) {
      if (const AddressOf* taken = part.as<AddressOf>()) {
        if (is_considered(taken->buffer)) expose(full_region(taken->buffer));
        return;
      }
      const Load* load = part.as<Load>();
      if (!load || !is_considered(load->buffer) || is_found(load->buffer)) return;
      if (is_governed(load->buffer)) return;
      Region region = load->indices.size() == load->buffer->rank() ? point_region(load->buffer, load->indices)
                                                                   : full_region(load->buffer);
      const Bounds::Mark mark = bounds_.mark();
      if (load->mask && load->mask->dtype.is_scalar()) bounds_.assume(load->mask);
      for (const Range& range : region.ranges) {
        if (range.min->dtype.lanes > 1) region = relax(region, bounds_, bounds_.mark(), bounds_);
      }
      const bool covered = is_written(region);
      bounds_.rollback(mark);
      if (!covered) expose(region);
    });
  }

  bool is_found(const Buffer& buffer) const {
    return std::any_of(exposed.rbegin(), exposed.rend(),
                       [&](const ExposedRead& read) { return read.region.buffer == buffer && read.block == block_; });
  }

  void expose(const Region& region) {
    if (!is_found(region.buffer)) exposed.push_back({region, block_});
  }

  Bounds bounds_;
  const std::function<bool(const Buffer&)>& considered_;
  std::vector<Region> written_;
  std::vector<const BufferNode*> governed_;
  std::unordered_set<const BufferNode*> local_;
  std::unordered_set<const StmtNode*> relevant_;
  Stmt block_;
};

}  // namespace

std::vector<ExposedRead> exposed_reads(const Stmt& body, const Bounds& outer,
                                       const std::function<bool(const Buffer&)>& considered) {
  ExposedCollector collector(outer, considered);
  collector.run(body);
  return std::move(collector.exposed);
}

}  // namespace lathe
