#pragma once

namespace lathe {

/// What a kernel may do to be fast.
enum class Precision {
  /// Intermediate tensors of f16 and bf16 stay in f32, in which they are computed, where nothing else sees them.
  /// Results are rounded once, and what overflows f16 between two operators does not. Sums of products of bf16 by
  /// instructions that count denormals as zero and round in their own way (docs/math.md).
  standard,
  /// IEEE but for the order of sums, and products fused with what they are added to. Each operator rounds to its dtype.
  strict
};

}  // namespace lathe
