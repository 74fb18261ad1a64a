#pragma once
/// Dependences between iterations, for the primitives that change the order of iterations or run them at once.
#include <string>
#include <vector>

#include "ir/analysis/dependence.h"
#include "ir/analysis/regions.h"
#include "schedule/rewrite.h"

namespace lathe {

/// What holds at the last statement of a path.
Bounds bounds_at(const Func& func, const Path& path);

/// Refuses with the two accesses that carry a dependence: marks the block of the second, and says what it may touch
/// that which block touches in which other iteration of `nest`.
[[noreturn]] void refuse_carried(const Schedule& schedule, const std::string& application, int condition,
                                 const std::string& text, const CarriedDependence& carried,
                                 const std::vector<const For*>& nest, const std::string& advice = {});

/// Refuses with the two accesses of a dependence between `block` and another block, which is marked, and said to touch
/// what `block` touches.
[[noreturn]] void refuse_dependence(const Schedule& schedule, const std::string& application, int condition,
                                    const std::string& text, const Dependence& dependence, const Stmt& block);

/// Refuses unless no iteration of the loop that `path` ends with may touch what another one writes; only buffers of
/// which `considered` (null: all) is true count.
void require_apart(const Schedule& schedule, const std::string& application, int condition, const std::string& text,
                   const Path& path, const std::function<bool(const Buffer&)>& considered = nullptr,
                   const std::string& advice = {});

/// Refuses if `front` may touch in an iteration of `loop`, whose body is `front` and then `behind`, what `behind`
/// touches in an earlier one, where one of them writes it: only otherwise do both ways of running them, by turns and
/// all of `front` first, give the same. The loop stands, or is to stand, where `path` ends.
void require_turns(const Schedule& schedule, const std::string& application, int condition, const std::string& text,
                   const Path& path, const Stmt& loop, const Stmt& front, const Stmt& behind);

/// The reads in `body`, a Func's, of what `producer` writes to its allocations that may meet an element which nothing
/// wrote before; one in no block is the allocating block's.
std::vector<ExposedRead> exposed_reads_of(const Func& func, const Block& producer, const Stmt& body);

/// Loops that nest in each other, from the outermost inward: the first in several iterations of which the bindings may
/// have the same values, for some iterations of the loops inside it; null where all are proved to differ.
const For* repeating_loop(const std::vector<const For*>& loops, const std::vector<Expr>& bindings, const Bounds& outer);

}  // namespace lathe
