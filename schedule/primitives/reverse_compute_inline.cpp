#include "schedule/primitives/reverse_compute_inline.h"

#include <fmt/format.h>

#include <algorithm>

#include "ir/analysis/simplify.h"
#include "schedule/access.h"
#include "schedule/carried.h"
#include "schedule/complete.h"
#include "schedule/rewrite.h"

namespace lathe {
namespace {

/// Lets around one Store, from outside in.
struct Definition {
  std::vector<const Let*> lets;
  const Store* store = nullptr;
};

std::string why_no_definition(const Block& block, Definition& definition) {
  if (block.f.reducer || block.f.init) return "is a reduction";
  for (const Iter& iter : block.f.iters) {
    if (iter.kind != IterKind::space)
      return fmt::format("has the {} iter {}", to_string(iter.kind), iter.variable->name);
  }
  Stmt s = block.f.body;
  while (const Let* let = s.as<Let>()) {
    definition.lets.push_back(let);
    s = Stmt(let->body);
  }
  definition.store = s.as<Store>();
  return !definition.store || definition.store->mask ? "does more than one unmasked Store" : "";
}

/// Which iter of `block` stands in each dimension of `buffer` (none where the index is 0): "" when all Loads agree.
std::string why_not_read_at_iters(const Block& block, const Buffer& buffer, std::vector<const Var*>& iters) {
  std::string found;
  bool first = true;
  for_each_expr(block.f.body, [&](const Expr& e) {
    const AddressOf* taken = e.as<AddressOf>();
    if (taken && taken->buffer == buffer) found = "takes the address of " + buffer->name;
    const Load* load = e.as<Load>();
    if (!load || load->buffer != buffer) return;
    if (load->mask) found = fmt::format("reads {} under a mask", buffer->name);
    std::vector<const Var*> used;
    for (const Expr& index : load->indices) {
      const Var* variable = index.as<Var>();
      const bool is_iter = std::any_of(block.f.iters.begin(), block.f.iters.end(),
                                       [&](const Iter& iter) { return iter.variable.get() == variable; });
      if (!is_int(index, 0) && (!is_iter || std::count(used.begin(), used.end(), variable) > 0)) {
        found = fmt::format("reads {} at indices that are not its iters", buffer->name);
      }
      used.push_back(is_iter ? variable : nullptr);
    }
    if (!first && used != iters) found = fmt::format("reads several elements of {}", buffer->name);
    first = false;
    iters = used;
  });
  for (const Iter& iter : block.f.iters) {
    if (found.empty() && !is_int(iter.domain.extent, 1) &&
        std::count(iters.begin(), iters.end(), iter.variable.get()) == 0) {
      found = fmt::format("reads {} at indices without its iter {}", buffer->name, iter.variable->name);
    }
  }
  return found;
}

class ReverseInliner {
 public:
  ReverseInliner(const Schedule& schedule, const BlockRef& block)
      : application(fmt::format("reverse_compute_inline({})", block.name)),
        schedule_(schedule),
        path_(path_to(schedule, block)),
        consumer_(*path_.back().as<Block>()) {}

  const std::string application;

  Stmt run() {
    std::string reason = why_no_definition(consumer_, consumed_);
    if (reason.empty()) reason = why_incomplete(path_);
    if (!reason.empty()) {
      refuse(schedule_, application, 1,
             "block has only space iters, runs over its whole domain, and its body is Lets around one Store without a "
             "mask",
             path_.back(), reason);
    }
    find_operand();
    find_producer();
    check_between();
    const Stmt fused = fuse();
    const Stmt without = remove_last(path_);
    const Path target = find_path(without, [&](const Stmt& s) { return s == producer_path_.back(); });
    return remove_allocation(replace_last(target, fused), operand_);
  }

 private:
  void find_operand() {
    const std::string text =
        "block reads an allocation that no other block reads, by Loads without a mask at its iters, each once, or 0";
    std::string reason = "reads no allocation";
    for (const Region& region : consumer_.f.reads) {
      if (!is_allocated(schedule_.func(), region.buffer)) continue;
      std::string others;
      for_each_stmt(schedule_.func()->body, [&](const Stmt& s) {
        const Block* other = s.as<Block>();
        if (other && other != &consumer_ && reads(*other, region.buffer) && !writes(*other, region.buffer)) {
          others = fmt::format("reads {}, which block {} reads too", region.buffer->name, other->f.name);
        }
      });
      reason = others.empty() ? why_not_read_at_iters(consumer_, region.buffer, iters_) : others;
      if (!reason.empty()) continue;
      operand_ = region.buffer;
      return;
    }
    refuse(schedule_, application, 2, text, path_.back(), reason);
  }

