#include "schedule/primitives/compute_inline.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <unordered_set>

#include "ir/analysis/regions.h"
#include "ir/reduction.h"
#include "ir/storage.h"
#include "schedule/access.h"
#include "schedule/carried.h"
#include "schedule/hints.h"

namespace lathe {
namespace {

/// Only statements are walked: expressions change in the blocks that read alone.
Stmt rewrite_readers(const Stmt& s, const Inlining& inlining) {
  class Rewriter : public Mutator {
   public:
    explicit Rewriter(const Inlining& inlining) : inlining_(inlining) {}
    using Mutator::mutate;
    Expr mutate(const Expr& e) override { return e; }

   protected:
    Stmt mutate_Block(const Stmt& s, const Block* node) override {
      if (has_blocks(*node)) {
        const Stmt inner = Mutator::mutate(node->f.body);
        return inner == node->f.body ? s : with_fields(*node, [&](Block::Fields& f) { f.body = inner; });
      }
      const bool reads_one = std::any_of(node->f.reads.begin(), node->f.reads.end(),
                                         [&](const Region& region) { return inlining_.defines(region.buffer); });
      return reads_one ? inlining_.into(*node) : s;
    }

   private:
    const Inlining& inlining_;
  };
  return Rewriter(inlining).mutate(s);
}

/// Is it plain arithmetic, without a Load?
bool is_plain(const Expr& e) {
  if (const Binary* node = e.as<Binary>()) return is_plain(node->a) && is_plain(node->b);
  if (const Select* node = e.as<Select>())
    return is_plain(node->condition) && is_plain(node->when_true) && is_plain(node->when_false);
  return e->kind == ExprKind::IntImm || e->kind == ExprKind::Var;
}

class Inliner {
 public:
  Inliner(const Schedule& schedule, const BlockRef& block)
      : schedule_(schedule),
        application_(fmt::format("compute_inline({})", block.name)),
        path_(path_to(schedule, block)),
        producer_(*path_.back().as<Block>()) {}

  Stmt run() {
    match_producer();
    check_readers();
    Inlining inlining;
    inlining.define(definition_);
    return remove_allocation(rewrite_readers(remove_last(path_), inlining), definition_.buffer);
  }

  /// The definition of a block of which it is known that nothing writes what it reads or what it writes, for readers
  /// that are known.
  Definition run_for(const std::vector<Stmt>& readers) {
    match_producer();
    for (const Stmt& reader : readers) check_reader(reader, *reader.as<Block>());
    if (readers.empty()) refuse_unread();
    return definition_;
  }

  const std::string& application() const { return application_; }

 private:
  [[noreturn]] void refuse_producer(const std::string& note) {
    refuse(schedule_, application_, 1,
           "block has only space iters, and its body is Lets around one Store without a mask at its iters, each once, "
           "or 0",
           path_.back(), note);
  }

  [[noreturn]] void refuse_unread() {
    refuse(schedule_, application_, 6, "a block reads the buffer", path_.back(), "is read by nothing");
  }

  void match_producer() {
    if (producer_.f.reducer) refuse_producer("has a reducer");
    for (const Iter& iter : producer_.f.iters) {
      if (iter.kind != IterKind::space)
        refuse_producer(fmt::format("has the {} iter {}", to_string(iter.kind), iter.variable->name));
    }
    Stmt s = producer_.f.body;
    while (const Let* let = s.as<Let>()) {
      definition_.lets.push_back(let);
      s = Stmt(let->body);
    }
    const Store* store = s.as<Store>();
    if (!store || store->mask || producer_.f.init) refuse_producer("does more than one unmasked Store");
    definition_.store = store;
    definition_.buffer = store->buffer;
    definition_.producer = &producer_;
    std::vector<const Var*> used;
    for (const Expr& index : store->indices) {
      const Var* iter = index.as<Var>();
      if ((!iter && !is_int(index, 0)) || (iter && std::count(used.begin(), used.end(), iter) > 0)) {
        refuse_producer("stores at indices that are not its iters");
      }
      if (iter) used.push_back(iter);
    }
    for (const Iter& iter : producer_.f.iters) {
      if (std::count(used.begin(), used.end(), iter.variable.get()) == 0 && !is_int(iter.domain.extent, 1)) {
        refuse_producer("stores at indices that are not its iters");
      }
    }
    bool external = false;
    for_each_expr(producer_.f.body, [&](const Expr& e) {
      const Call* call = e.as<Call>();
      external |= call && call->call_kind == CallKind::extern_scalar;
    });
    if (external) refuse_producer("calls an extern function");
    if (!is_allocated(schedule_.func(), definition_.buffer)) {
      refuse(schedule_, application_, 2, "block is the only writer of its buffer, and the buffer is an allocation",
             path_.back(), fmt::format("writes {}, which is no allocation", definition_.buffer->name));
    }
  }

