#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "jit/tensor_view.h"

namespace lathe {

/// What a kernel may assume of one stride; two bits of a signature.
enum class StrideClass : std::uint8_t {
  dense = 0,   ///< what a compact row-major array would have here, times the step (of outer dimensions, how wide it
               ///< is); or an extent of at most 1
  zero = 1,    ///< a broadcast dimension
  unit = 2,    ///< neighbours in memory, but not where compact order has them
  runtime = 3  ///< any other: handed to the kernel as a scalar
};

/// Either two bits a dimension, dimension 0 lowest, and behind those of `max_rank` dimensions the step between
/// neighbours of the last one, less one, and whether it goes back; or, of a dense array whose dimensions lie in another
/// order than row-major (transposed, channels last), the highest bit and that order: four bits a dimension, the
/// innermost lowest. 0 is row-major.
using StrideClasses = std::uint64_t;
inline constexpr int max_rank = 24;
/// Steps that kernels are compiled for: so wide, vectors are picked out of whole ones (x[:, ::2], channels of an
/// image).
inline constexpr std::int64_t widest_step = 4;

StrideClasses classify_strides(const TensorView& view);
inline StrideClass stride_class(StrideClasses classes, int dimension) {
  return static_cast<StrideClass>((classes >> (2 * dimension)) & 3);
}
/// From one element of the last dimension to the next; negative where it is reversed.
inline std::int64_t stride_step(StrideClasses classes) {
  const StrideClasses behind = classes >> (2 * max_rank);
  const auto step = static_cast<std::int64_t>(behind % widest_step) + 1;
  return behind / widest_step % 2 == 0 ? step : -step;
}

/// Arrays of a higher rank have a class a dimension, in whatever order they lie.
inline constexpr int max_permuted_rank = 15;
inline bool is_permuted(StrideClasses classes) {
  return classes >> 63;
}
/// The dimension of a permuted array that has `inner` others within it.
inline int permuted_dimension(StrideClasses classes, int inner) {
  return static_cast<int>((classes >> (4 * inner)) & 15);
}
/// The dimensions of a permuted array, the outermost first.
std::vector<size_t> permuted_dimensions(StrideClasses classes, size_t rank);
/// Does another dimension than the last have the neighbours in memory? Results may then lie so too
/// (jit/memory_order.h).
inline bool is_turned(StrideClasses classes) {
  constexpr StrideClasses low_bits = 0x5555'5555'5555;
  return is_permuted(classes) || ((classes >> 1) & ~classes & low_bits) != 0;
}
/// Is every element of the memory that `view` spans one of its own, in whatever order?
inline bool is_dense(const TensorView& view) {
  if (!view.strides) return true;
  const StrideClasses classes = classify_strides(view);
  return classes == 0 || is_permuted(classes);
}
/// The strides of a permuted array of this shape, in elements.
std::vector<std::int64_t> permuted_strides(StrideClasses classes, std::span<const std::int64_t> shape);

/// What a kernel may assume of an array's address.
enum class AlignmentClass : std::uint8_t {
  none = 0,     ///< nothing
  element = 1,  ///< a multiple of the element's size
  line = 2      ///< a multiple of line_bytes as well: only of outputs whose kernels make use of it
};

/// A cache line of the hosts there are, and the widest vector.
inline constexpr int line_bytes = 64;

/// Outputs of fewer bytes are never told apart by whether a line begins with them: the scheduler streams only what is
/// larger (schedule/auto/stream_outputs.h), so that another class would compile the same kernel twice.
std::int64_t least_streamed_bytes();

/// How an output lies to another tensor; part of the signature.
enum class AliasClass : std::uint8_t { disjoint = 0, identical = 1, overlapping = 2 };

/// Compares the byte ranges that two views span; interleaved views that share no element count as overlapping.
AliasClass alias_class(const TensorView& a, const TensorView& b);

/// Do two different indices of `view` name the same element? Exact where strides nest, and by enumeration up to 2^22
/// elements otherwise; beyond that it answers true.
bool overlaps_itself(const TensorView& view);

/// Bytes that a compact copy of `view` takes.
std::int64_t dense_bytes(const TensorView& view);

/// Copies a compact array into `to`, any strides.
void scatter_dense(const void* dense, const TensorView& to);

}  // namespace lathe
