#include "schedule/primitives/fuse_reduction_epilogue.h"

#include <fmt/format.h>

#include <algorithm>
#include <unordered_set>

#include "ir/reduction.h"
#include "schedule/access.h"
#include "schedule/carried.h"
#include "schedule/complete.h"

namespace lathe {
namespace {

class Fuser {
 public:
  Fuser(const Schedule& schedule, const BlockRef& block, const BlockRef& epilogue)
      : application(fmt::format("fuse_reduction_epilogue({}, {})", block.name, epilogue.name)),
        schedule_(schedule),
        path_(path_to(schedule, block)),
        epilogue_path_(path_to(schedule, epilogue)),
        block_(*path_.back().as<Block>()),
        epilogue_(*epilogue_path_.back().as<Block>()) {
    match_reduction();
    match_epilogue();
    check_buffer();
    check_between();
  }

  const std::string application;

  Stmt run() {
    const Substitution iters = iters_at(epilogue_, result_->indices, output().indices);
    std::vector<Expr> indices;
    indices.reserve(store_->indices.size());
    for (const Expr& e : store_->indices) indices.push_back(substitute(e, iters));
    const Stmt init = Store::make(store_->buffer, indices, substitute(start_, iters));
    const Stmt fused = with_fields(block_, [&](Block::Fields& f) {
      f.init = init;
      f.body = make_update(reducer_, {{store_->buffer, indices}}, parts_.terms, parts_.lets);
    });
    const Path path = replaced(with_inferred_regions(*fused.as<Block>()));
    return remove_allocation(remove_last(path), output().buffer);
  }

 private:
  const ReductionOutput& output() const { return parts_.outputs[0]; }

  void match_reduction() {
    const std::string text =
        "block is a reduction from its identity, of one value by add, mul, min, max, logical_and or logical_or, that "
        "writes at its space iters, each once";
    std::optional<ReductionParts> parts = match_update(block_);
    op_ = block_.f.reducer ? simple_op(*block_.f.reducer) : std::nullopt;
    if (!parts || !op_ || !block_.f.reducer)
      refuse(schedule_, application, 1, text, path_.back(), "is no such reduction");
    parts_ = std::move(*parts);
    reducer_ = *block_.f.reducer;
    if (!starts_at_identity(block_)) {
      refuse(schedule_, application, 1, text, path_.back(), "has no init, or another one");
    }
    if (const std::string reason = why_not_pointwise(block_); !reason.empty()) {
      refuse(schedule_, application, 1, text, path_.back(), reason);
    }
  }

  void match_epilogue() {
    const std::string whole =
        "epilogue runs over its whole domain, each iter by a serial loop of its own, with no other block in those "
        "loops";
    size_t own = 0;
    if (const std::string reason = why_not_alone(epilogue_path_, own); !reason.empty()) {
      refuse(schedule_, application, 2, whole, epilogue_path_.back(), reason);
    }
    const auto refuse_form = [&](const std::string& note) {
      refuse(schedule_, application, 3,
             "epilogue is one Store without a mask at its iters, of what block writes at them, combined by the same "
             "operation with something that has neither of the two buffers in it, all of one type",
             epilogue_path_.back(), note);
    };
    Substitution lets;
    Stmt s = epilogue_.f.body;
    for (; s.as<Let>(); s = s.as<Let>()->body) {
      lets[s.as<Let>()->variable.get()] = substitute(s.as<Let>()->value, lets);
    }
    store_ = s.as<Store>();
    if (!store_ || epilogue_.f.init) refuse_form("does more than one Store");
    if (const std::string reason = why_not_pointwise(epilogue_); !reason.empty()) refuse_form(reason);
    value_ = substitute(store_->value, lets);
    const Binary* combination = value_.as<Binary>();
    if (!combination || combination->op != op_) refuse_form("combines by no such operation");
    for (const auto& [result, start] : {std::pair(combination->a, combination->b), {combination->b, combination->a}}) {
      const Load* load = result.as<Load>();
      if (!load || load->buffer != output().buffer || load->mask) continue;
      result_ = load;
      start_ = start;
    }
    if (!result_) refuse_form(fmt::format("combines something else than {}", output().buffer->name));
    if (store_->buffer->dtype != output().buffer->dtype) refuse_form("stores another type");
    bool has_either = false;
    for_each_expr(start_, [&](const Expr& e) {
      const Load* load = e.as<Load>();
      has_either |= load && (load->buffer == output().buffer || load->buffer == store_->buffer);
      has_either |= e.as<AddressOf>() != nullptr;
    });
    if (has_either) refuse_form("reads one of them in what it combines with");
    check_indices(refuse_form);
  }

