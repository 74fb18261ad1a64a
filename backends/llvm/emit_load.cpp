#include <llvm/Analysis/VectorUtils.h>
#include <llvm/IR/Constants.h>

#include <algorithm>
#include <bit>
#include <numeric>

#include "backends/llvm/emitter.h"
#include "backends/llvm/values.h"
#include "ir/analysis/narrow.h"
#include "ir/structural.h"

namespace lathe::codegen {
namespace {

/// Steps between elements that whole loads and shuffles bring together on any machine.
constexpr std::int64_t few_steps = 4;
/// Registers out of which elements of less than 32 bits are picked.
constexpr std::int64_t most_picked_runs = 4;

/// The i32 lanes that a vector of places widens; null where it is none of such.
Expr widened_lanes(const Expr& places) {
  const Cast* cast = places ? places.as<Cast>() : nullptr;
  return cast && places->dtype.element() == i64 && cast->value->dtype.element() == i32 ? cast->value : nullptr;
}

/// Is a lane of the mask known to be off, as one that a constant leaves out is?
bool is_known_off(llvm::Value* mask, int lane) {
  if (auto* constant = llvm::dyn_cast<llvm::Constant>(mask)) {
    llvm::Constant* value = constant->getAggregateElement(static_cast<unsigned>(lane));
    return value && value->isZeroValue();
  }
  if (auto* freeze = llvm::dyn_cast<llvm::FreezeInst>(mask)) return is_known_off(freeze->getOperand(0), lane);
  if (auto* both = llvm::dyn_cast<llvm::BinaryOperator>(mask); both && both->getOpcode() == llvm::Instruction::And)
    return is_known_off(both->getOperand(0), lane) || is_known_off(both->getOperand(1), lane);
  auto* shuffle = llvm::dyn_cast<llvm::ShuffleVectorInst>(mask);
  if (!shuffle || shuffle->getMaskValue(static_cast<unsigned>(lane)) < 0) return false;
  const int from = shuffle->getMaskValue(static_cast<unsigned>(lane)), width = lanes_of(shuffle->getOperand(0));
  return is_known_off(shuffle->getOperand(from < width ? 0 : 1), from % width);
}

/// The same of as many lanes from one on.
bool are_known_off(llvm::Value* mask, int from, int count) {
  for (int lane = from; lane < from + count; ++lane) {
    if (!is_known_off(mask, lane)) return false;
  }
  return true;
}

}  // namespace

/// The one condition of a mask that has all lanes on or none, by which they come from where they lie or from zeros;
/// null otherwise. Masked loads of lanes that are off take some hundred cycles where their page is not there (Zen 4:
/// what lies before the first row of an image, 1.6 ms of a depthwise convolution of 0.6), and elements so narrow that
/// no instruction masks them a branch each.
llvm::Value* FunctionEmitter::shared_condition(llvm::Type* run, llvm::Value* mask) {
  if (lanes_of(mask) == 1 || kernel.module.getDataLayout().getTypeStoreSize(run).getFixedValue() > zero_bytes)
    return nullptr;
  return llvm::getSplatValue(mask);
}

/// Consecutive elements, as they are in memory. `mask` is null, or a vector of `lanes` (also of one).
llvm::Value* FunctionEmitter::emit_load_run(const BufferNode* buffer, Offset first, int lanes, llvm::Align align,
                                            llvm::Value* mask) {
  llvm::Type* element = element_memory_type(context, buffer->dtype);
  // LLVM 19 takes a mask of lanes that nobody wants, as those that are known to be off, for none at all: what it loads
  // of such a register's worth may lie outside of an array.
  if (mask && are_known_off(mask, 0, lanes))
    return llvm::Constant::getNullValue(llvm::FixedVectorType::get(element, lanes));
  const int whole = kernel.device.vector_bits / buffer->dtype.bits;
  bool parts_off = false;
  if (mask && kernel.device.mask_registers == 0 && lanes > whole) {
    for (int from = 0; from + whole <= lanes; from += whole) parts_off |= are_known_off(mask, from, whole);
  }
  if (parts_off) {
    const int low_lanes = std::max(whole, lanes / 2 / whole * whole);
    const auto part = [&](int from, int count, llvm::Align part_align) {
      std::vector<int> order(static_cast<size_t>(count)), filled(static_cast<size_t>(lanes), -1);
      std::iota(order.begin(), order.end(), from);
      std::iota(filled.begin(), filled.begin() + count, 0);
      llvm::Value* run = emit_load_run(buffer, {first.variable, first.constant + from}, count, part_align,
                                       b.CreateShuffleVector(mask, order));
      return b.CreateShuffleVector(run, filled);
    };
    llvm::Value* low = part(0, low_lanes, align);
    llvm::Value* high = part(low_lanes, lanes - low_lanes, std::min(align, element_align(buffer)));
    std::vector<int> order(static_cast<size_t>(lanes));
    std::iota(order.begin(), order.begin() + low_lanes, 0);
    std::iota(order.begin() + low_lanes, order.end(), lanes);
    return b.CreateShuffleVector(low, high, order);
  }
  llvm::Value* address = element_address(buffer, first, mask == nullptr);
  llvm::Type* type = lanes == 1 && !mask ? element : llvm::FixedVectorType::get(element, lanes);
  if (mask) mask = loaded_mask(mask);
  const auto load = [&]() -> llvm::Value* {
    if (!mask) return marked(b.CreateAlignedLoad(type, address, align), buffer);
    if (llvm::Value* all = shared_condition(type, mask))
      return marked(
          b.CreateAlignedLoad(type, b.CreateSelect(all, address, zeros()), std::min(align, llvm::Align(zero_bytes))),
          buffer);
    return marked(b.CreateMaskedLoad(type, address, align, mask, llvm::Constant::getNullValue(type)), buffer);
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

/// Unmasked, with a constant stride of 2 to 4, either way: whole vectors that stay between the first and the last
/// element, shuffled. They read what lies between elements, and throw it away; to the address sanitizer that may be
/// poisoned. Other strides: element by element, which on today's CPUs is no slower than a gather. With a mask, which
/// takes constant strides of 2 to 4: lanes in between are off.
llvm::Value* FunctionEmitter::emit_strided_load(const BufferNode* buffer, Offset base, const Expr& stride, int lanes,
                                                llvm::Value* mask) {
  llvm::Type* element = element_memory_type(context, buffer->dtype);
  const llvm::Align align = element_align(buffer);
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
    return emit_picks(buffer, base, *constant, lanes, lanes);
  }
  if (llvm::Value* picked = emit_narrow_picks(buffer, base, constant ? *constant : 0, lanes)) return picked;
  llvm::Value* apart = emit_step(stride);
  llvm::Value* result = llvm::PoisonValue::get(llvm::FixedVectorType::get(element, lanes));
  for (int i = 0; i < lanes; ++i, base = stepped(base, apart))
    result = b.CreateInsertElement(result, emit_load_run(buffer, base, 1, align, nullptr), b.getInt64(i));
  return result;
}

/// Elements a step apart out of runs of `length`, of which one shuffle after another takes what is there. The last run
/// ends on the last element, so its start moves back.
llvm::Value* FunctionEmitter::emit_picks(const BufferNode* buffer, Offset base, std::int64_t stride, int lanes,
                                         std::int64_t length) {
  const std::int64_t step = std::abs(stride), span = step * (lanes - 1) + 1, count = (span + length - 1) / length;
  if (stride < 0) base.constant -= span - 1;
  llvm::Value* result = nullptr;
  for (std::int64_t run = 0; run < count; ++run) {
    const std::int64_t start = run + 1 < count ? run * length : span - length;
    llvm::Value* elements = emit_load_run(buffer, {base.variable, base.constant + start}, static_cast<int>(length),
                                          element_align(buffer), nullptr);
    std::vector<int> order(static_cast<size_t>(length), -1);
    for (int i = 0; i < lanes; ++i) {
      const std::int64_t element = (stride < 0 ? lanes - 1 - i : i) * step, place = element - start;
      const bool here = place >= 0 && place < length && (run + 1 == count || element < (run + 1) * length);
      order[static_cast<size_t>(i)] = here ? static_cast<int>(result ? length + place : place) : result ? i : -1;
    }
    result = !result             ? b.CreateShuffleVector(elements, order)
             : count > few_steps ? emit_picked(result, elements, order)
                                 : b.CreateShuffleVector(result, elements, order);
  }
  if (length == lanes) return result;
  std::vector<int> first(static_cast<size_t>(lanes));
  std::iota(first.begin(), first.end(), 0);
  return b.CreateShuffleVector(result, first);
}

/// Elements of less than 32 bits out of a few whole registers, two by an instruction where that takes them to any
/// place; null where they lie further apart, or nothing does so.
llvm::Value* FunctionEmitter::emit_narrow_picks(const BufferNode* buffer, Offset base, std::int64_t stride, int lanes) {
  const int bits = buffer->dtype.bits, least = kernel.traits.least_permuted;
  const std::int64_t step = std::abs(stride), span = step * (lanes - 1) + 1, whole = least > 0 ? 512 / bits : 0;
  const auto length = std::min<std::int64_t>(whole, static_cast<std::int64_t>(std::bit_floor(std::uint64_t(span))));
  if (least == 0 || bits < least || bits >= 32 || step < 2 || lanes < 4 || length < lanes ||
      span > most_picked_runs * length || kernel.address_sanitizer)
    return nullptr;
  return emit_picks(buffer, base, stride, lanes, length);
}

llvm::Value* FunctionEmitter::emit_load(const Load* node) {
  if (node->buffer->space == space::registers) return emit_register_load(node);
  const BufferNode* buffer = node->buffer.get();
  const DType dtype = node->dtype;
  const Expr& index = node->indices[0];
  const int lanes = dtype.lanes;
  llvm::Value* mask = emit_mask(node->mask);
  if (mask && lanes == 1) mask = b.CreateVectorSplat(1, mask);
  // Elements that all lanes take in are asked for where a loop asks for the parameter, or for the kernel's own arrays.
  const auto asks = [&](const Expr& element) {
    if (!mask && prefetch_.variable) emit_prefetch(buffer, element, Asked::element);
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
  if (prefetch_.variable && ramp && stride && *stride == 1 && mostly_whole)
    emit_prefetch(buffer, ramp->base, Asked::run);
  if (ramp && stride && *stride == 1) {
    if (mask && masked_store_.buffer == buffer && masked_store_.mask == mask &&
        masked_store_.block == b.GetInsertBlock() && equal(masked_store_.index, index))
      return b.CreateSelect(mask, masked_store_.value, llvm::Constant::getNullValue(masked_store_.value->getType()));
    return from_memory(
        dtype, emit_load_run(buffer, split_offset(ramp->base), lanes, access_alignment(buffer, ramp->base), mask));
  }
  const llvm::Align align = element_align(buffer);
  if (ramp && stride && *stride == -1) {
    Offset last = split_offset(ramp->base);
    last.constant -= lanes - 1;
    llvm::Value* run = emit_load_run(buffer, last, lanes, align, mask ? reverse(mask) : nullptr);
    return from_memory(dtype, reverse(run));
  }
  const bool strided = stride && *stride >= 2 && *stride <= 4 && lanes >= 4 &&
                       (kernel.device.mask_registers > 0 || (kernel.device.has_feature("avx2") && dtype.bits >= 32));
  if (ramp && (!mask || strided))
    return from_memory(dtype, emit_strided_load(buffer, split_offset(ramp->base), ramp->stride, lanes, mask));
  if (const auto [uniform, varying] = lane_sum(index); !mask && widened_lanes(varying))
    return from_memory(dtype, emit_narrow_gather(buffer, widened_lanes(varying), uniform, align));
  llvm::Value* lanes_index = emit(index);
  if (!(index->dtype.element() == i64))
    lanes_index =
        b.CreateIntCast(lanes_index, with_lanes_of(b.getInt64Ty(), lanes_index->getType()), index->dtype.is_signed());
  return from_memory(dtype, emit_gather(buffer, lanes_index, align, mask));
}

/// Elements one by one, each at its lane's address. An instruction that gathers takes longer than their loads (on
/// Cascade Lake 30 cycles for any number of lanes, on Zen 4 26 for eight: Agner Fog's instruction tables), and a branch
/// a lane where the machine has none for such elements.
llvm::Value* FunctionEmitter::emit_elements(const BufferNode* buffer, unsigned lanes, llvm::Align align,
                                            const std::function<llvm::Value*(unsigned)>& address) {
  llvm::Type* element = element_memory_type(context, buffer->dtype);
  llvm::Value* result = llvm::PoisonValue::get(llvm::FixedVectorType::get(element, lanes));
  for (unsigned i = 0; i < lanes; ++i) {
    llvm::Value* one = marked(b.CreateAlignedLoad(element, address(i), align), buffer);
    result = b.CreateInsertElement(result, one, std::uint64_t{i});
  }
  return result;
}

/// Elements at places that a vector holds. Lanes that are off read a zero of the kernel's own.
llvm::Value* FunctionEmitter::emit_gather(const BufferNode* buffer, llvm::Value* places, llvm::Align align,
                                          llvm::Value* mask) {
  llvm::Type* element = element_memory_type(context, buffer->dtype);
  const auto lanes = llvm::cast<llvm::FixedVectorType>(places->getType())->getNumElements();
  llvm::Value* addresses = b.CreateGEP(element, base_pointer(buffer), places);
  if (mask) addresses = b.CreateSelect(mask, addresses, splat(b, zeros(), static_cast<int>(lanes)));
  return emit_elements(buffer, lanes, align,
                       [&](unsigned i) { return b.CreateExtractElement(addresses, std::uint64_t{i}); });
}

/// Elements at i32 places beyond one that all lanes share, which may be null: each place is taken out of half as many
/// registers, and once for all loads at the same places beyond others.
llvm::Value* FunctionEmitter::emit_narrow_gather(const BufferNode* buffer, const Expr& narrow, const Expr& uniform,
                                                 llvm::Align align) {
  llvm::Type* element = element_memory_type(context, buffer->dtype);
  llvm::Value* places = emit(narrow);
  llvm::Value* base = base_pointer(buffer);
  if (uniform) base = b.CreateGEP(element, base, emit(uniform));
  return emit_elements(buffer, static_cast<unsigned>(narrow->dtype.lanes), align, [&](unsigned i) {
    return b.CreateGEP(element, base, b.CreateSExt(b.CreateExtractElement(places, std::uint64_t{i}), b.getInt64Ty()));
  });
}

/// The address of zeros, of an element of any type or of a vector of `zero_bytes` at the most.
llvm::Value* FunctionEmitter::zeros() {
  constexpr const char* symbol = "lathe_zeros";
  if (llvm::GlobalVariable* found = kernel.module.getNamedGlobal(symbol)) return found;
  auto* type = llvm::ArrayType::get(llvm::Type::getInt64Ty(context), zero_bytes / 8);
  auto* zero = new llvm::GlobalVariable(kernel.module, type, true, llvm::GlobalValue::PrivateLinkage,
                                        llvm::ConstantAggregateZero::get(type), symbol);
  zero->setAlignment(llvm::Align(zero_bytes));
  return zero;
}

}  // namespace lathe::codegen
