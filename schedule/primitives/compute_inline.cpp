#include "schedule/primitives/compute_inline.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <unordered_set>

#include "ir/analysis/regions.h"
#include "ir/reduction.h"
#include "ir/structural.h"
#include "schedule/access.h"
#include "schedule/carried.h"

namespace lathe {
namespace {

/// What stands for an element of the producer: Lets, then a value, over the producer's iters.
struct Definition {
  Buffer buffer;
  std::vector<const Let*> lets;
  const Store* store = nullptr;
};

/// A distinct read of the producer's buffer in a consumer.
struct Read {
  const Load* load;
  VarRef variable;  ///< bound to its value; null: the value goes where the one Load was
  std::vector<Stmt> lets;
  Expr value;
};

bool same_read(const Load* a, const Load* b) {
  if (static_cast<bool>(a->mask) != static_cast<bool>(b->mask) || (a->mask && !equal(a->mask, b->mask))) return false;
  return std::equal(a->indices.begin(), a->indices.end(), b->indices.begin(),
                    [](const Expr& x, const Expr& y) { return x == y || equal(x, y); });
}

/// Counts the Loads of a buffer along every path, without walking every path, and keeps the distinct ones.
class ReadCounter : public Visitor {
 public:
  explicit ReadCounter(const Buffer& buffer) : buffer_(buffer) {}
  using Visitor::visit;

  void visit(const Expr& e) override {
    if (!e) return;
    const auto known = counts_.find(e.get());
    if (known != counts_.end()) {
      total += known->second;
      return;
    }
    const std::uint64_t before = total;
    Visitor::visit(e);
    if (const Load* load = e.as<Load>(); load && load->buffer == buffer_) {
      ++total;
      const bool seen =
          std::any_of(distinct.begin(), distinct.end(), [&](const Load* l) { return same_read(l, load); });
      if (!seen) distinct.push_back(load);
    }
    if (const AddressOf* address = e.as<AddressOf>(); address && address->buffer == buffer_) address_taken = true;
    total = std::min(total, std::uint64_t{1} << 32);
    counts_[e.get()] = total - std::min(before, total);
  }

  std::uint64_t total = 0;
  bool address_taken = false;
  std::vector<const Load*> distinct;

 private:
  const Buffer& buffer_;
  std::unordered_map<const ExprNode*, std::uint64_t> counts_;
};

class MaskPusher : public Mutator {
 public:
  explicit MaskPusher(const Expr& mask) : mask_(mask) {}

 protected:
  Expr mutate_Load(const Expr& e, const Load* node) override {
    bool changed = false;
    std::vector<Expr> indices = mutate_all(node->indices, &changed);
    const Expr own = node->mask ? mutate(node->mask) : nullptr;
    const int lanes = node->dtype.lanes;
    const Expr mask = lanes > mask_->dtype.lanes ? Broadcast::make(mask_, lanes) : mask_;
    return Load::make(node->buffer, std::move(indices), logical_and(mask, own));
  }

 private:
  const Expr& mask_;
};

class ReadReplacer : public Mutator {
 public:
  ReadReplacer(const Buffer& buffer, const std::vector<Read>& reads) : buffer_(buffer), reads_(reads) {}

 protected:
  Expr mutate_Load(const Expr& e, const Load* node) override {
    if (node->buffer != buffer_) return Mutator::mutate_Load(e, node);
    for (const Read& read : reads_) {
      if (same_read(read.load, node)) return read.variable ? Expr(read.variable) : read.value;
    }
    return e;
  }

 private:
  const Buffer& buffer_;
  const std::vector<Read>& reads_;
};

/// The producer's Lets and value for one read, with variables of their own.
void define(const Definition& definition, const Block& producer, Read& read, bool bind) {
  Substitution map;
  for (size_t d = 0; d < definition.store->indices.size(); ++d) {
    if (const Var* iter = definition.store->indices[d].as<Var>()) map[iter] = read.load->indices[d];
  }
  // A dimension of one element is stored at 0; iters that no index uses have that one value too.
  for (const Iter& iter : producer.f.iters) map.try_emplace(iter.variable.get(), iter.domain.min);
  const Expr& mask = read.load->mask;
  const auto transfer = [&](const Expr& e) {
    const Expr moved = substitute(e, map);
    return mask ? MaskPusher(mask).mutate(moved) : moved;
  };
  for (const Let* let : definition.lets) {
    const Expr value = transfer(let->value);
    const VarRef variable = Var::make(let->variable->name, let->variable->dtype);
    read.lets.push_back(Let::make(variable, value, Seq::make({})));
    map[let->variable.get()] = variable;
  }
  read.value = transfer(definition.store->value);
  if (mask) read.value = select(mask, read.value, constant(read.value->dtype, 0));
  if (bind && !read.value.as<Var>()) {
    read.variable = Var::make(definition.buffer->name, read.value->dtype);
    read.lets.push_back(Let::make(read.variable, read.value, Seq::make({})));
  }
}

Stmt wrap(const std::vector<Stmt>& lets, Stmt body) {
  for (size_t i = lets.size(); i-- > 0;) {
    body = Let::make(lets[i].as<Let>()->variable, lets[i].as<Let>()->value, std::move(body));
  }
  return body;
}

/// The head Lets of a consumer with the reads' Lets put in: each as early as what it uses allows.
std::vector<Stmt> merge_lets(const std::vector<Stmt>& lets, const std::vector<Read>& reads, Mutator& replacer) {
  std::vector<std::vector<Stmt>> behind(lets.size() + 1);
  for (const Read& read : reads) {
    size_t position = 0;
    const auto need = [&](const Expr& e) {
      if (!e) return;
      for (const VarRef& used : used_vars(e)) {
        for (size_t i = 0; i < lets.size(); ++i) {
          if (lets[i].as<Let>()->variable == used) position = std::max(position, i + 1);
        }
      }
    };
    for (const Expr& index : read.load->indices) need(index);
    need(read.load->mask);
    behind[position].insert(behind[position].end(), read.lets.begin(), read.lets.end());
  }
  std::vector<Stmt> merged = behind[0];
  for (size_t i = 0; i < lets.size(); ++i) {
    const Let* let = lets[i].as<Let>();
    merged.push_back(Let::make(let->variable, replacer.mutate(let->value), Seq::make({})));
    merged.insert(merged.end(), behind[i + 1].begin(), behind[i + 1].end());
  }
  return merged;
}

/// The Lets at the head of a consumer's body; the reducer's own left operands do not count.
std::vector<Stmt> head_lets(const Block& consumer, const std::optional<ReductionParts>& parts, Stmt* rest) {
  if (parts) return parts->lets;
  std::vector<Stmt> lets;
  *rest = consumer.f.body;
  while (const Let* let = rest->as<Let>()) {
    lets.push_back(*rest);
    *rest = Stmt(let->body);
  }
  return lets;
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
    Stmt body = remove_last(path_);
    body = Rewriter(*this).mutate(body);
    return remove_allocation(body, definition_.buffer);
  }

