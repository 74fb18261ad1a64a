#include <llvm/IR/Constants.h>
#include <llvm/IR/IntrinsicsX86.h>

#include <algorithm>
#include <numeric>

#include "backends/llvm/emitter.h"

namespace lathe::codegen {
namespace {

/// Shuffles of shuffles that instruction selection is left to look through.
constexpr int deepest_chain = 2;

int shuffled_depth(const Shuffle* node) {
  int depth = 1;
  for (; node->vectors[0].as<Shuffle>() && depth <= deepest_chain; ++depth) node = node->vectors[0].as<Shuffle>();
  return depth;
}

}  // namespace

/// A short vector again and again: one wide element in every lane.
llvm::Value* FunctionEmitter::emit_repeated(const Shuffle* node, llvm::ArrayRef<llvm::Value*> vectors) {
  const DType whole = node->vectors[0]->dtype;
  const int group = whole.lanes, bits = group * whole.bits, lanes = node->dtype.lanes;
  if (vectors.size() != 1 || group < 2 || lanes <= group || lanes % group != 0 || whole.is_bool()) return nullptr;
  if (bits != 16 && bits != 32 && bits != 64) return nullptr;
  for (int i = 0; i < lanes; ++i) {
    if (node->lanes[static_cast<size_t>(i)] != i % group) return nullptr;
  }
  llvm::Value* element = seen_as(vectors[0], b.getIntNTy(static_cast<unsigned>(bits)));
  return seen_as(repeated(element, lanes / group), value_type(context, node->dtype));
}

/// Vectors of bytes or words that make up 512 bits: end to end, then every lane to its place by one instruction. Its
/// places are loaded, so that instruction selection does not look for shuffles that would do.
llvm::Value* FunctionEmitter::emit_permuted(const Shuffle* node, std::vector<llvm::Value*> vectors) {
  const int lanes = node->dtype.lanes, bits = node->dtype.bits, least = kernel.traits.least_permuted;
  if (lanes * bits != 512 || bits > 16 || bits < least || least == 0 || node->dtype.is_bool()) return nullptr;
  for (int size = lanes / static_cast<int>(vectors.size()); vectors.size() > 1; size *= 2) {
    std::vector<int> both(static_cast<size_t>(2 * size));
    std::iota(both.begin(), both.end(), 0);
    const size_t half = vectors.size() / 2;
    for (size_t i = 0; i < half; ++i) vectors[i] = b.CreateShuffleVector(vectors[2 * i], vectors[2 * i + 1], both);
    vectors.resize(half);
  }
  llvm::Type* element = b.getIntNTy(static_cast<unsigned>(bits));
  llvm::SmallVector<llvm::Constant*, 64> places;
  for (const int lane : node->lanes) places.push_back(int_constant(element, lane));
  llvm::Constant* order = llvm::ConstantVector::get(places);
  llvm::Value*& loaded = loaded_constants_[order];
  if (!loaded) loaded = load_stored(prologue, order, order);
  const auto permute =
      bits == 8 ? llvm::Intrinsic::x86_avx512_permvar_qi_512 : llvm::Intrinsic::x86_avx512_permvar_hi_512;
  return b.CreateIntrinsic(permute, {}, {vectors[0], loaded});
}

/// Lanes of two vectors by one instruction, whose places are loaded: what instruction selection makes of long chains of
/// shuffles takes it tens of milliseconds.
llvm::Value* FunctionEmitter::emit_picked(llvm::Value* first, llvm::Value* second, llvm::ArrayRef<int> lanes) {
  const auto* type = llvm::cast<llvm::FixedVectorType>(first->getType());
  const unsigned count = type->getNumElements(), bits = type->getScalarSizeInBits(), whole = count * bits;
  const bool fits = kernel.device.mask_registers > 0 && lanes.size() == count && (bits == 32 || bits == 64) &&
                    (whole == 256 || whole == 512);
  if (!fits) return b.CreateShuffleVector(first, second, lanes);
  llvm::SmallVector<llvm::Constant*, 16> places;
  for (const int lane : lanes) places.push_back(llvm::ConstantInt::get(b.getIntNTy(bits), std::max(lane, 0)));
  llvm::Constant* order = llvm::ConstantVector::get(places);
  namespace names = llvm::Intrinsic;
  const auto permute = bits == 32
                           ? whole == 512 ? names::x86_avx512_vpermi2var_ps_512 : names::x86_avx512_vpermi2var_ps_256
                       : whole == 512 ? names::x86_avx512_vpermi2var_pd_512
                                      : names::x86_avx512_vpermi2var_pd_256;
  llvm::Type* seen = llvm::FixedVectorType::get(bits == 32 ? b.getFloatTy() : b.getDoubleTy(), count);
  llvm::Value* picked =
      b.CreateIntrinsic(permute, {}, {seen_as(first, seen), load_stored(b, order, order), seen_as(second, seen)});
  return seen_as(picked, first->getType());
}

/// Vectors lane by lane in turn, a power of two of them: woven in pairs, so that each step is an unpacking of halves.
llvm::Value* FunctionEmitter::emit_interleaved(const Shuffle* node, llvm::ArrayRef<llvm::Value*> vectors) {
  const int count = static_cast<int>(vectors.size()), width = node->vectors[0]->dtype.lanes;
  if (count < 2 || (count & (count - 1)) != 0 || width < 2 || node->dtype.lanes != count * width) return nullptr;
  for (const Expr& e : node->vectors) {
    if (e->dtype.lanes != width) return nullptr;
  }
  for (int i = 0; i < count * width; ++i) {
    if (node->lanes[static_cast<size_t>(i)] != i % count * width + i / count) return nullptr;
  }
  std::vector<llvm::Value*> level(vectors.begin(), vectors.end());
  if (llvm::Value* permuted = emit_permuted(node, level)) return permuted;
  for (int size = width; level.size() > 1; size *= 2) {
    std::vector<int> woven;
    for (int i = 0; i < size; ++i) woven.insert(woven.end(), {i, size + i});
    const size_t half = level.size() / 2;
    for (size_t i = 0; i < half; ++i) level[i] = b.CreateShuffleVector(level[i], level[i + half], woven);
    level.resize(half);
  }
  return level[0];
}

llvm::Value* FunctionEmitter::emit_shuffle(const Shuffle* node) {
  llvm::SmallVector<llvm::Value*, 4> vectors;
  std::vector<int> starts;
  bool uniform = true;
  int total = 0;
  for (const Expr& e : node->vectors) {
    vectors.push_back(emit(e));
    starts.push_back(total);
    total += e->dtype.lanes;
    uniform = uniform && e->dtype == node->vectors[0]->dtype && e->dtype.lanes > 1;
  }
  const int lanes = node->dtype.lanes;
  if (lanes == 1) {
    size_t k = starts.size() - 1;
    while (starts[k] > node->lanes[0]) --k;
    return node->vectors[k]->dtype.lanes == 1 ? vectors[k]
                                              : b.CreateExtractElement(vectors[k], node->lanes[0] - starts[k]);
  }
  if (total == static_cast<int>(vectors.size()) &&
      std::all_of(vectors.begin(), vectors.end(), [](llvm::Value* v) { return llvm::isa<llvm::Constant>(v); })) {
    llvm::SmallVector<llvm::Constant*, 16> numbers;
    for (const int lane : node->lanes) numbers.push_back(llvm::cast<llvm::Constant>(vectors[lane]));
    return llvm::ConstantVector::get(numbers);
  }
  if (llvm::Value* repeated = emit_repeated(node, vectors)) return repeated;
  if (llvm::Value* woven = emit_interleaved(node, vectors)) return woven;
  if (uniform && vectors.size() == 2 && shuffled_depth(node) > deepest_chain && node->vectors[0]->dtype.lanes == lanes)
    return emit_picked(vectors[0], vectors[1], node->lanes);
  if (uniform && vectors.size() <= 2)
    return b.CreateShuffleVector(
        vectors[0], vectors.size() == 2 ? vectors[1] : llvm::PoisonValue::get(vectors[0]->getType()), node->lanes);
  // Operands of different widths are first laid end to end: pairs are joined after widening each to the whole.
  llvm::Value* joined = nullptr;
  llvm::Type* whole = llvm::FixedVectorType::get(value_type(context, node->dtype.element()), total);
  for (size_t k = 0; k < vectors.size(); ++k) {
    const int count = node->vectors[k]->dtype.lanes;
    llvm::Value* wide;
    if (count == 1) {
      wide = b.CreateInsertElement(joined ? joined : llvm::PoisonValue::get(whole), vectors[k], b.getInt64(starts[k]));
    } else {
      std::vector<int> place(total, -1), merge(total);
      for (int i = 0; i < count; ++i) place[starts[k] + i] = i;
      wide = b.CreateShuffleVector(vectors[k], place);
      if (joined) {
        for (int i = 0; i < total; ++i) merge[i] = i < starts[k] ? i : total + i;
        wide = b.CreateShuffleVector(joined, wide, merge);
      }
    }
    joined = wide;
  }
  if (total == 1) return repeated(vectors[0], lanes);
  return b.CreateShuffleVector(joined, node->lanes);
}

}  // namespace lathe::codegen
