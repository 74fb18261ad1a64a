#pragma once
/// A Func in the form that runs fast: variables and intermediate values have numbered slots in one frame, and each
/// statement's expressions are one list of instructions, a shared subexpression standing in it once.
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "ir/func.h"
#include "ir/interpreter/arithmetic.h"
#include "ir/interpreter/interpreter.h"

namespace lathe::interpreter {

/// No slot. Every other number is one: variables and constants from 0 up, intermediate values from -1 down.
inline constexpr int none = std::numeric_limits<int>::min();

using ExternFunction = std::function<double(std::span<const double>)>;

enum class Opcode : std::uint8_t {
  unary,
  binary,
  ternary,
  select,
  load,
  ramp,
  broadcast,
  shuffle,
  reduce_lanes,
  reinterpret,
  scaleb,
  population_count,
  permute,
  reciprocal,
  exponent,
  mantissa,
  extern_call,
  address_of
};

/// An operand: its first slot, and 1 when each lane has its own slot, 0 when one slot serves all lanes.
struct Operand {
  int slot = none;
  int step = 0;
};

/// One element of a buffer, or a vector of them. Exactly one operand when flat.
struct AccessCode {
  int array = -1;
  std::vector<Operand> indices;
  bool flat = false;
  int mask = none;
  int lanes = 1;
};

struct Instruction {
  Opcode op;
  DType dtype;    ///< of the result
  DType from;     ///< of the first operand
  int lanes = 1;  ///< of the result
  int out = none, a = none, b = none, c = none;
  union {
    UnaryKernel unary = nullptr;
    BinaryKernel binary;
    TernaryKernel ternary;
    int side;  ///< an index into the program's accesses, shuffles or extern calls
  };
  const ExprNode* source = nullptr;
};

struct ShuffleCode {
  std::vector<int> slots;  ///< of each result lane
};

struct ExternCode {
  ExternFunction function;
  std::vector<Operand> args;
  std::vector<DType> dtypes;
};

/// Instructions [begin, end) of the program.
struct Code {
  int begin = 0, end = 0;
};

/// A variable, for messages and for knowing when a reduction starts.
struct Variable {
  const Var* var;
  int slot;
  int min_slot = none;  ///< loops and iters: where the first value is kept
};

struct BufferCode {
  Buffer buffer;
  int array = -1;
  std::vector<int> shape, strides;  ///< slots
  int offset = none;
  int view_parent = -1;  ///< array of the buffer that this one is a view of
  std::vector<int> view_mins;
};

struct IterCode {
  Variable variable;
  IterKind kind;
  int binding, domain_min, domain_extent;
  /// A reduce iter that a space iter's loops drive too: its value, and not theirs, says where a point begins.
  bool decides_init = false;
};

struct Statement;
using StatementRef = std::unique_ptr<Statement>;

struct BlockCode {
  std::vector<IterCode> iters;
  int predicate = none;
  Code domains;
  Code buffers_code;
  std::vector<BufferCode> allocs;
  std::vector<Variable> reduce_variables;  ///< init runs where all are at their first value
  StatementRef init;
};

struct Statement {
  StmtKind kind;
  Stmt source;
  Code code;
  Variable variable{nullptr, none, none};
  ForKind for_kind = ForKind::serial;
  /// The reduce loop of some block with an init below: without iterations, the inits still run.
  bool reduces = false;
  /// An init lies below.
  bool has_init = false;
  std::vector<int> privates;  ///< arrays of which each iteration has its own
  int a = none, b = none;     ///< operands: min, extent | value | condition, index
  int lanes = 1;
  AccessCode access;
  DType dtype;
  std::unique_ptr<BlockCode> block;
  std::vector<StatementRef> children;
};

struct Compiled {
  Func func;
  std::vector<Cell> slots;  ///< those from 0 up; constants are in place
  int temporaries = 0;      ///< how many lie below 0
  std::vector<Instruction> instructions;
  std::vector<AccessCode> accesses;
  std::vector<ShuffleCode> shuffles;
  std::vector<ExternCode> externs;
  int array_count = 0;
  std::vector<BufferCode> params;
  std::vector<BufferCode> workspace_buffers;  ///< in no allocs: what plan_storage has placed
  Code entry;                                 ///< evaluates the shapes of the two lists above
  std::vector<Variable> scalars;
  StatementRef body;
};

Compiled compile(const Func& func, const InterpreterOptions& options);

/// Empty when none is registered.
ExternFunction find_extern(const std::string& name);

}  // namespace lathe::interpreter
