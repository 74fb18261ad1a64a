#include "schedule/primitives/skip_masked.h"

#include <fmt/format.h>

#include <algorithm>

#include "ir/analysis/regions.h"
#include "schedule/access.h"
#include "schedule/carried.h"
#include "schedule/finite_sums.h"
#include "schedule/masked_iteration.h"

namespace lathe {
namespace {

/// By number, from 1 on.
constexpr const char* conditions[] = {
    "block is a reduction without an init, and loops, serial or unrolled ones, are around it",
    "below loops stand only blocks, which write allocations that nothing outside of these reads, but for block",
    "below loops nothing is read of those that the iteration has not written before",
    "where every mask that bounds can be relaxed to is false, block's terms come out as its reducer's identities",
    "an operand that is to be finite is an input, or written whole before the loops that walk it",
};

/// The sums take in all between the elements that the loops read, which must be written there too, where they may read
/// more than these.
void refuse_unwritten(const Schedule& schedule, const std::string& application, const Stmt& nest, const Stmt& body,
                      const std::vector<FiniteOperand>& operands, const std::vector<Buffer>& sums) {
  std::vector<Buffer> computed;
  for_each_stmt(schedule.func()->body, [&](const Stmt& s) {
    if (!s.as<Block>()) return;
    for (const Region& region : s.as<Block>()->f.writes) computed.push_back(region.buffer);
  });
  const auto considered = [&](const Buffer& buffer) {
    const bool operand = std::any_of(operands.begin(), operands.end(), [&](const FiniteOperand& other) {
      return other.buffer == buffer && !other.exact;
    });
    return operand && std::find(computed.begin(), computed.end(), buffer) != computed.end();
  };
  const Block* root = body.as<Block>();
  const Stmt& inside = root && root->f.iters.empty() ? root->f.body : body;
  for (const ExposedRead& read : exposed_reads(inside, Bounds(schedule.func()), considered)) {
    const Block* reader = read.block ? read.block.as<Block>() : nullptr;
    const bool sum =
        reader && std::any_of(sums.begin(), sums.end(), [&](const Buffer& made) { return writes(*reader, made); });
    if (!sum) continue;
    refuse(schedule, application, 5, conditions[4], nest,
           fmt::format("reads {}, of which not all between is proved to be written", read.region.buffer->name));
  }
}

/// Puts a condition around the body of each of some loops.
class Guards : public Mutator {
 public:
  std::unordered_map<const Var*, Expr> conditions;

  using Mutator::mutate;
  Expr mutate(const Expr& e) override { return e; }

 protected:
  Stmt mutate_For(const Stmt& s, const For* node) override {
    const Stmt inner = Mutator::mutate_For(s, node);
    const auto found = conditions.find(node->variable.get());
    if (found == conditions.end()) return inner;
    return with_body(*inner.as<For>(), If::make(found->second, inner.as<For>()->body));
  }
};

class Skipper {
 public:
  Skipper(Schedule& schedule, const BlockRef& block, const std::vector<LoopRef>& loops)
      : schedule_(schedule), path_(path_to(schedule, block)), node_(*path_.back().as<Block>()) {
    application_ = "skip_masked(" + block.name;
    for (const LoopRef& loop : loops) {
      application_ += ", " + schedule.place(loop);
      paths_.push_back(path_to(schedule, loop));
    }
    application_ += ")";
    std::sort(paths_.begin(), paths_.end(), [](const Path& a, const Path& b) { return a.size() < b.size(); });
  }

  std::vector<BlockRef> run() {
    check_place();
    refuse_what_stays(schedule_, path_.back(), outermost(),
                      [&](int condition, const Stmt& culprit, const std::string& note) {
                        refuse(schedule_, application_, condition, conditions[condition - 1], culprit, note);
                      });
    for (const Path& loop_path : paths_) {
      const MaskedIteration masking =
          masked_iteration(schedule_, path_.back(), loop_path, whole(),
                           [&](int condition, const Stmt& culprit, const std::string& note) {
                             refuse(schedule_, application_, condition, conditions[condition - 1], culprit, note);
                           });
      Expr& guard = guards_.conditions[loop_path.back().as<For>()->variable.get()];
      for (const Expr& e : masking.guards) guard = guard ? logical_or(guard, e) : e;
      for (const FiniteOperand& operand : masking.operands) {
        if (std::find(operands_.begin(), operands_.end(), operand) == operands_.end()) operands_.push_back(operand);
      }
    }
    const size_t at = place_of_sums();
    std::vector<Stmt> stmts;
    std::vector<Buffer> made;
    std::vector<BlockRef> sums;
    std::vector<std::string> names;
    for (const FiniteOperand& operand : operands_) {
      const FiniteSum sum =
          sum_of_zeros(schedule_, operand, loops_between(0, at), loops_between(at, outermost().size()), names);
      names.insert(names.end(), {sum.block, sum.marks});
      stmts.insert(stmts.end(), sum.nests.begin(), sum.nests.end());
      made.insert(made.end(), sum.buffers.begin(), sum.buffers.end());
      sums.push_back({sum.block});
      for (auto& [variable, guard] : guards_.conditions) guard = logical_or(guard, sum.guard);
    }
    stmts.push_back(guards_.mutate(outermost()[at]));
    const Path above(outermost().begin(), outermost().begin() + static_cast<std::ptrdiff_t>(at) + 1);
    Stmt body = replace_last(above, Seq::make(std::move(stmts)));
    refuse_unwritten(schedule_, application_, outermost()[at], body, operands_, made);
    for (const Buffer& buffer : made) body = add_allocation(body, buffer);
    schedule_.commit(body, application_);
    return sums;
  }

