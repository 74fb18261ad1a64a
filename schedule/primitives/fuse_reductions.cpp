#include "schedule/primitives/fuse_reductions.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <limits>

#include "ir/error.h"
#include "ir/reduction.h"
#include "ir/structural.h"
#include "schedule/access.h"
#include "schedule/complete.h"
#include "schedule/homomorphism.h"

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

/// A block of the nest to be, by its path and the outermost loop that holds it alone.
struct Member {
  Path path;
  size_t own = 0;
  const Block& block() const { return *path.back().as<Block>(); }
  const Stmt& statement() const { return path[own]; }
};

/// A sum, and what was found of it.
struct Sum {
  Member member;
  ReductionParts parts;
  size_t axis = 0;               ///< its reduce iter
  std::optional<size_t> column;  ///< its space iter that first has not
  Substitution to_first;         ///< its iters, in first's; the column is none
  Homomorphism factor;
};

/// An element-wise block between.
struct Between {
  Member member;
  size_t axis = 0;
  Substitution to_first;
  const Store* store = nullptr;
  Expr value;  ///< without lets
};

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

class Fuser {
 public:
  Fuser(const Schedule& schedule, const BlockRef& first, const std::vector<BlockRef>& rest, std::int64_t step)
      : schedule_(schedule), step_(step) {
    std::vector<std::string> names{first.name};
    for (const BlockRef& ref : rest) names.push_back(ref.name);
    application = fmt::format("fuse_reductions({}, {})", fmt::join(names, ", "), step);
    if (rest.empty())
      throw InputError(Mistake::value, "fuse_reductions: give at least one reduction to merge first into");
    match_first(first);
    for (const BlockRef& ref : rest) match_sum(ref);
    find_between();
    for (Sum& sum : sums_) match_reads(sum);
    for (Sum& sum : sums_) match_factor(sum);
    place();
  }

  std::string application;

  Stmt run() {
    std::vector<Stmt> nests;
    make_buffers();
    nests.push_back(partial_first());
    for (const Between& between : between_) nests.push_back(partial_between(between));
    for (size_t j = 0; j < sums_.size(); ++j) nests.push_back(partial_sum(j));
    nests.push_back(tuple());
    for (size_t j = 0; j < sums_.size(); ++j) nests.push_back(whole(j));
    std::vector<Stmt> stmts = before_;
    stmts.insert(stmts.end(), nests.begin(), nests.end());
    stmts.insert(stmts.end(), behind_.begin(), behind_.end());
    Path outer(first_.path.begin(), first_.path.begin() + static_cast<std::ptrdiff_t>(first_.own));
    Stmt body = replace_last(outer, Seq::make(std::move(stmts)));
    for (const Between& between : between_) body = remove_allocation(body, between.store->buffer);
    for (const Buffer& buffer : made_) body = add_allocation(body, buffer);
    return body;
  }

 private:
  [[noreturn]] void fail(int condition, const char* text, const Stmt& culprit, const std::string& note) const {
    refuse(schedule_, application, condition, text, culprit, note);
  }

  Member alone(const BlockRef& ref, int condition, const char* text) const {
    Member member{path_to(schedule_, ref)};
    if (const std::string reason = why_not_alone(member.path, member.own); !reason.empty())
      fail(condition, text, member.path.back(), reason);
    if (const std::string reason = why_not_pointwise(member.block()); !reason.empty())
      fail(condition, text, member.path.back(), reason);
    return member;
  }

