#pragma once
/// A block that fills a buffer anew in every iteration of a loop, for the blocks behind it: what double_buffer and
/// rolling_buffer work on.
#include <string>

#include "schedule/rewrite.h"

namespace lathe {

struct StagedProducer {
  Path path;          ///< to the block
  size_t loop_level;  ///< of the loop, in the path
  size_t nest_level;  ///< of the outermost of the block's own loops below it
  Buffer buffer;      ///< what it writes

  const Block& block() const { return *path.back().as<Block>(); }
  const For& loop() const { return *path[loop_level].as<For>(); }
  const Stmt& nest() const { return path[nest_level]; }
};

/// Refuses unless
///   1. loop is serial and around block, whose own loops stand directly in loop's body, with nothing else in them
///   2. block has only space iters, and writes one buffer, an allocation, which it does not read
///   3. only blocks directly below loop touch the buffer, by Loads and Stores at scalar indices, without a hint, and
///      block alone writes it
///   4. what an iteration of loop reads of the buffer is proved to be written before in that iteration
///   5. no block below loop writes what block reads
StagedProducer require_staged(const Schedule& schedule, const std::string& application, const BlockRef& block,
                              const LoopRef& loop);

/// A copy of the producer's nest for the first iteration, under a name of its own, to stand before the loop; it does
/// nothing where the loop does not run.
Stmt first_iteration(const Schedule& schedule, const StagedProducer& staged, const std::string& name);

/// The Func's body with `nest` in the place of the producer's nest and `before` ahead of the loop.
Stmt with_stages(const StagedProducer& staged, const Stmt& nest, const Stmt& before);

}  // namespace lathe
