#include <llvm/IR/IntrinsicsX86.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "backends/llvm/values.h"

/// Estimates of reciprocals, exponents and mantissas: by AVX-512's instructions, or by arithmetic.
namespace lathe::codegen {

using llvm::Intrinsic::ID;

llvm::Value* FloatEmitter::in_registers(llvm::Value* x, llvm::function_ref<llvm::Value*(llvm::Value*)> of) {
  const int lanes = lanes_of(x), bits = static_cast<int>(x->getType()->getScalarSizeInBits());
  const auto chosen = [](int first, int count, int most) {
    llvm::SmallVector<int> order(static_cast<size_t>(count), -1);
    for (int i = 0; i < std::min(count, most - first); ++i) order[static_cast<size_t>(i)] = first + i;
    return order;
  };
  const int widest = 512 / bits;
  int held = 128 / bits;
  while (held < std::min(lanes, widest)) held *= 2;
  if (held == lanes) return of(x);
  if (!x->getType()->isVectorTy()) {
    auto* vector = llvm::FixedVectorType::get(x->getType(), static_cast<unsigned>(held));
    x = b.CreateInsertElement(llvm::PoisonValue::get(vector), x, std::uint64_t{0});
    return b.CreateExtractElement(of(x), std::uint64_t{0});
  }
  llvm::Value* all = nullptr;
  for (int first = 0; first < lanes; first += held) {
    llvm::Value* part = of(b.CreateShuffleVector(x, chosen(first, held, lanes)));
    part = b.CreateShuffleVector(part, chosen(0, lanes, held));
    llvm::SmallVector<int> order = chosen(0, lanes, lanes);
    for (int i = first; i < std::min(first + held, lanes); ++i) order[static_cast<size_t>(i)] = lanes + i - first;
    all = all ? b.CreateShuffleVector(all, part, order) : part;
  }
  return all;
}

namespace {

/// The one of six for vectors of x's type.
ID pick(llvm::Value* x, std::array<ID, 3> single, std::array<ID, 3> twice) {
  const std::array<ID, 3>& ids = x->getType()->getScalarType()->isFloatTy() ? single : twice;
  const auto bits = x->getType()->getPrimitiveSizeInBits().getFixedValue();
  return ids[bits == 128 ? 0 : bits == 256 ? 1 : 2];
}

/// Calls it with a mask of all lanes, and where vectors are of 512 bits with the current rounding.
llvm::Value* call(Builder& b, ID id, llvm::SmallVector<llvm::Value*> args, bool rounds) {
  llvm::Type* type = args[0]->getType();
  constexpr int current_rounding = 4;
  args.push_back(llvm::PoisonValue::get(type));
  args.push_back(llvm::Constant::getAllOnesValue(b.getIntNTy(static_cast<unsigned>(std::max(lanes_of(args[0]), 8)))));
  if (rounds && type->getPrimitiveSizeInBits().getFixedValue() == 512) args.push_back(b.getInt32(current_rounding));
  return b.CreateIntrinsic(id, {}, args);
}

}  // namespace

llvm::Value* FloatEmitter::reciprocal(llvm::Value* x) {
  using namespace llvm::Intrinsic;
  if (!traits.reciprocals || !x->getType()->isVectorTy())
    return b.CreateFDiv(llvm::ConstantFP::get(x->getType(), 1.0), x);
  return in_registers(x, [&](llvm::Value* part) {
    return call(b,
                pick(part, {x86_avx512_rcp14_ps_128, x86_avx512_rcp14_ps_256, x86_avx512_rcp14_ps_512},
                     {x86_avx512_rcp14_pd_128, x86_avx512_rcp14_pd_256, x86_avx512_rcp14_pd_512}),
                {part}, false);
  });
}

llvm::Value* FloatEmitter::exponent(llvm::Value* x) {
  using namespace llvm::Intrinsic;
  if (traits.float_parts) {
    return in_registers(x, [&](llvm::Value* part) {
      return call(
          b,
          pick(part, {x86_avx512_mask_getexp_ps_128, x86_avx512_mask_getexp_ps_256, x86_avx512_mask_getexp_ps_512},
               {x86_avx512_mask_getexp_pd_128, x86_avx512_mask_getexp_pd_256, x86_avx512_mask_getexp_pd_512}),
          {part}, true);
    });
  }
  llvm::Type* type = x->getType();
  const llvm::fltSemantics& format = type->getScalarType()->getFltSemantics();
  const int precision = static_cast<int>(llvm::APFloat::semanticsPrecision(format));
  const auto number = [&](const llvm::APFloat& value) { return llvm::ConstantFP::get(type, value); };
  llvm::Value* magnitude = abs(x);
  llvm::Value* tiny = b.CreateFCmpOLT(magnitude, number(llvm::APFloat::getSmallestNormalized(format)));
  llvm::Value* scaled = b.CreateFMul(magnitude, llvm::ConstantFP::get(type, std::exp2(precision)));
  llvm::Value* image = to_bits(b.CreateSelect(tiny, scaled, magnitude));
  llvm::Value* biased = b.CreateLShr(image, int_constant(image->getType(), precision - 1));
  const std::int64_t bias = llvm::APFloat::semanticsMaxExponent(format);
  llvm::Value* taken =
      b.CreateSelect(tiny, int_constant(image->getType(), bias + precision), int_constant(image->getType(), bias));
  llvm::Value* finite = b.CreateSIToFP(b.CreateSub(biased, taken), type);
  llvm::Value* infinity = number(llvm::APFloat::getInf(format));
  finite = b.CreateSelect(b.CreateFCmpOLT(magnitude, infinity), finite, magnitude);
  return b.CreateSelect(b.CreateFCmpOEQ(x, llvm::Constant::getNullValue(type)),
                        number(llvm::APFloat::getInf(format, true)), finite);
}

llvm::Value* FloatEmitter::mantissa(llvm::Value* x) {
  using namespace llvm::Intrinsic;
  if (traits.float_parts) {
    constexpr int from_three_quarters = 3, negative_is_nan = 2 << 2;  // two fields of the instruction's operand
    return in_registers(x, [&](llvm::Value* part) {
      return call(
          b,
          pick(part, {x86_avx512_mask_getmant_ps_128, x86_avx512_mask_getmant_ps_256, x86_avx512_mask_getmant_ps_512},
               {x86_avx512_mask_getmant_pd_128, x86_avx512_mask_getmant_pd_256, x86_avx512_mask_getmant_pd_512}),
          {part, b.getInt32(from_three_quarters | negative_is_nan)}, true);
    });
  }
  llvm::Type* type = x->getType();
  const llvm::fltSemantics& format = type->getScalarType()->getFltSemantics();
  const int precision = static_cast<int>(llvm::APFloat::semanticsPrecision(format));
  const auto number = [&](double value) { return llvm::ConstantFP::get(type, value); };
  llvm::Value* zero = llvm::Constant::getNullValue(type);
  llvm::Value* tiny =
      b.CreateFCmpOLT(abs(x), llvm::ConstantFP::get(type, llvm::APFloat::getSmallestNormalized(format)));
  llvm::Value* image = to_bits(b.CreateSelect(tiny, b.CreateFMul(x, number(std::exp2(precision))), x));
  llvm::Type* ints = image->getType();
  const std::int64_t fraction = (std::int64_t{1} << (precision - 1)) - 1;
  llvm::Value* one = to_bits(number(1));
  llvm::Value* from_one = from_bits(b.CreateOr(b.CreateAnd(image, int_constant(ints, fraction)), one), type);
  llvm::Value* upper = b.CreateFCmpOGE(from_one, number(1.5));
  llvm::Value* finite = b.CreateSelect(upper, b.CreateFMul(from_one, number(0.5)), from_one);
  // Infinity has the fraction of 1; what is not a number is not equal to itself.
  llvm::Value* nan = llvm::ConstantFP::getNaN(type);
  llvm::Value* other = b.CreateSelect(b.CreateFCmpOEQ(x, zero), copysign(number(1), x), nan);
  return b.CreateSelect(b.CreateFCmpOGT(x, zero), finite, other);
}

}  // namespace lathe::codegen
