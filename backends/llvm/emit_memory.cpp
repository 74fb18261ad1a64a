#include <llvm/IR/Constants.h>
#include <llvm/IR/Intrinsics.h>
#include <llvm/IR/IntrinsicsX86.h>
#include <llvm/TargetParser/Triple.h>

#include <algorithm>
#include <bit>
#include <numeric>
#include <optional>

#include "backends/llvm/emitter.h"
#include "ir/abi.h"
#include "ir/error.h"
#include "ir/storage.h"
#include "ir/structural.h"

namespace lathe::codegen {
namespace {

/// Steps between elements that whole loads and shuffles bring together on any machine.
constexpr std::int64_t few_steps = 4;

}  // namespace

// ---- addresses ----

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

template <class Instruction>
Instruction* FunctionEmitter::annotate(Instruction* access, const BufferNode* buffer, bool is_load) {
  const auto scopes = kernel.alias_scopes(buffer);
  if (scopes.scope) access->setMetadata(llvm::LLVMContext::MD_alias_scope, scopes.scope);
  if (scopes.noalias) access->setMetadata(llvm::LLVMContext::MD_noalias, scopes.noalias);
  if (is_load && is_constant_memory(buffer))
    access->setMetadata(llvm::LLVMContext::MD_invariant_load, llvm::MDNode::get(context, {}));
  return access;
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

// ---- loads ----

/// Consecutive elements, as they are in memory. `mask` is null, or a vector of `lanes` (also of one).
llvm::Value* FunctionEmitter::emit_load_run(const BufferNode* buffer, Offset first, int lanes, llvm::Align align,
                                            llvm::Value* mask) {
  llvm::Type* element = element_memory_type(context, buffer->dtype);
  llvm::Value* address = element_address(buffer, first, mask == nullptr);
  llvm::Type* type = lanes == 1 && !mask ? element : llvm::FixedVectorType::get(element, lanes);
  if (mask) mask = loaded_mask(mask);
  const auto load = [&]() -> llvm::Value* {
    if (!mask) return annotate(b.CreateAlignedLoad(type, address, align), buffer, true);
    return annotate(b.CreateMaskedLoad(type, address, align, mask, llvm::Constant::getNullValue(type)), buffer, true);
  };
  // Memory that is written is read anew behind each write, and in each block: whatever jumps there may have written.
  if (is_constant_memory(buffer)) return known({llvm::Instruction::Load, address, mask, type, -1}, load);
  const Key key = {llvm::Instruction::Load, address, mask, type, memory_version_};
  if (auto found = known_.find(key); found != known_.end()) {
    if (llvm::cast<llvm::Instruction>(found->second)->getParent() != b.GetInsertBlock()) found->second = load();
    return found->second;
  }
  return known(key, load);
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

/// Unmasked, with a constant stride of 2 to 4, either way: whole vectors that stay between the first and the last
/// element, shuffled. They read what lies between elements, and throw it away; to the address sanitizer that may be
/// poisoned. Other strides: element by element, which on today's CPUs is no slower than a gather. With a mask, which
/// takes constant strides of 2 to 4: lanes in between are off.
llvm::Value* FunctionEmitter::emit_strided_load(const BufferNode* buffer, Offset base, const Expr& stride, int lanes,
                                                llvm::Value* mask) {
  llvm::Type* element = element_memory_type(context, buffer->dtype);
  const llvm::Align align(buffer->alignment == 1 ? 1 : buffer->dtype.bytes());
  const std::int64_t* constant = as_int(stride);
  if (mask) {
    const auto step = static_cast<int>(*constant);
    llvm::Value* result = nullptr;
    for (int part = 0; part < step; ++part) {
      llvm::Value* run = emit_load_run(buffer, {base.variable, base.constant + std::int64_t{part} * lanes}, lanes,
                                       align, spread_mask(mask, step, part));
      std::vector<int> order(static_cast<size_t>(lanes));
      for (int i = 0; i < lanes; ++i) {
        const int place = i * step - part * lanes;
        const bool here = place >= 0 && place < lanes;
        order[static_cast<size_t>(i)] = here ? (result ? lanes + place : place) : (result ? i : -1);
      }
      result = result ? b.CreateShuffleVector(result, run, order) : b.CreateShuffleVector(run, order);
    }
    return result;
  }
  // As many loads and shuffles as steps, in the place of a load and an insertion a lane.
  const std::int64_t most = kernel.device.mask_registers > 0 && buffer->dtype.bits >= 32
                                ? std::max<std::int64_t>(few_steps, lanes / 2)
                                : few_steps;
  const std::int64_t step = constant ? std::abs(*constant) : 0;
  if (step >= 2 && step <= most && lanes >= 4 && !kernel.address_sanitizer) {
    const bool back = *constant < 0;
    if (back) base.constant -= step * (lanes - 1);
    llvm::Value* result = nullptr;
    for (std::int64_t part = 0; part < step; ++part) {
      // The last load ends on the last element, so its start moves back.
      const std::int64_t start = part + 1 < step ? part * lanes : step * (lanes - 1) - (lanes - 1);
      llvm::Value* run = emit_load_run(buffer, {base.variable, base.constant + start}, lanes, align, nullptr);
      std::vector<int> order(lanes);
      for (int i = 0; i < lanes; ++i) {
        const std::int64_t element = (back ? lanes - 1 - i : i) * step, place = element - start;
        const bool here = place >= 0 && place < lanes && (part + 1 == step || element < (part + 1) * lanes);
        order[i] = here ? static_cast<int>(result ? lanes + place : place) : (result ? i : -1);
      }
      result = !result            ? b.CreateShuffleVector(run, order)
               : step > few_steps ? emit_picked(result, run, order)
                                  : b.CreateShuffleVector(result, run, order);
    }
    return result;
  }
  llvm::Value* apart = emit_step(stride);
  llvm::Value* result = llvm::PoisonValue::get(llvm::FixedVectorType::get(element, lanes));
  for (int i = 0; i < lanes; ++i, base = stepped(base, apart))
    result = b.CreateInsertElement(result, emit_load_run(buffer, base, 1, align, nullptr), b.getInt64(i));
  return result;
}

llvm::Value* FunctionEmitter::emit_load(const Load* node) {
  if (node->buffer->space == space::registers) return emit_register_load(node);
  const BufferNode* buffer = node->buffer.get();
  const DType dtype = node->dtype;
  const Expr& index = node->indices[0];
  const int lanes = dtype.lanes;
  llvm::Value* mask = emit_mask(node->mask);
  if (mask && lanes == 1) mask = b.CreateVectorSplat(1, mask);
  // Elements that all lanes take in are asked for where a loop asks for the parameter.
  const auto asks = [&](const Expr& element) {
    if (!mask && prefetch_.params.contains(buffer)) emit_prefetch(buffer, element, false);
  };
  if (lanes == 1) {
    asks(index);
    llvm::Value* loaded = emit_load_run(buffer, split_offset(index), 1, access_alignment(buffer, index), mask);
    if (mask) loaded = b.CreateExtractElement(loaded, std::uint64_t{0});
    return from_memory(dtype, loaded);
  }
  auto* ramp = index.as<Ramp>();
  auto* broadcast = index.as<Broadcast>();
  const std::int64_t* stride = ramp ? as_int(ramp->stride) : nullptr;
  const auto* constant = index.as<IntImm>();
  if (index->dtype.lanes == 1 || broadcast || constant || (stride && *stride == 0)) {
    const Expr scalar = broadcast  ? broadcast->value
                        : ramp     ? ramp->base
                        : constant ? lathe::index(constant->value)
                                   : index;
    asks(scalar);
    if (!mask) {
      llvm::Value* loaded = emit_load_run(buffer, split_offset(scalar), 1, access_alignment(buffer, scalar), nullptr);
      return from_memory(dtype, repeated(loaded, lanes));
    }
    llvm::Value* any = b.CreateVectorSplat(1, b.CreateOrReduce(mask));
    llvm::Value* loaded = emit_load_run(buffer, split_offset(scalar), 1, access_alignment(buffer, scalar), any);
    llvm::Value* all = splat(b, b.CreateExtractElement(loaded, std::uint64_t{0}), lanes);
    return from_memory(dtype, b.CreateSelect(mask, all, llvm::Constant::getNullValue(all->getType())));
  }
  // A mask that is known is that of a last tile, whose line the one before has asked for.
  const bool mostly_whole = !mask || !llvm::isa<llvm::Constant>(mask);
  if (prefetch_.variable && ramp && stride && *stride == 1 && mostly_whole) emit_prefetch(buffer, ramp->base, false);
  if (ramp && stride && *stride == 1) {
    if (mask && masked_store_.buffer == buffer && masked_store_.mask == mask &&
        masked_store_.block == b.GetInsertBlock() && equal(masked_store_.index, index))
      return b.CreateSelect(mask, masked_store_.value, llvm::Constant::getNullValue(masked_store_.value->getType()));
    return from_memory(
        dtype, emit_load_run(buffer, split_offset(ramp->base), lanes, access_alignment(buffer, ramp->base), mask));
  }
  const llvm::Align align(buffer->alignment == 1 ? 1 : buffer->dtype.bytes());
  if (ramp && stride && *stride == -1) {
    Offset last = split_offset(ramp->base);
    last.constant -= lanes - 1;
    llvm::Value* run = emit_load_run(buffer, last, lanes, align, mask ? reverse(mask) : nullptr);
    return from_memory(dtype, reverse(run));
  }
  const bool strided = stride && *stride >= 2 && *stride <= 4 && lanes >= 4 && kernel.device.mask_registers > 0;
  if (ramp && (!mask || strided))
    return from_memory(dtype, emit_strided_load(buffer, split_offset(ramp->base), ramp->stride, lanes, mask));
  llvm::Value* lanes_index = emit(index);
  if (!(index->dtype.element() == i64))
    lanes_index =
        b.CreateIntCast(lanes_index, with_lanes_of(b.getInt64Ty(), lanes_index->getType()), index->dtype.is_signed());
  return from_memory(dtype, emit_gather(buffer, lanes_index, align, mask));
}

/// Elements one by one at places that a vector holds. An instruction that gathers takes longer than their loads (on
/// Cascade Lake 30 cycles for any number of lanes, on Zen 4 26 for eight: Agner Fog's instruction tables), and a branch
/// a lane where the machine has none for such elements. Lanes that are off read a zero of the kernel's own.
llvm::Value* FunctionEmitter::emit_gather(const BufferNode* buffer, llvm::Value* places, llvm::Align align,
                                          llvm::Value* mask) {
  llvm::Type* element = element_memory_type(context, buffer->dtype);
  const auto lanes = llvm::cast<llvm::FixedVectorType>(places->getType())->getNumElements();
  llvm::Value* addresses = b.CreateGEP(element, base_pointer(buffer), places);
  if (mask) addresses = b.CreateSelect(mask, addresses, splat(b, zero_element(), static_cast<int>(lanes)));
  llvm::Value* result = llvm::PoisonValue::get(llvm::FixedVectorType::get(element, lanes));
  for (unsigned i = 0; i < lanes; ++i) {
    llvm::Value* address = b.CreateExtractElement(addresses, std::uint64_t{i});
    llvm::Value* one = annotate(b.CreateAlignedLoad(element, address, align), buffer, true);
    result = b.CreateInsertElement(result, one, std::uint64_t{i});
  }
  return result;
}

/// The address of an element of any type that is zero.
llvm::Value* FunctionEmitter::zero_element() {
  constexpr const char* symbol = "lathe_zero_element";
  if (llvm::GlobalVariable* found = kernel.module.getNamedGlobal(symbol)) return found;
  auto* type = llvm::Type::getInt64Ty(context);
  auto* zero = new llvm::GlobalVariable(kernel.module, type, true, llvm::GlobalValue::PrivateLinkage,
                                        llvm::ConstantInt::get(type, 0), symbol);
  zero->setAlignment(llvm::Align(8));
  return zero;
}

// ---- stores ----

namespace {

/// How many lanes are on where these are known, and the first ones; nothing otherwise.
std::optional<int> first_lanes(llvm::Value* mask) {
  auto* constant = llvm::dyn_cast<llvm::Constant>(mask);
  if (!constant) return std::nullopt;
  const int lanes = static_cast<int>(llvm::cast<llvm::FixedVectorType>(mask->getType())->getNumElements());
  int count = 0;
  for (int lane = 0; lane < lanes; ++lane) {
    auto* on = llvm::dyn_cast_or_null<llvm::ConstantInt>(constant->getAggregateElement(static_cast<unsigned>(lane)));
    if (!on || (on->isOne() && count < lane)) return std::nullopt;
    count += on->isOne() ? 1 : 0;
  }
  return count;
}

}  // namespace

/// Under a loop annotated with streaming_stores: whole vectors of a parameter that is never read here. A machine has
/// such stores at a vector's alignment only.
bool FunctionEmitter::goes_past_caches(const BufferNode* buffer, llvm::Type* run, llvm::Align align) const {
  constexpr std::uint64_t narrowest = 16;
  if (!run->isVectorTy() || !kernel.param_index.contains(buffer) || kernel.info.is_read(buffer)) return false;
  const std::uint64_t bytes = kernel.module.getDataLayout().getTypeStoreSize(run).getFixedValue();
  const auto register_bytes = static_cast<std::uint64_t>(kernel.device.vector_bits) / 8;
  return bytes >= narrowest && align.value() >= std::min(bytes, register_bytes);
}

/// x86 orders such stores with no others, an unlock of the thread pool's included: whoever is told that this function
/// has returned must find them done. Elsewhere every synchronization orders them.
void FunctionEmitter::fence_streamed_stores() {
  if (!llvm::Triple(kernel.module.getTargetTriple()).isX86()) return;
  for (llvm::BasicBlock& block : *function) {
    auto* end = llvm::dyn_cast_or_null<llvm::ReturnInst>(block.getTerminator());
    if (end) Builder(end).CreateIntrinsic(llvm::Intrinsic::x86_sse_sfence, {}, {});
  }
}

void FunctionEmitter::emit_store(const Store* node) {
  llvm::Value* value = emit(node->value);
  llvm::Value* mask = emit_mask(node->mask);
  if (node->buffer->space == space::registers) return emit_register_store(node, value, mask);
  const BufferNode* buffer = node->buffer.get();
  const Expr& index = node->indices[0];
  const int lanes = node->value->dtype.lanes;
  masked_store_ = {};
  llvm::Value* stored = value;
  value = to_memory(node->value->dtype, value);
  const llvm::Align element_align(buffer->alignment == 1 ? 1 : buffer->dtype.bytes());
  auto store_run = [&](Offset first, llvm::Value* run, llvm::Align align, llvm::Value* lanes_mask) {
    const auto on =
        lanes_mask && lanes > 1 && kernel.device.mask_registers == 0 ? first_lanes(lanes_mask) : std::nullopt;
    if (on) {
      // A mask in a vector register makes a store of dozens of operations on some cores, and a branch a lane on others:
      // plain stores of 4, 2 and 1 lanes are few.
      for (int at = 0; at < *on;) {
        const auto piece = static_cast<int>(std::bit_floor(static_cast<unsigned>(*on - at)));
        std::vector<int> order(static_cast<size_t>(piece));
        std::iota(order.begin(), order.end(), at);
        llvm::Value* part = piece == 1 ? b.CreateExtractElement(run, static_cast<std::uint64_t>(at))
                                       : b.CreateShuffleVector(run, order);
        annotate(b.CreateAlignedStore(part, element_address(buffer, first, true), at == 0 ? align : element_align),
                 buffer, false);
        first.constant += piece;
        at += piece;
      }
      return;
    }
    llvm::Value* address = element_address(buffer, first, lanes_mask == nullptr);
    if (!lanes_mask) {
      llvm::StoreInst* store = annotate(b.CreateAlignedStore(run, address, align), buffer, false);
      if (streaming_ && goes_past_caches(buffer, run->getType(), align)) {
        llvm::Metadata* one = llvm::ConstantAsMetadata::get(b.getInt32(1));
        store->setMetadata(llvm::LLVMContext::MD_nontemporal, llvm::MDNode::get(context, one));
        streamed_ = true;
      }
    } else {
      annotate(b.CreateMaskedStore(run, address, align, loaded_mask(lanes_mask)), buffer, false);
    }
  };
  if (lanes == 1) {
    if (mask) {
      value = b.CreateVectorSplat(1, value);
      mask = b.CreateVectorSplat(1, mask);
    }
    return store_run(split_offset(index), value, access_alignment(buffer, index), mask);
  }
  auto* ramp = index.as<Ramp>();
  const std::int64_t* stride = ramp ? as_int(ramp->stride) : nullptr;
  if (stride && *stride == 1) {
    if (prefetch_.variable && !mask) emit_prefetch(buffer, ramp->base, true);
    store_run(split_offset(ramp->base), value, access_alignment(buffer, ramp->base), mask);
    if (mask && is_pure_index(ramp->base)) masked_store_ = {buffer, index, mask, stored, b.GetInsertBlock()};
    return;
  }
  if (stride && *stride == -1) {
    Offset last = split_offset(ramp->base);
    last.constant -= lanes - 1;
    return store_run(last, reverse(value), element_align, mask ? reverse(mask) : nullptr);
  }
  // Whole vectors of which lanes in between are off.
  if (stride && *stride >= 2 && *stride <= 4 && lanes >= 4 && kernel.device.mask_registers > 0) {
    const auto step = static_cast<int>(*stride);
    Offset offset = split_offset(ramp->base);
    llvm::Value* on = mask ? mask : splat(b, b.getTrue(), lanes);
    for (int part = 0; part < step; ++part, offset.constant += lanes) {
      std::vector<int> values(static_cast<size_t>(lanes), -1);
      for (int lane = 0; lane < lanes; ++lane) {
        const int place = part * lanes + lane;
        if (place % step == 0) values[static_cast<size_t>(lane)] = place / step;
      }
      store_run(offset, b.CreateShuffleVector(value, values), element_align, spread_mask(on, step, part));
    }
    return;
  }
  if (ramp && !mask) {
    Offset offset = split_offset(ramp->base);
    llvm::Value* step = emit_step(ramp->stride);
    for (int i = 0; i < lanes; ++i, offset = stepped(offset, step))
      store_run(offset, b.CreateExtractElement(value, std::uint64_t(i)), element_align, nullptr);
    return;
  }
  // Lanes that meet in one element: a scatter keeps their order, so the last one stays.
  llvm::Value* lanes_index = emit(index);
  if (index->dtype.lanes == 1) lanes_index = splat(b, lanes_index, lanes);
  if (!(index->dtype.element() == i64))
    lanes_index =
        b.CreateIntCast(lanes_index, with_lanes_of(b.getInt64Ty(), lanes_index->getType()), index->dtype.is_signed());
  llvm::Value* addresses = b.CreateGEP(value->getType()->getScalarType(), base_pointer(buffer), lanes_index);
  annotate(b.CreateMaskedScatter(value, addresses, element_align, mask ? mask : splat(b, b.getTrue(), lanes)), buffer,
           false);
}

}  // namespace lathe::codegen
