#include "schedule/primitives/merged_reductions.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "ir/error.h"
#include "ir/structural.h"
#include "schedule/access.h"
#include "schedule/complete.h"

namespace lathe {
namespace {

constexpr std::int64_t most_columns = 512;
constexpr const char* first_text =
    "first is a maximum or minimum of floats from its identity over one axis, runs over its whole domain, each iter by "
    "a serial loop of its own, and writes at its space iters";
constexpr const char* step_text = "step is at least 1 and divides the axis' extent, a constant";
constexpr const char* rest_text =
    "each of rest is a sum of the same type from 0, over one axis of that extent, that runs and writes likewise";
constexpr const char* reads_text =
    "each of rest reads first's result at its own space iters, directly or through an element-wise block over the axis "
    "that only they read, and has at most one further space iter, of a constant extent of 512 or less";
constexpr const char* factor_text =
    "its terms follow first's result by a factor, with no exponent that grows past what it is in the end";
constexpr const char* place_text =
    "all stand side by side, and what stands between them and needs none of them leaves what they touch alone, while "
    "what does need them is not needed by them";

/// Puts `value` for every expression that equals `wanted`.
class Replacer : public Mutator {
 public:
  Replacer(Expr wanted, Expr value) : wanted_(std::move(wanted)), value_(std::move(value)) {}
  using Mutator::mutate;
  Expr mutate(const Expr& e) override { return equal(e, wanted_) ? value_ : Mutator::mutate(e); }

 private:
  const Expr wanted_, value_;
};

/// Puts for each Load of a buffer what `value` gives for its indices.
class LoadReplacer : public Mutator {
 public:
  LoadReplacer(const Buffer& buffer, std::function<Expr(const Load&)> value)
      : buffer_(buffer), value_(std::move(value)) {}

 protected:
  Expr mutate_Load(const Expr& e, const Load* node) override {
    return node->buffer == buffer_ ? value_(*node) : Mutator::mutate_Load(e, node);
  }

 private:
  const Buffer& buffer_;
  const std::function<Expr(const Load&)> value_;
};

bool loads(const Expr& e, const Buffer& buffer) {
  bool found = false;
  for_each_expr(e, [&](const Expr& at) { found |= at.as<Load>() && at.as<Load>()->buffer == buffer; });
  return found;
}

/// The one reduce iter of more than one element, or the first; nothing where there are several.
std::optional<size_t> only_axis(const Block& block) {
  std::optional<size_t> found;
  for (size_t i = 0; i < block.f.iters.size(); ++i) {
    if (block.f.iters[i].kind == IterKind::space) continue;
    if (block.f.iters[i].kind != IterKind::reduce || found) return std::nullopt;
    found = i;
  }
  return found;
}

/// The buffers of blocks.
struct Touched {
  std::vector<Buffer> read, written;
  void add(const Stmt& s) {
    for_each_stmt(s, [&](const Stmt& at) {
      const Block* block = at.as<Block>();
      if (!block) return;
      for (const Region& region : block->f.reads) read.push_back(region.buffer);
      for (const Region& region : block->f.writes) written.push_back(region.buffer);
    });
  }
};

bool meet(const std::vector<Buffer>& a, const std::vector<Buffer>& b) {
  return std::any_of(a.begin(), a.end(), [&](const Buffer& x) { return std::find(b.begin(), b.end(), x) != b.end(); });
}

class Matcher {
 public:
  Matcher(const Schedule& schedule, const BlockRef& first, const std::vector<BlockRef>& rest, std::int64_t step)
      : schedule_(schedule), step_(step) {
    std::vector<std::string> names{first.name};
    for (const BlockRef& ref : rest) names.push_back(ref.name);
    plan_.application = fmt::format("fuse_reductions({}, {})", fmt::join(names, ", "), step);
    if (rest.empty())
      throw InputError(Mistake::value, "fuse_reductions: give at least one reduction to merge first into");
    match_first(first);
    for (const BlockRef& ref : rest) match_sum(ref);
    find_between();
    for (MergedSum& sum : plan_.sums) match_reads(sum);
    for (MergedSum& sum : plan_.sums) match_factor(sum);
    place();
  }

  MergedReductions plan() && { return std::move(plan_); }

 private:
  [[noreturn]] void fail(int condition, const char* text, const Stmt& culprit, const std::string& note) const {
    refuse(schedule_, plan_.application, condition, text, culprit, note);
  }

