#pragma once
#include "tests/fuzz/generator.h"

namespace lathe::testing {

/// Random TIR written directly, as it stands before flatten: vectors, masks, shuffles, gathers, lane reductions, While,
/// Let, If, and every operation on every integer type over all bits. What no traced program has, a backend must know
/// too.
GeneratedProgram generate_tir(std::uint64_t seed);

}  // namespace lathe::testing
