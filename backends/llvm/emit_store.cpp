#include <llvm/IR/Constants.h>
#include <llvm/IR/IntrinsicsX86.h>
#include <llvm/TargetParser/Triple.h>

#include <algorithm>
#include <bit>
#include <numeric>
#include <optional>

#include "backends/llvm/emitter.h"

namespace lathe::codegen {
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

/// `count` lanes from the first on, in plain stores of 4, 2 and 1 of them or so. A mask in a vector register makes a
/// store of dozens of operations on some cores, and a branch a lane on others.
void FunctionEmitter::emit_store_pieces(const BufferNode* buffer, Offset first, llvm::Value* run, llvm::Align align,
                                        int count) {
  for (int at = 0; at < count;) {
    const auto lanes = static_cast<int>(std::bit_floor(static_cast<unsigned>(count - at)));
    std::vector<int> order(static_cast<size_t>(lanes));
    std::iota(order.begin(), order.end(), at);
    llvm::Value* piece =
        lanes == 1 ? b.CreateExtractElement(run, static_cast<std::uint64_t>(at)) : b.CreateShuffleVector(run, order);
    marked(b.CreateAlignedStore(piece, element_address(buffer, first, true), at == 0 ? align : element_align(buffer)),
           buffer);
    first.constant += lanes;
    at += lanes;
  }
}

/// Consecutive elements, as they are in memory. `mask` is null, or a vector of their lanes (also of one).
void FunctionEmitter::emit_store_run(const BufferNode* buffer, Offset first, llvm::Value* run, llvm::Align align,
                                     llvm::Value* mask) {
  if (mask && kernel.device.mask_registers == 0 && lanes_of(mask) > 1) {
    if (const auto on = first_lanes(mask)) return emit_store_pieces(buffer, first, run, align, *on);
  }
  llvm::Value* address = element_address(buffer, first, mask == nullptr);
  if (mask) {
    marked(b.CreateMaskedStore(run, address, align, loaded_mask(mask)), buffer);
    return;
  }
  llvm::Instruction* store = marked(b.CreateAlignedStore(run, address, align), buffer);
  if (streaming_ && goes_past_caches(buffer, run->getType(), align)) {
    llvm::Metadata* one = llvm::ConstantAsMetadata::get(b.getInt32(1));
    store->setMetadata(llvm::LLVMContext::MD_nontemporal, llvm::MDNode::get(context, one));
    streamed_ = true;
  }
}

/// Steps of 2 to 4: whole vectors of which lanes in between are off.
void FunctionEmitter::emit_spread_store(const BufferNode* buffer, Offset offset, int step, llvm::Value* value,
                                        llvm::Value* mask) {
  const int lanes = lanes_of(value);
  if (!mask) mask = splat(b, b.getTrue(), lanes);
  for (int part = 0; part < step; ++part, offset.constant += lanes) {
    std::vector<int> values(static_cast<size_t>(lanes), -1);
    for (int lane = 0; lane < lanes; ++lane) {
      const int place = part * lanes + lane;
      if (place % step == 0) values[static_cast<size_t>(lane)] = place / step;
    }
    emit_store_run(buffer, offset, b.CreateShuffleVector(value, values), element_align(buffer),
                   spread_mask(mask, step, part));
  }
}

/// Lanes that meet in one element: a scatter keeps their order, so the last one stays.
void FunctionEmitter::emit_scatter(const BufferNode* buffer, const Expr& index, llvm::Value* value, llvm::Value* mask) {
  const int lanes = lanes_of(value);
  llvm::Value* places = emit(index);
  if (index->dtype.lanes == 1) places = splat(b, places, lanes);
  if (!(index->dtype.element() == i64))
    places = b.CreateIntCast(places, with_lanes_of(b.getInt64Ty(), places->getType()), index->dtype.is_signed());
  llvm::Value* addresses = b.CreateGEP(value->getType()->getScalarType(), base_pointer(buffer), places);
  if (mask && kernel.device.mask_registers == 0) {
    return emit_store_lanes(buffer, value, mask,
                            [&](int i) { return b.CreateExtractElement(addresses, static_cast<std::uint64_t>(i)); });
  }
  if (!mask) mask = splat(b, b.getTrue(), lanes);
  marked(b.CreateMaskedScatter(value, addresses, element_align(buffer), mask), buffer);
}

/// On the stack, as cores must not share it.
llvm::Value* FunctionEmitter::sink() {
  if (sink_ == nullptr) sink_ = prologue.CreateAlloca(prologue.getInt64Ty());
  return sink_;
}

/// Elements one by one, in order, each to its lane's address, or, where that is off, to the sink: a branch a lane takes
/// long to compile.
void FunctionEmitter::emit_store_lanes(const BufferNode* buffer, llvm::Value* value, llvm::Value* mask,
                                       const std::function<llvm::Value*(int)>& address) {
  for (int i = 0; i < lanes_of(value); ++i) {
    llvm::Value* place = address(i);
    llvm::Value* on = b.CreateExtractElement(mask, static_cast<std::uint64_t>(i));
    if (const auto* known = llvm::dyn_cast<llvm::Constant>(on); known && known->isZeroValue()) continue;
    llvm::Value* element = b.CreateExtractElement(value, static_cast<std::uint64_t>(i));
    marked(b.CreateAlignedStore(element, b.CreateSelect(on, place, sink()), element_align(buffer)), buffer);
  }
}

void FunctionEmitter::emit_store(const Store* node) {
  llvm::Value* const stored = emit(node->value);
  llvm::Value* mask = emit_mask(node->mask);
  if (node->buffer->space == space::registers) return emit_register_store(node, stored, mask);
  const BufferNode* buffer = node->buffer.get();
  const Expr& index = node->indices[0];
  const int lanes = node->value->dtype.lanes;
  masked_store_ = {};
  llvm::Value* value = to_memory(node->value->dtype, stored);
  if (lanes == 1) {
    if (mask) {
      value = b.CreateVectorSplat(1, value);
      mask = b.CreateVectorSplat(1, mask);
    }
    return emit_store_run(buffer, split_offset(index), value, access_alignment(buffer, index), mask);
  }
  auto* ramp = index.as<Ramp>();
  if (!ramp) return emit_scatter(buffer, index, value, mask);
  const std::int64_t* constant = as_int(ramp->stride);
  const std::int64_t stride = constant ? *constant : 0;
  if (stride == 1) {
    if (prefetch_.variable && !mask) emit_prefetch(buffer, ramp->base, Asked::store);
    emit_store_run(buffer, split_offset(ramp->base), value, access_alignment(buffer, ramp->base), mask);
    if (mask && is_pure_index(ramp->base)) masked_store_ = {buffer, index, mask, stored, b.GetInsertBlock()};
    return;
  }
  if (stride == -1) {
    Offset last = split_offset(ramp->base);
    last.constant -= lanes - 1;
    return emit_store_run(buffer, last, reverse(value), element_align(buffer), mask ? reverse(mask) : nullptr);
  }
  if (stride >= 2 && stride <= 4 && lanes >= 4 && kernel.device.mask_registers > 0)
    return emit_spread_store(buffer, split_offset(ramp->base), static_cast<int>(stride), value, mask);
  if (mask && kernel.device.mask_registers > 0) return emit_scatter(buffer, index, value, mask);
  Offset offset = split_offset(ramp->base);
  llvm::Value* step = emit_step(ramp->stride);
  if (mask) {
    return emit_store_lanes(buffer, value, mask, [&](int) {
      llvm::Value* place = element_address(buffer, offset, false);
      offset = stepped(offset, step);
      return place;
    });
  }
  for (int i = 0; i < lanes; ++i, offset = stepped(offset, step))
    emit_store_run(buffer, offset, b.CreateExtractElement(value, std::uint64_t(i)), element_align(buffer), nullptr);
}

}  // namespace lathe::codegen
