#include <llvm/IR/Constants.h>
#include <llvm/IR/Intrinsics.h>

#include <cstddef>
#include <numeric>

#include "backends/llvm/emitter.h"
#include "ir/abi.h"
#include "ir/error.h"
#include "ir/storage.h"

namespace lathe::codegen {

llvm::Value* FunctionEmitter::base_pointer(const BufferNode* buffer) {
  const BufferNode* storage = storage_of(buffer);
  auto param = kernel.param_index.find(buffer);
  if (param == kernel.param_index.end() && storage != buffer) return base_pointer(storage);
  auto found = pointers_.find(buffer);
  if (found != pointers_.end()) return found->second;
  llvm::Value* pointer;
  auto load_pointer = [&](llvm::Value* address, llvm::Type* type) {
    auto* load = prologue.CreateLoad(type, address);
    load->setMetadata(llvm::LLVMContext::MD_invariant_load, llvm::MDNode::get(context, {}));
    return load;
  };
  if (param != kernel.param_index.end()) {
    pointer = load_pointer(prologue.CreateConstInBoundsGEP1_64(prologue.getPtrTy(), buffers_argument, param->second),
                           prologue.getPtrTy());
  } else if (buffer->space == space::global) {
    if (!shared_workspace_) {
      shared_workspace_ =
          rounded_up(context_field(offsetof(LatheContext, shared_workspace), prologue.getPtrTy()), "shared_align");
    }
    pointer = shared_workspace_;
  } else if (buffer->space == space::worker) {
    if (!worker_workspace_) {
      llvm::Value* stride = context_field(offsetof(LatheContext, worker_stride), prologue.getInt64Ty());
      llvm::Value* offset = prologue.CreateNSWMul(prologue.CreateSExt(worker, prologue.getInt64Ty()), stride);
      llvm::Value* workspaces = context_field(offsetof(LatheContext, worker_workspace), prologue.getPtrTy());
      worker_workspace_ = rounded_up(prologue.CreateGEP(prologue.getInt8Ty(), workspaces, offset), "worker_align");
    }
    pointer = worker_workspace_;
  } else {
    throw Refusal("emit", 2,
                  "buffer " + buffer->name + " lives in space '" + buffer->space + "', which kernels cannot address");
  }
  name(pointer, buffer->name);
  return pointers_[buffer] = pointer;
}

/// A workspace's base, which callers align to 64 bytes, at the multiple that plan_storage counted on.
llvm::Value* FunctionEmitter::rounded_up(llvm::Value* base, const char* attribute) {
  const auto found = kernel.func->attrs.find(attribute);
  if (found == kernel.func->attrs.end()) return base;
  const std::int64_t alignment = std::get<std::int64_t>(found->second);
  llvm::Value* past = prologue.CreateConstGEP1_64(prologue.getInt8Ty(), base, alignment - 1);
  return prologue.CreateIntrinsic(llvm::Intrinsic::ptrmask, {prologue.getPtrTy(), prologue.getInt64Ty()},
                                  {past, prologue.getInt64(-alignment)});
}

FunctionEmitter::Offset FunctionEmitter::split_offset(const Expr& index) {
  if (auto* imm = index.as<IntImm>()) return {nullptr, imm->value};
  if (auto found = offsets_.find(index.get()); found != offsets_.end()) return found->second;
  Offset result;
  auto* node = index.as<Binary>();
  if (llvm::Value* product = emit_counter_product(index)) {
    result.variable = product;
  } else if (node && (node->op == BinaryOp::add || node->op == BinaryOp::sub)) {
    const Offset a = split_offset(node->a), c = split_offset(node->b);
    const bool is_sum = node->op == BinaryOp::add;
    result.constant = is_sum ? a.constant + c.constant : a.constant - c.constant;
    if (!c.variable)
      result.variable = a.variable;
    else if (!a.variable)
      result.variable = is_sum ? c.variable : subtract(b.getInt64(0), c.variable);
    else
      result.variable = is_sum ? add(a.variable, c.variable) : subtract(a.variable, c.variable);
  } else if (node && node->op == BinaryOp::mul && node->b.as<IntImm>()) {
    const std::int64_t factor = node->b.as<IntImm>()->value;
    const Offset a = split_offset(node->a);
    result.constant = a.constant * factor;
    if (a.variable) result.variable = multiply(a.variable, factor, true);
  } else {
    result.variable = emit_index(index);
    if (!(index->dtype == i64))
      result.variable = b.CreateIntCast(result.variable, b.getInt64Ty(), index->dtype.is_signed());
  }
  if (kernel.info.is_stable(index.get())) {
    offsets_[index.get()] = result;
    offset_log_.push_back(index.get());
  }
  return result;
}

llvm::Value* FunctionEmitter::element_address(const BufferNode* buffer, Offset offset, bool inbounds) {
  llvm::Value* pointer = base_pointer(buffer);
  const std::int64_t bytes = buffer->dtype.bytes();
  if (offset.variable) {
    // Neighbours differ in the constant alone: what they share is made once.
    pointer = offset_by(element_memory_type(context, buffer->dtype), pointer, offset.variable, inbounds);
  }
  if (offset.constant != 0) pointer = offset_by(b.getInt8Ty(), pointer, b.getInt64(offset.constant * bytes), inbounds);
  return pointer;
}

std::int64_t FunctionEmitter::known_multiple(const Expr& index) {
  if (auto* imm = index.as<IntImm>()) return imm->value;
  auto* node = index.as<Binary>();
  if (!node) return 1;
  if (node->op == BinaryOp::add || node->op == BinaryOp::sub)
    return std::gcd(known_multiple(node->a), known_multiple(node->b));
  if (node->op == BinaryOp::mul) return known_multiple(node->a) * known_multiple(node->b);
  return 1;
}

llvm::Align FunctionEmitter::access_alignment(const BufferNode* buffer, const Expr& index) {
  const std::int64_t element = buffer->dtype.bytes();
  if (buffer->alignment > 0 && buffer->alignment < element) return llvm::Align(1);
  if (buffer->alignment <= element) return llvm::Align(element);
  // The multiple is 0 for the base itself; a multiplication that wrapped is still even where it should be.
  const std::int64_t bytes = std::gcd(known_multiple(index) * element, std::int64_t{buffer->alignment});
  return llvm::Align(std::uint64_t(bytes) & -std::uint64_t(bytes));
}

/// A parameter that nothing writes while the kernel runs.
bool FunctionEmitter::is_constant_memory(const BufferNode* buffer) const {
  const BufferNode* storage = storage_of(buffer);
  return kernel.alias_scopes(buffer).scope && kernel.param_index.count(storage) && !kernel.info.is_written(storage);
}

/// With what is known of the buffer's memory.
llvm::Instruction* FunctionEmitter::marked(llvm::Instruction* access, const BufferNode* buffer) {
  const auto scopes = kernel.alias_scopes(buffer);
  if (scopes.scope) access->setMetadata(llvm::LLVMContext::MD_alias_scope, scopes.scope);
  if (scopes.noalias) access->setMetadata(llvm::LLVMContext::MD_noalias, scopes.noalias);
  if (access->mayReadFromMemory() && !access->mayWriteToMemory() && is_constant_memory(buffer))
    access->setMetadata(llvm::LLVMContext::MD_invariant_load, llvm::MDNode::get(context, {}));
  return access;
}

llvm::Align FunctionEmitter::element_align(const BufferNode* buffer) {
  return llvm::Align(buffer->alignment == 1 ? 1 : buffer->dtype.bytes());
}

llvm::Value* FunctionEmitter::from_memory(DType dtype, llvm::Value* value) {
  return dtype.is_bool() ? b.CreateIsNotNull(value) : value;
}

llvm::Value* FunctionEmitter::to_memory(DType dtype, llvm::Value* value) {
  return dtype.is_bool() ? b.CreateZExt(value, with_lanes_of(b.getInt8Ty(), value->getType())) : value;
}

/// Null when every lane is on.
llvm::Value* FunctionEmitter::emit_mask(const Expr& mask) {
  if (!mask) return nullptr;
  const std::int64_t* constant = as_int(mask);
  return constant && *constant != 0 ? nullptr : emit(mask);
}

llvm::Value* FunctionEmitter::reverse(llvm::Value* vector) {
  const int lanes = llvm::cast<llvm::FixedVectorType>(vector->getType())->getNumElements();
  std::vector<int> order(lanes);
  for (int i = 0; i < lanes; ++i) order[i] = lanes - 1 - i;
  return b.CreateShuffleVector(vector, order);
}

/// The part of a mask, its lanes `step` apart and off in between, that begins at lane part * lanes.
llvm::Value* FunctionEmitter::spread_mask(llvm::Value* mask, int step, int part) {
  const auto lanes = static_cast<int>(llvm::cast<llvm::FixedVectorType>(mask->getType())->getNumElements());
  std::vector<int> order(static_cast<size_t>(lanes), lanes);
  for (int lane = 0; lane < lanes; ++lane) {
    const int place = part * lanes + lane;
    if (place % step == 0) order[static_cast<size_t>(lane)] = place / step;
  }
  return b.CreateShuffleVector(mask, llvm::Constant::getNullValue(mask->getType()), order);
}

llvm::Value* FunctionEmitter::emit_step(const Expr& stride) {
  llvm::Value* step = emit_index(stride);
  return stride->dtype == i64 ? step : b.CreateIntCast(step, b.getInt64Ty(), stride->dtype.is_signed());
}

FunctionEmitter::Offset FunctionEmitter::stepped(Offset offset, llvm::Value* step) {
  if (auto* constant = llvm::dyn_cast<llvm::ConstantInt>(step)) {
    offset.constant += constant->getSExtValue();
  } else {
    offset.variable = offset.variable ? add(offset.variable, step) : step;
  }
  return offset;
}

}  // namespace lathe::codegen