  void check_readers() {
    const Buffer& buffer = definition_.buffer;
    bool found = false;
    for_each_stmt(schedule_.func()->body, [&](const Stmt& s) {
      const Block* block = s.as<Block>();
      if (!block || s == path_.back() || has_blocks(*block)) return;
      if (writes(*block, buffer)) {
        refuse(schedule_, application_, 2, "block is the only writer of its buffer, and the buffer is an allocation", s,
               fmt::format("writes {} too", buffer->name));
      }
      if (!reads(*block, buffer)) return;
      found = true;
      check_reader(s, *block);
    });
    if (!found) refuse_unread();
    const auto overwrites = [&](DependenceKind kind, const Stmt& source, const Stmt&) {
      return kind == DependenceKind::anti && source == path_.back();
    };
    for (const Dependence& dependence :
         dependences(schedule_.func()->body, path_.back(), Bounds(schedule_.func()), overwrites)) {
      refuse_dependence(schedule_, application_, 5, condition_5, dependence, path_.back());
    }
    check_later_iterations();
  }

  /// A loop around the producer writes what it reads again, where a reader comes in a later iteration or behind it.
  void check_later_iterations() {
    for (size_t level = path_.size(); level-- > 0;) {
      if (!path_[level].as<For>()) continue;
      bool reader_outside = false, writer_inside = false;
      std::unordered_set<const StmtNode*> inside;
      for_each_stmt(path_[level], [&](const Stmt& s) {
        const Block* block = s.as<Block>();
        if (!block) return;
        inside.insert(s.get());
        for (const Region& region : producer_.f.reads) writer_inside |= writes(*block, region.buffer);
      });
      if (!writer_inside) continue;
      for_each_stmt(schedule_.func()->body, [&](const Stmt& s) {
        const Block* block = s.as<Block>();
        if (block && !has_blocks(*block) && reads(*block, definition_.buffer))
          reader_outside |= !inside.contains(s.get());
      });
      const Path path(path_.begin(), path_.begin() + static_cast<std::ptrdiff_t>(level) + 1);
      const bool carried = !reader_outside && exposed(path);
      if (!reader_outside && !carried) continue;
      const auto found =
          carried_dependences(path.back(), bounds_at(schedule_.func(), path), std::numeric_limits<size_t>::max(),
                              [&](const Buffer& buffer) { return reads(producer_, buffer); });
      for (const CarriedDependence& dependence : found) {
        if (!dependence.second.is_write || dependence.first.is_write) continue;
        if (dependence.first.block != path_.back()) continue;
        refuse_carried(schedule_, application_, 5, condition_5, dependence, {path.back().as<For>()});
      }
    }
  }

  /// Does an iteration read of the producer's buffer what an earlier one wrote?
  bool exposed(const Path& path) {
    const For& loop = *path.back().as<For>();
    Bounds inside = bounds_at(schedule_.func(), path);
    inside.bind(loop.variable, Range{loop.min, loop.extent});
    return !exposed_reads(loop.body, inside, [&](const Buffer& b) { return b == definition_.buffer; }).empty();
  }

