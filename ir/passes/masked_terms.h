#pragma once
#include <optional>

#include "ir/stmt.h"

namespace lathe {

/// The block with minus zero where its sum of products skips a term, where it does:
///
///   C[vi] = C[vi] + select(m, a * b, 0)      ->      C[vi] = C[vi] + select(m, a * b, -0)
///
/// The same result but for the sign of a zero: a sum that began with zero becomes minus zero only by products that
/// underflow. Adding minus zero changes nothing at all, so that contract_fma may leave the addition out, which
/// pays where the addition takes a mask. With a choice behind it, which Zen's vectors make where they multiply, it took
/// 1.3 to 1.6 of the time of a product whose lanes are cleared.
std::optional<Block::Fields> skip_with_minus_zero(const Block& block);

}  // namespace lathe
