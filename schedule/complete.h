#pragma once
/// Blocks as they were traced: each iter over its whole domain by a loop of its own. Primitives that lay a block's
/// loops anew ask for that.
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "ir/analysis/interval.h"
#include "ir/reduction.h"
#include "schedule/rewrite.h"

namespace lathe {

/// What is not so, as a clause about the block ("has a predicate"), or "" when every iter is bound to a serial loop of
/// its own that runs over its domain and the block has no predicate.
std::string why_incomplete(const Path& path);
/// The same but for the predicate, which may leave out instances.
std::string why_incomplete_unless_left_out(const Path& path);

/// The same of a block that may have a predicate which leaves out terms of sums alone: each of its results has its
/// first.
std::string why_results_incomplete(const Path& path);

/// The same as of the first, and that the loops hold nothing else; `own` becomes the level in the path of the outermost
/// of them.
std::string why_not_alone(const Path& path, size_t& own);
/// The same, and that the block has only space iters, no init, and holds no other blocks.
std::string why_not_space_alone(const Path& path, size_t& own);

/// The level in a path to a block of the outermost of the loops around it alone.
size_t own_level(const Path& path);

/// A block whose iters each have a loop of their own, seen from one of its loops, which holds nothing else.
struct IterDomain {
  Path path;                ///< to the block
  size_t own = 0;           ///< level in the path of the outermost of its loops
  size_t iter = 0;          ///< which the loop drives
  std::int64_t extent = 0;  ///< of that iter, which begins at 0
};

/// Refuses by its conditions 1 (the block) and 2 (the loop) what is no such thing, or has other iters than of space;
/// loops outside of this one may hold other blocks, and drive the other iters as they like.
IterDomain require_space_domain(const Schedule& schedule, const std::string& application, const BlockRef& block,
                                const LoopRef& loop);
/// The same of a block that may be a reduction.
IterDomain require_driven_iter(const Schedule& schedule, const std::string& application, const BlockRef& block,
                               const LoopRef& loop);
/// The same where every iter has a loop of its own, over its whole domain.
IterDomain require_unordered_domain(const Schedule& schedule, const std::string& application, const BlockRef& block,
                                    const LoopRef& loop);

/// "" when every write of the block's body is an unmasked Store at indices that are its space iters, each once, or 0 in
/// a dimension of one element, so that a whole run writes whole buffers; else what is not so. An ordered iter may stand
/// among them where `ordered_too`: a scan has each element once as well, though it reads others.
std::string why_not_pointwise(const Block& block, bool ordered_too = false);

/// Does the block, a reduction, have an init that gives its outputs the reducer's identities? Another one gives a start
/// that counts once, so that its parts must not each begin with it.
bool starts_at_identity(const Block& block);

/// The parts of a block that begins with its reducer's identity and combines one value by one operator, whose term has
/// no Let around it; nothing of another one.
std::optional<ReductionParts> one_value_parts(const Block& block);

/// The one term of a reduction, with its lets put in.
Expr term_without_lets(const ReductionParts& parts);

/// The block's iters where it stores at `indices` what it has at `stored`, its iters in some order: one that stands in
/// no dimension has one value alone.
Substitution iters_at(const Block& block, const std::vector<Expr>& stored, const std::vector<Expr>& indices);

/// The block with other iters, as `change` lays them (and their bindings) out. What named an old one, the body, the
/// init and region hints, says what `places` has for it instead, simplified within `around`.
Stmt with_iters(const Block& block, const std::function<void(Block::Fields&)>& change, const Substitution& places,
                const Bounds& around);

/// The name of the loop that iter `i` is bound to, or the iter's own without its leading v.
std::string loop_name(const Block& block, size_t i);

/// The block within one new serial loop for each range, bound to its iters in order: min + loop variable. A range of
/// one element needs no loop.
Stmt make_nest(const Block& block, const std::vector<Range>& ranges);

}  // namespace lathe