  void match_first(const BlockRef& ref) {
    first_ = Member{path_to(schedule_, ref)};
    const Block& block = first_.block();
    const auto op = block.f.reducer ? simple_op(*block.f.reducer) : std::nullopt;
    const auto parts = match_update(block);
    const auto axis = only_axis(block);
    if (!block.f.reducer || !op || !parts || !axis || (op != BinaryOp::max && op != BinaryOp::min))
      fail(1, first_text, first_.path.back(), "is no such reduction");
    const Expr identity = block.f.reducer->identities[0];
    const DType dtype = parts->outputs[0].buffer->dtype;
    if (dtype != f32 && dtype != f64) fail(1, first_text, first_.path.back(), "is of no such type");
    if (!starts_at_identity(block)) fail(1, first_text, first_.path.back(), "has no init, or another one");
    first_ = alone(ref, 1, first_text);
    op_ = *op;
    reducer_ = *block.f.reducer;
    parts_ = *parts;
    axis_ = *axis;
    term_ = without_lets(parts_);
    identity_ = identity;
    const std::int64_t* extent = as_int(first_.block().f.iters[axis_].domain.extent);
    if (!extent || *extent < 1 || !is_int(first_.block().f.iters[axis_].domain.min, 0))
      fail(2, step_text, first_.path.back(), "has another axis");
    if (step_ < 1 || *extent % step_ != 0)
      fail(2, step_text, first_.path.back(), fmt::format("has {} elements", *extent));
    extent_ = *extent;
  }

  static Expr without_lets(const ReductionParts& parts) {
    Substitution lets;
    for (const Stmt& s : parts.lets) lets[s.as<Let>()->variable.get()] = substitute(s.as<Let>()->value, lets);
    return substitute(parts.terms[0], lets);
  }

  const Buffer& result() const { return parts_.outputs[0].buffer; }

  void match_sum(const BlockRef& ref) {
    Sum sum;
    sum.member = Member{path_to(schedule_, ref)};
    const Block& block = sum.member.block();
    const auto parts = match_update(block);
    const auto axis = only_axis(block);
    if (!parts || !axis || !block.f.reducer || simple_op(*block.f.reducer) != BinaryOp::add ||
        parts->outputs[0].buffer->dtype != result()->dtype || !starts_at_identity(block)) {
      fail(3, rest_text, sum.member.path.back(), "is no such reduction");
    }
    sum.member = alone(ref, 3, rest_text);
    const Iter& iter = block.f.iters[*axis];
    if (!is_int(iter.domain.min, 0) || !is_int(iter.domain.extent, extent_))
      fail(3, rest_text, sum.member.path.back(), "runs over another axis");
    sum.parts = *parts;
    sum.axis = *axis;
    sums_.push_back(std::move(sum));
  }

  bool is_sum(const Stmt& block) const {
    return std::any_of(sums_.begin(), sums_.end(), [&](const Sum& sum) { return sum.member.path.back() == block; });
  }

  /// The blocks that read the result and write what one of the sums reads.
  void find_between() {
    for (const BlockRef& ref : schedule_.consumers({first_.block().f.name})) {
      const Path path = path_to(schedule_, ref);
      const Block& block = *path.back().as<Block>();
      if (is_sum(path.back()) || !feeds_sum(block)) continue;
      Between between;
      between.member = alone(ref, 4, reads_text);
      Substitution lets;
      Stmt s = block.f.body;
      for (; s.as<Let>(); s = s.as<Let>()->body)
        lets[s.as<Let>()->variable.get()] = substitute(s.as<Let>()->value, lets);
      between.store = s.as<Store>();
      const bool plain = between.store && !block.f.reducer && !block.f.init &&
                         between.store->buffer->dtype == result()->dtype &&
                         is_allocated(schedule_.func(), between.store->buffer) && !between.store->buffer->view_of;
      if (!plain) fail(4, reads_text, path.back(), "is no element-wise block between");
      between.value = substitute(between.store->value, lets);
      std::optional<size_t> column;
      const std::string reason = match_iters(block, between.value, between.to_first, column);
      if (!reason.empty()) fail(4, reads_text, path.back(), reason);
      if (!column || !is_int(block.f.iters[*column].domain.extent, extent_))
        fail(4, reads_text, path.back(), "runs over another axis");
      between.axis = *column;
      for (const BlockRef& reader : schedule_.consumers(ref)) {
        const Path at = path_to(schedule_, reader);
        if (!is_sum(at.back()))
          fail(4, reads_text, at.back(), fmt::format("reads {} too", between.store->buffer->name));
      }
      between_.push_back(std::move(between));
    }
  }

