#pragma once
#include "tests/fuzz/generator.h"

namespace lathe::testing {

/// Random chains of small blocks, one step a block as a trace makes them, picked so that every schedule primitive has
/// something to do: element-wise steps, stencils over rows, padding, transposes, contractions with and without masks
/// and biases, row reductions, running sums, and weighted sums. A third of them have symbolic extents.
GeneratedProgram generate_pipeline(std::uint64_t seed);

}  // namespace lathe::testing