  void check_reader(const Stmt& s, const Block& block) {
    const Buffer& buffer = definition_.buffer;
    const std::string loads =
        "everything that reads the buffer is a Load in a block's body, not in an init, a reducer or an AddressOf";
    const auto wanted = [&](const Buffer& other) { return other == buffer; };
    ReadCounter around(wanted);
    if (block.f.init) around.visit(block.f.init);
    if (block.f.reducer) {
      for (const Expr& e : block.f.reducer->results) around.visit(e);
      for (const Expr& e : block.f.reducer->identities) around.visit(e);
    }
    if (around.of(buffer).total > 0) refuse(schedule_, application_, 3, loads, s, "reads it in its init or reducer");
    ReadCounter counter(wanted);
    counter.visit(block.f.body);
    if (counter.of(buffer).address_taken) refuse(schedule_, application_, 3, loads, s, "takes its address");
    const std::optional<ReductionParts> parts = match_update(block);
    if (block.f.reducer && !parts)
      refuse(schedule_, application_, 3, loads, s, "is no canonical update of its reducer");
    const std::string heads =
        "the indices and masks of those Loads use only the consumer's iters and the Lets at the head of its body";
    Stmt rest;
    std::vector<VarRef> known = scalar_params(schedule_.func());
    for (const Stmt& let : head_lets(block, &rest)) known.push_back(let.as<Let>()->variable);
    for (const Iter& iter : block.f.iters) known.push_back(iter.variable);
    for (const Load* load : counter.of(buffer).distinct) {
      std::vector<Expr> parts_of_read = load->indices;
      if (load->mask) parts_of_read.push_back(load->mask);
      for (const Expr& e : parts_of_read) {
        ReadCounter inner(wanted);
        inner.visit(e);
        if (inner.of(buffer).total > 0)
          refuse(schedule_, application_, 4, heads, s, "reads it at indices that are its own elements");
        if (!e->dtype.is_scalar()) refuse(schedule_, application_, 4, heads, s, "reads several elements at once");
        for (const VarRef& used : used_vars(e)) {
          if (std::count(known.begin(), known.end(), used) == 0 && !bound_around(used)) {
            refuse(schedule_, application_, 4, heads, s,
                   fmt::format("reads it at {}, bound within its body", used->name));
          }
        }
      }
    }
  }

  /// Iters of enclosing blocks may be used by the blocks within.
  bool bound_around(const VarRef& variable) {
    bool found = false;
    for_each_stmt(schedule_.func()->body, [&](const Stmt& s) {
      const Block* block = s.as<Block>();
      if (!block || !has_blocks(*block)) return;
      for (const Iter& iter : block->f.iters) found |= iter.variable == variable;
    });
    return found;
  }