  MergedBlock alone(const BlockRef& ref, int condition, const char* text) const {
    MergedBlock member{path_to(schedule_, ref)};
    if (const std::string reason = why_not_alone(member.path, member.own); !reason.empty())
      fail(condition, text, member.path.back(), reason);
    if (const std::string reason = why_not_pointwise(member.block()); !reason.empty())
      fail(condition, text, member.path.back(), reason);
    return member;
  }

  void match_first(const BlockRef& ref) {
    plan_.first = MergedBlock{path_to(schedule_, ref)};
    const Block& block = plan_.first.block();
    const auto op = block.f.reducer ? simple_op(*block.f.reducer) : std::nullopt;
    const auto parts = match_update(block);
    const auto axis = only_axis(block);
    if (!block.f.reducer || !op || !parts || !axis || (op != BinaryOp::max && op != BinaryOp::min))
      fail(1, first_text, plan_.first.path.back(), "is no such reduction");
    const Expr identity = block.f.reducer->identities[0];
    const DType dtype = parts->outputs[0].buffer->dtype;
    if (dtype != f32 && dtype != f64) fail(1, first_text, plan_.first.path.back(), "is of no such type");
    if (!starts_at_identity(block)) fail(1, first_text, plan_.first.path.back(), "has no init, or another one");
    plan_.first = alone(ref, 1, first_text);
    plan_.op = *op;
    plan_.reducer = *block.f.reducer;
    plan_.parts = *parts;
    plan_.axis = *axis;
    plan_.term = term_without_lets(plan_.parts);
    plan_.identity = identity;
    const std::int64_t* extent = as_int(plan_.first.block().f.iters[plan_.axis].domain.extent);
    if (!extent || *extent < 1 || !is_int(plan_.first.block().f.iters[plan_.axis].domain.min, 0))
      fail(2, step_text, plan_.first.path.back(), "has another axis");
    if (step_ < 1 || *extent % step_ != 0)
      fail(2, step_text, plan_.first.path.back(), fmt::format("has {} elements", *extent));
    plan_.extent = *extent;
  }

  void match_sum(const BlockRef& ref) {
    MergedSum sum;
    sum.member = MergedBlock{path_to(schedule_, ref)};
    const Block& block = sum.member.block();
    const auto parts = match_update(block);
    const auto axis = only_axis(block);
    if (!parts || !axis || !block.f.reducer || simple_op(*block.f.reducer) != BinaryOp::add ||
        parts->outputs[0].buffer->dtype != plan_.result()->dtype || !starts_at_identity(block)) {
      fail(3, rest_text, sum.member.path.back(), "is no such reduction");
    }
    sum.member = alone(ref, 3, rest_text);
    const Iter& iter = block.f.iters[*axis];
    if (!is_int(iter.domain.min, 0) || !is_int(iter.domain.extent, plan_.extent))
      fail(3, rest_text, sum.member.path.back(), "runs over another axis");
    sum.parts = *parts;
    sum.axis = *axis;
    plan_.sums.push_back(std::move(sum));
  }

  bool is_sum(const Stmt& block) const {
    return std::any_of(plan_.sums.begin(), plan_.sums.end(),
                       [&](const MergedSum& sum) { return sum.member.path.back() == block; });
  }

  /// The blocks that read the result and write what one of the sums reads.
  void find_between() {
    for (const BlockRef& ref : schedule_.consumers({plan_.first.block().f.name})) {
      const Path path = path_to(schedule_, ref);
      const Block& block = *path.back().as<Block>();
      if (is_sum(path.back()) || !feeds_sum(block)) continue;
      MergedBetween between;
      between.member = alone(ref, 4, reads_text);
      Substitution lets;
      Stmt s = block.f.body;
      for (; s.as<Let>(); s = s.as<Let>()->body)
        lets[s.as<Let>()->variable.get()] = substitute(s.as<Let>()->value, lets);
      between.store = s.as<Store>();
      const bool plain = between.store && !block.f.reducer && !block.f.init &&
                         between.store->buffer->dtype == plan_.result()->dtype &&
                         is_allocated(schedule_.func(), between.store->buffer) && !between.store->buffer->view_of;
      if (!plain) fail(4, reads_text, path.back(), "is no element-wise block between");
      between.value = substitute(between.store->value, lets);
      std::optional<size_t> column;
      const std::string reason = match_iters(block, between.value, between.to_first, column);
      if (!reason.empty()) fail(4, reads_text, path.back(), reason);
      if (!column || !is_int(block.f.iters[*column].domain.extent, plan_.extent))
        fail(4, reads_text, path.back(), "runs over another axis");
      between.axis = *column;
      for (const BlockRef& reader : schedule_.consumers(ref)) {
        const Path at = path_to(schedule_, reader);
        if (!is_sum(at.back()))
          fail(4, reads_text, at.back(), fmt::format("reads {} too", between.store->buffer->name));
      }
      plan_.between.push_back(std::move(between));
    }
  }

