#include <llvm/ADT/SmallPtrSet.h>
#include <llvm/IR/Constants.h>
#include <llvm/IR/IntrinsicInst.h>
#include <llvm/IR/IntrinsicsX86.h>

#include <algorithm>
#include <numeric>
#include <vector>

#include "backends/llvm/values.h"

/// Minima and maxima, of which a NaN is one wherever an operand is, and -0 is below +0.
namespace lathe::codegen {

using llvm::Intrinsic::ID;

namespace {

/// A float constant, or a splat of one, that is no NaN.
const llvm::ConstantFP* known_number(llvm::Value* v) {
  auto* constant = llvm::dyn_cast<llvm::Constant>(v);
  if (constant && constant->getType()->isVectorTy()) constant = constant->getSplatValue();
  auto* number = llvm::dyn_cast_or_null<llvm::ConstantFP>(constant);
  return number && !number->isNaN() ? number : nullptr;
}

bool is_infinite(const llvm::ConstantFP& number, bool negative) {
  return number.isInfinity() && number.isNegative() == negative;
}

/// What vrangeps picks: the sign is the chosen operand's.
constexpr int lesser = 4, greater = 5;

}  // namespace

llvm::Value* FloatEmitter::minimum(llvm::Value* x, llvm::Value* y) {
  if (known_number(x)) std::swap(x, y);
  // A hardware minimum returns its second operand for NaN and for zeros of either sign, so a constant goes first.
  if (auto* c = known_number(y); c && !(c->isZero() && c->isNegative()))
    return is_infinite(*c, false) ? x : b.CreateSelect(b.CreateFCmpOLT(y, x), y, x);
  return extreme(llvm::Intrinsic::minimum, x, y);
}

llvm::Value* FloatEmitter::maximum(llvm::Value* x, llvm::Value* y) {
  if (known_number(x)) std::swap(x, y);
  if (auto* c = known_number(y)) {
    if (is_infinite(*c, true)) return x;
    llvm::Value* larger = b.CreateSelect(b.CreateFCmpOGT(y, x), y, x);
    // Adding +0 turns a -0 that met +0 into +0, and changes nothing else.
    return c->isZero() && !c->isNegative() ? b.CreateFAdd(larger, y) : larger;
  }
  return extreme(llvm::Intrinsic::maximum, x, y);
}

// Scalars are lanes of vector registers: there a choice takes an instruction, which in registers of integers takes a
// move each way.
llvm::Value* FloatEmitter::as_lane(llvm::Value* scalar) {
  llvm::Type* type = scalar->getType();
  const unsigned lanes = 128 / static_cast<unsigned>(type->getPrimitiveSizeInBits().getFixedValue());
  auto* vector = llvm::FixedVectorType::get(type, lanes);
  if (auto* lane = llvm::dyn_cast<llvm::ExtractElementInst>(scalar)) {
    auto* index = llvm::dyn_cast<llvm::ConstantInt>(lane->getIndexOperand());
    if (index && index->isZero() && lane->getVectorOperandType() == vector) return lane->getVectorOperand();
  }
  return b.CreateInsertElement(llvm::PoisonValue::get(vector), scalar, std::uint64_t{0});
}

llvm::Value* FloatEmitter::extreme(ID id, llvm::Value* x, llvm::Value* y) {
  const bool largest = id == llvm::Intrinsic::maximum;
  if (traits.second_extremes && (x->getType()->isFloatTy() || x->getType()->isDoubleTy()))
    return b.CreateExtractElement(extreme(id, as_lane(x), as_lane(y)), std::uint64_t{0});
  if (!joins_extremes(largest, x->getType())) return of_pair(largest, x, y);
  llvm::Value* value = b.CreateBinaryIntrinsic(id, x, y);
  if (auto* call = llvm::dyn_cast<llvm::IntrinsicInst>(value)) extremes_.push_back(call);
  return value;
}

void FloatEmitter::expand_extremes() {
  // A scalar that only further extremes wanted is taken from no vector.
  for (llvm::IntrinsicInst* call : extremes_) {
    for (llvm::User* user : llvm::make_early_inc_range(call->users())) {
      auto* lane = llvm::dyn_cast<llvm::ExtractElementInst>(user);
      if (lane && lane->use_empty()) lane->eraseFromParent();
    }
  }
  const llvm::SmallPtrSet<llvm::Value*, 16> known(extremes_.begin(), extremes_.end());
  // One that only another of its kind wants, beside which it stands, is part of that.
  const auto is_part = [&](llvm::Value* value) {
    auto* call = llvm::dyn_cast<llvm::IntrinsicInst>(value);
    if (!call || !known.contains(call) || !call->hasOneUse()) return false;
    auto* user = llvm::dyn_cast<llvm::IntrinsicInst>(call->user_back());
    return user && known.contains(user) && user->getIntrinsicID() == call->getIntrinsicID() &&
           user->getParent() == call->getParent();
  };
  llvm::IRBuilderBase::InsertPointGuard guard(b);
  llvm::SmallVector<llvm::IntrinsicInst*> parts;
  for (llvm::IntrinsicInst* call : extremes_) {
    if (is_part(call)) {
      parts.push_back(call);
      continue;
    }
    llvm::SmallVector<llvm::Value*> operands{call->getArgOperand(0), call->getArgOperand(1)};
    for (size_t i = 0; i < operands.size();) {
      if (!is_part(operands[i])) {
        ++i;
        continue;
      }
      auto* part = llvm::cast<llvm::IntrinsicInst>(operands[i]);
      operands[i] = part->getArgOperand(0);
      operands.insert(operands.begin() + static_cast<std::ptrdiff_t>(i) + 1, part->getArgOperand(1));
    }
    // In the order of loads, and what a loop carries last, which comes first.
    std::rotate(operands.begin(), operands.begin() + 1, operands.end());
    b.SetInsertPoint(call);
    const bool largest = call->getIntrinsicID() == llvm::Intrinsic::maximum;
    call->replaceAllUsesWith(operands.size() == 2          ? of_pair(largest, operands[0], operands[1])
                             : has_ranges(call->getType()) ? of_several(largest, operands)
                                                           : maximum_of_several(operands));
    call->eraseFromParent();
  }
  for (llvm::IntrinsicInst* part : llvm::reverse(parts)) part->eraseFromParent();
  extremes_.clear();
}

llvm::Value* FloatEmitter::of_pair(bool largest, llvm::Value* x, llvm::Value* y) {
  return largest ? maximum_of_pair(x, y) : minimum_of_pair(x, y);
}

// The or of both operands is the answer wherever they are equal or unordered: -0 wins, and a NaN stays one. Minima with
// the operands either way round differ only there, so that where a choice by a mask costs as much as a minimum their or
// is it everywhere.
llvm::Value* FloatEmitter::minimum_of_pair(llvm::Value* x, llvm::Value* y) {
  llvm::Value* ordered = b.CreateSelect(b.CreateFCmpOLT(x, y), x, y);
  if (!traits.ternary_logic) {
    llvm::Value* turned = b.CreateSelect(b.CreateFCmpOLT(y, x), y, x);
    return from_bits(b.CreateOr(to_bits(ordered), to_bits(turned)), x->getType());
  }
  llvm::Value* merged = from_bits(b.CreateOr(to_bits(x), to_bits(y)), x->getType());
  return b.CreateSelect(b.CreateFCmpUEQ(x, y), merged, ordered);
}

// As a minimum, but equal zeros want the and of the signs, while a NaN needs the or of the rest: of what is compared as
// unordered, all bits. Where the operands are equal or unordered the hardware's maximum is y, so it stands in for y:
// the bits are then merged into it in place.
llvm::Value* FloatEmitter::maximum_of_pair(llvm::Value* x, llvm::Value* y) {
  llvm::Value* ordered = to_bits(b.CreateSelect(b.CreateFCmpOGT(x, y), x, y));
  llvm::Value* bits = to_bits(x);
  if (!traits.ternary_logic && x->getType()->isVectorTy()) {
    llvm::Value* turned = to_bits(b.CreateSelect(b.CreateFCmpOGT(y, x), y, x));
    llvm::Value* unordered = b.CreateSExt(b.CreateFCmpUNO(x, y), bits->getType());
    return from_bits(b.CreateOr(b.CreateAnd(ordered, turned), unordered), x->getType());
  }
  const unsigned width = bits->getType()->getScalarSizeInBits();
  llvm::Value* not_sign = llvm::ConstantInt::get(bits->getType(), llvm::APInt::getSignedMaxValue(width));
  llvm::Value* merged = majority(ordered, bits, not_sign);
  return from_bits(b.CreateSelect(b.CreateFCmpUEQ(x, y), merged, ordered), x->getType());
}

// vrangeps orders zeros by their signs and passes over a NaN. Whether there was one is asked of two operands by each
// comparison: n operands take n - 1 ranges and half as many comparisons, the last range under their mask, where pairs
// by themselves take three instructions each.
llvm::Value* FloatEmitter::of_several(bool largest, llvm::ArrayRef<llvm::Value*> operands) {
  llvm::Value* numbers = of_each_two(llvm::CmpInst::FCMP_ORD, llvm::Instruction::And, operands);
  llvm::Value* picked = operands.front();
  for (llvm::Value* operand : operands.drop_front()) picked = range(largest, picked, operand);
  return b.CreateSelect(numbers, picked, llvm::ConstantFP::getNaN(picked->getType()));
}

// The sign is that of all operands' and: zeros differ in nothing else, and of other values the one picked has it. A NaN
// is looked for as above. Three instructions an operand and three more, where pairs by themselves take five each; those
// of a minimum take three.
llvm::Value* FloatEmitter::maximum_of_several(llvm::ArrayRef<llvm::Value*> operands) {
  llvm::Value* picked = operands.front();
  llvm::Value* signs = to_bits(picked);
  for (llvm::Value* operand : operands.drop_front()) {
    picked = b.CreateSelect(b.CreateFCmpOGT(picked, operand), picked, operand);
    signs = b.CreateAnd(signs, to_bits(operand));
  }
  llvm::Type* bits = signs->getType();
  llvm::Value* not_sign = llvm::ConstantInt::get(bits, llvm::APInt::getSignedMaxValue(bits->getScalarSizeInBits()));
  llvm::Value* number = b.CreateAnd(to_bits(picked), b.CreateOr(signs, not_sign));
  llvm::Value* unordered = b.CreateSExt(of_each_two(llvm::CmpInst::FCMP_UNO, llvm::Instruction::Or, operands), bits);
  return from_bits(b.CreateOr(number, unordered), picked->getType());
}

llvm::Value* FloatEmitter::of_each_two(llvm::CmpInst::Predicate asked, llvm::Instruction::BinaryOps all,
                                       llvm::ArrayRef<llvm::Value*> operands) {
  llvm::Value* found = nullptr;
  for (size_t i = 0; i < operands.size(); i += 2) {
    llvm::Value* two = b.CreateFCmp(asked, operands[i], operands[std::min(i + 1, operands.size() - 1)]);
    found = found ? b.CreateBinOp(all, found, two) : two;
  }
  return found;
}

bool FloatEmitter::joins_extremes(bool largest, llvm::Type* type) const {
  const llvm::Type* element = type->getScalarType();
  const bool by_bits =
      traits.second_extremes && largest && type->isVectorTy() && (element->isFloatTy() || element->isDoubleTy());
  return by_bits || has_ranges(type);
}

bool FloatEmitter::has_ranges(llvm::Type* type) const {
  if (!traits.ranges || !type->isVectorTy()) return false;
  const llvm::Type* element = type->getScalarType();
  const std::uint64_t bits = type->getPrimitiveSizeInBits().getFixedValue();
  return (element->isFloatTy() || element->isDoubleTy()) && (bits == 128 || bits == 256 || bits == 512);
}

llvm::Value* FloatEmitter::range(bool largest, llvm::Value* x, llvm::Value* y) {
  using namespace llvm::Intrinsic;
  auto* type = llvm::cast<llvm::FixedVectorType>(x->getType());
  const std::uint64_t bits = type->getPrimitiveSizeInBits().getFixedValue();
  const bool single = type->getElementType()->isFloatTy();
  const auto pick = [&](ID of_float, ID of_double) { return single ? of_float : of_double; };
  const ID id = bits == 512   ? pick(x86_avx512_mask_range_ps_512, x86_avx512_mask_range_pd_512)
                : bits == 256 ? pick(x86_avx512_mask_range_ps_256, x86_avx512_mask_range_pd_256)
                              : pick(x86_avx512_mask_range_ps_128, x86_avx512_mask_range_pd_128);
  const unsigned lanes = type->getNumElements();
  llvm::Value* every_lane = llvm::Constant::getAllOnesValue(b.getIntNTy(std::max(lanes, 8U)));
  std::vector<llvm::Value*> operands{x, y, b.getInt32(largest ? greater : lesser), llvm::PoisonValue::get(type),
                                     every_lane};
  if (bits == 512) operands.push_back(b.getInt32(4));  // round as the control register says
  return b.CreateIntrinsic(id, {}, operands);
}

// One comparison of the whole vector finds a NaN again.
llvm::Value* FloatEmitter::extreme_lane(bool largest, llvm::Value* vector) {
  auto* type = llvm::cast<llvm::FixedVectorType>(vector->getType());
  const auto whole = static_cast<unsigned>(type->getPrimitiveSizeInBits().getFixedValue());
  if (!has_ranges(type) || whole == 128) return nullptr;
  llvm::Value* unordered = b.CreateOrReduce(b.CreateFCmpUNO(vector, vector));
  const unsigned element = type->getScalarSizeInBits();
  for (unsigned half = whole / 2; half >= element; half /= 2) {
    const unsigned bits = std::max(half, 128U), width = type->getNumElements(), lanes = bits / element;
    std::vector<int> low(lanes), high(lanes, -1);
    std::iota(low.begin(), low.end(), 0);
    std::iota(high.begin(), high.begin() + half / element, static_cast<int>(half / element));
    llvm::Value* lower = lanes == width ? vector : b.CreateShuffleVector(vector, low);
    llvm::Value* upper = b.CreateShuffleVector(vector, high);
    type = llvm::FixedVectorType::get(type->getElementType(), lanes);
    vector = range(largest, lower, upper);
  }
  return b.CreateSelect(unordered, llvm::ConstantFP::getNaN(type), vector);
}

}  // namespace lathe::codegen