  const std::string condition_5 = "no block behind it writes what it reads";
  const Schedule& schedule_;
  std::string application_;
  Path path_;
  const Block& producer_;
  Definition definition_;
};

}  // namespace

void compute_inline(Schedule& schedule, const BlockRef& block) {
  Inliner inliner(schedule, block);
  Stmt body = inliner.run();
  schedule.commit(std::move(body), inliner.application());
}

/// What the batch knows of a block of the program as it was when the batch began.
struct InlineBatch::Site {
  Stmt block, nest;  ///< the nest stands directly in the root block, and holds the block alone; null otherwise
  size_t position;   ///< in program order
  mutable std::optional<bool> plain_loads;
};

InlineBatch::InlineBatch(Schedule& schedule) : schedule_(schedule) {
  const Block* root = root_block(schedule.func());
  if (!root) return;
  root_ = schedule.func()->body;
  const Stmt& body = root->f.body;
  for (const Stmt& nest : body.as<Seq>() ? body.as<Seq>()->stmts : std::vector<Stmt>{body}) {
    Stmt only = nest;
    while (only.as<For>()) only = only.as<For>()->body;
    for_each_stmt(nest, [&](const Stmt& s) {
      const Block* block = s.as<Block>();
      if (!block) return;
      unusual_ |= has_hints(*block) || !block->f.allocs.empty();
      Site site{s, s == only ? nest : Stmt(), sites_.size(), {}};
      for (const Region& region : block->f.reads) {
        std::vector<size_t>& list = readers_[region.buffer.get()];
        if (list.empty() || list.back() != site.position) list.push_back(site.position);
      }
      for (const Region& region : block->f.writes) writers_[storage_of(region.buffer)].push_back(site.position);
      names_[block->f.name] = site.position;
      sites_.push_back(std::move(site));
    });
  }
  for (const Site& site : sites_) unusual_ |= has_blocks(*site.block.as<Block>());
  for (const Buffer& buffer : root->f.allocs) allocated_.insert(buffer.get());
}

InlineBatch::~InlineBatch() = default;

/// Are the indices and masks at which it loads what others compute plain arithmetic? Where parameters are read may hang
/// on anything. So no definition is put in at a place that another one gives, which would have to be put in first.
bool InlineBatch::loads_plainly(const Site& site) const {
  if (site.plain_loads) return *site.plain_loads;
  bool plain = true;
  for_each_expr(site.block, [&](const Expr& e) {
    const Load* load = e.as<Load>();
    if (!load || !allocated_.contains(storage_of(load->buffer))) return;
    plain = plain && std::all_of(load->indices.begin(), load->indices.end(), is_plain) &&
            (!load->mask || is_plain(load->mask));
  });
  site.plain_loads = plain;
  return plain;
}

bool InlineBatch::takes(const BlockRef& block) const {
  const auto name = names_.find(block.name);
  if (!root_ || unusual_ || name == names_.end()) return false;
  const Site& site = sites_[name->second];
  const Block& node = *site.block.as<Block>();
  if (!site.nest || !loads_plainly(site) || node.f.writes.size() != 1) return false;
  if (!added_.empty() && added_.back() >= site.position) return false;
  const Buffer& buffer = node.f.writes[0].buffer;
  const auto readers = readers_.find(buffer.get());
  if (buffer->view_of || !allocated_.contains(buffer.get()) || writers_.at(buffer.get()).size() != 1 ||
      readers == readers_.end())
    return false;
  const bool apart = std::all_of(readers->second.begin(), readers->second.end(), [&](size_t reader) {
    return reader > site.position && loads_plainly(sites_[reader]);
  });
  return apart && std::all_of(node.f.reads.begin(), node.f.reads.end(), [&](const Region& region) {
           const auto writers = writers_.find(storage_of(region.buffer));
           return writers == writers_.end() || writers->second.back() < site.position;
         });
}

void InlineBatch::add(const BlockRef& block) {
  const Site& site = sites_[names_.at(block.name)];
  std::vector<Stmt> readers;
  for (const size_t reader : readers_.at(site.block.as<Block>()->f.writes[0].buffer.get()))
    readers.push_back(sites_[reader].block);
  Inliner inliner(schedule_, block);
  inlining_.define(inliner.run_for(readers));
  added_.push_back(site.position);
  lines_.push_back(inliner.application());
}

void InlineBatch::apply() {
  if (added_.empty()) return;
  std::unordered_set<const StmtNode*> gone;
  for (const size_t position : added_) gone.insert(sites_[position].nest.get());
  const Stmt body = with_fields(*root_.as<Block>(), [&](Block::Fields& f) {
    std::vector<Stmt> kept;
    for (const Stmt& s : f.body.as<Seq>()->stmts) {
      if (!gone.contains(s.get())) kept.push_back(s);
    }
    f.body = Seq::make(std::move(kept));
    std::erase_if(f.allocs, [&](const Buffer& buffer) { return inlining_.defines(buffer); });
  });
  std::reverse(lines_.begin(), lines_.end());
  schedule_.commit(rewrite_readers(body, inlining_), std::move(lines_));
  added_.clear();
}

}  // namespace lathe
