#include "schedule/primitives/group_bytes.h"

#include <fmt/format.h>

#include <algorithm>

#include "ir/analysis/affine.h"
#include "ir/analysis/simplify.h"
#include "ir/intrinsics.h"
#include "ir/reduction.h"
#include "schedule/access.h"
#include "schedule/byte_factor.h"
#include "schedule/complete.h"
#include "schedule/copy_block.h"

namespace lathe {
namespace {

constexpr std::int64_t word_bytes = 4;

/// Steps in a word.
std::int64_t group_of(DType narrow) {
  return word_bytes / narrow.bytes();
}

/// A part of what is a sum of multiples of `group`; nothing when it is not.
std::optional<Expr> divided(const Expr& e, std::int64_t group) {
  Affine form = to_affine(e);
  if (form.constant % group != 0) return std::nullopt;
  form.constant /= group;
  for (AffineTerm& term : form.terms) {
    if (term.coefficient % group != 0) return std::nullopt;
    term.coefficient /= group;
  }
  return to_expr(form);
}

class Grouper {
 public:
  Grouper(const Schedule& schedule, const BlockRef& block, const LoopRef& loop)
      : application(fmt::format("group_bytes({}, {})", block.name, schedule.place(loop))),
        schedule_(schedule),
        path_(path_to(schedule, block)),
        block_(*path_.back().as<Block>()) {
    match();
    find_iter(loop);
    for (Factor& factor : factors_) place(factor);
  }

  const std::string application;
  std::vector<BlockRef> copies;

  Stmt run() {
    std::vector<Stmt> nests;
    for (Factor& factor : factors_) nests.push_back(copy(factor));
    const Path own(path_.begin(), path_.begin() + static_cast<std::ptrdiff_t>(own_) + 1);
    const Stmt reader = grouped_nest();
    copied_before(schedule_, application, 3, own, factors_[0].load->buffer, nests[0], reader);
    Stmt body = copied_before(schedule_, application, 3, own, factors_[1].load->buffer, Seq::make(nests), reader);
    for (const Factor& factor : factors_) require_written(schedule_, application, 4, path_, factor.load->buffer, body);
    for (const Factor& factor : factors_) body = add_allocation(body, factor.words);
    return body;
  }

 private:
  struct Factor {
    ByteFactor byte;
    const Load* load = nullptr;
    size_t dimension = 0;
    Expr base;               ///< of the words' index, to which the iter is added
    std::int64_t bytes = 0;  ///< of the dimension, from which words are made
    Buffer words;
    DType word() const { return load->dtype == i8 ? i32 : u32; }
  };

  [[noreturn]] void refuse_match(const std::string& note) {
    refuse(schedule_, application, 1,
           "block is a sum from zero of products of two Loads of 8-bit integers, cast to its type, i32, or padded with "
           "a constant, or of bf16, cast to f32, or padded with zero; it runs over its whole domain, each iter by a "
           "serial loop of its own, with no other block in those loops",
           path_.back(), note);
  }

  void match() {
    const std::optional<ReductionParts> parts = match_update(block_);
    const std::optional<BinaryOp> op = block_.f.reducer ? simple_op(*block_.f.reducer) : std::nullopt;
    if (!parts || op != BinaryOp::add || parts->outputs.size() != 1 || !parts->lets.empty() ||
        !starts_at_identity(block_))
      refuse_match("is no such sum");
    const Binary* product = parts->terms[0].as<Binary>();
    const bool multiplies = product && product->op == BinaryOp::mul;
    const auto narrow = [&](const Expr& e) {
      const DType sum = parts->terms[0]->dtype;
      return sum == i32 ? byte_factor(e) : sum == f32 ? half_factor(e) : std::nullopt;
    };
    for (Factor& factor : factors_) {
      const auto byte = multiplies ? narrow(&factor == &factors_[0] ? product->a : product->b) : std::nullopt;
      if (!byte) refuse_match("adds something else");
      factor.byte = *byte;
      factor.load = byte->load;
    }
    if (const std::string reason = why_not_alone(path_, own_); !reason.empty()) refuse_match(reason);
    result_ = parts->outputs[0];
    group_ = group_of(factors_[0].load->dtype);
  }

  [[noreturn]] void refuse_iter(const std::string& note) {
    refuse(schedule_, application, 2,
           "loop drives a reduce iter of constant extent from 0; each Load uses it in one index, of a dimension of "
           "constant extent: the iter plus what is a multiple of a word's steps, or the iter alone where the extent is "
           "no such multiple; no choice of padding uses it",
           path_.back(), note);
  }

  void find_iter(const LoopRef& loop) {
    for (size_t i = 0; i < block_.f.iters.size(); ++i) {
      if (block_.f.bindings[i] == Expr(loop.variable)) iter_ = &block_.f.iters[i];
    }
    const std::int64_t* extent = iter_ ? as_int(iter_->domain.extent) : nullptr;
    if (!extent || *extent < 1 || iter_->kind != IterKind::reduce || !is_int(iter_->domain.min, 0))
      refuse_iter(fmt::format("has no such iter for {}", loop.variable->name));
    loop_ = loop.variable;
    extent_ = *extent;
  }

  void place(Factor& factor) {
    const auto found = grouped_index(factor.byte, *iter_);
    if (!found) refuse_iter(fmt::format("reads {} in another way", factor.load->buffer->name));
    factor.dimension = found->dimension;
    factor.base = found->base;
    factor.bytes = extent_ % group_ != 0 ? extent_ : *as_int(factor.load->buffer->shape[found->dimension]);
  }

