#include "schedule/primitives/mean_squares.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "ir/analysis/fold.h"
#include "ir/structural.h"
#include "schedule/access.h"

namespace lathe {
namespace {

constexpr const char* conditions[] = {
    "sum is a sum of floats from 0, over constant domains along the reduction, runs over all of its domains, each iter "
    "by a serial loop of its own, and stores at its space iters",
    "squares is such a sum of the same type over the same domains, of squares of how far the terms of sum lie from a "
    "mean",
    "that mean is the result of sum over the number of its terms, by itself or as element-wise blocks between make it, "
    "which alone write what they do",
    "both stand side by side and alone write their results, and what stands between leaves alone what squares needs "
    "and writes"};

/// Roundings by which a factor may differ from one over the number of terms.
constexpr double roundings = 4;

class Matcher {
 public:
  Matcher(const Schedule& schedule, MeanSquares& found) : schedule_(schedule), found_(found) {}

  std::optional<NoMeanSquares> run(const BlockRef& sum, const BlockRef& squares) {
    found_.sum = path_to(schedule_, sum);
    found_.squares = path_to(schedule_, squares);
    match_sum() && match_squares() && match_place() && match_mean() && find_needless();
    return mismatch_;
  }

 private:
  bool fail(int condition, const Stmt& culprit, const std::string& note) {
    mismatch_ = {condition, culprit, note};
    return false;
  }

  static std::optional<ReductionParts> sum_parts(const Block& block) {
    std::optional<ReductionParts> parts = match_update(block);
    const bool sums = parts && block.f.reducer && simple_op(*block.f.reducer) == BinaryOp::add &&
                      parts->outputs.size() == 1 && starts_at_identity(block) && !block.f.predicate &&
                      why_not_pointwise(block).empty();
    const DType dtype = sums ? parts->outputs[0].buffer->dtype : i64;
    return dtype == f32 || dtype == f64 ? std::move(parts) : std::nullopt;
  }

  bool match_sum() {
    const Stmt& culprit = found_.sum.back();
    const Block& block = found_.sum_block();
    const auto parts = sum_parts(block);
    if (!parts) return fail(1, culprit, "is no such sum");
    if (const std::string reason = why_not_alone(found_.sum, found_.sum_own); !reason.empty())
      return fail(1, culprit, reason);
    found_.total = parts->outputs[0];
    found_.term = term_without_lets(*parts);
    for (const Iter& iter : block.f.iters) {
      if (iter.kind != IterKind::reduce) continue;
      const std::int64_t* extent = as_int(iter.domain.extent);
      if (!extent || *extent < 1 || !is_int(iter.domain.min, 0)) return fail(1, culprit, "reduces over another domain");
      found_.count *= *extent;
    }
    return true;
  }

  static std::vector<const Iter*> iters_of(const Block& block, IterKind kind) {
    std::vector<const Iter*> found;
    for (const Iter& iter : block.f.iters) {
      if (iter.kind == kind) found.push_back(&iter);
    }
    return found;
  }

  /// The squares' iters, in those of the sum: in their order, those of a kind.
  bool match_iters(Substitution& to_sum) {
    const Block &sum = found_.sum_block(), &squares = found_.squares_block();
    size_t matched = 0;
    for (const IterKind kind : {IterKind::space, IterKind::reduce}) {
      const std::vector<const Iter*> from = iters_of(squares, kind), to = iters_of(sum, kind);
      if (from.size() != to.size()) return false;
      matched += from.size();
      for (size_t i = 0; i < from.size(); ++i) {
        if (constant_difference(from[i]->domain.min, to[i]->domain.min) != 0 ||
            constant_difference(from[i]->domain.extent, to[i]->domain.extent) != 0)
          return false;
        to_sum[from[i]->variable.get()] = to[i]->variable;
      }
    }
    return matched == squares.f.iters.size();
  }

