#include <llvm/IR/Constants.h>
#include <llvm/IR/Intrinsics.h>
#include <llvm/IR/IntrinsicsX86.h>

#include "backends/llvm/values.h"

namespace lathe::codegen {
namespace {

/// `count` lanes of v from `first` on; those past its end are any, or go on at its beginning.
llvm::Value* slice(Builder& b, llvm::Value* v, int first, int count, bool around) {
  const int lanes = lanes_of(v);
  if (lanes == 1) return splat(b, v, count);
  if (lanes == count) return v;
  std::vector<int> order(static_cast<size_t>(count), -1);
  for (int i = 0; i < count; ++i) {
    if (around || first + i < lanes) order[static_cast<size_t>(i)] = (first + i) % lanes;
  }
  return b.CreateShuffleVector(v, order);
}

/// The instruction for elements of 8 or 16 bits, out of one register or two.
llvm::Intrinsic::ID permutes_narrow(int bits, bool two) {
  using namespace llvm::Intrinsic;
  if (bits == 8) return two ? x86_avx512_vpermi2var_qi_512 : x86_avx512_permvar_qi_512;
  return two ? x86_avx512_vpermi2var_hi_512 : x86_avx512_permvar_hi_512;
}

}  // namespace

/// Elements of 8 or 16 bits, of which there are up to four registers, by as many `n` of the same bits as one holds.
llvm::Value* FloatEmitter::permute_narrow(llvm::Value* v, llvm::Value* n) {
  const int lanes = lanes_of(n), table = lanes_of(v), bits = static_cast<int>(n->getType()->getScalarSizeInBits());
  if (table <= lanes) return b.CreateIntrinsic(permutes_narrow(bits, false), {}, {slice(b, v, 0, lanes, true), n});
  const auto of_two = [&](int first) {
    return b.CreateIntrinsic(permutes_narrow(bits, true), {},
                             {slice(b, v, first, lanes, true), n, slice(b, v, first + lanes, lanes, true)});
  };
  if (table <= 2 * lanes) return of_two(0);
  llvm::Value* further = b.CreateAnd(n, int_constant(n->getType(), std::int64_t{2} * lanes));
  return b.CreateSelect(b.CreateICmpNE(further, int_constant(n->getType(), 0)), of_two(2 * lanes), of_two(0));
}

/// One instruction: `n` fills a register, and `v` is a power of two of lanes up to two registers. Of four lanes both
/// halves of a register may hold all.
llvm::Value* FloatEmitter::permute_whole(llvm::Value* v, llvm::Value* n) {
  using namespace llvm::Intrinsic;
  const int lanes = lanes_of(n);
  const bool wide = n->getType()->getPrimitiveSizeInBits() == 512, single = n->getType()->getScalarSizeInBits() == 32;
  if (single && !wide && lanes_of(v) <= 4)
    return b.CreateIntrinsic(x86_avx_vpermilvar_ps_256, {}, {slice(b, v, 0, lanes, true), n});
  if (lanes_of(v) <= lanes) {
    const ID narrow = single ? x86_avx2_permps : x86_avx512_permvar_df_256;
    const ID full = single ? x86_avx512_permvar_sf_512 : x86_avx512_permvar_df_512;
    return b.CreateIntrinsic(wide ? full : narrow, {}, {slice(b, v, 0, lanes, true), n});
  }
  const ID narrow = single ? x86_avx512_vpermi2var_ps_256 : x86_avx512_vpermi2var_pd_256;
  const ID full = single ? x86_avx512_vpermi2var_ps_512 : x86_avx512_vpermi2var_pd_512;
  return b.CreateIntrinsic(wide ? full : narrow, {}, {slice(b, v, 0, lanes, true), n, slice(b, v, lanes, lanes, true)});
}

llvm::Value* FloatEmitter::permute(llvm::Value* v, llvm::Value* n) {
  const int table = lanes_of(v), count = lanes_of(n);
  llvm::Type* element = v->getType()->getScalarType();
  const int bits = static_cast<int>(element->getScalarSizeInBits());
  if (table == 1) return splat(b, v, count);
  const int half_register = 256 / bits, whole_register = 512 / bits;
  const bool narrow_elements = traits.least_permuted > 0 && bits >= traits.least_permuted && bits <= 16;
  const bool narrow_fits = !narrow_elements && table <= 2 * half_register;
  const bool by_eight = traits.permutes_eight && bits == 32 && table <= 8;
  const bool wide = traits.wide_vectors && (count > half_register || !narrow_fits);
  const int lanes = wide ? whole_register : half_register;
  llvm::Value* result = nullptr;
  const bool narrow_table = narrow_elements && table <= 4 * whole_register;
  if (narrow_table || by_eight || (traits.permutes && (bits == 32 || bits == 64) && table <= 2 * lanes)) {
    llvm::Type* seen = bits == 32 ? b.getFloatTy() : bits == 64 ? b.getDoubleTy() : b.getIntNTy(bits);
    llvm::Value* from = b.CreateBitCast(v, with_lanes_of(seen, v->getType()));
    if (narrow_table) n = b.CreateZExtOrTrunc(n, with_lanes_of(seen, n->getType()));
    for (int first = 0; first < count; first += lanes) {
      llvm::Value* places = slice(b, n, first, lanes, false);
      llvm::Value* part = narrow_table ? permute_narrow(from, places) : permute_whole(from, places);
      if (count == 1) return b.CreateBitCast(b.CreateExtractElement(part, std::uint64_t{0}), element);
      std::vector<int> order(static_cast<size_t>(count), -1);
      for (int i = 0; i < count; ++i)
        order[static_cast<size_t>(i)] = i < first ? i : i < first + lanes ? count + i - first : -1;
      llvm::Value* placed = part;
      if (count != lanes) {
        std::vector<int> widened(static_cast<size_t>(count), -1);
        for (int i = 0; i < lanes && first + i < count; ++i) widened[static_cast<size_t>(i)] = i;
        placed = b.CreateShuffleVector(part, widened);
      }
      result = result ? b.CreateShuffleVector(result, placed, order) : placed;
    }
    return b.CreateBitCast(result, with_lanes_of(element, n->getType()));
  }
  llvm::Value* within = b.CreateAnd(n, int_constant(n->getType(), table - 1));
  if (count == 1) return b.CreateExtractElement(v, within);
  result = llvm::PoisonValue::get(with_lanes_of(element, n->getType()));
  for (int i = 0; i < count; ++i) {
    llvm::Value* lane = b.CreateExtractElement(v, b.CreateExtractElement(within, static_cast<std::uint64_t>(i)));
    result = b.CreateInsertElement(result, lane, static_cast<std::uint64_t>(i));
  }
  return result;
}

}  // namespace lathe::codegen
