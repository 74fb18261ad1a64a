#pragma once
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "ir/analysis/regions.h"

namespace lathe {

enum class DependenceKind : std::uint8_t {
  flow,   ///< the sink reads what the source wrote
  anti,   ///< the sink overwrites what the source read
  output  ///< the sink overwrites what the source wrote
};
std::string_view to_string(DependenceKind kind);

/// The sink block, later in the program's text, may touch what the source block touched, and one of them writes.
struct Dependence {
  DependenceKind kind;
  Stmt source, sink;                  ///< Blocks
  Region source_region, sink_region;  ///< what each touches over all loops below the scope, with its provenance
};

using WantedDependence = std::function<bool(DependenceKind kind, const Stmt& source, const Stmt& sink)>;

/// Dependences below `scope` between `block`, with all that it holds, and other blocks, each being what touches memory
/// within itself and in no block inside it: those of which `wanted` (null: all), given source and sink, is true. A pair
/// is left out that is proved disjoint over all loops below the scope. One entry a pair, kind and buffer, in the order
/// of the other blocks. Bodies are looked into only where declared regions have a buffer in common.
std::vector<Dependence> dependences(const Stmt& scope, const Stmt& block, const Bounds& outer = {},
                                    const WantedDependence& wanted = nullptr);

/// How one loop of a nest stands in the second of two instances, against the first.
enum class Direction : std::uint8_t {
  equal,    ///< in the same iteration
  later,    ///< in a later one
  earlier,  ///< in an earlier one
  any
};

/// Two accesses in different instances of a nest that may meet in an element: `first` in the earlier instance.
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
  /// One a loop of the nest: how many iterations `second` runs behind `first`, below 0 if before it; nothing where that
  /// is not one number.
  std::vector<std::optional<std::int64_t>> distance;
};

/// The accesses below loops that nest directly in each other, and which of them may meet in one element in different
/// instances. Decided by affine tests on the difference of two instances: bounds, divisibility, and injectivity of
/// index maps, also of those that split one index over several dimensions; a pair that is not proved apart is found.
class NestDependences {
 public:
  /// `nest` from the outermost loop inward, each the whole body of the one before. Only buffers of which `considered`
  /// (null: all) is true are looked at: what each iteration is to have for itself need not be told apart.
  explicit NestDependences(std::vector<const For*> nest, const Bounds& outer = {},
                           const std::function<bool(const Buffer&)>& considered = nullptr);
  ~NestDependences();

  /// At most `most` pairs that may meet where the loops stand as `directions` say, one a loop. A pair of which
  /// is_reduction would be true is passed over when `with_reductions` is false.
  std::vector<CarriedDependence> find(const std::vector<Direction>& directions, size_t most = 1,
                                      bool with_reductions = true) const;

 private:
  struct Sites;
  std::vector<const For*> nest_;
  Bounds outer_;
  std::unique_ptr<Sites> sites_;
};

/// What keeps the iterations of `loop` (a For) from running in any order, or at once: dependences on a later iteration.
std::vector<CarriedDependence> carried_dependences(const Stmt& loop, const Bounds& outer = {}, size_t most = 1,
                                                   const std::function<bool(const Buffer&)>& considered = nullptr);

}  // namespace lathe
