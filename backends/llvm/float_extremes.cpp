#include <llvm/IR/Constants.h>
#include <llvm/IR/IntrinsicsX86.h>

#include <algorithm>
#include <numeric>
#include <vector>

#include "backends/llvm/values.h"

/// Minima and maxima, of which a NaN is one wherever an operand is, and -0 is below +0.
namespace lathe::codegen {
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

// A hardware minimum returns its second operand for NaN and for zeros of either sign, so a constant goes first. In
// general the or of both operands is the answer wherever they are equal or unordered: -0 wins, and a NaN stays one.
// Minima with the operands either way round differ only there, so that where a choice by a mask costs as much as a
// minimum their or is it everywhere.
llvm::Value* FloatEmitter::minimum(llvm::Value* x, llvm::Value* y) {
  if (known_number(x)) std::swap(x, y);
  if (auto* c = known_number(y); c && !(c->isZero() && c->isNegative()))
    return is_infinite(*c, false) ? x : b.CreateSelect(b.CreateFCmpOLT(y, x), y, x);
  return extreme(false, x, y, [&]() -> llvm::Value* {
    llvm::Value* ordered = b.CreateSelect(b.CreateFCmpOLT(x, y), x, y);
    if (!traits.ternary_logic) {
      llvm::Value* turned = b.CreateSelect(b.CreateFCmpOLT(y, x), y, x);
      return from_bits(b.CreateOr(to_bits(ordered), to_bits(turned)), x->getType());
    }
    llvm::Value* merged = from_bits(b.CreateOr(to_bits(x), to_bits(y)), x->getType());
    return b.CreateSelect(b.CreateFCmpUEQ(x, y), merged, ordered);
  });
}

// As minimum, but equal zeros want the and of the signs, while a NaN needs the or of the rest: of what is compared as
// unordered, all bits. Where the operands are equal or unordered the hardware's maximum is y, so it stands in for y:
// the bits are then merged into it in place.
llvm::Value* FloatEmitter::maximum(llvm::Value* x, llvm::Value* y) {
  if (known_number(x)) std::swap(x, y);
  if (auto* c = known_number(y)) {
    if (is_infinite(*c, true)) return x;
    llvm::Value* larger = b.CreateSelect(b.CreateFCmpOGT(y, x), y, x);
    // Adding +0 turns a -0 that met +0 into +0, and changes nothing else.
    return c->isZero() && !c->isNegative() ? b.CreateFAdd(larger, y) : larger;
  }
  return extreme(true, x, y, [&]() -> llvm::Value* {
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
  });
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

// vrangeps orders zeros by their signs and passes over a NaN. Whether there was one is asked of two operands by each
// comparison: n operands take n - 1 ranges and half as many comparisons, the last range under their mask, where pairs
// by themselves take three instructions each. Of a pair alone the next one would wait longer for these.
llvm::Value* FloatEmitter::extreme(bool largest, llvm::Value* x, llvm::Value* y,
                                   llvm::function_ref<llvm::Value*()> of_pair) {
  if (!has_ranges(x->getType())) return of_pair();
  const auto terms_of = [&](llvm::Value* v) {
    const auto found = extremes_.find(v);
    const bool known = found != extremes_.end() && found->second.largest == largest;
    return known ? found->second : Extreme{largest, v, nullptr, v};
  };
  const auto both = [&](llvm::Value* p, llvm::Value* q) { return p && q ? b.CreateAnd(p, q) : p ? p : q; };
  const Extreme left = terms_of(x), right = terms_of(y);
  Extreme all{largest, range(largest, left.picked, right.picked), both(left.numbers, right.numbers)};
  llvm::Value* numbers = all.numbers;
  if (left.unasked && right.unasked) {
    numbers = all.numbers = both(all.numbers, b.CreateFCmpORD(left.unasked, right.unasked));
  } else if ((all.unasked = left.unasked ? left.unasked : right.unasked)) {
    numbers = both(all.numbers, b.CreateFCmpORD(all.unasked, all.unasked));
  }
  const bool alone = left.picked == x && right.picked == y;
  llvm::Value* result = alone ? of_pair() : b.CreateSelect(numbers, all.picked, llvm::ConstantFP::getNaN(x->getType()));
  if (!llvm::isa<llvm::Constant>(result)) extremes_[result] = all;
  return result;
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
