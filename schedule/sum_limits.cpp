#include "schedule/sum_limits.h"

#include <algorithm>

#include "ir/conjuncts.h"
#include "schedule/access.h"

namespace lathe {

bool SumLimit::is_of(const Terms& others) const {
  return std::is_permutation(terms.begin(), terms.end(), others.begin(), others.end());
}

std::vector<SumLimit> limits_of(const Block& block) {
  std::vector<SumLimit> limits;
  if (block.f.init) return limits;
  for (const Expr& conjunct : conjuncts_of(block.f.predicate)) {
    const Binary* below = conjunct.as<Binary>();
    const std::int64_t* end = below && below->op == BinaryOp::lt ? as_int(below->b) : nullptr;
    if (!end) continue;
    LinearForm form = linear_form(below->a);
    limits.push_back({std::move(form.terms), *end - 1 - form.constant});
  }
  return limits;
}

}  // namespace lathe
