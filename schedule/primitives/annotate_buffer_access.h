#pragma once
#include <functional>
#include <string>
#include <vector>

#include "schedule/schedule.h"

namespace lathe {

enum class BufferAccess : std::uint8_t {
  read,  ///< governs loads
  write  ///< governs stores: what they may write
};

enum class HintCheck : std::uint8_t {
  when_unproved,  ///< an access that is not proved to keep to the hint is checked when the kernel runs
  never           ///< the caller vouches for it: a wrong hint is undefined behaviour
};

/// One range a dimension of the buffer, in elements, as a function of the block's iters.
using RegionOf = std::function<std::vector<Range>(const std::vector<Expr>& iters)>;

/// Says what one instance of a block touches of a buffer, in place of what analysis infers.
///
///   block C(vh, vw)                                     block C(vh, vw)
///       reads x[..], table[vh]                    ->        reads table[vh], x[2*vh - 3 :+ 6, vw] checked "C"
///     y[vh, vw] = x[2*vh + table[vh], vw]                 y[vh, vw] = x[2*vh + table[vh], vw]
///
/// Where every access is proved to lie inside, the region is `inferred`, with the block's name. Where one is neither
/// proved nor refuted it is `checked`: a read hint takes effect once compute_at has put an inspector before the tile
/// that relies on it, a write hint by assertions before the block's stores, after whose failure the outputs are
/// unspecified. With HintCheck::never it is `trusted`. A hint covers the accesses of inner blocks too, and replaces an
/// earlier one of the same buffer and access. The buffer goes by its name, or by that of the buffer that it copies.
///
/// Requires:
///   1. block reads (writes) such a buffer, and takes no address of it
///   2. region has one range for each dimension of the buffer, integers over the block's iters and the function's
///      scalars
///   3. clipped to the buffer, region is proved to hold an element for every instance of block
///   4. no access lies outside of region
///   5. a write that is not proved to keep to it is no reduction's, and its index is a scalar
///   6. block has no earlier hint of that buffer and access that an inspector or assertions rely on
void annotate_buffer_access(Schedule& schedule, const BlockRef& block, const std::string& buffer, BufferAccess access,
                            const RegionOf& region, HintCheck check = HintCheck::when_unproved);

}  // namespace lathe