  bool feeds_sum(const Block& block) const {
    for (const MergedSum& sum : plan_.sums) {
      for (const Region& region : block.f.writes) {
        if (reads(sum.member.block(), region.buffer)) return true;
      }
    }
    return false;
  }

  /// Maps the block's space iters to first's by where `value` loads first's result; `column` becomes the one without a
  /// place there. Says what does not fit, or "".
  std::string match_iters(const Block& block, const Expr& value, Substitution& to_first,
                          std::optional<size_t>& column) const {
    std::string why;
    for_each_expr(value, [&](const Expr& e) {
      const Load* load = e.as<Load>();
      if (!load || load->buffer != plan_.result()) return;
      if (load->mask) why = "masks first's result";
      for (size_t d = 0; d < load->indices.size() && why.empty(); ++d) why = match_index(block, *load, d, to_first);
    });
    if (!why.empty()) return why;
    for (size_t i = 0; i < block.f.iters.size(); ++i) {
      const Iter& iter = block.f.iters[i];
      if (iter.kind != IterKind::space || to_first.contains(iter.variable.get())) continue;
      if (is_int(iter.domain.extent, 1)) {
        to_first[iter.variable.get()] = iter.domain.min;
        continue;
      }
      if (column) return "has several further space iters";
      column = i;
    }
    return "";
  }

  std::string match_index(const Block& block, const Load& load, size_t d, Substitution& to_first) const {
    if (is_int(load.indices[d], 0) && is_int(plan_.result()->shape[d], 1)) return "";
    const Var* variable = load.indices[d].as<Var>();
    const Expr& own = plan_.parts.outputs[0].indices[d];
    for (const Iter& iter : block.f.iters) {
      if (iter.variable.get() != variable || iter.kind != IterKind::space) continue;
      const auto [known, added] = to_first.try_emplace(variable, own);
      const bool shared = std::any_of(to_first.begin(), to_first.end(), [&](const auto& other) {
        return other.first != variable && other.second == own;
      });
      if (known->second != own || shared || !is_int(iter.domain.min, 0) ||
          constant_difference(iter.domain.extent, plan_.result()->shape[d]) != 0)
        break;
      return "";
    }
    return "does not read first's result at its space iters";
  }

  /// The sum's term over its own iters, with blocks between put in.
  Expr whole_term(const MergedSum& sum) const {
    Expr term = term_without_lets(sum.parts);
    for (const MergedBetween& between : plan_.between) {
      term = replace_loads(term, between.store->buffer, [&](const Load& load) {
        return substitute(between.value, iters_at(between.member.block(), between.store->indices, load.indices));
      });
    }
    return term;
  }

  void match_reads(MergedSum& sum) {
    const Block& block = sum.member.block();
    const Stmt& culprit = sum.member.path.back();
    const Expr term = whole_term(sum);
    if (!loads(term, plan_.result()))
      fail(4, reads_text, culprit, fmt::format("does not need {}", plan_.result()->name));
    for (const MergedSum& other : plan_.sums) {
      const Buffer& buffer = other.parts.outputs[0].buffer;
      if (loads(term, buffer)) fail(6, place_text, culprit, fmt::format("needs {} whole", buffer->name));
    }
    const std::string reason = match_iters(block, term, sum.to_first, sum.column);
    if (!reason.empty()) fail(4, reads_text, culprit, reason);
    if (sum.column) {
      const Range& domain = block.f.iters[*sum.column].domain;
      const std::int64_t* columns = as_int(domain.extent);
      if (!columns || *columns > most_columns || !is_int(domain.min, 0))
        fail(4, reads_text, culprit,
             fmt::format("has the further space iter {}", block.f.iters[*sum.column].variable->name));
    }
    // What is read of a block between must be at the sum's own place on the axis.
    for (const MergedBetween& between : plan_.between) {
      for_each_expr(block.f.body, [&](const Expr& e) {
        const Load* load = e.as<Load>();
        if (!load || load->buffer != between.store->buffer) return;
        for (size_t d = 0; d < load->indices.size(); ++d) {
          const bool along = between.store->indices[d] == Expr(between.member.block().f.iters[between.axis].variable);
          if (load->mask || (along && load->indices[d] != Expr(block.f.iters[sum.axis].variable)))
            fail(4, reads_text, culprit, fmt::format("does not read {} along the axis", load->buffer->name));
        }
      });
    }
    Substitution to_first = sum.to_first;
    to_first[block.f.iters[sum.axis].variable.get()] = plan_.first.block().f.iters[plan_.axis].variable;
    sum.to_first = std::move(to_first);
  }

