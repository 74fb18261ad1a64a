#pragma once
#include <functional>
#include <vector>

#include "ir/analysis/regions.h"

namespace lathe {

enum class DependenceKind : std::uint8_t {
  flow,   ///< the sink reads what the source wrote
  anti,   ///< the sink overwrites what the source read
  output  ///< the sink overwrites what the source wrote
};
std::string_view to_string(DependenceKind kind);

/// The sink block, later in program order, may touch what the source block touched, and one of them writes.
struct Dependence {
  DependenceKind kind;
  Stmt source, sink;                  ///< Blocks
  Region source_region, sink_region;  ///< what each touches over all of its loops, with its provenance
};

/// Dependences between the outermost blocks below `scope` (a root block's body, say), by program order. A pair that is
/// proved disjoint is left out; so is a block's dependence on itself. One entry a pair, kind and buffer.
std::vector<Dependence> dependences(const Stmt& scope, const Bounds& outer = {});
/// Between the blocks of the root block's body.
std::vector<Dependence> dependences(const Func& func);

/// Two accesses of different iterations of a loop that may meet in an element: `first` in an earlier iteration.
struct CarriedDependence {
  struct Access {
    Region region;  ///< as a function of the variables in scope at the access
    bool is_write;
    Stmt block;  ///< innermost, or null
  };
  DependenceKind kind;
  Access first, second;
  /// Both are one reduction block's output: reduce iters may run in any order, though not at once.
  bool is_reduction = false;
};

/// What keeps the iterations of `loop` (a For) from running in any order, or at once: at most `most` findings, none
/// only if all accesses are proved disjoint. Decided by affine tests on the difference of two iterations: bounds,
/// divisibility, and injectivity of index maps, also of those that split one index over several dimensions. Only
/// buffers of which `considered` (null: all) is true are looked at: what each iteration is to have for itself need not
/// be told apart.
std::vector<CarriedDependence> carried_dependences(const Stmt& loop, const Bounds& outer = {}, size_t most = 1,
                                                   const std::function<bool(const Buffer&)>& considered = nullptr);

}  // namespace lathe
