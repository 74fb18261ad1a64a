#include "backends/llvm/values.h"

#include <llvm/ADT/STLExtras.h>
#include <llvm/ADT/SmallPtrSet.h>
#include <llvm/IR/Constants.h>
#include <llvm/IR/IntrinsicInst.h>
#include <llvm/IR/Intrinsics.h>
#include <llvm/IR/IntrinsicsX86.h>
#include <llvm/IR/MDBuilder.h>

#include <algorithm>

#include "ir/error.h"

namespace lathe::codegen {

llvm::Type* element_value_type(llvm::LLVMContext& context, DType dtype) {
  if (dtype.is_bool()) return llvm::Type::getInt1Ty(context);
  if (dtype == DType{TypeCode::floating, 32, dtype.lanes}) return llvm::Type::getFloatTy(context);
  if (dtype == DType{TypeCode::floating, 64, dtype.lanes}) return llvm::Type::getDoubleTy(context);
  return llvm::Type::getIntNTy(context, dtype.bits);
}

llvm::Type* element_memory_type(llvm::LLVMContext& context, DType dtype) {
  return dtype.is_bool() ? llvm::Type::getInt8Ty(context) : element_value_type(context, dtype);
}

static llvm::Type* with_lanes(llvm::Type* element, int lanes) {
  return lanes == 1 ? element : llvm::FixedVectorType::get(element, lanes);
}

llvm::Type* value_type(llvm::LLVMContext& context, DType dtype) {
  return with_lanes(element_value_type(context, dtype), dtype.lanes);
}

llvm::Type* memory_type(llvm::LLVMContext& context, DType dtype) {
  return with_lanes(element_memory_type(context, dtype), dtype.lanes);
}

int lanes_of(llvm::Value* v) {
  auto* vector = llvm::dyn_cast<llvm::FixedVectorType>(v->getType());
  return vector ? static_cast<int>(vector->getNumElements()) : 1;
}

llvm::Type* with_lanes_of(llvm::Type* element, llvm::Type* like) {
  auto* vector = llvm::dyn_cast<llvm::FixedVectorType>(like);
  return vector ? llvm::FixedVectorType::get(element, vector->getNumElements()) : element;
}

llvm::Value* splat(Builder& b, llvm::Value* scalar, int lanes) {
  if (lanes == 1) return scalar;
  // A half that all lanes share is loaded into these as it is, and widened there: alone it would go through an integer
  // register and a conversion of its own.
  auto* widened = llvm::dyn_cast<llvm::FPExtInst>(scalar);
  if (widened && widened->getSrcTy()->isHalfTy()) {
    llvm::Value* halves = b.CreateVectorSplat(lanes, widened->getOperand(0));
    return b.CreateFPExt(halves, with_lanes_of(scalar->getType(), halves->getType()));
  }
  return b.CreateVectorSplat(lanes, scalar);
}

llvm::Constant* int_constant(llvm::Type* type, std::int64_t value) {
  return llvm::ConstantInt::get(type, static_cast<std::uint64_t>(value), true);
}

llvm::Value* FloatEmitter::to_bits(llvm::Value* x) {
  llvm::Type* element = b.getIntNTy(x->getType()->getScalarSizeInBits());
  return b.CreateBitCast(x, with_lanes_of(element, x->getType()));
}

llvm::Value* FloatEmitter::from_bits(llvm::Value* bits, llvm::Type* type) {
  return b.CreateBitCast(bits, type);
}

// ---- 16-bit storage types ----

llvm::Value* FloatEmitter::widen(DType dtype, llvm::Value* bits) {
  llvm::Type* floats = with_lanes_of(b.getFloatTy(), bits->getType());
  if (dtype.code == TypeCode::brain) {
    llvm::Type* ints = with_lanes_of(b.getInt32Ty(), bits->getType());
    return b.CreateBitCast(b.CreateShl(b.CreateZExt(bits, ints), 16), floats);
  }
  if (!traits.half_conversion) return widen_f16(bits);
  return b.CreateFPExt(b.CreateBitCast(bits, with_lanes_of(b.getHalfTy(), bits->getType())), floats);
}

namespace {

/// Is no lane a denormal for sure, as the value comes from vdpbf16ps, which makes zeros of these?
bool has_no_denormals(llvm::Value* value, llvm::SmallPtrSetImpl<llvm::Value*>& seen) {
  if (!seen.insert(value).second) return true;
  if (auto* constant = llvm::dyn_cast<llvm::Constant>(value)) return constant->isNullValue();
  if (auto* call = llvm::dyn_cast<llvm::IntrinsicInst>(value)) {
    using namespace llvm::Intrinsic;
    const ID id = call->getIntrinsicID();
    return id == x86_avx512bf16_dpbf16ps_512 || id == x86_avx512bf16_dpbf16ps_256 || id == x86_avx512bf16_dpbf16ps_128;
  }
  // Within its loop a value knows only where it began.
  auto* phi = llvm::dyn_cast<llvm::PHINode>(value);
  return phi && phi->getNumIncomingValues() > 1 &&
         llvm::all_of(phi->incoming_values(), [&](const llvm::Use& use) { return has_no_denormals(use.get(), seen); });
}

}  // namespace

llvm::Value* FloatEmitter::narrow(DType dtype, llvm::Value* value) {
  if (dtype.code == TypeCode::brain) {
    llvm::SmallPtrSet<llvm::Value*, 8> seen;
    if (!traits.bfloat_dot) return narrow_bf16(value);
    return has_no_denormals(value, seen) ? narrow_normal(value, true) : narrow_mostly_normal(value);
  }
  if (!traits.half_conversion) return narrow_f16(value);
  llvm::Value* half = b.CreateFPTrunc(value, with_lanes_of(b.getHalfTy(), value->getType()));
  return b.CreateBitCast(half, with_lanes_of(b.getInt16Ty(), value->getType()));
}

// The exponent is moved by an integer add; subnormals are renormalized by a float subtraction of 2^-14.
llvm::Value* FloatEmitter::widen_f16(llvm::Value* bits) {
  llvm::Type* ints = with_lanes_of(b.getInt32Ty(), bits->getType());
  llvm::Type* floats = with_lanes_of(b.getFloatTy(), bits->getType());
  auto constant = [&](std::int64_t value) { return int_constant(ints, value); };
  llvm::Value* wide = b.CreateZExt(bits, ints);
  llvm::Value* magnitude = b.CreateShl(b.CreateAnd(wide, constant(0x7fff)), 13);
  llvm::Value* exponent = b.CreateAnd(magnitude, constant(0x7c00 << 13));
  llvm::Value* normal = b.CreateAdd(magnitude, constant((127 - 15) << 23));
  llvm::Value* special = b.CreateAdd(normal, constant((128 - 16) << 23));
  llvm::Value* subnormal = b.CreateBitCast(b.CreateFSub(b.CreateBitCast(b.CreateAdd(normal, constant(1 << 23)), floats),
                                                        b.CreateBitCast(constant(113 << 23), floats)),
                                           ints);
  llvm::Value* result = b.CreateSelect(b.CreateICmpEQ(exponent, constant(0x7c00 << 13)), special, normal);
  result = b.CreateSelect(b.CreateICmpEQ(exponent, constant(0)), subnormal, result);
  llvm::Value* sign = b.CreateShl(b.CreateAnd(wide, constant(0x8000)), 16);
  return b.CreateBitCast(b.CreateOr(result, sign), floats);
}

// Normal numbers round by an integer add; subnormals by a float addition of 0.5, whose last place is f16's.
llvm::Value* FloatEmitter::narrow_f16(llvm::Value* value) {
  llvm::Type* ints = with_lanes_of(b.getInt32Ty(), value->getType());
  auto constant = [&](std::int64_t v) { return int_constant(ints, v); };
  llvm::Value* bits = b.CreateBitCast(value, ints);
  llvm::Value* magnitude = b.CreateAnd(bits, constant(0x7fffffff));
  llvm::Value* sign = b.CreateLShr(b.CreateXor(bits, magnitude), 16);
  llvm::Value* odd = b.CreateAnd(b.CreateLShr(magnitude, 13), constant(1));
  llvm::Value* rebased = b.CreateAdd(magnitude, constant(-((127 - 15) << 23) + 0xfff));
  llvm::Value* normal = b.CreateLShr(b.CreateAdd(rebased, odd), 13);
  llvm::Value* half = llvm::ConstantFP::get(value->getType(), 0.5);
  llvm::Value* shifted = b.CreateFAdd(b.CreateBitCast(magnitude, value->getType()), half);
  llvm::Value* subnormal = b.CreateSub(b.CreateBitCast(shifted, ints), b.CreateBitCast(half, ints));
  llvm::Value* nan = b.CreateICmpUGT(magnitude, constant(0x7f800000));
  llvm::Value* special = b.CreateSelect(nan, constant(0x7e00), constant(0x7c00));
  llvm::Value* result = b.CreateSelect(b.CreateICmpULT(magnitude, constant(113 << 23)), subnormal, normal);
  result = b.CreateSelect(b.CreateICmpUGE(magnitude, constant((127 + 16) << 23)), special, result);
  return b.CreateTrunc(b.CreateOr(result, sign), with_lanes_of(b.getInt16Ty(), value->getType()));
}

llvm::Value* FloatEmitter::narrow_bf16(llvm::Value* value, bool may_be_nan) {
  llvm::Type* ints = with_lanes_of(b.getInt32Ty(), value->getType());
  llvm::Value* bits = b.CreateBitCast(value, ints);
  llvm::Value* odd = b.CreateAnd(b.CreateLShr(bits, 16), int_constant(ints, 1));
  llvm::Value* rounded = b.CreateLShr(b.CreateAdd(b.CreateAdd(bits, int_constant(ints, 0x7fff)), odd), 16);
  if (may_be_nan) {
    llvm::Value* quiet = b.CreateOr(b.CreateLShr(bits, 16), int_constant(ints, 0x40));
    rounded = b.CreateSelect(b.CreateFCmpUNO(value, value), quiet, rounded);
  }
  return b.CreateTrunc(rounded, with_lanes_of(b.getInt16Ty(), value->getType()));
}

llvm::Value* FloatEmitter::narrow_exactly(DType dtype, llvm::Value* value) {
  if (!(dtype.element() == bf16)) return narrow(dtype, value);
  llvm::Type* ints = with_lanes_of(b.getInt32Ty(), value->getType());
  return b.CreateTrunc(b.CreateLShr(b.CreateBitCast(value, ints), 16), with_lanes_of(b.getInt16Ty(), value->getType()));
}

// Rounding to odd in between makes the second rounding the only one that counts (Boldo and Melquiond, 2008).
llvm::Value* FloatEmitter::narrow_double(DType dtype, llvm::Value* value) {
  llvm::Type* floats = with_lanes_of(b.getFloatTy(), value->getType());
  llvm::Type* ints = with_lanes_of(b.getInt32Ty(), value->getType());
  llvm::Value* nearest = b.CreateFPTrunc(value, floats);
  llvm::Value* back = b.CreateFPExt(nearest, value->getType());
  llvm::Value* inexact = b.CreateFCmpONE(back, value);
  llvm::Value* away = b.CreateFCmpOGT(abs(back), abs(value));
  llvm::Value* bits = b.CreateBitCast(nearest, ints);
  llvm::Value* truncated = b.CreateSub(bits, b.CreateZExt(away, ints));
  llvm::Value* odd = b.CreateSelect(inexact, b.CreateOr(truncated, int_constant(ints, 1)), bits);
  return narrow(dtype, b.CreateBitCast(odd, floats));
}

// Integers of more bits than float has lose their last eight ones, to odd again, where that leaves more than the
// result.
llvm::Value* FloatEmitter::narrow_int(DType dtype, llvm::Value* value, bool is_signed) {
  constexpr std::int64_t exact = std::int64_t{1} << 24, last = 255;
  llvm::Type* ints = value->getType();
  const auto constant = [&](std::int64_t v) { return int_constant(ints, v); };
  llvm::Value* long_one = is_signed ? b.CreateICmpUGT(b.CreateAdd(value, constant(exact)), constant(2 * exact))
                                    : b.CreateICmpUGT(value, constant(exact));
  llvm::Value* cut = b.CreateAnd(value, constant(~last));
  llvm::Value* odd = b.CreateOr(cut, constant(last + 1));
  llvm::Value* inexact = b.CreateAnd(long_one, b.CreateICmpNE(cut, value));
  llvm::Value* kept = b.CreateSelect(inexact, odd, value);
  llvm::Type* floats = with_lanes_of(b.getFloatTy(), ints);
  llvm::Value* real = is_signed ? b.CreateSIToFP(kept, floats) : b.CreateUIToFP(kept, floats);
  return narrow_whole(dtype, real);
}

llvm::Value* FloatEmitter::narrow_whole(DType dtype, llvm::Value* value) {
  return dtype.element() == bf16 ? narrow_normal(value, false) : narrow(dtype, value);
}

// x86's instruction counts denormals as zero.
llvm::Value* FloatEmitter::narrow_normal(llvm::Value* value, bool may_be_nan) {
  const int lanes = lanes_of(value);
  if (!traits.bfloat_dot || (lanes != 8 && lanes != 16)) return narrow_bf16(value, may_be_nan);
  const llvm::Intrinsic::ID id =
      lanes == 8 ? llvm::Intrinsic::x86_avx512bf16_cvtneps2bf16_256 : llvm::Intrinsic::x86_avx512bf16_cvtneps2bf16_512;
  return b.CreateBitCast(b.CreateIntrinsic(id, {}, {value}), with_lanes_of(b.getInt16Ty(), value->getType()));
}

// Two instructions and a branch that is hardly ever taken, in the place of eight.
llvm::Value* FloatEmitter::narrow_mostly_normal(llvm::Value* value) {
  const int lanes = lanes_of(value);
  if (lanes != 8 && lanes != 16) return narrow_bf16(value);
  constexpr int denormal = 0x20;
  const llvm::Intrinsic::ID classify =
      lanes == 8 ? llvm::Intrinsic::x86_avx512_fpclass_ps_256 : llvm::Intrinsic::x86_avx512_fpclass_ps_512;
  llvm::Value* normal = narrow_normal(value, true);
  llvm::Value* classes = b.CreateIntrinsic(classify, {}, {value, b.getInt32(denormal)});
  llvm::BasicBlock* before = b.GetInsertBlock();
  llvm::Function* function = before->getParent();
  auto* rare = llvm::BasicBlock::Create(b.getContext(), "denormal", function);
  auto* after = llvm::BasicBlock::Create(b.getContext(), "rounded", function);
  b.CreateCondBr(b.CreateOrReduce(classes), rare, after,
                 llvm::MDBuilder(b.getContext()).createBranchWeights(1, 1 << 20));
  b.SetInsertPoint(rare);
  llvm::Value* exact = narrow_bf16(value);
  b.CreateBr(after);
  b.SetInsertPoint(after);
  llvm::PHINode* result = b.CreatePHI(normal->getType(), 2);
  result->addIncoming(normal, before);
  result->addIncoming(exact, rare);
  return result;
}

/// (x & y) | ((x | y) & z): one instruction where there is ternary logic, which LLVM does not find by itself.
llvm::Value* FloatEmitter::majority(llvm::Value* x, llvm::Value* y, llvm::Value* z) {
  using namespace llvm::Intrinsic;
  const unsigned width = x->getType()->getScalarSizeInBits();
  const auto bits = x->getType()->isVectorTy() ? x->getType()->getPrimitiveSizeInBits().getFixedValue() : 0;
  const bool words = width == 32;
  const auto pick = [&](ID of_words, ID of_double_words) { return words ? of_words : of_double_words; };
  ID id = not_intrinsic;
  if (bits == 512) id = pick(x86_avx512_pternlog_d_512, x86_avx512_pternlog_q_512);
  if (bits == 256) id = pick(x86_avx512_pternlog_d_256, x86_avx512_pternlog_q_256);
  if (bits == 128) id = pick(x86_avx512_pternlog_d_128, x86_avx512_pternlog_q_128);
  if (traits.ternary_logic && id != not_intrinsic) return b.CreateIntrinsic(id, {}, {x, y, z, b.getInt32(0xe8)});
  return b.CreateOr(b.CreateAnd(x, y), b.CreateAnd(b.CreateOr(x, y), z));
}

// ---- rounding ----

llvm::Value* FloatEmitter::abs(llvm::Value* x) {
  return b.CreateUnaryIntrinsic(llvm::Intrinsic::fabs, x);
}

llvm::Value* FloatEmitter::copysign(llvm::Value* magnitude, llvm::Value* sign) {
  return b.CreateBinaryIntrinsic(llvm::Intrinsic::copysign, magnitude, sign);
}

// Adding and subtracting 2^23 (2^52) leaves no bits below one, rounded as the mode says: to nearest even.
llvm::Value* FloatEmitter::round_even(llvm::Value* x) {
  if (traits.rounding) return b.CreateUnaryIntrinsic(llvm::Intrinsic::roundeven, x);
  const double magic = x->getType()->getScalarSizeInBits() == 32 ? 0x1p23 : 0x1p52;
  llvm::Value* big = llvm::ConstantFP::get(x->getType(), magic);
  llvm::Value* magnitude = abs(x);
  llvm::Value* rounded = b.CreateFSub(b.CreateFAdd(magnitude, big), big);
  return b.CreateSelect(b.CreateFCmpOLT(magnitude, big), copysign(rounded, x), x);
}

llvm::Value* FloatEmitter::floor(llvm::Value* x) {
  if (traits.rounding) return b.CreateUnaryIntrinsic(llvm::Intrinsic::floor, x);
  llvm::Value* one = llvm::ConstantFP::get(x->getType(), 1.0);
  llvm::Value* rounded = round_even(x);
  return b.CreateSelect(b.CreateFCmpOGT(rounded, x), b.CreateFSub(rounded, one), rounded);
}

llvm::Value* FloatEmitter::ceil(llvm::Value* x) {
  if (traits.rounding) return b.CreateUnaryIntrinsic(llvm::Intrinsic::ceil, x);
  llvm::Value* one = llvm::ConstantFP::get(x->getType(), 1.0);
  llvm::Value* rounded = round_even(x);
  llvm::Value* raised = copysign(b.CreateFAdd(rounded, one), x);
  return b.CreateSelect(b.CreateFCmpOLT(rounded, x), raised, rounded);
}

llvm::Value* FloatEmitter::trunc(llvm::Value* x) {
  if (traits.rounding) return b.CreateUnaryIntrinsic(llvm::Intrinsic::trunc, x);
  return copysign(floor(abs(x)), x);
}

// ---- scaleb ----

/// 2^n as a float of `type`, n being an integer among its normal exponents.
llvm::Value* FloatEmitter::power_of_two(llvm::Value* n, llvm::Type* type) {
  const llvm::fltSemantics& format = type->getScalarType()->getFltSemantics();
  const auto precision = static_cast<std::int64_t>(llvm::APFloat::semanticsPrecision(format));
  const std::int64_t bias = llvm::APFloat::semanticsMaxExponent(format);
  llvm::Value* biased = b.CreateAdd(n, int_constant(n->getType(), bias));
  return from_bits(b.CreateShl(biased, int_constant(n->getType(), precision - 1)), type);
}

llvm::Value* FloatEmitter::scaleb(llvm::Value* x, llvm::Value* n) {
  llvm::Type* type = x->getType();
  const auto bits = static_cast<unsigned>(type->getPrimitiveSizeInBits().getFixedValue());
  if (traits.scales_by_exponent && bits >= 128) {
    using namespace llvm::Intrinsic;
    if (bits > 512 && bits % 1024 == 0) {
      const int half = static_cast<int>(llvm::cast<llvm::FixedVectorType>(type)->getNumElements()) / 2;
      llvm::SmallVector<int> low, high, all;
      for (int i = 0; i < half; ++i) low.push_back(i), high.push_back(half + i);
      for (int i = 0; i < 2 * half; ++i) all.push_back(i);
      llvm::Value* first = scaleb(b.CreateShuffleVector(x, low), b.CreateShuffleVector(n, low));
      llvm::Value* second = scaleb(b.CreateShuffleVector(x, high), b.CreateShuffleVector(n, high));
      return b.CreateShuffleVector(first, second, all);
    }
    const bool single = type->getScalarType()->isFloatTy();
    const unsigned lanes = bits / type->getScalarSizeInBits();
    const auto pick = [&](ID of_float, ID of_double) { return single ? of_float : of_double; };
    ID id = not_intrinsic;
    if (bits == 512) id = pick(x86_avx512_mask_scalef_ps_512, x86_avx512_mask_scalef_pd_512);
    if (bits == 256) id = pick(x86_avx512_mask_scalef_ps_256, x86_avx512_mask_scalef_pd_256);
    if (bits == 128) id = pick(x86_avx512_mask_scalef_ps_128, x86_avx512_mask_scalef_pd_128);
    if (id != not_intrinsic) {
      llvm::Value* every_lane = llvm::Constant::getAllOnesValue(b.getIntNTy(std::max(lanes, 8U)));
      llvm::SmallVector<llvm::Value*> args = {x, n, llvm::PoisonValue::get(type), every_lane};
      constexpr int current_rounding = 4;
      if (bits == 512) args.push_back(b.getInt32(current_rounding));
      return b.CreateIntrinsic(id, {}, args);
    }
  }
  // In two steps, of which the first is exact.
  llvm::Type* ints = with_lanes_of(b.getIntNTy(type->getScalarSizeInBits()), type);
  llvm::Value* whole = b.CreateFreeze(b.CreateFPToSI(floor(n), ints));
  llvm::Value* half = b.CreateAShr(whole, int_constant(ints, 1));
  llvm::Value* scaled = b.CreateFMul(x, power_of_two(half, type));
  return b.CreateFMul(scaled, power_of_two(b.CreateSub(whole, half), type));
}

// ---- fma ----

llvm::Value* FloatEmitter::fma(llvm::Value* x, llvm::Value* y, llvm::Value* z) {
  if (traits.fused_multiply_add) return b.CreateIntrinsic(llvm::Intrinsic::fma, {x->getType()}, {x, y, z});
  return x->getType()->getScalarType()->isFloatTy() ? fma_by_double(x, y, z) : fma_by_parts(x, y, z);
}

/// `sum` was rounded to nearest and lacks `error`: the same sum rounded to odd.
llvm::Value* FloatEmitter::to_odd(llvm::Value* sum, llvm::Value* error) {
  llvm::Value* bits = to_bits(sum);
  llvm::Type* ints = bits->getType();
  llvm::Value* one = int_constant(ints, 1);
  llvm::Value* even = b.CreateICmpEQ(b.CreateAnd(bits, one), int_constant(ints, 0));
  llvm::Value* zero = llvm::ConstantFP::get(sum->getType(), 0.0);
  llvm::Value* inexact = b.CreateFCmpONE(error, zero);
  llvm::Value* opposite = b.CreateICmpSLT(b.CreateXor(bits, to_bits(error)), int_constant(ints, 0));
  llvm::Value* moved = b.CreateSelect(opposite, b.CreateSub(bits, one), b.CreateAdd(bits, one));
  return from_bits(b.CreateSelect(b.CreateAnd(even, inexact), moved, bits), sum->getType());
}

namespace {

/// Knuth's TwoSum: the rounded sum, and what it lacks.
std::pair<llvm::Value*, llvm::Value*> two_sum(Builder& b, llvm::Value* x, llvm::Value* y) {
  llvm::Value* sum = b.CreateFAdd(x, y);
  llvm::Value* part = b.CreateFSub(sum, x);
  llvm::Value* error = b.CreateFAdd(b.CreateFSub(x, b.CreateFSub(sum, part)), b.CreateFSub(y, part));
  return {sum, error};
}

/// Veltkamp's split of a double into halves of 26 bits.
std::pair<llvm::Value*, llvm::Value*> split(Builder& b, llvm::Value* x) {
  llvm::Value* scaled = b.CreateFMul(x, llvm::ConstantFP::get(x->getType(), 0x1p27 + 1));
  llvm::Value* high = b.CreateFSub(scaled, b.CreateFSub(scaled, x));
  return {high, b.CreateFSub(x, high)};
}

}  // namespace

// The product of two floats is exact in double.
llvm::Value* FloatEmitter::fma_by_double(llvm::Value* x, llvm::Value* y, llvm::Value* z) {
  llvm::Type* doubles = with_lanes_of(b.getDoubleTy(), x->getType());
  llvm::Value* product = b.CreateFMul(b.CreateFPExt(x, doubles), b.CreateFPExt(y, doubles));
  auto [sum, error] = two_sum(b, product, b.CreateFPExt(z, doubles));
  return b.CreateFPTrunc(to_odd(sum, error), x->getType());
}

// Boldo and Melquiond's correctly rounded fma from Dekker's product. Where the product leaves the range in which that
// is exact (above 2^996, or with bits below 2^-1074), and where it needs no correction, the unfused result stands in:
// its zero also has the right sign.
llvm::Value* FloatEmitter::fma_by_parts(llvm::Value* x, llvm::Value* y, llvm::Value* z) {
  auto [xh, xl] = split(b, x);
  auto [yh, yl] = split(b, y);
  llvm::Value* product = b.CreateFMul(x, y);
  llvm::Value* low = b.CreateFSub(b.CreateFMul(xh, yh), product);
  low = b.CreateFAdd(b.CreateFAdd(low, b.CreateFMul(xh, yl)), b.CreateFMul(xl, yh));
  low = b.CreateFAdd(low, b.CreateFMul(xl, yl));
  auto [th, tl] = two_sum(b, z, low);
  auto [vh, vl] = two_sum(b, product, th);
  auto [tail, tail_error] = two_sum(b, tl, vl);
  llvm::Value* fused = b.CreateFAdd(vh, to_odd(tail, tail_error));
  llvm::Value* plain = b.CreateFAdd(product, z);
  llvm::Value* corrected = b.CreateFCmpONE(low, llvm::ConstantFP::get(low->getType(), 0.0));
  return b.CreateSelect(b.CreateAnd(corrected, b.CreateFCmpORD(fused, fused)), fused, plain);
}

}  // namespace lathe::codegen
