#include <llvm/IR/IntrinsicsX86.h>

#include <numeric>

#include "backends/llvm/emitter.h"
#include "ir/intrinsics.h"

namespace lathe::codegen {
namespace {

/// An instruction for the dot of one vector register of 32-bit sums.
struct DotInstruction {
  llvm::Intrinsic::ID id;
  DType a, b;  ///< elements; the first operand's and the second's
};

bool takes(const DotInstruction& instruction, DType a, DType b) {
  return instruction.a == a && instruction.b == b;
}

/// The instruction for sums of `lanes` lanes; none when the target has none.
llvm::Intrinsic::ID find_instruction(const TargetTraits& traits, int lanes, DType a, DType b) {
  namespace I = llvm::Intrinsic;
  const int width = lanes == 4 ? 0 : lanes == 8 ? 1 : lanes == 16 ? 2 : -1;
  if (width < 0 || (width == 2 && !traits.wide_vectors)) return I::not_intrinsic;
  constexpr I::ID bytes[] = {I::x86_avx512_vpdpbusd_128, I::x86_avx512_vpdpbusd_256, I::x86_avx512_vpdpbusd_512};
  constexpr I::ID words[] = {I::x86_avx512_vpdpwssd_128, I::x86_avx512_vpdpwssd_256, I::x86_avx512_vpdpwssd_512};
  constexpr I::ID halves[] = {I::x86_avx512bf16_dpbf16ps_128, I::x86_avx512bf16_dpbf16ps_256,
                              I::x86_avx512bf16_dpbf16ps_512};
  if (traits.integer_dot && takes({bytes[width], u8, i8}, a, b)) return bytes[width];
  if (traits.integer_dot && takes({words[width], i16, i16}, a, b)) return words[width];
  if (traits.bfloat_dot && takes({halves[width], bf16, bf16}, a, b)) return halves[width];
  return I::not_intrinsic;
}

/// x86's multiplication of pairs of 16-bit integers whose two products are added.
llvm::Intrinsic::ID pair_instruction(const TargetTraits& traits, int lanes) {
  if (!traits.pair_products) return llvm::Intrinsic::not_intrinsic;
  if (lanes == 4) return llvm::Intrinsic::x86_sse2_pmadd_wd;
  if (lanes == 8 && traits.pair_products >= 256) return llvm::Intrinsic::x86_avx2_pmadd_wd;
  if (lanes == 16 && traits.pair_products >= 512) return llvm::Intrinsic::x86_avx512_pmaddw_d_512;
  return llvm::Intrinsic::not_intrinsic;
}

}  // namespace

llvm::Value* FunctionEmitter::lanes_from(llvm::Value* vector, int first, int count) {
  std::vector<int> lanes(static_cast<size_t>(count));
  std::iota(lanes.begin(), lanes.end(), first);
  return b.CreateShuffleVector(vector, lanes);
}

/// The 16-bit integers at the even (`odd` 0) or odd places of pairs of 8-bit ones.
llvm::Value* FunctionEmitter::every_other(DType bytes, llvm::Value* vector, int odd) {
  const auto count = llvm::cast<llvm::FixedVectorType>(vector->getType())->getNumElements() / 2;
  llvm::Value* pairs = seen_as(vector, llvm::FixedVectorType::get(b.getInt16Ty(), count));
  llvm::Value* eight = llvm::ConstantInt::get(pairs->getType(), 8);
  if (odd == 0) pairs = combine(llvm::Instruction::Shl, pairs, eight);
  return combine(bytes.is_signed() ? llvm::Instruction::AShr : llvm::Instruction::LShr, pairs, eight);
}

/// The portable form, as ir/intrinsics.h has it (dot_as_sum).
llvm::Value* FunctionEmitter::emit_dot_as_sum(const Call* node) {
  const int lanes = node->dtype.lanes, group = node->args[1]->dtype.lanes / lanes;
  llvm::Value* total = emit(node->args[0]);
  llvm::Value* factors[] = {emit(node->args[1]), emit(node->args[2])};
  for (int t = 0; t < group; ++t) {
    llvm::Value* widened[2];
    for (const size_t k : {0, 1}) {
      std::vector<int> chosen;
      chosen.reserve(static_cast<size_t>(lanes));
      for (int lane = 0; lane < lanes; ++lane) chosen.push_back(lane * group + t);
      llvm::Value* part = group == 1   ? factors[k]
                          : lanes == 1 ? b.CreateExtractElement(factors[k], static_cast<std::uint64_t>(t))
                                       : b.CreateShuffleVector(factors[k], chosen);
      widened[k] = emit_cast(node->dtype, node->args[k + 1]->dtype.with_lanes(lanes), part);
    }
    total =
        emit_binary(BinaryOp::add, node->dtype, total, emit_binary(BinaryOp::mul, node->dtype, widened[0], widened[1]));
  }
  return total;
}

llvm::Value* FunctionEmitter::emit_dot(const Call* node) {
  const DType sum = node->dtype, a = node->args[1]->dtype, c = node->args[2]->dtype;
  const int lanes = sum.lanes, group = a.lanes / lanes;
  if ((lanes & (lanes - 1)) != 0 || lanes < 4) return emit_dot_as_sum(node);
  int width = lanes;
  DType first = a.element(), second = c.element();
  const bool swapped = first == i8 && second == u8;
  if (swapped) std::swap(first, second);
  const bool groups = (group == 4 && first.bits == 8) || (group == 2 && first.bits == 16);
  const bool bytes = sum.element() == i32 && group == 4 && first.bits == 8 && second.bits == 8;
  const auto whole = [&](int n) { return find_instruction(kernel.traits, n, first, second); };
  const auto pair = [&](int n) { return pair_instruction(kernel.traits, n); };
  const bool fits = sum.element() == (first == bf16 ? f32 : i32);
  while (width >= 4 && !(groups && fits && whole(width)) && !(bytes && pair(width))) width /= 2;
  if (width < 4) return emit_dot_as_sum(node);
  llvm::Value* total = emit(node->args[0]);
  llvm::Value* x = emit(node->args[swapped ? 2 : 1]);
  llvm::Value* y = emit(node->args[swapped ? 1 : 2]);
  std::vector<llvm::Value*> level;
  for (int at = 0; at < lanes; at += width) {
    const auto part = [&](llvm::Value* v, int scale) {
      return width == lanes ? v : lanes_from(v, at * scale, width * scale);
    };
    llvm::Value *t = part(total, 1), *p = part(x, group), *q = part(y, group);
    if (const auto id = groups && fits ? whole(width) : llvm::Intrinsic::not_intrinsic) {
      auto* operand = llvm::FixedVectorType::get(first == bf16 ? b.getBFloatTy() : b.getInt32Ty(),
                                                 static_cast<unsigned>(first == bf16 ? 2 * width : width));
      t = b.CreateIntrinsic(id, {}, {t, seen_as(p, operand), seen_as(q, operand)});
    } else {
      for (const int odd : {0, 1}) {
        t = b.CreateAdd(t,
                        b.CreateIntrinsic(pair(width), {}, {every_other(first, p, odd), every_other(second, q, odd)}));
      }
    }
    level.push_back(t);
  }
  // Halves are joined pairwise, as each shuffle takes two vectors of one width.
  for (int size = width; level.size() > 1; size *= 2) {
    std::vector<int> all(static_cast<size_t>(size) * 2);
    std::iota(all.begin(), all.end(), 0);
    std::vector<llvm::Value*> next;
    for (size_t i = 0; i + 1 < level.size(); i += 2) next.push_back(b.CreateShuffleVector(level[i], level[i + 1], all));
    level = std::move(next);
  }
  return level[0];
}

}  // namespace lathe::codegen
