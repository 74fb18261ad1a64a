#pragma once
#include <unordered_map>
#include <unordered_set>

#include "ir/interpreter/program.h"

namespace lathe::interpreter {

/// Turns expressions into instructions of `program`. The temporaries of one statement are forgotten by `finish`.
class ExprCompiler {
 public:
  ExprCompiler(Compiled& program, const InterpreterOptions& options, bool flat)
      : program_(program), options_(options), flat_(flat) {}

  /// The slots that `e` will be in when the code made so far has run.
  int compile(const Expr& e);
  AccessCode access(const Buffer& buffer, const std::vector<Expr>& indices, const Expr& mask, int lanes);
  /// Everything compiled since the last call.
  Code finish();

  Variable define(const Var* var, bool with_min);
  int array_of(const Buffer& buffer);
  bool knows(const Buffer& buffer) const { return arrays_.count(buffer.get()) != 0; }
  int constant_slot(const Expr& e);

 private:
  int temporary(int lanes);
  Instruction start(Opcode op, const Expr& e);
  int emit(Instruction instruction);
  int call(const Expr& e, const Call* node);
  Operand operand(const Expr& e);

  Compiled& program_;
  const InterpreterOptions& options_;
  bool flat_;
  int begin_ = 0;
  int depth_ = 0;
  std::unordered_map<Expr, int> done_;
  std::unordered_map<const Var*, int> variables_;
  std::unordered_map<const BufferNode*, int> arrays_;
  std::unordered_map<Expr, int> constants_;
};

}  // namespace lathe::interpreter
