#pragma once
#include <vector>

#include "ir/stmt.h"

namespace lathe {

/// One output of a reduction: the element that accumulates.
struct ReductionOutput {
  Buffer buffer;
  std::vector<Expr> indices;
};

/// A reduction's canonical update (ir/stmt.h), taken apart.
struct ReductionParts {
  std::vector<ReductionOutput> outputs;
  std::vector<Stmt> lets;   ///< other Lets that enclose the stores, outermost first; bodies are to be ignored
  std::vector<Expr> terms;  ///< the right operand of each output's combination; may use the lets
};

/// Builds the canonical update body.
Stmt make_update(const Reducer& reducer, const std::vector<ReductionOutput>& outputs, const std::vector<Expr>& terms,
                 const std::vector<Stmt>& lets = {});
/// Builds the init body: each output gets its identity.
Stmt make_init(const Reducer& reducer, const std::vector<ReductionOutput>& outputs);
/// The parts of a block's update, or nothing when its body is not the canonical update of its reducer.
std::optional<ReductionParts> match_update(const Block& block);

/// Takes the reducer off: its iters run in order, and the outputs, which a reducer implies to be read, are listed.
void run_in_order(Block::Fields& f);

/// The same reducer over variables of its own: two blocks must not share those that it binds.
Reducer with_new_variables(const Reducer& reducer);

/// The result of combining `lhs` and `rhs` tuples.
std::vector<Expr> combine(const Reducer& reducer, const std::vector<Expr>& lhs, const std::vector<Expr>& rhs);

/// The scalar reducers: add, mul, min, max, logical_and, logical_or over `dtype`. The identity of max over floats is
/// -inf, over integers the least value; of min the opposites.
Reducer simple_reducer(BinaryOp op, DType dtype);
/// The least or greatest (`op` is min or max) float among those that are numbers: `select(lhs < rhs, rhs, lhs)`, which
/// is one instruction a vector, where keeping NaN and the signs of zeros takes three. For what finds a NaN among the
/// terms again in another way, as a softmax does in its sum.
Reducer extreme_of_numbers(BinaryOp op, DType dtype);
/// The BinaryOp of a one-value reducer whose result is `lhs op rhs`, if it is one; min or max for extreme_of_numbers.
std::optional<BinaryOp> simple_op(const Reducer& reducer);
/// Is it extreme_of_numbers?
bool passes_over_nan(const Reducer& reducer);

}  // namespace lathe