  bool match_squares() {
    const Stmt& culprit = found_.squares.back();
    if (found_.squares.back() == found_.sum.back()) return fail(2, culprit, "is the sum itself");
    const auto parts = sum_parts(found_.squares_block());
    if (!parts || parts->outputs[0].buffer->dtype != found_.dtype()) return fail(2, culprit, "is no such sum");
    if (const std::string reason = why_not_alone(found_.squares, found_.squares_own); !reason.empty())
      return fail(2, culprit, reason);
    Substitution to_sum;
    if (!match_iters(to_sum)) return fail(2, culprit, "has other iters");
    found_.squared = {parts->outputs[0].buffer, {}};
    for (const Expr& e : parts->outputs[0].indices) found_.squared.indices.push_back(substitute(e, to_sum));
    const Expr term = substitute(term_without_lets(*parts), to_sum);
    const Binary* product = term.as<Binary>();
    if (!product || product->op != BinaryOp::mul || !equal(product->a, product->b))
      return fail(2, culprit, "sums no squares");
    const Binary* difference = product->a.as<Binary>();
    if (!difference || difference->op != BinaryOp::sub)
      return fail(2, culprit, "sums squares of other than differences");
    if (equal(difference->a, found_.term))
      mean_ = difference->b;
    else if (equal(difference->b, found_.term))
      mean_ = difference->a;
    else
      return fail(2, culprit, "has other terms");
    return true;
  }

  /// `e` is the sum's result times this; nothing where it is something else.
  std::optional<double> factor_of_sum(const Expr& e) const {
    if (const Load* loaded = e.as<Load>()) {
      if (loaded->mask) return std::nullopt;
      if (loaded->buffer == found_.total.buffer) {
        const bool same =
            std::equal(loaded->indices.begin(), loaded->indices.end(), found_.total.indices.begin(),
                       found_.total.indices.end(), [](const Expr& a, const Expr& b) { return equal(a, b); });
        return same ? std::optional(1.0) : std::nullopt;
      }
      const std::optional<Expr> value = value_of(*loaded);
      return value ? factor_of_sum(*value) : std::nullopt;
    }
    const Binary* binary = e.as<Binary>();
    if (!binary || (binary->op != BinaryOp::mul && binary->op != BinaryOp::div)) return std::nullopt;
    if (const double* factor = as_float(binary->b)) {
      const auto rest = factor_of_sum(binary->a);
      return rest ? std::optional(binary->op == BinaryOp::mul ? *rest * *factor : *rest / *factor) : std::nullopt;
    }
    const double* factor = binary->op == BinaryOp::mul ? as_float(binary->a) : nullptr;
    const auto rest = factor ? factor_of_sum(binary->b) : std::nullopt;
    return rest ? std::optional(*rest * *factor) : std::nullopt;
  }

  bool writes_alone(const Block& block, const Buffer& buffer) const {
    const std::vector<BlockRef> blocks = schedule_.blocks();
    return std::none_of(blocks.begin(), blocks.end(), [&](const BlockRef& ref) {
      const Block& other = schedule_.node(ref);
      return !has_blocks(other) && &other != &block && writes(other, buffer);
    });
  }

  /// What an element-wise block between the sum and the squares stores where it is loaded, if it writes all of that and
  /// nothing else does.
  std::optional<Expr> value_of(const Load& loaded) const {
    for (const Stmt& s : between_) {
      for (const Stmt& at : outer_blocks(s)) {
        const Block& block = *at.as<Block>();
        const Store* store = block.f.body.as<Store>();
        if (!store || store->buffer != loaded.buffer) continue;
        const bool whole = only_stores(block) && why_incomplete(path_to(schedule_, BlockRef{block.f.name})).empty() &&
                           !reads(block, store->buffer) && writes_alone(block, store->buffer);
        if (!whole) return std::nullopt;
        return substitute(store->value, iters_at(block, store->indices, loaded.indices));
      }
    }
    return std::nullopt;
  }

  static bool only_stores(const Block& block) {
    return !block.f.reducer && !block.f.init && why_not_pointwise(block).empty();
  }

  bool match_mean() {
    const auto factor = factor_of_sum(mean_);
    const double rounding =
        found_.dtype() == f64 ? std::numeric_limits<double>::epsilon() : double{std::numeric_limits<float>::epsilon()};
    const bool one = factor && std::abs(*factor * static_cast<double>(found_.count) - 1) <= roundings * rounding;
    return one || fail(3, found_.squares.back(), "takes off something else");
  }

  bool match_place() {
    const Stmt& culprit = found_.squares.back();
    const Seq* seq = found_.sum_own > 0 ? found_.sum[found_.sum_own - 1].as<Seq>() : nullptr;
    if (!seq || found_.squares_own == 0 || found_.squares[found_.squares_own - 1].as<Seq>() != seq)
      return fail(4, culprit, "stands elsewhere");
    if (!writes_alone(found_.sum_block(), found_.total.buffer) ||
        !writes_alone(found_.squares_block(), found_.squared.buffer))
      return fail(4, culprit, "is not alone in writing a result");
    return match_between(seq->stmts);
  }

