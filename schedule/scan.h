#pragma once
/// Scans: blocks in which every element continues from the one before it along an axis.
#include <optional>
#include <vector>

#include "ir/stmt.h"

namespace lathe {

/// y[.., j, ..] = y[.., j-1, ..] op term, from the identity of op at the first j on.
struct ScanParts {
  size_t iter;         ///< the block's ordered iter
  size_t dimension;    ///< of the buffer, which has the iter as its index there
  BinaryOp op;         ///< add, mul, min, max, logical_and or logical_or
  const Store* store;  ///< of the element
  Expr term;
  std::vector<Stmt> lets;  ///< around the store, outermost first, for the term; bodies are to be ignored
};

/// The parts of a block that is a scan: one ordered iter, a body of one unmasked Store behind Lets, at that iter in one
/// dimension and without it in the others, whose value is the element one step before, masked or selected so that the
/// first step gets the identity, combined with a term that reads no other element of the buffer. Else nothing.
std::optional<ScanParts> match_scan(const Block& block);

}  // namespace lathe
