#include <fmt/format.h>
#include <llvm/IR/Constants.h>

#include <algorithm>

#include "backends/llvm/emitter.h"
#include "ir/abi.h"
#include "ir/error.h"

namespace lathe::codegen {

FunctionEmitter::FunctionEmitter(KernelModule& kernel, llvm::Function* function, bool outlined)
    : kernel(kernel),
      context(kernel.context),
      function(function),
      outlined(outlined),
      entry(llvm::BasicBlock::Create(kernel.context, "entry", function)),
      prologue(entry),
      b(llvm::BasicBlock::Create(kernel.context, "start", function)),
      floats(b, kernel.traits),
      slots_(kernel.info.slots().size(), nullptr) {}

llvm::BasicBlock* FunctionEmitter::new_block(const char* label) {
  return llvm::BasicBlock::Create(context, kernel.name_values ? label : "", function);
}

void FunctionEmitter::name(llvm::Value* value, const std::string& text) {
  if (kernel.name_values && !value->getType()->isVoidTy()) value->setName(text);
}

/// Ends the function with success, and joins the prologue to it.
void FunctionEmitter::finish() {
  if (!b.GetInsertBlock()->getTerminator()) b.CreateRet(b.getInt32(LATHE_OK));
  floats.expand_extremes();
  if (streamed_) fence_streamed_stores();
  prologue.CreateBr(entry->getNextNode());
}

void FunctionEmitter::emit(const Stmt& s) {
  transient_.clear();
  switch (s->kind) {
    case StmtKind::For:
      return emit_for(static_cast<const For*>(s.get()));
    case StmtKind::Block:
      return emit_block(static_cast<const Block*>(s.get()));
    case StmtKind::Store:
      emit_store(static_cast<const Store*>(s.get()));
      if (static_cast<const Store*>(s.get())->buffer->space != space::registers) ++memory_version_;
      return;
    case StmtKind::Let: {
      auto* node = static_cast<const Let*>(s.get());
      if (!kernel.info.is_used(node->variable.get())) return emit(node->body);
      llvm::Value* value = emit(node->value);
      Scope scope = open_scope();
      vars_[node->variable.get()] = value;
      if (is_pure_index(node->value)) index_vars_.insert(node->variable.get());
      if (is_non_negative(node->value)) non_negative_vars_.insert(node->variable.get());
      emit(node->body);
      scope.known = known_log_.size();  // a binding is no branch: its instructions lie ahead of what follows
      close_scope(scope);
      return;
    }
    case StmtKind::If:
      return emit_if(static_cast<const If*>(s.get()));
    case StmtKind::While:
      return emit_while(static_cast<const While*>(s.get()));
    case StmtKind::Seq: {
      auto* seq = static_cast<const Seq*>(s.get());
      sequels_.emplace_back(seq, 0);
      for (const Stmt& stmt : seq->stmts) {
        ++sequels_.back().second;
        emit(stmt);
      }
      sequels_.pop_back();
      return;
    }
    case StmtKind::Eval: {
      const Expr& value = static_cast<const Eval*>(s.get())->value;
      evaluated_ = value.get();
      emit(value);
      evaluated_ = nullptr;
      return;
    }
    case StmtKind::Assert:
      return emit_assert(static_cast<const Assert*>(s.get()));
  }
}

/// Behind flatten a block is only the scope of its register buffers.
void FunctionEmitter::emit_block(const Block* block) {
  LATHE_CHECK(block->f.iters.empty() && !block->f.init && !block->f.predicate,
              "block " + block->f.name + " reached emission; lower_blocks should have replaced it");
  for (const Buffer& buffer : block->f.allocs) {
    LATHE_CHECK(buffer->space == space::registers || !kernel.info.is_accessed(buffer.get()),
                "allocation " + buffer->name + " reached emission; plan_storage should have placed it");
    for (int slot : kernel.info.slots_of(buffer.get()))
      slots_[slot] =
          llvm::UndefValue::get(value_type(context, buffer->dtype.with_lanes(kernel.info.slots()[slot].lanes)));
  }
  emit(block->f.body);
  for (const Buffer& buffer : block->f.allocs)
    for (int slot : kernel.info.slots_of(buffer.get())) slots_[slot] = nullptr;
}

void FunctionEmitter::emit_for(const For* loop) {
  if (loop->for_kind == ForKind::bound)
    throw Refusal("emit", 4,
                  "loop " + loop->variable->name + " is bound to thread axis '" + loop->thread_axis +
                      "', which this device has not");
  // A parallel loop inside another runs on the worker that reached it.
  if (loop->for_kind == ForKind::parallel && !outlined) {
    emit_parallel(loop);
    ++memory_version_;
    return;
  }
  llvm::Value* begin = emit_index(loop->min);
  llvm::Value* end = b.CreateNSWAdd(begin, emit_index(loop->extent));
  emit_serial_loop(loop, begin, end);
}

void FunctionEmitter::emit_serial_loop(const For* loop, llvm::Value* begin, llvm::Value* end) {
  auto *first = llvm::dyn_cast<llvm::ConstantInt>(begin), *last = llvm::dyn_cast<llvm::ConstantInt>(end);
  const Var* variable = loop->variable.get();
  index_vars_.insert(variable);
  counters_.insert(variable);
  if (is_non_negative(loop->min)) non_negative_vars_.insert(variable);
  const bool counted = first && last;
  const std::int64_t trips = counted ? last->getSExtValue() - first->getSExtValue() : 0;
  if (counted && trips <= 0) return;
  const Scope scope = open_scope();
  const bool streaming = streaming_;
  streaming_ |= loop->annotations.contains("streaming_stores");
  if (trips == 1) {
    vars_[variable] = begin;
    emit(loop->body);
    close_scope(scope);
    streaming_ = streaming;
    return;
  }
  std::vector<int> carried = kernel.info.stored_slots(loop->body);
  carried.erase(std::remove_if(carried.begin(), carried.end(), [&](int slot) { return !slots_[slot]; }), carried.end());

  const std::int64_t stride = kernel.info.stride_of(variable);
  if (stride != 1) {
    strides_[variable] = stride;
    begin = b.CreateNSWMul(begin, b.getInt64(stride));
    end = b.CreateNSWMul(end, b.getInt64(stride));
  }
  std::vector<StoresBehind> stores_behind;
  if (counted && loop->annotations.contains("prefetch_stores")) stores_behind = find_stores_behind(trips);
  llvm::BasicBlock* before = b.GetInsertBlock();
  llvm::BasicBlock *body = new_block("loop"), *exit = new_block("done");
  std::vector<llvm::Value*> initial;
  initial.reserve(carried.size());
  for (int slot : carried) initial.push_back(slots_[slot]);
  if (counted)
    b.CreateBr(body);
  else
    b.CreateCondBr(b.CreateICmpSLT(begin, end), body, exit);

  b.SetInsertPoint(body);
  llvm::PHINode* counter = b.CreatePHI(b.getInt64Ty(), 2);
  counter->addIncoming(begin, before);
  name(counter, variable->name);
  vars_[variable] = counter;
  std::vector<llvm::PHINode*> phis;
  for (size_t k = 0; k < carried.size(); ++k) {
    phis.push_back(b.CreatePHI(initial[k]->getType(), 2));
    phis.back()->addIncoming(initial[k], before);
    slots_[carried[k]] = phis.back();
  }
  const auto iteration = [&] {
    llvm::Value* moved = b.CreateNSWSub(counter, begin);
    return stride == 1 ? moved : b.CreateExactSDiv(moved, b.getInt64(stride));
  };
  Prefetch around;
  std::swap(around, prefetch_);
  const auto number = [&](const char* name) {
    auto found = loop->annotations.find(name);
    return found == loop->annotations.end() ? nullptr : std::get_if<std::int64_t>(&found->second);
  };
  if (auto* offset = number("prefetch_offset")) prefetch_ = {.variable = variable, .offset = *offset};
  if (auto* elements = number("prefetch_elements")) {
    prefetch_.variable = variable;
    prefetch_.elements = *elements;
  }
  if (!loop->annotations.empty()) {
    for (const auto& [buffer, place] : kernel.param_index) {
      auto* ahead = number(fmt::format("prefetch_param_{}", place).c_str());
      if (!ahead) continue;
      prefetch_.params[buffer] = *ahead;
      if (auto* walk = number(fmt::format("prefetch_walk_{}", place).c_str())) prefetch_.walks[buffer] = *walk;
    }
    if (!prefetch_.walks.empty()) prefetch_.iteration = iteration();
    if (!prefetch_.params.empty()) prefetch_.variable = variable;
    if (auto* cache = number("prefetch_cache")) prefetch_.cache = static_cast<int>(*cache);
  }
  if (!stores_behind.empty()) emit_stores_behind(stores_behind, iteration(), trips);
  std::vector<std::pair<const Seq*, size_t>> sequels;
  std::swap(sequels, sequels_);
  emit(loop->body);
  std::swap(sequels, sequels_);
  std::swap(around, prefetch_);
  streaming_ = streaming;
  llvm::Value* next = b.CreateNSWAdd(counter, b.getInt64(stride));
  llvm::BasicBlock* latch = b.GetInsertBlock();
  // Without the count every loop is taken for one of some thirty iterations: what a short deep loop uses would then
  // drive the accumulators of a long shallow one out of the registers.
  constexpr std::int64_t most = 1 << 20;
  llvm::MDNode* weights =
      counted ? llvm::MDBuilder(context).createBranchWeights(static_cast<std::uint32_t>(std::min(trips - 1, most)), 1)
              : nullptr;
  b.CreateCondBr(b.CreateICmpSLT(next, end), body, exit, weights);
  counter->addIncoming(next, latch);
  for (size_t k = 0; k < carried.size(); ++k) phis[k]->addIncoming(slots_[carried[k]], latch);

  strides_.erase(variable);
  b.SetInsertPoint(exit);
  if (!counted) {
    for (size_t k = 0; k < carried.size(); ++k) {
      llvm::PHINode* merged = b.CreatePHI(initial[k]->getType(), 2);
      merged->addIncoming(initial[k], before);
      merged->addIncoming(slots_[carried[k]], latch);
      slots_[carried[k]] = merged;
    }
  }
  close_scope(scope);
}

void FunctionEmitter::emit_if(const If* node) {
  llvm::Value* condition = emit(node->condition);
  if (auto* constant = llvm::dyn_cast<llvm::ConstantInt>(condition)) {
    if (constant->isOne())
      emit(node->then_case);
    else if (node->else_case)
      emit(node->else_case);
    return;
  }
  llvm::BasicBlock *then_block = new_block("then"), *join = new_block("join");
  llvm::BasicBlock* else_block = node->else_case ? new_block("else") : join;
  llvm::BasicBlock* before = b.GetInsertBlock();
  b.CreateCondBr(condition, then_block, else_block);
  const std::vector<llvm::Value*> initial = slots_;
  const Scope scope = open_scope();

  b.SetInsertPoint(then_block);
  emit(node->then_case);
  close_scope(scope);
  llvm::BasicBlock* then_end = b.GetInsertBlock();
  b.CreateBr(join);
  std::vector<llvm::Value*> after_then = initial;
  std::swap(after_then, slots_);
  llvm::BasicBlock* else_end = before;
  if (node->else_case) {
    b.SetInsertPoint(else_block);
    emit(node->else_case);
    close_scope(scope);
    else_end = b.GetInsertBlock();
    b.CreateBr(join);
  }
  b.SetInsertPoint(join);
  for (size_t slot = 0; slot < slots_.size(); ++slot) {
    if (slots_[slot] == after_then[slot]) continue;
    llvm::PHINode* merged = b.CreatePHI(slots_[slot]->getType(), 2);
    merged->addIncoming(after_then[slot], then_end);
    merged->addIncoming(slots_[slot], else_end);
    slots_[slot] = merged;
  }
}

void FunctionEmitter::emit_while(const While* node) {
  llvm::BasicBlock* before = b.GetInsertBlock();
  llvm::BasicBlock *header = new_block("while"), *body = new_block("body"), *exit = new_block("done");
  b.CreateBr(header);
  b.SetInsertPoint(header);
  std::vector<std::pair<int, llvm::PHINode*>> phis;
  for (int slot : kernel.info.stored_slots(node->body)) {
    if (!slots_[slot]) continue;
    llvm::PHINode* phi = b.CreatePHI(slots_[slot]->getType(), 2);
    phi->addIncoming(slots_[slot], before);
    slots_[slot] = phi;
    phis.emplace_back(slot, phi);
  }
  const Scope scope = open_scope();
  llvm::Value* condition = emit(node->condition);
  b.CreateCondBr(condition, body, exit);
  b.SetInsertPoint(body);
  emit(node->body);
  b.CreateBr(header);
  for (auto& [slot, phi] : phis) {
    phi->addIncoming(slots_[slot], b.GetInsertBlock());
    slots_[slot] = phi;
  }
  close_scope(scope);
  b.SetInsertPoint(exit);
}

void FunctionEmitter::emit_assert(const Assert* node) {
  llvm::Value* condition = emit(node->condition);
  const int lanes = node->condition->dtype.lanes;
  llvm::Value* holds = condition;
  if (lanes > 1) {
    llvm::Type* bits = b.getIntNTy(lanes);
    holds = b.CreateICmpEQ(b.CreateBitCast(condition, bits), llvm::Constant::getAllOnesValue(bits));
  }
  llvm::BasicBlock *fail = new_block("fail"), *pass = new_block("pass");
  b.CreateCondBr(holds, pass, fail, llvm::MDBuilder(context).createBranchWeights(1 << 20, 1));

  const Scope scope = open_scope();
  b.SetInsertPoint(fail);
  llvm::Value* index = node->index ? emit(node->index) : b.getInt64(0);
  if (node->index && lanes > 1) {
    // The first failing lane wins, found without a variable extract, which would take a stack slot.
    llvm::Value* all = index;
    index = b.CreateExtractElement(all, std::uint64_t(lanes - 1));
    for (int lane = lanes - 2; lane >= 0; --lane)
      index = b.CreateSelect(b.CreateExtractElement(condition, std::uint64_t(lane)), index,
                             b.CreateExtractElement(all, std::uint64_t(lane)));
  }
  llvm::Value* message = b.CreateGlobalString(node->message, "", 0, &kernel.module);
  llvm::Value* message_slot =
      context_field_address(offsetof(LatheContext, error) + offsetof(LatheKernelError, message));
  llvm::Value* index_slot = context_field_address(offsetof(LatheContext, error) + offsetof(LatheKernelError, index));
  const auto pointer_align = kernel.module.getDataLayout().getPointerABIAlignment(0);
  const int status =
      node->message.find("index") != std::string::npos ? LATHE_INDEX_OUT_OF_RANGE : LATHE_ASSERTION_FAILED;
  llvm::BasicBlock *first = new_block("first"), *stop = new_block("stop");
  if (outlined) {
    // Several workers may fail at once; the context comes in with a null message.
    llvm::Value* won =
        b.CreateAtomicCmpXchg(message_slot, llvm::ConstantPointerNull::get(b.getPtrTy()), message, pointer_align,
                              llvm::AtomicOrdering::AcquireRelease, llvm::AtomicOrdering::Acquire);
    b.CreateCondBr(b.CreateExtractValue(won, 1), first, stop);
  } else {
    b.CreateAlignedStore(message, message_slot, pointer_align);
    b.CreateBr(first);
  }
  b.SetInsertPoint(first);
  b.CreateAlignedStore(index, index_slot, llvm::Align(8));
  b.CreateBr(stop);
  b.SetInsertPoint(stop);
  b.CreateRet(b.getInt32(status));
  close_scope(scope);
  b.SetInsertPoint(pass);
}

}  // namespace lathe::codegen
