#pragma once
#include <functional>
#include <string>
#include <vector>

#include "schedule/finite_sums.h"
#include "schedule/rewrite.h"

namespace lathe {

/// What tells of an iteration whether masks keep all terms of a reduction at the identity.
struct MaskedIteration {
  std::vector<Expr> guards;  ///< an iteration that counts has one of them true
  std::vector<FiniteOperand> operands;
};

/// Refuses by the number of a condition of skip_masked, with the culprit and a note on it; does not return.
using RefuseMasks = std::function<void(int, const Stmt&, const std::string&)>;

/// What guards may go by.
enum class MasksBy { loops, loops_and_loads };

/// Runs the body of the loop that the path leads to with constants for what masks decide, up to the block that reduces.
/// Operands are those of whole runs of the loop at the position `whole` of the path. Whether what guards load is there
/// outside of the block is for the caller to see.
MaskedIteration masked_iteration(const Schedule& schedule, const Stmt& block, const Path& loop_path, size_t whole,
                                 const RefuseMasks& refuse, MasksBy by = MasksBy::loops);

/// Refuses by conditions 2 and 3 of skip_masked where an iteration of the loop that the path leads to leaves something
/// behind but what the block reduces.
void refuse_what_stays(const Schedule& schedule, const Stmt& block, const Path& loop_path, const RefuseMasks& refuse);

}  // namespace lathe