  Stmt copy(Factor& factor) {
    const Buffer& source = factor.load->buffer;
    const std::int64_t count = (factor.bytes + group_ - 1) / group_;
    std::vector<Expr> shape = source->shape, stored;
    shape[factor.dimension] = index(count);
    std::string name = schedule_.unique_name(source->name + (group_ == word_bytes ? "_bytes" : "_pairs"));
    if (!copies.empty() && copies[0].name == name) name = schedule_.unique_name(name + "_1");
    factor.words = BufferNode::make(name, factor.word(), shape);
    Block::Fields f;
    f.name = name;
    copies.push_back({name});
    std::vector<Range> ranges;
    for (size_t d = 0; d < shape.size(); ++d) {
      const VarRef iter = Var::make(fmt::format("v{}", d));
      ranges.push_back({index(0), shape[d]});
      f.iters.push_back({iter, ranges.back(), IterKind::space});
      f.bindings.push_back(index(0));
      stored.emplace_back(iter);
    }
    std::vector<Expr> bytes;
    for (std::int64_t t = 0; t < group_; ++t) {
      std::vector<Expr> read = stored;
      read[factor.dimension] = stored[factor.dimension] * group_ + t;
      // Whether the last of the words has this byte.
      const bool whole = (count - 1) * group_ + t < factor.bytes;
      if (!whole && count == 1) {
        bytes.push_back(constant(source->dtype, 0));
      } else {
        const Expr mask = whole ? nullptr : binary(BinaryOp::lt, read[factor.dimension], index(factor.bytes));
        bytes.push_back(Load::make(source, read, mask));
      }
    }
    f.body = Store::make(
        factor.words, stored,
        source->dtype == bf16 ? join_halves(bytes[0], bytes[1]) : join_bytes(factor.word(), std::move(bytes)));
    const Stmt block = Block::make(std::move(f));
    const Stmt inferred = with_inferred_regions(*block.as<Block>());
    return make_nest(*inferred.as<Block>(), ranges);
  }

  /// The reduction over words, in its loops.
  Stmt grouped_nest() const {
    const std::int64_t count = (extent_ + group_ - 1) / group_;
    const auto word = [&](const Factor& factor) {
      std::vector<Expr> indices = factor.load->indices;
      indices[factor.dimension] = simplify(Expr(iter_->variable) + factor.base);
      const Expr words = Load::make(factor.words, std::move(indices), factor.load->mask);
      const std::uint32_t border = static_cast<std::uint32_t>(factor.byte.border & 0xff) * 0x01010101U;
      const std::int64_t value = factor.word() == i32 ? static_cast<std::int32_t>(border) : std::int64_t{border};
      return factor.byte.condition ? select(factor.byte.condition, words, constant(factor.word(), value)) : words;
    };
    const bool bytes = group_ == word_bytes;
    const Expr a = word(factors_[0]), b = word(factors_[1]);
    const Expr term = bytes ? dot_bytes(constant(i32, 0), a, b) : dot_halves(constant(f32, 0), a, b);
    const Stmt block = with_fields(block_, [&](Block::Fields& f) {
      for (Iter& iter : f.iters) {
        if (iter.variable == iter_->variable) iter.domain.extent = index(count);
      }
      f.body = make_update(*f.reducer, {result_}, {term});
    });
    Stmt nest = with_inferred_regions(*block.as<Block>());
    for (size_t level = path_.size() - 1; level-- > own_;) {
      const For& loop = *path_[level].as<For>();
      nest = For::make(loop.variable, loop.min, loop.variable == loop_ ? index(count) : loop.extent, loop.for_kind,
                       std::move(nest), loop.annotations, loop.thread_axis);
    }
    return nest;
  }

  const Schedule& schedule_;
  const Path path_;
  const Block& block_;
  size_t own_ = 0;
  Factor factors_[2];
  ReductionOutput result_;
  const Iter* iter_ = nullptr;
  VarRef loop_;
  std::int64_t extent_ = 0, group_ = word_bytes;
};

}  // namespace

std::optional<GroupedIndex> grouped_index(const ByteFactor& factor, const Iter& iter) {
  const Load& load = *factor.load;
  const auto uses = [&](const Expr& e) { return uses_var(e, iter.variable.get()); };
  if (factor.condition && uses(factor.condition)) return std::nullopt;
  const auto found = std::find_if(load.indices.begin(), load.indices.end(), uses);
  if (std::count_if(load.indices.begin(), load.indices.end(), uses) != 1) return std::nullopt;
  const auto dimension = static_cast<size_t>(found - load.indices.begin());
  const auto parts = split_linear(*found, iter.variable);
  const std::int64_t *steps = as_int(iter.domain.extent), *extent = as_int(load.buffer->shape[dimension]);
  const std::int64_t group = group_of(load.buffer->dtype);
  const auto base = parts && parts->first == 1 ? divided(parts->second, group) : std::nullopt;
  if (!base || !steps || !extent || (*steps % group != 0 && !is_int(*base, 0))) return std::nullopt;
  return GroupedIndex{dimension, *base};
}

std::vector<BlockRef> group_bytes(Schedule& schedule, const BlockRef& block, const LoopRef& loop) {
  Grouper grouper(schedule, block, loop);
  Stmt body = grouper.run();
  schedule.commit(std::move(body), grouper.application);
  return grouper.copies;
}

}  // namespace lathe
