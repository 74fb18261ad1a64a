#include "ir/interpreter/compile_expr.h"

#include <fmt/format.h>

#include <mutex>

#include "ir/intrinsics.h"

namespace lathe::interpreter {
namespace {

struct ExternRegistry {
  std::mutex mutex;
  std::unordered_map<std::string, ExternFunction> functions;
};

ExternRegistry& externs() {
  static ExternRegistry registry;
  return registry;
}

/// What a lane reduction folds with; for bools, and and or are the logical ones.
BinaryOp reduction_op(std::string_view callee, DType dtype) {
  if (callee == "reduce_add") return BinaryOp::add;
  if (callee == "reduce_mul") return BinaryOp::mul;
  if (callee == "reduce_min") return BinaryOp::min;
  if (callee == "reduce_max") return BinaryOp::max;
  if (callee == "reduce_and") return dtype.is_bool() ? BinaryOp::logical_and : BinaryOp::bit_and;
  return dtype.is_bool() ? BinaryOp::logical_or : BinaryOp::bit_or;
}

}  // namespace

ExternFunction find_extern(const std::string& name) {
  ExternRegistry& registry = externs();
  const std::lock_guard lock(registry.mutex);
  const auto found = registry.functions.find(name);
  return found == registry.functions.end() ? ExternFunction() : found->second;
}

int ExprCompiler::temporary(int lanes) {
  depth_ += lanes;
  program_.temporaries = std::max(program_.temporaries, depth_);
  return -depth_;
}

Instruction ExprCompiler::start(Opcode op, const Expr& e) {
  Instruction instruction;
  instruction.op = op;
  instruction.dtype = instruction.from = e->dtype.element();
  instruction.lanes = e->dtype.lanes;
  instruction.source = e.get();
  return instruction;
}

int ExprCompiler::emit(Instruction instruction) {
  instruction.out = temporary(instruction.lanes);
  program_.instructions.push_back(instruction);
  return instruction.out;
}

Code ExprCompiler::finish() {
  const Code code{begin_, static_cast<int>(program_.instructions.size())};
  begin_ = code.end;
  depth_ = 0;
  done_.clear();
  return code;
}

Variable ExprCompiler::define(const Var* var, bool with_min) {
  Variable variable{var, static_cast<int>(program_.slots.size()), none};
  program_.slots.resize(program_.slots.size() + var->dtype.lanes, Cell{.i = 0});
  if (with_min) {
    variable.min_slot = static_cast<int>(program_.slots.size());
    program_.slots.push_back(Cell{.i = 0});
  }
  variables_[var] = variable.slot;
  return variable;
}

int ExprCompiler::array_of(const Buffer& buffer) {
  const auto [found, inserted] = arrays_.emplace(buffer.get(), program_.array_count);
  if (inserted) ++program_.array_count;
  return found->second;
}

int ExprCompiler::constant_slot(const Expr& e) {
  const auto [found, inserted] = constants_.emplace(e, static_cast<int>(program_.slots.size()));
  if (inserted) {
    Cell cell;
    if (const IntImm* imm = e.as<IntImm>()) {
      cell.i = imm->value;
    } else {
      cell.d = e.as<FloatImm>()->value;
    }
    program_.slots.resize(program_.slots.size() + e->dtype.lanes, cell);
  }
  return found->second;
}

Operand ExprCompiler::operand(const Expr& e) {
  return {compile(e), e->dtype.is_scalar() ? 0 : 1};
}

AccessCode ExprCompiler::access(const Buffer& buffer, const std::vector<Expr>& indices, const Expr& mask, int lanes) {
  AccessCode code;
  code.array = array_of(buffer);
  for (const Expr& i : indices) code.indices.push_back(operand(i));
  code.flat = indices.size() == 1 && (flat_ || buffer->rank() != 1);
  if (mask) code.mask = compile(mask);
  code.lanes = lanes;
  return code;
}

int ExprCompiler::call(const Expr& e, const Call* node) {
  if (node->call_kind == CallKind::intrinsic && node->callee == "dot") return compile(dot_as_sum(*node));
  if (as_intrinsic(e, "dot_bytes")) return compile(dot_bytes_as_sum(*node));
  if (as_intrinsic(e, "join_bytes")) return compile(join_bytes_as_sum(*node));
  if (as_intrinsic(e, "dot_halves")) return compile(dot_halves_as_sum(*node));
  if (as_intrinsic(e, "join_halves")) return compile(join_halves_as_sum(*node));
  if (const Expr& value = without_limit(e); value != e) return compile(value);
  Instruction instruction;
  std::vector<Operand> args;
  args.reserve(node->args.size());
  for (const Expr& arg : node->args) args.push_back(operand(arg));
  const DType from = node->args.empty() ? node->dtype.element() : node->args[0]->dtype.element();
  if (node->call_kind == CallKind::extern_scalar) {
    ExternCode code{find_extern(node->callee), std::move(args), {}};
    if (!code.function) {
      throw Trap(
          fmt::format("the interpreter runs no extern functions but registered ones, and '{}' is not", node->callee));
    }
    for (const Expr& arg : node->args) code.dtypes.push_back(arg->dtype.element());
    instruction = start(Opcode::extern_call, e);
    instruction.side = static_cast<int>(program_.externs.size());
    program_.externs.push_back(std::move(code));
    return emit(instruction);
  }
  if (node->callee == "fma") {
    instruction = start(Opcode::ternary, e);
    instruction.ternary = fma_kernel(from, options_.exact_floats);
    instruction.a = args[0].slot, instruction.b = args[1].slot, instruction.c = args[2].slot;
  } else if (node->callee == "scaleb") {
    instruction = start(Opcode::scaleb, e);
    instruction.binary = scaleb_kernel(from, options_.exact_floats);
    instruction.a = args[0].slot, instruction.b = args[1].slot;
  } else if (node->callee == "reinterpret") {
    instruction = start(Opcode::reinterpret, e);
    instruction.from = from;
    instruction.a = args[0].slot;
  } else if (node->callee == "population_count") {
    instruction = start(Opcode::population_count, e);
    instruction.a = args[0].slot;
  } else if (node->callee == "permute") {
    instruction = start(Opcode::permute, e);
    instruction.a = args[0].slot, instruction.b = args[1].slot;
    instruction.c = node->args[0]->dtype.lanes;
  } else if (node->callee == "reciprocal") {
    instruction = start(Opcode::reciprocal, e);
    instruction.a = args[0].slot;
  } else if (node->callee == "exponent") {
    instruction = start(Opcode::exponent, e);
    instruction.a = args[0].slot;
  } else if (node->callee == "mantissa") {
    instruction = start(Opcode::mantissa, e);
    instruction.a = args[0].slot;
  } else if (node->callee.starts_with("reduce_")) {
    instruction = start(Opcode::reduce_lanes, e);
    instruction.binary = binary_kernel(reduction_op(node->callee, from), from, options_.exact_floats);
    instruction.a = args[0].slot;
    instruction.b = node->args[0]->dtype.lanes;
    instruction.c = temporary(node->args[0]->dtype.lanes);
  } else {
    throw Bug("the interpreter does not know the intrinsic " + node->callee);
  }
  return emit(instruction);
}

int ExprCompiler::compile(const Expr& e) {
  if (const auto found = done_.find(e); found != done_.end()) return found->second;
  const bool exact = options_.exact_floats;
  Instruction instruction;
  int slot = none;
  switch (e->kind) {
    case ExprKind::IntImm:
    case ExprKind::FloatImm:
      return constant_slot(e);
    case ExprKind::Var: {
      const auto found = variables_.find(e.as<Var>());
      if (found == variables_.end()) throw Trap("variable " + e.as<Var>()->name + " is used outside its scope");
      return found->second;
    }
    case ExprKind::Unary: {
      const Unary* node = e.as<Unary>();
      const int a = compile(node->a);
      instruction = start(Opcode::unary, e);
      instruction.from = node->a->dtype.element();
      instruction.unary = unary_kernel(node->op, instruction.from, exact);
      instruction.a = a;
      slot = emit(instruction);
      break;
    }
    case ExprKind::Cast: {
      const Cast* node = e.as<Cast>();
      const int a = compile(node->value);
      instruction = start(Opcode::unary, e);
      instruction.from = node->value->dtype.element();
      instruction.unary = cast_kernel(instruction.dtype, instruction.from, exact);
      instruction.a = a;
      slot = emit(instruction);
      break;
    }
    case ExprKind::Binary: {
      const Binary* node = e.as<Binary>();
      const int a = compile(node->a), b = compile(node->b);
      instruction = start(Opcode::binary, e);
      instruction.from = node->a->dtype.element();
      instruction.binary = binary_kernel(node->op, instruction.from, exact);
      instruction.a = a, instruction.b = b;
      slot = emit(instruction);
      break;
    }
    case ExprKind::Select: {
      const Select* node = e.as<Select>();
      const int a = compile(node->condition), b = compile(node->when_true), c = compile(node->when_false);
      instruction = start(Opcode::select, e);
      instruction.a = a, instruction.b = b, instruction.c = c;
      slot = emit(instruction);
      break;
    }
    case ExprKind::Load: {
      const Load* node = e.as<Load>();
      AccessCode code = access(node->buffer, node->indices, node->mask, e->dtype.lanes);
      instruction = start(Opcode::load, e);
      instruction.side = static_cast<int>(program_.accesses.size());
      program_.accesses.push_back(std::move(code));
      slot = emit(instruction);
      break;
    }
    case ExprKind::AddressOf: {
      const AddressOf* node = e.as<AddressOf>();
      AccessCode code = access(node->buffer, node->indices, nullptr, 1);
      instruction = start(Opcode::address_of, e);
      instruction.side = static_cast<int>(program_.accesses.size());
      program_.accesses.push_back(std::move(code));
      slot = emit(instruction);
      break;
    }
    case ExprKind::Ramp: {
      const Ramp* node = e.as<Ramp>();
      const int a = compile(node->base), b = compile(node->stride);
      instruction = start(Opcode::ramp, e);
      instruction.a = a, instruction.b = b;
      slot = emit(instruction);
      break;
    }
    case ExprKind::Broadcast: {
      const int a = compile(e.as<Broadcast>()->value);
      instruction = start(Opcode::broadcast, e);
      instruction.a = a;
      slot = emit(instruction);
      break;
    }
    case ExprKind::Shuffle: {
      const Shuffle* node = e.as<Shuffle>();
      std::vector<int> lanes;
      for (const Expr& vector : node->vectors) {
        const int first = compile(vector);
        for (int l = 0; l < vector->dtype.lanes; ++l) lanes.push_back(first + l);
      }
      ShuffleCode code;
      for (const int lane : node->lanes) code.slots.push_back(lanes[static_cast<size_t>(lane)]);
      instruction = start(Opcode::shuffle, e);
      instruction.side = static_cast<int>(program_.shuffles.size());
      program_.shuffles.push_back(std::move(code));
      slot = emit(instruction);
      break;
    }
    case ExprKind::Call:
      slot = call(e, e.as<Call>());
      break;
  }
  done_.emplace(e, slot);
  return slot;
}

}  // namespace lathe::interpreter

void lathe::register_interpreter_extern(const std::string& name,
                                        std::function<double(std::span<const double>)> function) {
  interpreter::ExternRegistry& registry = interpreter::externs();
  const std::lock_guard lock(registry.mutex);
  registry.functions[name] = std::move(function);
}
