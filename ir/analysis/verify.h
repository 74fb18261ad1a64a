#pragma once
#include <string>
#include <vector>

#include "ir/func.h"

namespace lathe {

/// One thing that is wrong with a Func, or that could not be proved right.
struct Finding {
  std::string rule;   ///< stable name, e.g. "block.bindings_in_domain"; ir/analysis/verify.cpp lists all, with the stages they hold for
  bool proved_wrong;  ///< false: it could only not be proved
  std::string message;
};

/// Checks every rule that holds at the Func's stage: scoping, types, shapes, and until flatten each promise of each Block
/// (ir/stmt.h). Empty when all is proved.
std::vector<Finding> verify(const Func& func);

/// verify, thrown: a Bug naming `after` (the pass that made this Func) when there is a finding that is proved wrong.
void check_verified(const Func& func, const std::string& after);

}  // namespace lathe