  /// Each element of the result must go to one element, and all of them.
  template <class F>
  void check_indices(const F& refuse_form) {
    std::vector<const Var*> used;
    for (size_t d = 0; d < result_->indices.size(); ++d) {
      const Expr& e = result_->indices[d];
      if (is_int(e, 0) && is_int(output().buffer->shape[d], 1)) continue;
      const auto iter = std::find_if(epilogue_.f.iters.begin(), epilogue_.f.iters.end(),
                                     [&](const Iter& i) { return Expr(i.variable) == e; });
      if (iter == epilogue_.f.iters.end() || std::count(used.begin(), used.end(), e.as<Var>()) > 0 ||
          !is_int(iter->domain.min, 0) || constant_difference(iter->domain.extent, output().buffer->shape[d]) != 0) {
        refuse_form(fmt::format("does not read {} at its iters", output().buffer->name));
      }
      used.push_back(e.as<Var>());
    }
    for (const Iter& iter : epilogue_.f.iters) {
      if (!is_int(iter.domain.extent, 1) && std::count(used.begin(), used.end(), iter.variable.get()) == 0) {
        refuse_form(fmt::format("reads {} again for each {}", output().buffer->name, iter.variable->name));
      }
    }
  }

  void check_buffer() {
    const std::string text = "what block writes is an allocation, which nothing else reads or writes";
    const Buffer& buffer = output().buffer;
    if (!is_allocated(schedule_.func(), buffer) || buffer->view_of) {
      refuse(schedule_, application, 4, text, path_.back(), fmt::format("writes {}, which is none", buffer->name));
    }
    for_each_stmt(schedule_.func()->body, [&](const Stmt& s) {
      const Block* other = s.as<Block>();
      if (!other || s == path_.back() || s == epilogue_path_.back()) return;
      if (reads(*other, buffer) || writes(*other, buffer))
        refuse(schedule_, application, 4, text, s, fmt::format("touches {}", buffer->name));
    });
  }

  void check_between() {
    const std::string text =
        "from the loops around block to epilogue, nothing writes what epilogue reads, or touches what it writes";
    const auto start = std::find_if(path_.begin(), path_.end(), [](const Stmt& s) { return s.as<For>(); });
    std::unordered_set<const StmtNode*> overtaken;
    bool reached = false, at_block = false, done = false;
    for_each_stmt(schedule_.func()->body, [&](const Stmt& s) {
      reached |= s == (start == path_.end() ? path_.back() : *start);
      at_block |= s == path_.back();
      done |= s == epilogue_path_.back();
      if (done && !at_block) refuse(schedule_, application, 5, text, s, "comes before block");
      if (reached && !done) overtaken.insert(s.get());
    });
    const auto overtakes = [&](DependenceKind kind, const Stmt& source, const Stmt&) {
      return overtaken.contains(source.get()) && (source != path_.back() || kind != DependenceKind::flow);
    };
    for (const Dependence& dependence :
         dependences(schedule_.func()->body, epilogue_path_.back(), Bounds(schedule_.func()), overtakes)) {
      refuse_dependence(schedule_, application, 5, text, dependence, epilogue_path_.back());
    }
  }

  /// The path to the epilogue in a body where the reduction is the fused one.
  Path replaced(const Stmt& fused) const {
    const Stmt body = replace_last(path_, fused);
    const std::string& name = epilogue_.f.name;
    return find_path(body, [&](const Stmt& s) { return s.as<Block>() && s.as<Block>()->f.name == name; });
  }

  const Schedule& schedule_;
  const Path path_, epilogue_path_;
  const Block& block_;
  const Block& epilogue_;
  ReductionParts parts_;
  Reducer reducer_;
  std::optional<BinaryOp> op_;
  const Store* store_ = nullptr;
  Expr value_, start_;
  const Load* result_ = nullptr;
};

}  // namespace

void fuse_reduction_epilogue(Schedule& schedule, const BlockRef& block, const BlockRef& epilogue) {
  Fuser fuser(schedule, block, epilogue);
  Stmt body = fuser.run();
  schedule.commit(std::move(body), fuser.application);
}

}  // namespace lathe
