#pragma once
#include <optional>
#include <vector>

#include "ir/analysis/interval.h"
#include "ir/stmt.h"

namespace lathe {

/// Takes out of a reduction of tuples the comparisons that the order of its loops decides.
///
///   for k: block C(vi; vk):                                  for k: block C(vi; vk ordered):
///     init: m[vi] = -inf; p[vi] = largest                      init: m[vi] = -inf; p[vi] = 0
///     (m, p)[vi] = x > m || x == m && vk < p     ->            (m, p)[vi] = x > m ? (x, vk) : (m, p)[vi]
///                    ? (x, vk) : (m, p)[vi]
///
/// A term that grows from each instance to the next, as the place along an axis does, is never less than what the tuple
/// holds, but for the identity. That begins with the first instance's place: where this instance ties with it, the
/// value is the same, and so is the place now. Nothing where that is not so, or not proved: `loops` are those around
/// the block, outermost first, null for what no init may move past.
std::optional<Block::Fields> settle_ties(const Block& block, const std::vector<const For*>& loops,
                                         const Bounds& bounds);

}  // namespace lathe