 private:
  const Path& outermost() const { return paths_.front(); }

  void check_place() const {
    bool fits = node_.f.reducer && !node_.f.init && !paths_.empty();
    for (const Path& loop_path : paths_) {
      const ForKind kind = loop_path.back().as<For>()->for_kind;
      fits &= std::find(path_.begin(), path_.end(), loop_path.back()) != path_.end() &&
              (kind == ForKind::serial || kind == ForKind::unrolled);
    }
    if (!fits) refuse(schedule_, application_, 1, conditions[0], path_.back(), "is no such reduction");
  }

  /// Where in the path the outermost loop stands of which operands are taken whole: the loop itself, or, where it runs
  /// within others along the reduction, the outermost of these, so that it asks for nothing that changes there.
  size_t whole() const {
    for (size_t i = 0; i < outermost().size(); ++i) {
      const For* loop = outermost()[i].as<For>();
      if (loop && drives(node_, IterKind::reduce, *loop)) return i;
    }
    return outermost().size() - 1;
  }

  static bool is_conditional(const Stmt& s) { return s.as<If>() || (s.as<Block>() && s.as<Block>()->f.predicate); }

  bool writes_operand(const Stmt& loop) const {
    bool found = false;
    for_each_stmt(loop, [&](const Stmt& s) {
      for (const FiniteOperand& operand : operands_) found |= s.as<Block>() && writes(*s.as<Block>(), operand.buffer);
    });
    return found;
  }

  /// Where in the path the sums are to stand: before all loops, or below those within which an operand is written, and
  /// below the conditions under which its elements are read.
  size_t place_of_sums() const {
    const Path& path = outermost();
    const auto next_loop = [&](size_t i) {
      while (i < path.size() && !path[i].as<For>()) ++i;
      return i;
    };
    size_t at = next_loop(0);
    for (size_t i = 0; i < path.size() && !operands_.empty(); ++i) {
      if (is_conditional(path[i]) || (path[i].as<For>() && writes_operand(path[i])))
        at = std::max(at, next_loop(i + 1));
    }
    if (at == path.size()) refuse(schedule_, application_, 5, conditions[4], path.back(), "has one written within");
    for (const Path& loop_path : paths_) {
      const auto below = loop_path.begin() + static_cast<std::ptrdiff_t>(at);
      if (!operands_.empty() && std::any_of(below, loop_path.end(), is_conditional))
        refuse(schedule_, application_, 5, conditions[4], loop_path.back(),
               "has one read under a condition of its own");
    }
    return at;
  }

  std::vector<const For*> loops_between(size_t from, size_t to) const {
    std::vector<const For*> found;
    for (size_t i = from; i < to; ++i) {
      if (const For* loop = outermost()[i].as<For>()) found.push_back(loop);
    }
    for (const For* loop : found) {
      const bool plain = used_vars(loop->min).empty() && used_vars(loop->extent).empty();
      for (const FiniteOperand& operand : operands_) {
        if (!plain && uses_loop(operand, *loop))
          refuse(schedule_, application_, 5, conditions[4], outermost()[from],
                 fmt::format("decides what {} it reads by loops that depend on others", operand.buffer->name));
      }
    }
    return found;
  }

  Schedule& schedule_;
  const Path path_;
  const Block& node_;
  std::vector<Path> paths_;  ///< to the loops, outermost first
  std::string application_;
  Guards guards_;
  std::vector<FiniteOperand> operands_;
};

}  // namespace

std::vector<BlockRef> skip_masked(Schedule& schedule, const BlockRef& block, const std::vector<LoopRef>& loops) {
  return Skipper(schedule, block, loops).run();
}

}  // namespace lathe
