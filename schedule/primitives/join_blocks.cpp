#include "schedule/primitives/join_blocks.h"

#include <fmt/format.h>

#include <algorithm>

#include "ir/storage.h"
#include "ir/structural.h"
#include "schedule/access.h"
#include "schedule/rewrite.h"

namespace lathe {
namespace {

/// A body taken apart.
struct StraightLine {
  std::vector<const Let*> lets;
  std::vector<const Store*> stores;
};

std::optional<StraightLine> straight_line(const Block& block) {
  StraightLine line;
  Stmt at = block.f.body;
  for (; at.as<Let>(); at = Stmt(at.as<Let>()->body)) line.lets.push_back(at.as<Let>());
  const std::vector<Stmt> stmts = at.as<Seq>() ? at.as<Seq>()->stmts : std::vector<Stmt>{at};
  for (const Stmt& s : stmts) {
    const Store* store = s.as<Store>();
    if (!store || store->mask) return std::nullopt;
    for (const Store* other : line.stores) {
      if (storage_of(other->buffer) == storage_of(store->buffer)) return std::nullopt;
    }
    line.stores.push_back(store);
  }
  // A store before a load that another Store's value has would be seen by it.
  for (const Store* store : line.stores) {
    bool loads = false;
    for (const Store* other : line.stores) {
      const auto look = [&](const Expr& e) {
        loads |= e.as<Load>() && storage_of(e.as<Load>()->buffer) == storage_of(store->buffer);
      };
      if (other == store) continue;
      for_each_expr(other->value, look);
      for (const Expr& e : other->indices) for_each_expr(e, look);
    }
    if (loads) return std::nullopt;
  }
  return line;
}

bool touches(const Block& block, const BufferNode* storage) {
  const auto same = [&](const Region& region) { return storage_of(region.buffer) == storage; };
  return std::any_of(block.f.reads.begin(), block.f.reads.end(), same) ||
         std::any_of(block.f.writes.begin(), block.f.writes.end(), same);
}

/// Puts what was stored in the place of loads of it; a load of anything else of those buffers is noted.
class Forwarder : public Mutator {
 public:
  struct Stored {
    Buffer buffer;
    std::vector<Expr> indices;
    Expr value;
  };
  explicit Forwarder(std::vector<Stored> stored) : stored_(std::move(stored)) {}
  using Mutator::mutate;

  std::string other;  ///< the name of a buffer of which something else is read; empty when there is none

 protected:
  Expr mutate_Load(const Expr& e, const Load* node) override {
    for (const Stored& known : stored_) {
      if (storage_of(known.buffer) != storage_of(node->buffer)) continue;
      const bool same = node->buffer == known.buffer && !node->mask && node->indices.size() == known.indices.size() &&
                        std::equal(node->indices.begin(), node->indices.end(), known.indices.begin(),
                                   [](const Expr& a, const Expr& b) { return equal(a, b); });
      if (same) return known.value;
      other = node->buffer->name;
    }
    return Mutator::mutate_Load(e, node);
  }
  Expr mutate_AddressOf(const Expr& e, const AddressOf* node) override {
    for (const Stored& known : stored_) {
      if (storage_of(known.buffer) == storage_of(node->buffer)) other = node->buffer->name;
    }
    return Mutator::mutate_AddressOf(e, node);
  }

 private:
  const std::vector<Stored> stored_;
};

class BlockJoiner {
 public:
  BlockJoiner(const Schedule& schedule, const BlockRef& first, const BlockRef& second)
      : application(fmt::format("join_blocks({}, {})", first.name, second.name)),
        schedule_(schedule),
        path_(path_to(schedule, first)),
        first_(path_.back()),
        second_(path_to(schedule, second).back()) {}

  const std::string application;

  Stmt run() {
    find_places();
    check_alike();
    const Stmt joined = make_joined();
    std::vector<Stmt> stmts = path_[path_.size() - 2].as<Seq>()->stmts;
    stmts[place_] = joined;
    stmts.erase(stmts.begin() + static_cast<std::ptrdiff_t>(place_) + 1);
    return replace_last(Path(path_.begin(), path_.end() - 1), Seq::make(std::move(stmts)));
  }

 private:
  const Block& first() const { return *first_.as<Block>(); }
  const Block& second() const { return *second_.as<Block>(); }

  void find_places() {
    const Seq* around = path_.size() > 1 ? path_[path_.size() - 2].as<Seq>() : nullptr;
    const size_t count = around ? around->stmts.size() : 0;
    while (place_ < count && around->stmts[place_] != first_) ++place_;
    if (place_ + 1 >= count || around->stmts[place_ + 1] != second_)
      refuse(schedule_, application, 1, "second comes right behind first in one sequence", second_, "does not");
  }

