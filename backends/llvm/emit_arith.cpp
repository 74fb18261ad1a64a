#include <llvm/IR/Constants.h>
#include <llvm/IR/Intrinsics.h>

#include <limits>

#include "backends/llvm/emitter.h"
#include "ir/analysis/split_reciprocal.h"
#include "ir/error.h"
#include "ir/structural.h"

namespace lathe::codegen {

llvm::Value* FunctionEmitter::emit_unary(UnaryOp op, DType dtype, llvm::Value* a) {
  if (op == UnaryOp::bit_not || op == UnaryOp::logical_not) return opposite(a);
  if (!dtype.is_float()) {
    if (dtype.is_bool() || (op == UnaryOp::abs && dtype.is_unsigned())) return a;
    if (op == UnaryOp::neg) return b.CreateNeg(a);
    if (op == UnaryOp::abs) return b.CreateBinaryIntrinsic(llvm::Intrinsic::abs, a, b.getFalse());
    throw Bug("emission got " + std::string(to_string(op)) + " of " + to_string(dtype));
  }
  if (is_half(dtype)) {
    llvm::Type* type = a->getType();
    if (op == UnaryOp::neg) return b.CreateXor(a, int_constant(type, 0x8000));
    if (op == UnaryOp::abs) return b.CreateAnd(a, int_constant(type, 0x7fff));
    if (op == UnaryOp::signbit) return b.CreateICmpSLT(a, int_constant(type, 0));
    llvm::Value* result = emit_unary(op, f32.with_lanes(dtype.lanes), floats.widen(dtype, a));
    return result->getType()->getScalarType()->isFloatTy() ? floats.narrow(dtype, result) : result;
  }
  llvm::Value* infinity = llvm::ConstantFP::getInfinity(a->getType());
  switch (op) {
    case UnaryOp::neg:
      return b.CreateFNeg(a);
    case UnaryOp::abs:
      return floats.abs(a);
    case UnaryOp::sqrt:
      return b.CreateUnaryIntrinsic(llvm::Intrinsic::sqrt, a);
    case UnaryOp::rsqrt:
      return b.CreateFDiv(llvm::ConstantFP::get(a->getType(), 1.0), b.CreateUnaryIntrinsic(llvm::Intrinsic::sqrt, a));
    case UnaryOp::floor:
      return floats.floor(a);
    case UnaryOp::ceil:
      return floats.ceil(a);
    case UnaryOp::trunc:
      return floats.trunc(a);
    case UnaryOp::round:
      return floats.round_even(a);
    case UnaryOp::is_nan:
      return compare(llvm::CmpInst::FCMP_UNO, a, a);
    case UnaryOp::is_inf:
      return b.CreateFCmpOEQ(floats.abs(a), infinity);
    case UnaryOp::is_finite:
      return b.CreateFCmpOLT(floats.abs(a), infinity);
    case UnaryOp::signbit: {
      llvm::Type* bits = with_lanes_of(b.getIntNTy(dtype.bits), a->getType());
      return b.CreateICmpSLT(b.CreateBitCast(a, bits), int_constant(bits, 0));
    }
    default:
      throw Bug("emission got " + std::string(to_string(op)) + ", which lower_math should have replaced");
  }
}

llvm::Value* FunctionEmitter::emit_binary(BinaryOp op, DType dtype, llvm::Value* a, llvm::Value* c) {
  if (is_comparison(op)) return emit_comparison(op, dtype, a, c);
  if (dtype.is_bool()) return emit_bool_binary(op, a, c);
  if (!dtype.is_float()) return emit_integer_binary(op, dtype, a, c);
  if (!is_half(dtype)) return emit_float_binary(op, a, c);
  if (op == BinaryOp::copysign) {
    llvm::Type* type = a->getType();
    return b.CreateOr(b.CreateAnd(a, int_constant(type, 0x7fff)), b.CreateAnd(c, int_constant(type, 0x8000)));
  }
  llvm::Value* wide = emit_float_binary(op, floats.widen(dtype, a), floats.widen(dtype, c));
  // One of the two needs no rounding.
  const bool picks = op == BinaryOp::min || op == BinaryOp::max;
  return picks ? floats.narrow_exactly(dtype, wide) : floats.narrow(dtype, wide);
}

llvm::Value* FunctionEmitter::emit_float_binary(BinaryOp op, llvm::Value* x, llvm::Value* y) {
  switch (op) {
    case BinaryOp::add:
      return b.CreateFAdd(loaded_constant(x), loaded_constant(y));
    case BinaryOp::sub:
      return b.CreateFSub(loaded_constant(x), loaded_constant(y));
    case BinaryOp::mul:
      return b.CreateFMul(loaded_constant(x), loaded_constant(y));
    case BinaryOp::div:
      return emit_quotient(x, y);
    case BinaryOp::min:
      return floats.minimum(x, y);
    case BinaryOp::max:
      return floats.maximum(x, y);
    case BinaryOp::copysign:
      return floats.copysign(x, y);
    default:
      throw Bug("emission got " + std::string(to_string(op)) + " of floats, which lower_math should have replaced");
  }
}

llvm::Value* FunctionEmitter::emit_quotient(llvm::Value* x, llvm::Value* y) {
  auto* constant = llvm::dyn_cast<llvm::Constant>(y);
  if (constant && constant->getType()->isVectorTy()) constant = constant->getSplatValue();
  const auto* divisor = llvm::dyn_cast_or_null<llvm::ConstantFP>(constant);
  if (!divisor || !kernel.traits.fused_multiply_add || llvm::isa<llvm::Constant>(x)) return b.CreateFDiv(x, y);
  const bool single = divisor->getType()->isFloatTy();
  const auto parts = split_reciprocal(
      single ? divisor->getValueAPF().convertToFloat() : divisor->getValueAPF().convertToDouble(), single ? 24 : 53);
  if (!parts) return b.CreateFDiv(x, y);
  llvm::Value* high = loaded_constant(llvm::ConstantFP::get(y->getType(), parts->high));
  llvm::Value* low = loaded_constant(llvm::ConstantFP::get(y->getType(), parts->low));
  return floats.fma(x, high, b.CreateFMul(x, low));
}

llvm::Value* FunctionEmitter::emit_bool_binary(BinaryOp op, llvm::Value* x, llvm::Value* y) {
  switch (op) {
    case BinaryOp::logical_and:
    case BinaryOp::bit_and:
    case BinaryOp::mul:
    case BinaryOp::min:
      return combine(llvm::Instruction::And, x, y);
    case BinaryOp::logical_or:
    case BinaryOp::bit_or:
    case BinaryOp::add:
    case BinaryOp::max:
      return combine(llvm::Instruction::Or, x, y);
    case BinaryOp::bit_xor:
      return combine(llvm::Instruction::Xor, x, y);
    default:
      throw Bug("emission got " + std::string(to_string(op)) + " of bools");
  }
}

llvm::Value* FunctionEmitter::emit_integer_binary(BinaryOp op, DType dtype, llvm::Value* x, llvm::Value* y) {
  const bool is_signed = dtype.is_signed();
  switch (op) {
    case BinaryOp::add:
      return add(x, y);
    case BinaryOp::sub:
      return subtract(x, y);
    case BinaryOp::mul:
      return b.CreateMul(x, y);
    case BinaryOp::min:
      return extreme(is_signed ? llvm::Intrinsic::smin : llvm::Intrinsic::umin, x, y);
    case BinaryOp::max:
      return extreme(is_signed ? llvm::Intrinsic::smax : llvm::Intrinsic::umax, x, y);
    case BinaryOp::bit_and:
      return b.CreateAnd(x, y);
    case BinaryOp::bit_or:
      return b.CreateOr(x, y);
    case BinaryOp::bit_xor:
      return b.CreateXor(x, y);
    case BinaryOp::shl:
    case BinaryOp::shr:
      return emit_shift(op, dtype, x, y);
    case BinaryOp::floor_div:
    case BinaryOp::floor_mod:
      return emit_division(op, dtype, x, y);
    default:
      throw Bug("emission got " + std::string(to_string(op)) + " of " + to_string(dtype));
  }
}

namespace {

/// The value of a constant or a splat of one.
const llvm::APInt* constant_int(llvm::Value* v) {
  auto* constant = llvm::dyn_cast<llvm::Constant>(v);
  if (constant && constant->getType()->isVectorTy()) constant = constant->getSplatValue();
  auto* number = llvm::dyn_cast_or_null<llvm::ConstantInt>(constant);
  return number ? &number->getValue() : nullptr;
}

}  // namespace

// LLVM's shift by the width or more is poison: the count is clamped, and where zero is wanted, selected.
llvm::Value* FunctionEmitter::emit_shift(BinaryOp op, DType dtype, llvm::Value* x, llvm::Value* count) {
  const bool arithmetic = op == BinaryOp::shr && dtype.is_signed();
  const auto shift = [&](llvm::Value* by) {
    return op == BinaryOp::shl ? b.CreateShl(x, by) : arithmetic ? b.CreateAShr(x, by) : b.CreateLShr(x, by);
  };
  const llvm::APInt* known = constant_int(count);
  if (known && known->ult(dtype.bits)) return shift(count);
  llvm::Value* clamped =
      b.CreateBinaryIntrinsic(llvm::Intrinsic::umin, count, int_constant(count->getType(), dtype.bits - 1));
  if (arithmetic) return shift(clamped);
  llvm::Value* inside = b.CreateICmpULT(count, int_constant(count->getType(), dtype.bits));
  return b.CreateSelect(inside, shift(clamped), llvm::Constant::getNullValue(x->getType()));
}

// A vector of neighbours passes at most one multiple of a divisor that it does not reach beyond: one scalar division
// serves all lanes. No vector unit has one.
llvm::Value* FunctionEmitter::emit_ramp_division(const Binary* node) {
  const bool divide = node->op == BinaryOp::floor_div;
  if ((!divide && node->op != BinaryOp::floor_mod) || !(node->a->dtype.element() == i64)) return nullptr;
  const Ramp* ramp = node->a.as<Ramp>();
  const std::int64_t *step = ramp ? as_int(ramp->stride) : nullptr, *divisor = as_int(node->b);
  const int lanes = node->dtype.lanes;
  if (!step || !divisor || *step < 1 || *divisor < 2 || (*divisor & (*divisor - 1)) == 0) return nullptr;
  // The last lane must not wrap, so that the first has to be an index.
  if (*divisor / *step < lanes - 1 || !is_pure_index(ramp->base)) return nullptr;
  llvm::Value *base = emit_index(ramp->base), *by = b.getInt64(*divisor);
  const auto of_base = [&](BinaryOp op, llvm::Instruction::BinaryOps natural) {
    return is_non_negative(ramp->base) ? combine(natural, base, by) : emit_division(op, i64, base, by);
  };
  llvm::Value* first = of_base(BinaryOp::floor_mod, llvm::Instruction::URem);
  llvm::Type* type = value_type(context, node->dtype);
  llvm::SmallVector<llvm::Constant*, 16> steps;
  for (int i = 0; i < lanes; ++i) steps.push_back(int_constant(type->getScalarType(), *step * i));
  llvm::Value* remainder = add(repeated(first, lanes), llvm::ConstantVector::get(steps));
  llvm::Value* passes = b.CreateICmpSGE(remainder, int_constant(type, *divisor));
  if (!divide) return b.CreateSelect(passes, b.CreateSub(remainder, int_constant(type, *divisor)), remainder);
  llvm::Value* quotient = of_base(BinaryOp::floor_div, llvm::Instruction::UDiv);
  return add(repeated(quotient, lanes), b.CreateZExt(passes, type));
}

llvm::Value* FunctionEmitter::emit_division(BinaryOp op, DType dtype, llvm::Value* x, llvm::Value* y) {
  llvm::Type* type = x->getType();
  llvm::Constant* zero = llvm::Constant::getNullValue(type);
  const bool is_signed = dtype.is_signed(), divide = op == BinaryOp::floor_div;
  if (const llvm::APInt* c = constant_int(y)) {
    if (c->isZero()) return zero;
    if (c->isOne()) return divide ? x : zero;
    if (c->isAllOnes() && is_signed) return divide ? b.CreateNeg(x) : zero;
    if (!is_signed || (c->isPowerOf2() && !c->isNegative())) {
      if (c->isPowerOf2()) {
        if (!divide) return combine(llvm::Instruction::And, x, b.CreateSub(y, int_constant(type, 1)));
        return combine(is_signed ? llvm::Instruction::AShr : llvm::Instruction::LShr, x,
                       int_constant(type, c->logBase2()));
      }
      return combine(divide ? llvm::Instruction::UDiv : llvm::Instruction::URem, x, y);
    }
  }
  const bool constant = constant_int(y) != nullptr;
  llvm::Value* by_zero = nullptr;
  llvm::Value* divisor = y;
  if (!constant) {
    // A divisor of one stands in for those that trap; MIN / 1 is the MIN that is wanted of MIN / -1.
    by_zero = b.CreateICmpEQ(y, zero);
    llvm::Value* traps = by_zero;
    if (is_signed) {
      llvm::Value* least = llvm::ConstantInt::get(type, llvm::APInt::getSignedMinValue(dtype.bits));
      llvm::Value* overflows = b.CreateAnd(b.CreateICmpEQ(x, least), b.CreateICmpEQ(y, int_constant(type, -1)));
      traps = b.CreateOr(by_zero, overflows);
    }
    divisor = b.CreateSelect(traps, int_constant(type, 1), y);
  }
  llvm::Value *quotient, *remainder;
  if (type->isVectorTy() && !constant && dtype.bits <= 32) {
    // No vector unit divides integers. A quotient of 16-bit integers is at least 2^-16 away, relatively, from the next
    // integer above it, and rounding to float moves it less; likewise 32 bits and double.
    llvm::Type* reals = with_lanes_of(dtype.bits <= 16 ? b.getFloatTy() : b.getDoubleTy(), type);
    auto to_real = [&](llvm::Value* v) { return is_signed ? b.CreateSIToFP(v, reals) : b.CreateUIToFP(v, reals); };
    llvm::Value* ratio = b.CreateFDiv(to_real(x), to_real(divisor));
    quotient = is_signed ? b.CreateFPToSI(ratio, type) : b.CreateFPToUI(ratio, type);
    remainder = b.CreateSub(x, b.CreateMul(quotient, divisor));
  } else {
    quotient = is_signed ? b.CreateSDiv(x, divisor) : b.CreateUDiv(x, divisor);
    remainder = b.CreateSub(x, b.CreateMul(quotient, divisor));
  }
  if (is_signed) {
    // Toward minus infinity: one less where the remainder is not zero and has not the divisor's sign.
    llvm::Value* wrong_sign = b.CreateICmpSLT(b.CreateXor(remainder, divisor), zero);
    llvm::Value* adjust = b.CreateAnd(wrong_sign, b.CreateICmpNE(remainder, zero));
    if (divide)
      quotient = b.CreateAdd(quotient, b.CreateSExt(adjust, type));
    else
      remainder = b.CreateAdd(remainder, b.CreateSelect(adjust, divisor, zero));
  }
  llvm::Value* result = divide ? quotient : remainder;
  // MIN % -1 was taken by 1, which leaves zero as well.
  return by_zero ? b.CreateSelect(by_zero, zero, result) : result;
}

namespace {

llvm::CmpInst::Predicate float_predicate(BinaryOp op) {
  switch (op) {
    case BinaryOp::eq:
      return llvm::CmpInst::FCMP_OEQ;
    case BinaryOp::ne:
      return llvm::CmpInst::FCMP_UNE;
    case BinaryOp::lt:
      return llvm::CmpInst::FCMP_OLT;
    case BinaryOp::le:
      return llvm::CmpInst::FCMP_OLE;
    case BinaryOp::gt:
      return llvm::CmpInst::FCMP_OGT;
    default:
      return llvm::CmpInst::FCMP_OGE;
  }
}

llvm::CmpInst::Predicate integer_predicate(BinaryOp op, bool is_signed) {
  switch (op) {
    case BinaryOp::eq:
      return llvm::CmpInst::ICMP_EQ;
    case BinaryOp::ne:
      return llvm::CmpInst::ICMP_NE;
    case BinaryOp::lt:
      return is_signed ? llvm::CmpInst::ICMP_SLT : llvm::CmpInst::ICMP_ULT;
    case BinaryOp::le:
      return is_signed ? llvm::CmpInst::ICMP_SLE : llvm::CmpInst::ICMP_ULE;
    case BinaryOp::gt:
      return is_signed ? llvm::CmpInst::ICMP_SGT : llvm::CmpInst::ICMP_UGT;
    default:
      return is_signed ? llvm::CmpInst::ICMP_SGE : llvm::CmpInst::ICMP_UGE;
  }
}

}  // namespace

llvm::Value* FunctionEmitter::emit_comparison(BinaryOp op, DType dtype, llvm::Value* x, llvm::Value* y) {
  if (!dtype.is_float()) return compare(integer_predicate(op, dtype.is_signed()), x, y);
  if (is_half(dtype)) x = floats.widen(dtype, x), y = floats.widen(dtype, y);
  return compare(float_predicate(op), x, y);
}

// ramp(x, 1) < broadcast(n) in 64 bits is two or four registers of comparisons for one of floats. The lanes that hold
// are a prefix, whose length fits a narrow integer.
llvm::Value* FunctionEmitter::emit_ramp_comparison(const Binary* node) {
  auto* ramp = node->a.as<Ramp>();
  auto* limit = node->b.as<Broadcast>();
  auto* limit_imm = node->b.as<IntImm>();
  if (!ramp || (!limit && !limit_imm) || !(ramp->dtype.element() == i64) || !is_int(ramp->stride, 1)) return nullptr;
  if (node->op != BinaryOp::lt && node->op != BinaryOp::le) return nullptr;
  // The difference must not wrap, so both sides have to be indices.
  if (!is_pure_index(ramp->base) || (limit && !is_pure_index(limit->value))) return nullptr;
  const int lanes = ramp->dtype.lanes;
  if (lane_mask_.mask && lane_mask_.block == b.GetInsertBlock() && lane_mask_.op == node->op &&
      equal(lane_mask_.lanes, node->a) && equal(lane_mask_.limit, node->b))
    return lane_mask_.mask;
  llvm::Value* bound = limit ? emit_index(limit->value) : b.getInt64(limit_imm->value);
  llvm::Value* count = b.CreateNSWSub(bound, emit_index(ramp->base));
  if (node->op == BinaryOp::le) count = b.CreateNSWAdd(count, b.getInt64(1));
  if (const llvm::APInt* known = constant_int(count)) {
    llvm::SmallVector<llvm::Constant*, 16> holds;
    for (int i = 0; i < lanes; ++i) holds.push_back(b.getInt1(known->sgt(i)));
    return llvm::ConstantVector::get(holds);
  }
  Affine form = to_affine(limit ? limit->value : node->b);
  form.lanes = 1;
  const bool narrow = add_scaled(form, to_affine(ramp->base), -1) && kernel.info.is_narrow(form);
  if (!narrow) {
    count = b.CreateBinaryIntrinsic(llvm::Intrinsic::smin, count, b.getInt64(lanes));
    count = b.CreateBinaryIntrinsic(llvm::Intrinsic::smax, count, b.getInt64(0));
  }
  llvm::SmallVector<llvm::Constant*, 16> steps;
  for (int i = 0; i < lanes; ++i) steps.push_back(b.getInt32(i));
  llvm::Value* limits = splat(b, b.CreateTrunc(count, b.getInt32Ty()), lanes);
  // Frozen, or LLVM compares anew in each loop that uses the mask.
  llvm::Value* mask = b.CreateFreeze(b.CreateICmpSLT(llvm::ConstantVector::get(steps), limits));
  lane_mask_ = {node->op, node->a, node->b, mask, b.GetInsertBlock()};
  return mask;
}

// ramp(x, 1) beside a number of 64 bits that is the same for all lanes, as a class or a length that was loaded: places
// take 31 bits, and so does the number once it is clamped to just beyond them, which loops do ahead.
llvm::Value* FunctionEmitter::emit_narrow_comparison(const Binary* node) {
  const bool turned = node->b.as<Ramp>() != nullptr;
  auto* ramp = (turned ? node->b : node->a).as<Ramp>();
  auto* number = (turned ? node->a : node->b).as<Broadcast>();
  if (!ramp || !number || !node->dtype.is_bool() || !(ramp->dtype.element() == i64) || !is_int(ramp->stride, 1) ||
      !is_pure_index(ramp->base) || !kernel.info.is_narrow(to_affine(ramp->base)))
    return nullptr;
  const int lanes = ramp->dtype.lanes;
  llvm::SmallVector<llvm::Constant*, 16> steps;
  for (int i = 0; i < lanes; ++i) steps.push_back(b.getInt32(i));
  llvm::Value* first = splat(b, b.CreateTrunc(emit_index(ramp->base), b.getInt32Ty()), lanes);
  llvm::Value* places = b.CreateAdd(first, llvm::ConstantVector::get(steps));
  llvm::Value* clamped = emit(number->value);
  for (const auto& [op, end] : {std::pair(llvm::Intrinsic::smin, std::numeric_limits<std::int32_t>::max()),
                                std::pair(llvm::Intrinsic::smax, std::numeric_limits<std::int32_t>::min())})
    clamped = b.CreateBinaryIntrinsic(op, clamped, b.getInt64(end));
  llvm::Value* numbers = splat(b, b.CreateTrunc(clamped, b.getInt32Ty()), lanes);
  return turned ? emit_comparison(node->op, i32, numbers, places) : emit_comparison(node->op, i32, places, numbers);
}

}  // namespace lathe::codegen