  void find_producer() {
    const std::string text =
        "one block writes that allocation; it has only space iters, and its body is Lets around one Store without a "
        "mask";
    for_each_stmt(schedule_.func()->body, [&](const Stmt& s) {
      const Block* other = s.as<Block>();
      if (!other || other == &consumer_ || !writes(*other, operand_)) return;
      if (!producer_path_.empty()) refuse(schedule_, application, 3, text, s, "writes " + operand_->name + " too");
      producer_path_ = path_to(schedule_, BlockRef{other->f.name});
    });
    if (producer_path_.empty()) refuse(schedule_, application, 3, text, path_.back(), "reads what no block writes");
    std::string reason = why_no_definition(producer(), produced_);
    if (reason.empty() && !produced_.store->value->dtype.is_scalar()) reason = "stores several elements at once";
    for (const Let* let : produced_.lets) {
      for (const Expr& index : reason.empty() ? produced_.store->indices : std::vector<Expr>{}) {
        if (uses_var(index, let->variable.get())) reason = "stores at an index that its Lets compute";
      }
    }
    if (!reason.empty()) refuse(schedule_, application, 3, text, producer_path_.back(), reason);
  }

  const Block& producer() const { return *producer_path_.back().as<Block>(); }

  void check_between() {
    bool behind = false, reached = false;
    for_each_stmt(schedule_.func()->body, [&](const Stmt& s) {
      if (s == path_.back()) reached = true;
      const Block* other = s.as<Block>();
      if (behind && !reached && other && !has_blocks(*other)) check_other(s, *other);
      if (s == producer_path_.back()) behind = true;
    });
    // Blocks before the producer in its own loops come behind it in the next iteration.
    for (const Stmt& s : outer_blocks(producer_path_[own_level(producer_path_)])) {
      if (s != producer_path_.back() && s != path_.back()) check_other(s, *s.as<Block>());
    }
  }

  /// The outermost loop around the last statement of a path, below the innermost block that holds it.
  static size_t own_level(const Path& path) {
    size_t level = path.size() - 1;
    for (size_t i = path.size() - 1; i-- > 0 && !path[i].as<Block>();) {
      if (path[i].as<For>()) level = i;
    }
    return level;
  }

  void check_other(const Stmt& s, const Block& other) {
    const std::string text = "no block between them writes what block reads, or touches what block writes";
    for (const Region& region : consumer_.f.reads) {
      if (region.buffer != operand_ && writes(other, region.buffer)) {
        refuse(schedule_, application, 4, text, s, fmt::format("writes {}", region.buffer->name));
      }
    }
    for (const Region& region : consumer_.f.writes) {
      if (reads(other, region.buffer) || writes(other, region.buffer)) {
        refuse(schedule_, application, 4, text, s, fmt::format("touches {}", region.buffer->name));
      }
    }
  }

  Stmt fuse() {
    Substitution map;
    const Store* written = produced_.store;
    for (const Iter& iter : consumer_.f.iters) map[iter.variable.get()] = iter.domain.min;
    for (size_t d = 0; d < iters_.size(); ++d) {
      if (iters_[d]) map[iters_[d]] = written->indices[d];
    }
    const VarRef value = Var::make(operand_->name, operand_->dtype);
    Stmt body = substitute(replace_loads(consumer_.f.body, operand_, value), map);
    body = Let::make(value, written->value, std::move(body));
    for (size_t i = produced_.lets.size(); i-- > 0;) {
      body = Let::make(produced_.lets[i]->variable, produced_.lets[i]->value, std::move(body));
    }
    Expr condition = outside_of_domain();
    const Stmt fused = with_fields(producer(), [&](Block::Fields& f) {
      f.body = body;
      if (condition) f.predicate = logical_and(f.predicate, condition);
    });
    return with_inferred_regions(*fused.as<Block>());
  }

  /// What keeps the producer to the elements that the consumer reads; null when that is all.
  Expr outside_of_domain() {
    Bounds bounds = bounds_at(schedule_.func(), producer_path_);
    Substitution bindings;
    for (size_t i = 0; i < producer().f.iters.size(); ++i) {
      bounds.bind(producer().f.iters[i].variable, producer().f.iters[i].domain);
      bindings[producer().f.iters[i].variable.get()] = producer().f.bindings[i];
    }
    Expr condition;
    for (size_t d = 0; d < iters_.size(); ++d) {
      const auto iter = std::find_if(consumer_.f.iters.begin(), consumer_.f.iters.end(),
                                     [&](const Iter& i) { return i.variable.get() == iters_[d]; });
      const Range domain = iter == consumer_.f.iters.end() ? Range{index(0), index(1)} : iter->domain;
      const Expr& at = produced_.store->indices[d];
      for (const Expr& holds : {ge(at, domain.min), lt(at, domain.min + domain.extent)}) {
        if (!proves(bounds, holds)) condition = logical_and(condition, substitute(holds, bindings));
      }
    }
    return condition;
  }

  const Schedule& schedule_;
  const Path path_;
  const Block& consumer_;
  Definition consumed_, produced_;
  Buffer operand_;
  std::vector<const Var*> iters_;
  Path producer_path_;
};

}  // namespace

void reverse_compute_inline(Schedule& schedule, const BlockRef& block) {
  ReverseInliner inliner(schedule, block);
  Stmt body = inliner.run();
  schedule.commit(std::move(body), inliner.application);
}

}  // namespace lathe