  void match_factor(MergedSum& sum) {
    const VarRef own = Var::make("own", plan_.result()->dtype), whole = Var::make("result", plan_.result()->dtype);
    Expr term = substitute(whole_term(sum), sum.to_first);
    term = replace_loads(term, plan_.result(), [&](const Load&) { return Expr(whole); });
    term = Replacer(plan_.term, own).mutate(term);
    const auto [factor, why_not] = find_homomorphism(term, whole.get(), own.get());
    if (!why_not.empty()) fail(5, factor_text, sum.member.path.back(), why_not);
    const bool falls = plan_.op == BinaryOp::max ? factor.slope < 0 : factor.slope > 0;
    if (!falls)
      fail(5, factor_text, sum.member.path.back(), "has an exponent that may grow past what it is in the end");
    sum.factor = factor;
  }

  void place();
  /// Where the statements between those that are merged come to stand.
  void lay_around(const std::vector<Stmt>& all, const std::vector<Stmt>& merged, const Touched& fused);

  const Schedule& schedule_;
  const std::int64_t step_;
  MergedReductions plan_;
};

void Matcher::place() {
  std::vector<const MergedBlock*> members{&plan_.first};
  for (const MergedBetween& between : plan_.between) members.push_back(&between.member);
  for (const MergedSum& sum : plan_.sums) members.push_back(&sum.member);
  const Seq* seq = plan_.first.own > 0 ? plan_.first.path[plan_.first.own - 1].as<Seq>() : nullptr;
  Touched fused;
  std::vector<Stmt> statements;
  for (const MergedBlock* member : members) {
    if (!seq || member->own == 0 || member->path[member->own - 1].as<Seq>() != seq)
      fail(6, place_text, member->path.back(), "stands elsewhere");
    if (std::find(statements.begin(), statements.end(), member->statement()) != statements.end())
      fail(6, place_text, member->path.back(), "is given twice");
    statements.push_back(member->statement());
    fused.add(member->statement());
  }
  for (size_t i = 0; i < members.size(); ++i) {
    for (const Region& region : members[i]->block().f.writes) {
      for_each_stmt(schedule_.func()->body, [&](const Stmt& s) {
        const Block* other = s.as<Block>();
        if (other && s != members[i]->path.back() && !has_blocks(*other) && writes(*other, region.buffer))
          fail(6, place_text, s, fmt::format("writes {} too", region.buffer->name));
      });
    }
  }
  lay_around(seq->stmts, statements, fused);
}

void Matcher::lay_around(const std::vector<Stmt>& all, const std::vector<Stmt>& merged, const Touched& fused) {
  const auto is_merged = [&](const Stmt& s) { return std::find(merged.begin(), merged.end(), s) != merged.end(); };
  const auto overwrites = [](const Touched& own, const Touched& other) {
    return meet(own.written, other.read) || meet(own.written, other.written);
  };
  Touched earlier, later;  // merged statements before this one; statements that come to stand behind
  size_t seen = 0;
  for (const Stmt& s : all) {
    if (is_merged(s)) {
      ++seen;
      earlier.add(s);
      continue;
    }
    Touched own;
    own.add(s);
    if (seen == 0) {
      if (meet(own.read, fused.written)) fail(6, place_text, s, "reads a result before it is there");
      plan_.before.push_back(s);
    } else if (seen == merged.size()) {
      plan_.behind.push_back(s);
    } else if (meet(own.read, fused.written) || meet(own.read, later.written) || overwrites(own, later)) {
      if (overwrites(own, fused)) fail(6, place_text, s, "needs a result, and is needed");
      later.add(s);
      plan_.behind.push_back(s);
    } else {
      // What only later members read may come before all of them.
      if (overwrites(own, earlier)) fail(6, place_text, s, "overwrites what they touch");
      plan_.before.push_back(s);
    }
  }
}

}  // namespace

Expr replace_loads(const Expr& e, const Buffer& buffer, std::function<Expr(const Load&)> value) {
  return LoadReplacer(buffer, std::move(value)).mutate(e);
}

MergedReductions match_merged_reductions(const Schedule& schedule, const BlockRef& first,
                                         const std::vector<BlockRef>& rest, std::int64_t step) {
  return Matcher(schedule, first, rest, step).plan();
}

}  // namespace lathe