  const std::string& application() const { return application_; }

 private:
  /// Only statements are walked: expressions change in consumer blocks alone.
  class Rewriter : public Mutator {
   public:
    explicit Rewriter(Inliner& inliner) : inliner_(inliner) {}
    using Mutator::mutate;
    Expr mutate(const Expr& e) override { return e; }

   protected:
    Stmt mutate_Block(const Stmt& s, const Block* node) override {
      if (!outer_blocks(node->f.body).empty()) {
        const Stmt inner = Mutator::mutate(node->f.body);
        return with_fields(*node, [&](Block::Fields& f) { f.body = inner; });
      }
      return reads(*node, inliner_.definition_.buffer) ? inliner_.rewrite(s) : s;
    }

   private:
    Inliner& inliner_;
  };

  [[noreturn]] void refuse_producer(const std::string& note) {
    refuse(schedule_, application_, 1,
           "block has only space iters, and its body is Lets around one Store without a mask at its iters, each once, "
           "or 0",
           path_.back(), note);
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
      if (!block || s == path_.back() || !outer_blocks(block->f.body).empty()) return;
      if (writes(*block, buffer)) {
        refuse(schedule_, application_, 2, "block is the only writer of its buffer, and the buffer is an allocation", s,
               fmt::format("writes {} too", buffer->name));
      }
      if (!reads(*block, buffer)) return;
      found = true;
      check_reader(s, *block);
    });
    if (!found) refuse(schedule_, application_, 6, "a block reads the buffer", path_.back(), "is read by nothing");
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
        if (block && outer_blocks(block->f.body).empty() && reads(*block, definition_.buffer))
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
    ReadCounter counter(buffer);
    if (block.f.init) counter.visit(block.f.init);
    if (block.f.reducer) {
      for (const Expr& e : block.f.reducer->results) counter.visit(e);
      for (const Expr& e : block.f.reducer->identities) counter.visit(e);
    }
    if (counter.total > 0) refuse(schedule_, application_, 3, loads, s, "reads it in its init or reducer");
    counter.visit(block.f.body);
    if (counter.address_taken) refuse(schedule_, application_, 3, loads, s, "takes its address");
    const std::optional<ReductionParts> parts = match_update(block);
    if (block.f.reducer && !parts)
      refuse(schedule_, application_, 3, loads, s, "is no canonical update of its reducer");
    const std::string heads =
        "the indices and masks of those Loads use only the consumer's iters and the Lets at the head of its body";
    Stmt rest;
    std::vector<VarRef> known = scalar_params(schedule_.func());
    for (const Stmt& let : head_lets(block, parts, &rest)) known.push_back(let.as<Let>()->variable);
    for (const Iter& iter : block.f.iters) known.push_back(iter.variable);
    for (const Load* load : counter.distinct) {
      std::vector<Expr> parts_of_read = load->indices;
      if (load->mask) parts_of_read.push_back(load->mask);
      for (const Expr& e : parts_of_read) {
        ReadCounter inner(buffer);
        inner.visit(e);
        if (inner.total > 0)
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
      if (!block || outer_blocks(block->f.body).empty()) return;
      for (const Iter& iter : block->f.iters) found |= iter.variable == variable;
    });
    return found;
  }

  Stmt rewrite(const Stmt& s) {
    const Block& consumer = *s.as<Block>();
    ReadCounter counter(definition_.buffer);
    counter.visit(consumer.f.body);
    std::vector<Read> found;
    for (const Load* load : counter.distinct) {
      Read read{load, nullptr, {}, nullptr};
      define(definition_, producer_, read, counter.total > 1);
      found.push_back(std::move(read));
    }
    ReadReplacer replacer(definition_.buffer, found);
    const std::optional<ReductionParts> parts = match_update(consumer);
    Stmt rest;
    const std::vector<Stmt> lets = merge_lets(head_lets(consumer, parts, &rest), found, replacer);
    Stmt body;
    if (parts && consumer.f.reducer) {
      std::vector<Expr> terms;
      for (const Expr& term : parts->terms) terms.push_back(replacer.mutate(term));
      body = make_update(*consumer.f.reducer, parts->outputs, terms, lets);
    } else {
      body = wrap(lets, replacer.mutate(rest));
    }
    const Stmt changed = with_fields(consumer, [&](Block::Fields& f) { f.body = body; });
    return with_inferred_regions(*changed.as<Block>());
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

}  // namespace lathe
