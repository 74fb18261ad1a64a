#pragma once
#include "schedule/auto/rule.h"

namespace lathe {

/// Has a sum and the squares about its mean, as a variance is made of, read their terms once where a second walk would
/// fetch them from beyond the first cache: each vector of the terms keeps its own pair, a few terms in registers at a
/// time (walk_squares), and pairs are brought together at the end (part_squares). Down columns vectors are those of the
/// results, several rows at a time; along rows they are lanes of the row; long reductions have a pair for each of a few
/// parts, for threads to share.
void single_pass(RuleContext& context);

}  // namespace lathe
