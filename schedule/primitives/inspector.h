#pragma once
#include <string>
#include <vector>

#include "schedule/hints.h"
#include "schedule/primitives/required_region.h"
#include "schedule/rewrite.h"

namespace lathe {

/// The body of a loop that a producer moves under, for where checked hints say what of it is read: inspectors find out
/// whether the hints hold for the iteration, which takes the tile that relies on them, or one that reads the root of
/// the copy chain instead.
///
///   for io:                              for io:
///     for ii: block C reads B[..]    ->    for ii: block inspect_B: ok[io, 0] = ok[io, 0] && lo <= p[..] < hi
///                                          if ok[io, 0] {
///                                            for i: block B(io*8 + i)
///                                            for ii: block C reads B[..]
///                                          } else { for ii: block C_1 reads x[..] }
///
/// An inspector is a reduction over what of the loop's body decides an index, one a dimension that is not proved.
class Versioning {
 public:
  /// `path` leads to the loop. Refuses as `condition` of `application` where there is no root that still holds what was
  /// copied, where a reduction starts below the loop and goes on around it, or where an index depends on what the loop
  /// computes itself.
  Versioning(const Schedule& schedule, std::string application, int condition, Path path, const Path& producer,
             std::vector<RequiredRegion::Relied> relied);

  /// The loop's body with the blocks that rely on the inspectors marked so; what the tile is made of.
  Stmt marked_body() const;
  /// Inspectors, then the choice between `tile` and its other version.
  Stmt versioned(const Stmt& tile) const;
  /// The buffer of the inspectors' answers, to be allocated.
  const Buffer& flags() const { return flags_; }

 private:
  [[noreturn]] void refuse_version(const Stmt& culprit, const std::string& note) const;
  void check_reductions() const;
  void find_root();
  void make_inspectors();
  Stmt inspector(const Path& block, const BlockAccess& access, const Region& hint, size_t dimension, size_t slot);
  Stmt fallback() const;
  /// A block's body that reads roots instead of copies.
  Stmt redirected(const Stmt& body) const;
  std::string fresh_name(const std::string& base) const;

  const Schedule& schedule_;
  const std::string application_;
  const int condition_;
  const Path path_;
  const Block& producer_;
  const std::vector<RequiredRegion::Relied> relied_;
  std::vector<const For*> around_;  ///< the loop and those around it in the same block, outermost first
  BufferMap roots_;                 ///< of the buffers that the producer writes
  Buffer flags_;
  std::vector<Stmt> inspectors_;
  mutable std::vector<std::string> names_;
};

}  // namespace lathe