  bool feeds_sum(const Block& block) const {
    for (const Sum& sum : sums_) {
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
      if (!load || load->buffer != result()) return;
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
    if (is_int(load.indices[d], 0) && is_int(result()->shape[d], 1)) return "";
    const Var* variable = load.indices[d].as<Var>();
    const Expr& own = parts_.outputs[0].indices[d];
    for (const Iter& iter : block.f.iters) {
      if (iter.variable.get() != variable || iter.kind != IterKind::space) continue;
      const auto [known, added] = to_first.try_emplace(variable, own);
      const bool shared = std::any_of(to_first.begin(), to_first.end(), [&](const auto& other) {
        return other.first != variable && other.second == own;
      });
      if (known->second != own || shared || !is_int(iter.domain.min, 0) ||
          constant_difference(iter.domain.extent, result()->shape[d]) != 0)
        break;
      return "";
    }
    return "does not read first's result at its space iters";
  }

  /// The sum's term over its own iters, with blocks between put in.
  Expr whole_term(const Sum& sum) const {
    Expr term = without_lets(sum.parts);
    for (const Between& between : between_) {
      term = LoadReplacer(between.store->buffer, [&](const Load& load) {
               Substitution iters;
               for (size_t d = 0; d < load.indices.size(); ++d) {
                 if (const Var* iter = between.store->indices[d].as<Var>()) iters[iter] = load.indices[d];
               }
               for (const Iter& iter : between.member.block().f.iters)
                 iters.try_emplace(iter.variable.get(), iter.domain.min);
               return substitute(between.value, iters);
             }).mutate(term);
    }
    return term;
  }

  void match_reads(Sum& sum) {
    const Block& block = sum.member.block();
    const Stmt& culprit = sum.member.path.back();
    const Expr term = whole_term(sum);
    if (!loads(term, result())) fail(4, reads_text, culprit, fmt::format("does not need {}", result()->name));
    for (const Sum& other : sums_) {
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
    for (const Between& between : between_) {
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
    to_first[block.f.iters[sum.axis].variable.get()] = first_.block().f.iters[axis_].variable;
    sum.to_first = std::move(to_first);
  }

  void match_factor(Sum& sum) {
    const VarRef own = Var::make("own", result()->dtype), whole = Var::make("result", result()->dtype);
    Expr term = substitute(whole_term(sum), sum.to_first);
    term = LoadReplacer(result(), [&](const Load&) { return Expr(whole); }).mutate(term);
    term = Replacer(term_, own).mutate(term);
    const auto [factor, why_not] = find_homomorphism(term, whole.get(), own.get());
    if (!why_not.empty()) fail(5, factor_text, sum.member.path.back(), why_not);
    const bool falls = op_ == BinaryOp::max ? factor.slope < 0 : factor.slope > 0;
    if (!falls)
      fail(5, factor_text, sum.member.path.back(), "has an exponent that may grow past what it is in the end");
    sum.factor = factor;
  }

  void place();

  // What is built. Every block gets iters of its own; a prefix of space iters is first's.
  struct Frame {
    std::vector<Iter> iters;
    std::vector<Expr> bindings;
    std::vector<Range> ranges;
    Substitution map;          ///< first's iters to these
    std::vector<Expr> prefix;  ///< first's output indices over these
    Expr outer;                ///< the step of the axis
    void add(const std::string& name, const Range& domain, IterKind kind) {
      const VarRef variable = Var::make("v" + name);
      iters.push_back({variable, domain, kind});
      bindings.emplace_back(Var::make(name));
      ranges.push_back(domain);
    }
    Expr last() const { return iters.back().variable; }
  };

  /// First's space iters, then the step of the axis.
  Frame frame(IterKind outer_kind) const;
  /// The place within a step, and with it the axis.
  void add_inner(Frame& f, IterKind kind) const;
  Stmt finish(Frame f, Block::Fields fields) const;
  void make_buffers();
  Expr base(const Expr& value) const;
  std::vector<Expr> at(const Frame& f, const std::vector<Expr>& more) const;
  Stmt partial_first() const;
  Stmt partial_between(const Between& between) const;
  Stmt partial_sum(size_t j) const;
  Stmt tuple() const;
  Stmt whole(size_t j) const;
  /// `e`, over `iters`' own variables, with partial results for whole ones.
  Expr partial(const Expr& e, const Substitution& iters, const Frame& f) const;

  const Schedule& schedule_;
  const std::int64_t step_;
  Member first_;
  BinaryOp op_ = BinaryOp::max;
  Reducer reducer_;
  ReductionParts parts_;
  size_t axis_ = 0;
  std::int64_t extent_ = 0;
  Expr term_, identity_;
  std::vector<Sum> sums_;
  std::vector<Between> between_;
  std::vector<Stmt> before_, behind_;
  Buffer first_part_;
  std::vector<Buffer> between_parts_, sum_parts_, sum_wholes_, made_;
  std::string part_name_;
};

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

void Fuser::place() {
  std::vector<const Member*> members{&first_};
  for (const Between& between : between_) members.push_back(&between.member);
  for (const Sum& sum : sums_) members.push_back(&sum.member);
  const Seq* seq = first_.own > 0 ? first_.path[first_.own - 1].as<Seq>() : nullptr;
  Touched fused;
  std::vector<Stmt> statements;
  for (const Member* member : members) {
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
  Touched later;
  size_t seen = 0;
  for (const Stmt& s : seq->stmts) {
    if (std::find(statements.begin(), statements.end(), s) != statements.end()) {
      ++seen;
      continue;
    }
    Touched own;
    own.add(s);
    if (seen == 0) {
      if (meet(own.read, fused.written)) fail(6, place_text, s, "reads a result before it is there");
      before_.push_back(s);
      continue;
    }
    if (seen == statements.size()) {
      behind_.push_back(s);
      continue;
    }
    const bool needs = meet(own.read, fused.written) || meet(own.read, later.written) ||
                       meet(own.written, later.read) || meet(own.written, later.written);
    if (needs) {
      if (meet(own.written, fused.read) || meet(own.written, fused.written))
        fail(6, place_text, s, "needs a result, and is needed");
      later.add(s);
      behind_.push_back(s);
    } else {
      if (meet(own.written, fused.read) || meet(own.written, fused.written)) {
        // What only later members read may come before all of them.
        Touched earlier;
        bool reached = false;
        for (const Stmt& other : seq->stmts) {
          reached |= other == s;
          if (!reached && std::find(statements.begin(), statements.end(), other) != statements.end())
            earlier.add(other);
        }
        if (meet(own.written, earlier.read) || meet(own.written, earlier.written))
          fail(6, place_text, s, "overwrites what they touch");
      }
      before_.push_back(s);
    }
  }
}

Fuser::Frame Fuser::frame(IterKind outer_kind) const {
  Frame f;
  const Block& block = first_.block();
  for (size_t i = 0; i < block.f.iters.size(); ++i) {
    if (i == axis_) continue;
    f.add(loop_name(block, i), block.f.iters[i].domain, IterKind::space);
    f.map[block.f.iters[i].variable.get()] = f.last();
  }
  for (const Expr& e : parts_.outputs[0].indices) f.prefix.push_back(substitute(e, f.map));
  f.add(loop_name(block, axis_) + "o", {index(0), index(extent_ / step_)}, outer_kind);
  f.outer = f.last();
  return f;
}

void Fuser::add_inner(Frame& f, IterKind kind) const {
  const Block& block = first_.block();
  f.add(loop_name(block, axis_) + "i", {index(0), index(step_)}, kind);
  f.map[block.f.iters[axis_].variable.get()] = f.outer * step_ + f.last();
}

Stmt Fuser::finish(Frame f, Block::Fields fields) const {
  fields.iters = std::move(f.iters);
  fields.bindings = std::move(f.bindings);
  const Stmt made = Block::make(std::move(fields));
  const Stmt block = with_inferred_regions(*made.as<Block>());
  return make_nest(*block.as<Block>(), f.ranges);
}

void Fuser::make_buffers() {
  const auto make = [&](const std::string& name, const std::vector<Expr>& more) {
    std::vector<Expr> shape = result()->shape;
    shape.insert(shape.end(), more.begin(), more.end());
    made_.push_back(BufferNode::make(schedule_.unique_name(name), result()->dtype, shape));
    return made_.back();
  };
  const Expr steps = index(extent_ / step_);
  first_part_ = make(result()->name + "_part", {steps});
  for (const Between& between : between_)
    between_parts_.push_back(make(between.store->buffer->name + "_part", {steps, index(step_)}));
  for (const Sum& sum : sums_) {
    const std::string& name = sum.parts.outputs[0].buffer->name;
    std::vector<Expr> columns;
    if (sum.column) columns.push_back(sum.member.block().f.iters[*sum.column].domain.extent);
    std::vector<Expr> more = columns;
    more.insert(more.begin(), steps);
    sum_parts_.push_back(make(name + "_part", more));
    sum_wholes_.push_back(make(name + "_sum", columns));
  }
}

/// What stands for a partial result in terms: all that was seen is an infinite identity, which terms could not take.
Expr Fuser::base(const Expr& value) const {
  return select(eq(value, identity_), constant(value->dtype, 0), value);
}

std::vector<Expr> Fuser::at(const Frame& f, const std::vector<Expr>& more) const {
  std::vector<Expr> indices = f.prefix;
  indices.insert(indices.end(), more.begin(), more.end());
  return indices;
}

Expr Fuser::partial(const Expr& e, const Substitution& iters, const Frame& f) const {
  Expr changed = e;
  for (size_t b = 0; b < between_.size(); ++b) {
    changed = LoadReplacer(between_[b].store->buffer, [&](const Load&) {
                return load(between_parts_[b], at(f, {f.outer, f.iters.back().variable}));
              }).mutate(changed);
  }
  changed =
      LoadReplacer(result(), [&](const Load&) { return base(load(first_part_, at(f, {f.outer}))); }).mutate(changed);
  return substitute(changed, iters);
}

/// Iters of another block, by way of first's, to those of the frame.
Substitution composed(const Substitution& to_first, const Substitution& map) {
  Substitution iters;
  for (const auto& [variable, e] : to_first) iters[variable] = substitute(e, map);
  return iters;
}

Stmt Fuser::partial_first() const {
  Frame f = frame(IterKind::space);
  add_inner(f, IterKind::reduce);
  const Reducer reducer =
      passes_over_nan(reducer_) ? extreme_of_numbers(op_, result()->dtype) : simple_reducer(op_, result()->dtype);
  const std::vector<ReductionOutput> outputs{{first_part_, at(f, {f.outer})}};
  Block::Fields fields;
  fields.name = schedule_.unique_name(first_.block().f.name + "_part");
  fields.reducer = reducer;
  fields.init = make_init(reducer, outputs);
  fields.body = make_update(reducer, outputs, {substitute(term_, f.map)});
  return finish(std::move(f), std::move(fields));
}

Stmt Fuser::partial_between(const Between& between) const {
  Frame f = frame(IterKind::space);
  add_inner(f, IterKind::space);
  Substitution iters = composed(between.to_first, f.map);
  iters[between.member.block().f.iters[between.axis].variable.get()] =
      f.map.at(first_.block().f.iters[axis_].variable.get());
  const auto b = static_cast<size_t>(&between - between_.data());
  Block::Fields fields;
  fields.name = between.member.block().f.name;
  fields.body = Store::make(between_parts_[b], at(f, {f.outer, f.last()}), partial(between.value, iters, f));
  return finish(std::move(f), std::move(fields));
}

Stmt Fuser::partial_sum(size_t j) const {
  const Sum& sum = sums_[j];
  Frame f = frame(IterKind::space);
  const Block& block = sum.member.block();
  std::vector<Expr> place{f.outer};
  Substitution columns;
  if (sum.column) {
    f.add(loop_name(block, *sum.column), block.f.iters[*sum.column].domain, IterKind::space);
    columns[block.f.iters[*sum.column].variable.get()] = f.last();
    place.push_back(f.last());
  }
  add_inner(f, IterKind::reduce);
  Substitution iters = composed(sum.to_first, f.map);
  iters.insert(columns.begin(), columns.end());
  const Reducer reducer = simple_reducer(BinaryOp::add, result()->dtype);
  const std::vector<ReductionOutput> outputs{{sum_parts_[j], at(f, place)}};
  Block::Fields fields;
  fields.name = schedule_.unique_name(block.f.name + "_part");
  fields.reducer = reducer;
  fields.init = make_init(reducer, outputs);
  fields.body = make_update(reducer, outputs, {partial(without_lets(sum.parts), iters, f)});
  return finish(std::move(f), std::move(fields));
}

Stmt Fuser::tuple() const {
  const DType dtype = result()->dtype;
  Frame f = frame(IterKind::reduce);
  Reducer reducer;
  const VarRef left = Var::make("lhs", dtype), right = Var::make("rhs", dtype);
  reducer.lhs = {left};
  reducer.rhs = {right};
  reducer.identities = {identity_};
  const Expr whole = combine(reducer_, {left}, {right})[0];
  reducer.results = {whole};
  std::vector<ReductionOutput> outputs{{result(), f.prefix}};
  std::vector<Expr> terms{load(first_part_, at(f, {f.outer}))};
  const Expr target = base(whole);
  // A side that has seen nothing but the identity holds sums of zero, which need no factor.
  const auto weight = [&](const Homomorphism& factor, const VarRef& side) {
    return carry_factor(factor, select(eq(side, identity_), target, side), target);
  };
  for (size_t j = 0; j < sums_.size(); ++j) {
    const Sum& sum = sums_[j];
    std::vector<Expr> columns;
    int lanes = 1;
    if (sum.column) {
      lanes = static_cast<int>(*as_int(sum.member.block().f.iters[*sum.column].domain.extent));
      columns.push_back(lanes == 1 ? index(0) : Ramp::make(index(0), index(1), lanes));
    }
    const DType vector = dtype.with_lanes(lanes);
    const VarRef l = Var::make("lhs", vector), r = Var::make("rhs", vector);
    reducer.lhs.push_back(l);
    reducer.rhs.push_back(r);
    reducer.identities.push_back(constant(vector, 0));
    reducer.results.push_back(l * Broadcast::make(weight(sum.factor, left), lanes) +
                              r * Broadcast::make(weight(sum.factor, right), lanes));
    outputs.push_back({sum_wholes_[j], at(f, columns)});
    columns.insert(columns.begin(), f.outer);
    terms.push_back(load(sum_parts_[j], at(f, columns)));
  }
  Block::Fields fields;
  fields.name = first_.block().f.name;
  fields.reducer = reducer;
  fields.init = make_init(reducer, outputs);
  fields.body = make_update(reducer, outputs, terms);
  return finish(std::move(f), std::move(fields));
}

Stmt Fuser::whole(size_t j) const {
  const Sum& sum = sums_[j];
  const Block& block = sum.member.block();
  Frame f;
  for (size_t i = 0; i < block.f.iters.size(); ++i) {
    if (i == sum.axis) continue;
    f.add(loop_name(block, i), block.f.iters[i].domain, IterKind::space);
    f.map[block.f.iters[i].variable.get()] = f.last();
  }
  // First's iters are those of the sum that stand for them.
  Substitution own;
  for (const auto& [variable, e] : sum.to_first) {
    if (const Var* to = e.as<Var>(); to && f.map.contains(variable)) own[to] = f.map[variable];
  }
  std::vector<Expr> prefix;
  for (const Expr& e : parts_.outputs[0].indices) prefix.push_back(substitute(e, own));
  std::vector<Expr> indices = prefix, to;
  if (sum.column) indices.push_back(f.map[block.f.iters[*sum.column].variable.get()]);
  for (const Expr& e : sum.parts.outputs[0].indices) to.push_back(substitute(e, f.map));
  const Expr infinite = constant(result()->dtype, std::numeric_limits<double>::infinity());
  const Expr correction = select(eq(load(result(), prefix), identity_), infinite, constant(result()->dtype, 1));
  Block::Fields fields;
  fields.name = block.f.name;
  fields.body = Store::make(sum.parts.outputs[0].buffer, to, load(sum_wholes_[j], indices) * correction);
  return finish(std::move(f), std::move(fields));
}

}  // namespace

BlockRef fuse_reductions(Schedule& schedule, const BlockRef& first, const std::vector<BlockRef>& rest,
                         std::int64_t step) {
  Fuser fuser(schedule, first, rest, step);
  Stmt body = fuser.run();
  schedule.commit(std::move(body), fuser.application);
  return first;
}

}  // namespace lathe
