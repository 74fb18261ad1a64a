#pragma once
/// Random programs over the whole operator library: what every fuzzer of Lathe feeds on. A seed gives one program,
/// always the same.
#include <map>
#include <string>
#include <vector>

#include "jit/trace/tensor.h"
#include "tests/fuzz/random.h"
#include "tests/memory_harness.h"

namespace lathe::testing {

/// What the elements of an input may be.
struct Fill {
  enum class Kind {
    any,       ///< integers: small or all bits; floats: around [-4, 4]
    special,   ///< the same, and for floats NaN, infinities, zeros of both signs, subnormals
    index,     ///< integers in [low, high]
    positive,  ///< away from zero, for divisors and logarithms
    unit       ///< floats in (-1, 1)
  };
  Kind kind = Kind::any;
  std::int64_t low = 0, high = 0;
};

/// One buffer parameter: its type, its place in memory, and its contents.
struct Parameter {
  DType dtype;
  std::vector<std::int64_t> shape, strides;  ///< strides in elements
  std::int64_t offset = 0;                   ///< of the buffer, in elements
  bool dense = true;
  Fill fill;
};

struct GeneratedProgram {
  std::uint64_t seed = 0;
  Func func;                          ///< traced; parameters: the inputs, then the outputs
  std::vector<Parameter> parameters;  ///< one each
  int input_count = 0;
  /// Indices reach outside: the kernel is to stop with a status, or not to have looked at those.
  bool bad_indices = false;
  std::vector<bool> bitwise;           ///< for each output: a float that is a mere view, so bit for bit
  std::vector<std::string> operators;  ///< of the library, in order of use
};

GeneratedProgram generate(std::uint64_t seed);

/// Memory for each parameter of a program against guard pages, the inputs filled: always the same for a program.
std::vector<GuardedArray> make_arrays(const GeneratedProgram& program, Against against);

}  // namespace lathe::testing
