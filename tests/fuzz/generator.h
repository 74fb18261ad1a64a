#pragma once
/// Random programs over the whole operator library: what every fuzzer of Lathe feeds on. A seed gives one program,
/// always the same.
#include <map>
#include <string>
#include <vector>

#include "ir/analysis/witness.h"
#include "jit/trace/tensor.h"
#include "tests/fuzz/layout.h"
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

/// One buffer parameter: its type, its place in memory, and its contents. What a run decides is in `shape` and
/// `strides`; the rest holds in all of them.
struct Parameter {
  DType dtype;
  Shape extents;  ///< constant, or over the program's symbols
  LayoutPlan layout;
  Fill fill;
  std::vector<std::int64_t> shape, strides;  ///< strides in elements
};

/// A scalar parameter of a program: a symbolic extent, or the stride of a parameter's dimension.
struct ScalarSource {
  VarRef symbol;  ///< null: a stride
  size_t parameter = 0, dimension = 0;
};

struct GeneratedProgram {
  std::uint64_t seed = 0;
  Func func;                          ///< traced; parameters: the inputs, the outputs, then scalars
  std::vector<Parameter> parameters;  ///< one for each buffer
  int input_count = 0;
  std::vector<ScalarSource> scalar_sources;  ///< one for each scalar parameter
  std::vector<Environment> runs;             ///< the symbols' values in each run; one, empty, without symbols
  size_t run = 0;                            ///< the one that `parameters` and `scalars` stand for
  std::vector<std::int64_t> scalars;         ///< as the kernel takes them
  /// Indices reach outside: the kernel is to stop with a status, or not to have looked at those.
  bool bad_indices = false;
  std::vector<bool> bitwise;           ///< for each output: a float that is a mere view, so bit for bit
  std::vector<std::string> operators;  ///< of the library, in order of use
  std::vector<std::string> families;   ///< of those: elementwise, reduction, contraction, view
};

GeneratedProgram generate(std::uint64_t seed);

/// The same program with the shapes, strides and scalars of run `k`.
GeneratedProgram with_run(GeneratedProgram program, size_t k);

/// Memory for each parameter of a program against guard pages, the inputs filled: always the same for a run.
std::vector<GuardedArray> make_arrays(const GeneratedProgram& program, Against against);

}  // namespace lathe::testing
