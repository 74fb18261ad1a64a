#pragma once
#include <functional>
#include <optional>

#include "tests/fuzz/generator.h"

namespace lathe::testing {

/// A tensor of a program that grows.
struct Value {
  Tensor tensor;
  /// Every faithful evaluation gives the same bits: no sum of floats and no library function lies upstream. Only such
  /// values may meet a comparison, a floor or a cast to integer.
  bool reproducible = true;
  /// Elements of inputs and constants, moved about and never computed on.
  bool moved_only = true;
};

/// A program under construction: picks operands, makes inputs, remembers what was used.
class Builder {
 public:
  explicit Builder(std::uint64_t seed) : random(seed) {}

  Random random;
  /// Of any tensor in any run. Most programs are small; some are large enough for threads and cache tiles.
  std::int64_t most_elements = 1500;
  std::vector<Fact> symbols;                        ///< symbolic extents, if any
  std::vector<Environment> runs = {Environment()};  ///< their values
  std::vector<Value> pool;
  std::vector<Tensor> inputs;
  std::vector<Parameter> parameters;
  std::vector<std::string> used;
  bool specials = false;     ///< inputs may hold NaN and infinities
  bool bad_indices = false;  ///< indices may reach outside

  /// Gives the program a few symbolic extents, and several runs with values for them.
  void add_symbols();
  /// The constant, or now and then a symbol.
  Expr extent(std::int64_t constant);
  std::int64_t least(const Expr& extent) const;  ///< over all runs
  std::int64_t most(const Expr& extent) const;   ///< over all runs

  Shape shape(int most_rank = 4);
  DType dtype();
  DType float_dtype();
  Value input(DType dtype, Shape shape, Fill fill = {});
  /// One from the pool, or a new input.
  Value operand();
  Value operand_where(const std::function<bool(const Value&)>& wanted, const std::function<Value()>& otherwise);
  /// Something that broadcasts with `other`, of a dtype that promotes with it.
  Value partner(const Value& other, Fill fill = {});
  Value partner(const Value& other, DType dtype, Fill fill = {});
  /// `value` as a float, or a new float input of its shape.
  Value as_float(const Value& value);
  /// Reproducible values stay; others are replaced by an input of their shape and dtype.
  Value reproducible(const Value& value);
  std::int64_t axis(const Value& value) {
    return random.between(-static_cast<std::int64_t>(value.tensor.rank()),
                          static_cast<std::int64_t>(value.tensor.rank()) - 1);
  }

  void add(const std::string& name, const Tensor& tensor, bool reproducible, bool moved_only = false);
  bool fits(const Shape& shape) const;
};

/// One step: an operator of the library with operands and parameters chosen at random. False: nothing suitable this
/// time.
struct Step {
  std::string name;
  std::string family;  ///< elementwise, reduction, contraction, view
  std::function<bool(Builder&)> apply;
};

/// A step for every operator of the library's registry.
const std::vector<Step>& all_steps();

std::vector<Step> elementwise_steps();
std::vector<Step> reduction_steps();
std::vector<Step> view_steps();

}  // namespace lathe::testing