  void check_alike() {
    const auto fail = [&](const Stmt& culprit, const std::string& note) {
      refuse(schedule_, application, 2,
             "both have space iters alone, one for one with the same domains and bindings, and the same predicate, and "
             "neither has allocations or annotations",
             culprit, note);
    };
    for (const Stmt& s : {first_, second_}) {
      const Block::Fields& f = s.as<Block>()->f;
      const bool only_space =
          std::all_of(f.iters.begin(), f.iters.end(), [](const Iter& iter) { return iter.kind == IterKind::space; });
      if (!only_space || f.reducer || f.init) fail(s, "is no block of space iters alone");
      if (!f.allocs.empty() || !f.annotations.empty()) fail(s, "has allocations or annotations");
    }
    const Block::Fields &a = first().f, &b = second().f;
    if (a.iters.size() != b.iters.size()) fail(second_, fmt::format("has {} iters", b.iters.size()));
    for (size_t i = 0; i < a.iters.size(); ++i) {
      if (!equal(a.iters[i].domain.min, b.iters[i].domain.min) ||
          !equal(a.iters[i].domain.extent, b.iters[i].domain.extent) || !equal(a.bindings[i], b.bindings[i]))
        fail(second_, fmt::format("has another iter {}", b.iters[i].variable->name));
      iters_[b.iters[i].variable.get()] = a.iters[i].variable;
    }
    const bool same_predicate =
        !a.predicate || !b.predicate ? !a.predicate && !b.predicate : equal(a.predicate, b.predicate);
    if (!same_predicate) fail(second_, "has another predicate");
  }

  StraightLine taken_apart(const Stmt& s) const {
    std::optional<StraightLine> line = straight_line(*s.as<Block>());
    if (!line)
      refuse(schedule_, application, 3,
             "the body of each is Lets around unmasked Stores to distinct buffers, as join_blocks leaves them", s,
             "has another body");
    return *std::move(line);
  }

  [[noreturn]] void refuse_meeting(const std::string& note) const {
    refuse(schedule_, application, 4,
           "no buffer that second writes is touched by first, and what second reads of those that first writes is the "
           "element that first stores",
           second_, note);
  }

  Stmt make_joined() const {
    const StraightLine before = taken_apart(first_), behind = taken_apart(second_);
    for (const Region& region : second().f.writes) {
      if (touches(first(), storage_of(region.buffer)))
        refuse_meeting(fmt::format("writes {}, which {} touches", region.buffer->name, first().f.name));
    }
    std::vector<std::pair<VarRef, Expr>> lets;
    std::vector<Stmt> stores;
    std::vector<Forwarder::Stored> stored;
    /// Every value is there before the first Store, so that all loads come before it.
    const auto add = [&](const Store& store, const std::vector<Expr>& indices, Expr value) {
      if (!value.as<Var>()) {
        const VarRef kept = Var::make("v_" + store.buffer->name, value->dtype);
        lets.emplace_back(kept, value);
        value = kept;
      }
      stores.push_back(Store::make(store.buffer, indices, value));
      stored.push_back({store.buffer, indices, value});
    };
    for (const Let* let : before.lets) lets.emplace_back(let->variable, let->value);
    for (const Store* store : before.stores) add(*store, store->indices, store->value);
    Forwarder forwarder(stored);
    const auto moved = [&](const Expr& e) { return forwarder.mutate(substitute(e, iters_)); };
    for (const Let* let : behind.lets) lets.emplace_back(let->variable, moved(let->value));
    for (const Store* store : behind.stores) {
      std::vector<Expr> indices;
      indices.reserve(store->indices.size());
      for (const Expr& e : store->indices) indices.push_back(moved(e));
      add(*store, indices, moved(store->value));
    }
    if (!forwarder.other.empty()) refuse_meeting(fmt::format("reads other elements of {}", forwarder.other));
    Stmt body = Seq::make(std::move(stores));
    for (size_t i = lets.size(); i-- > 0;) body = Let::make(lets[i].first, lets[i].second, body);
    const Stmt joined = with_fields(first(), [&](Block::Fields& f) { f.body = body; });
    return with_inferred_regions(*joined.as<Block>());
  }

  const Schedule& schedule_;
  const Path path_;
  const Stmt first_, second_;
  size_t place_ = 0;    ///< of first in the sequence
  Substitution iters_;  ///< of second to those of first
};

}  // namespace

void join_blocks(Schedule& schedule, const BlockRef& first, const BlockRef& second) {
  BlockJoiner joiner(schedule, first, second);
  Stmt body = joiner.run();
  schedule.commit(std::move(body), joiner.application);
}

}  // namespace lathe
