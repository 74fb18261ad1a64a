#pragma once
#include "schedule/auto/rule.h"

namespace lathe {

/// Splits sums whose terms are zero but for one residue of an index, as those of transposed convolutions are, into a
/// dense sum for each residue (split_residues), which the rules behind this one tile as they tile others.
void residue_classes(RuleContext& context);

}  // namespace lathe