  bool match_between(const std::vector<Stmt>& all) {
    const auto place = [&](const Path& path, size_t own) { return std::find(all.begin(), all.end(), path[own]); };
    const auto first = place(found_.sum, found_.sum_own), last = place(found_.squares, found_.squares_own);
    if (first > last) return fail(4, found_.squares.back(), "comes before the sum");
    between_.assign(first, last);
    std::vector<Buffer> needed{found_.squared.buffer};
    for_each_expr(found_.term, [&](const Expr& e) {
      if (const Load* loaded = e.as<Load>()) needed.push_back(loaded->buffer);
    });
    for (const Stmt& s : between_) {
      for (const Stmt& block : outer_blocks(s)) {
        const Block& node = *block.as<Block>();
        const bool touches =
            reads(node, found_.squared.buffer) ||
            std::any_of(needed.begin(), needed.end(), [&](const Buffer& buffer) { return writes(node, buffer); });
        if (touches) return fail(4, block, "touches what squares need");
      }
    }
    return true;
  }

  /// What nobody needs once squares do without the mean.
  bool find_needless() {
    const BlockRef sum{found_.sum_block().f.name}, squares{found_.squares_block().f.name};
    std::vector<BlockRef> readers = schedule_.consumers(sum);
    std::erase(readers, squares);
    if (const Load* mean = mean_.as<Load>(); mean && mean->buffer != found_.total.buffer) {
      const auto maker = std::find_if(readers.begin(), readers.end(),
                                      [&](const BlockRef& ref) { return writes(schedule_.node(ref), mean->buffer); });
      if (maker != readers.end() && is_needless(*maker, mean->buffer, squares)) readers.erase(maker);
    }
    found_.total_needed = !readers.empty() || !is_allocated(schedule_.func(), found_.total.buffer);
    return true;
  }

  bool is_needless(const BlockRef& maker, const Buffer& mean, const BlockRef& squares) {
    const Path path = path_to(schedule_, maker);
    const size_t own = own_level(path);
    const bool alone = schedule_.consumers(maker) == std::vector<BlockRef>{squares} &&
                       is_allocated(schedule_.func(), mean) && path.back().as<Block>()->f.writes.size() == 1;
    if (!alone || own != found_.sum_own || path[own - 1] != found_.sum[own - 1]) return false;
    found_.mean_nest = path[own];
    found_.mean = mean;
    return true;
  }

  const Schedule& schedule_;
  MeanSquares& found_;
  Expr mean_;                  ///< what squares take off, over the sum's iters
  std::vector<Stmt> between_;  ///< the sum's nest and those behind it, up to that of squares
  std::optional<NoMeanSquares> mismatch_;
};

}  // namespace

std::optional<NoMeanSquares> match_mean_squares(const Schedule& schedule, const BlockRef& sum, const BlockRef& squares,
                                                MeanSquares& found) {
  return Matcher(schedule, found).run(sum, squares);
}

MeanSquares require_mean_squares(const Schedule& schedule, const std::string& application, const BlockRef& sum,
                                 const BlockRef& squares) {
  MeanSquares found;
  if (const auto why = match_mean_squares(schedule, sum, squares, found))
    refuse(schedule, application, why->condition, conditions[why->condition - 1], why->culprit, why->note);
  return found;
}

Stmt replace_mean_squares(const MeanSquares& pair, const std::vector<Stmt>& in_place, const std::vector<Stmt>& behind) {
  std::vector<Stmt> stmts;
  for (const Stmt& s : pair.sum[pair.sum_own - 1].as<Seq>()->stmts) {
    if (s == pair.sum[pair.sum_own]) {
      stmts.insert(stmts.end(), in_place.begin(), in_place.end());
    } else if (s == pair.squares[pair.squares_own]) {
      stmts.insert(stmts.end(), behind.begin(), behind.end());
    } else if (!pair.mean_nest || s != pair.mean_nest) {
      stmts.push_back(s);
    }
  }
  const Path around(pair.sum.begin(), pair.sum.begin() + static_cast<std::ptrdiff_t>(pair.sum_own));
  return replace_last(around, Seq::make(std::move(stmts)));
}

}  // namespace lathe
