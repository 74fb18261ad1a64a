#pragma once
#include <functional>
#include <vector>

#include "ir/analysis/interval.h"
#include "ir/func.h"

namespace lathe {

/// Given by a user: what an inner block's accesses would infer does not count beside it. A proved one is `inferred`
/// with the block on which it was given.
inline bool is_hint(const Region& region) {
  return region.provenance != Provenance::inferred || !region.block.empty();
}
/// The annotation by which a block says that its checked read hint of `buffer` holds wherever the block runs, because
/// an inspector picked it.
std::string inspected_key(const Buffer& buffer);
/// Does every access stay inside a hint of the block: by proof, by the caller's word, by the assertions before the
/// stores, or because an inspector picked the block? A checked read hint does not hold until then.
bool hint_holds(const Region& hint, const Annotations& block, bool is_write);

/// The annotation by which a loop whose iterations run at once says that each writes `buffer` before it reads it, and
/// is to have it for itself.
std::string private_key(const Buffer& buffer);

/// Regions that `body` reads or writes, as functions of variables from outside it: loops, iters, Lets and lanes within
/// are relaxed away. May regions: every access lies in one. What comes of relaxing is clipped to the buffer; a single
/// element is not, for it is touched only where it exists (masks, Ifs). In order of first access; regions of one buffer
/// and provenance become one where it is decided which begins first and which ends last, and at most four stay apart. A
/// hint on an inner block replaces what would be inferred there. Buffers that are allocated within do not appear.
std::vector<Region> read_regions(const Stmt& body, const Bounds& outer = {});
std::vector<Region> write_regions(const Stmt& body, const Bounds& outer = {});
/// Regions whose every element `body` writes for sure, whatever masks, predicates and Ifs say: subsets, always
/// inferred; several a buffer where their union is no box. Nothing is said of elements outside, nor of buffers of which
/// `considered` (null: all) is false.
std::vector<Region> must_write_regions(const Stmt& body, const Bounds& outer = {},
                                       const std::function<bool(const Buffer&)>& considered = nullptr);

/// A load of what nothing before it in the same run of a statement is known to have written.
struct ExposedRead {
  Region region;  ///< over the variables in scope at the load
  Stmt block;     ///< innermost, or null
};
/// The loads of `body` that may meet an element which no earlier statement of `body` writes for sure: what it needs
/// from before. At most one a buffer and block; a block's init counts as before its body. Only of buffers of which
/// `considered` (null: all) is true.
std::vector<ExposedRead> exposed_reads(const Stmt& body, const Bounds& outer = {},
                                       const std::function<bool(const Buffer&)>& considered = nullptr);

/// The Func with `reads` and `writes` of every Block inferred again, from the inside out; hints (checked, trusted)
/// stay.
Func infer_regions(const Func& func);
/// The same for one block, under what holds around it. Inner blocks stay as they are.
Stmt infer_regions(const Stmt& block, const Bounds& outer);

/// What holds at `place`, a statement of `func`: facts, the loops, iters, Lets, predicates and Ifs around it.
Bounds bounds_at(const Func& func, const Stmt& place);

/// Are they the same elements of the same buffer, by structure?
bool identical(const Region& a, const Region& b);

/// A region freed from the variables that `bounds` learned after `outer`, and clipped to its buffer where that widened
/// it.
Region relax(const Region& region, const Bounds& bounds, const Bounds::Mark& outer);
/// As above; `around` is `bounds` as it was at the mark, kept by whoever relaxes many.
Region relax(const Region& region, const Bounds& bounds, const Bounds::Mark& outer, const Bounds& around);
/// Ranges cut to the buffer's shape, where they are not proved to lie inside.
Region clip(const Region& region, const Bounds& bounds);
/// The bounding box. Both regions are of one buffer.
Region unite(const Region& a, const Region& b, const Bounds& bounds);
/// The common elements; an extent may come out below 0 where there are none.
Region intersect(const Region& a, const Region& b, const Bounds& bounds);
/// True only if every element of `inner` is proved to be one of `outer`, or `inner` to be empty.
bool contains(const Region& outer, const Region& inner, const Bounds& bounds);
/// True only if the regions are proved to share no element.
bool disjoint(const Region& a, const Region& b, const Bounds& bounds);
bool proved_empty(const Region& region, const Bounds& bounds);

/// All of a dimension of that extent, of all dimensions, as their form says: with the same expressions.
bool is_whole(const Range& range, const Expr& extent);
bool is_whole(const Region& region);

}  // namespace lathe
