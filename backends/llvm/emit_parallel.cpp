#include <llvm/IR/Constants.h>

#include "backends/llvm/emitter.h"
#include "ir/abi.h"
#include "ir/error.h"
#include "ir/visitor.h"

/// Parallel loops: the body becomes a function of its own, which finds what it uses of the outside in a closure.
namespace lathe::codegen {

namespace {

class UsedVars : public Visitor {
 public:
  using Visitor::visit;
  void visit(const Expr& e) override {
    if (e && seen_.insert(e.get())) Visitor::visit(e);
  }
  std::vector<const Var*> found;

 protected:
  void visit_Var(const Var* node) override { found.push_back(node); }

 private:
  NodeSet<const ExprNode*> seen_;
};

/// The statement behind which the kernel does nothing more.
const StmtNode* last_statement(const Stmt& s) {
  if (const Seq* seq = s.as<Seq>(); seq && !seq->stmts.empty()) return last_statement(seq->stmts.back());
  if (const Block* block = s.as<Block>()) return last_statement(block->f.body);
  if (const Let* let = s.as<Let>()) return last_statement(let->body);
  return s.get();
}

}  // namespace

/// A byte offset into the context. In the prologue: callers read it from there once.
llvm::Value* FunctionEmitter::context_field_address(int field) {
  return prologue.CreateConstInBoundsGEP1_64(prologue.getInt8Ty(), context_argument, field);
}

llvm::Value* FunctionEmitter::context_field(int field, llvm::Type* type) {
  auto* load = prologue.CreateLoad(type, context_field_address(field));
  load->setMetadata(llvm::LLVMContext::MD_invariant_load, llvm::MDNode::get(context, {}));
  return load;
}

void FunctionEmitter::emit_parallel(const For* loop) {
  llvm::Type *pointer = b.getPtrTy(), *i64_type = b.getInt64Ty(), *i32_type = b.getInt32Ty();
  llvm::Value* count = emit_index(loop->extent);
  llvm::Value* begin = emit_index(loop->min);

  UsedVars used;
  used.visit(loop->body);
  std::vector<const Var*> captured;
  std::vector<llvm::Value*> values = {context_argument, buffers_argument, begin};
  for (const Var* var : used.found) {
    auto found = vars_.find(var);
    if (var == loop->variable.get() || found == vars_.end()) continue;
    captured.push_back(var);
    values.push_back(found->second);
  }
  std::vector<llvm::Type*> types;
  types.reserve(values.size());
  for (llvm::Value* value : values) types.push_back(value->getType());
  auto* closure_type = llvm::StructType::get(context, types);

  llvm::Function* body =
      kernel.make_function(function->getName().str() + ".parallel" + std::to_string(kernel.outlined++),
                           {pointer, i64_type, i64_type, i32_type}, false);
  FunctionEmitter inner(kernel, body, true);
  std::vector<llvm::LoadInst*> fields;
  fields.reserve(values.size());
  for (size_t k = 0; k < values.size(); ++k)
    fields.push_back(inner.prologue.CreateLoad(
        types[k], inner.prologue.CreateStructGEP(closure_type, body->getArg(0), static_cast<unsigned>(k))));
  inner.context_argument = fields[0];
  inner.buffers_argument = fields[1];
  inner.worker = body->getArg(3);
  inner.streaming_ = streaming_;
  for (size_t k = 0; k < captured.size(); ++k) {
    const Var* var = captured[k];
    auto* constant = llvm::dyn_cast<llvm::Constant>(values[k + 3]);
    inner.vars_[var] = constant ? static_cast<llvm::Value*>(constant) : fields[k + 3];
    if (auto stride = strides_.find(var); stride != strides_.end()) inner.strides_.insert(*stride);
    if (index_vars_.count(var)) inner.index_vars_.insert(var);
    if (counters_.count(var)) inner.counters_.insert(var);
    if (non_negative_vars_.count(var)) inner.non_negative_vars_.insert(var);
  }
  // Register buffers of the whole function that are used only in here live in here.
  auto* constant_begin = llvm::dyn_cast<llvm::Constant>(begin);
  llvm::Value* first = constant_begin ? static_cast<llvm::Value*>(constant_begin) : fields[2];
  if (is_non_negative(loop->min)) inner.non_negative_vars_.insert(loop->variable.get());
  inner.emit_serial_loop(loop, inner.b.CreateNSWAdd(first, body->getArg(1)),
                         inner.b.CreateNSWAdd(first, body->getArg(2)));
  inner.finish();

  llvm::Value* closure = emit_closure(closure_type, values, fields, body->getArg(0));
  std::int64_t grain = 1;
  if (auto found = loop->annotations.find("parallel_grain"); found != loop->annotations.end())
    if (auto* given = std::get_if<std::int64_t>(&found->second)) grain = std::max<std::int64_t>(*given, 1);
  emit_spread(loop, body, closure, count, grain);
}

/// What the body of a parallel loop finds its outside in: the values behind those of `fields` that it uses. Where these
/// are the kernel's buffers alone, their list is the closure.
llvm::Value* FunctionEmitter::emit_closure(llvm::StructType* type, llvm::ArrayRef<llvm::Value*> values,
                                           llvm::ArrayRef<llvm::LoadInst*> fields, llvm::Argument* argument) {
  constexpr size_t buffers = 1;
  std::vector<size_t> used;
  for (size_t k = 0; k < fields.size(); ++k) {
    if (!fields[k]->use_empty()) {
      used.push_back(k);
      continue;
    }
    auto* address = llvm::cast<llvm::Instruction>(fields[k]->getPointerOperand());
    fields[k]->eraseFromParent();
    address->eraseFromParent();
  }
  if (used.empty() || (used.size() == 1 && used[0] == buffers)) {
    if (!used.empty()) fields[buffers]->replaceAllUsesWith(argument);
    return buffers_argument;
  }
  llvm::Value* closure = prologue.CreateAlloca(type);
  for (const size_t k : used) b.CreateStore(values[k], b.CreateStructGEP(type, closure, static_cast<unsigned>(k)));
  return closure;
}

/// Runs the body over [0, count): a loop of one piece here, any other by the context's parallel_for, which runs it on
/// this thread where there is no other. Each call and each branch costs compile time, a call that returns at once none.
void FunctionEmitter::emit_spread(const For* loop, llvm::Function* body, llvm::Value* closure, llvm::Value* count,
                                  std::int64_t grain) {
  llvm::Type *pointer = b.getPtrTy(), *i64_type = b.getInt64Ty(), *i32_type = b.getInt32Ty();
  const auto call_here = [&] { return b.CreateCall(body, {closure, b.getInt64(0), count, worker}); };
  const auto call_others = [&] {
    auto* type = llvm::FunctionType::get(i32_type, {pointer, i64_type, i64_type, pointer, pointer}, false);
    llvm::Value* callee = context_field(offsetof(LatheContext, parallel_for), pointer);
    return b.CreateCall(type, callee, {context_argument, count, b.getInt64(grain), body, closure});
  };
  llvm::Value* status = nullptr;
  if (auto* known = llvm::dyn_cast<llvm::ConstantInt>(count)) {
    llvm::CallInst* call = known->getSExtValue() <= grain ? call_here() : call_others();
    if (closure == buffers_argument) call->setTailCall();
    status = call;
  } else {
    llvm::BasicBlock *here = new_block("here"), *others = new_block("others"), *join = new_block("join");
    b.CreateCondBr(b.CreateICmpSLE(count, b.getInt64(grain)), here, others);
    b.SetInsertPoint(here);
    llvm::Value* status_here = call_here();
    b.CreateBr(join);
    b.SetInsertPoint(others);
    llvm::Value* status_others = call_others();
    b.CreateBr(join);
    b.SetInsertPoint(join);
    llvm::PHINode* either = b.CreatePHI(i32_type, 2);
    either->addIncoming(status_here, here);
    either->addIncoming(status_others, others);
    status = either;
  }
  if (last_statement(kernel.func->body) == loop) {
    b.CreateRet(status);
    return;
  }
  llvm::BasicBlock *failed = new_block("failed"), *done = new_block("done");
  b.CreateCondBr(b.CreateICmpEQ(status, b.getInt32(LATHE_OK)), done, failed);
  b.SetInsertPoint(failed);
  b.CreateRet(status);
  b.SetInsertPoint(done);
}

}  // namespace lathe::codegen
