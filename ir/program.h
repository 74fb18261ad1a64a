#pragma once
#include <string>
#include <vector>

#include "ir/func.h"

namespace lathe {

/// A tensor that flows between Funcs: a Program's input, output, or the result of one Func read by others.
struct Value {
  std::string name;
  DType dtype;
  std::vector<Expr> shape;
};

/// Value `value` is bound to buffer parameter `param` (counted among buffers) of Func `func`.
struct Edge {
  int value = 0;
  int func = 0;
  int param = 0;
};

/// What tracing yields before it is cut into kernels: Funcs in an order in which they can run, and the values between
/// them.
struct Program {
  std::vector<Func> funcs;
  std::vector<Value> values;
  std::vector<Edge> edges;
  std::vector<int> inputs, outputs;  ///< indices into values
};

}  // namespace lathe
