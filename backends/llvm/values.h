#pragma once
/// How TIR's types live in LLVM IR, and the float arithmetic that LLVM would turn into library calls.
///
/// A bool is an i1 as a value and an i8 in memory. f16 and bf16 are i16 bits in both: they are widened to float around
/// every operation, so that no target feature and no run-time library is needed for them.
#include <llvm/ADT/STLFunctionalExtras.h>
#include <llvm/ADT/SmallVector.h>
#include <llvm/IR/IRBuilder.h>
#include <llvm/IR/IntrinsicInst.h>

#include "ir/dtype.h"

namespace lathe::codegen {

using Builder = llvm::IRBuilder<>;

/// What the target does in hardware, where LLVM would otherwise call a library.
struct TargetTraits {
  bool half_conversion = false;  ///< f16 <-> f32 instructions
  bool rounding = false;         ///< floor, ceil, trunc and round to even as instructions
  bool fused_multiply_add = false;
  bool scales_by_exponent = false;  ///< x86's vscalefps
  bool permutes = false;            ///< AVX-512's permutations of lanes, by vectors of every width
  bool permutes_eight = false;      ///< AVX2's vpermps: any of 8 lanes of 32 bits to each
  bool reciprocals = false;         ///< AVX-512's vrcp14ps, on vectors of every width
  bool float_parts = false;         ///< AVX-512's vgetexpps and vgetmantps, on vectors of every width
  bool ternary_logic = false;       ///< AVX-512's, on vectors of every width
  bool ranges = false;              ///< AVX-512's vrangeps, on vectors of every width
  bool second_extremes = false;     ///< AVX's minima and maxima: of NaN, or of two zeros, the second operand
  bool mask_words = false;          ///< masks of 8 to 64 lanes are words of bits: AVX-512's, on vectors of every width
  int least_permuted = 0;           ///< bits of the least elements that AVX-512 takes to any place of 512; 0: none
  bool wide_vectors = false;        ///< x86's of 512 bits
  bool integer_dot = false;         ///< x86's vpdpbusd and vpdpwssd
  bool bfloat_dot = false;          ///< x86's vdpbf16ps, and its vcvtneps2bf16
  int pair_products = 0;            ///< bits of the widest vector that x86's pmaddwd takes
};

llvm::Type* element_value_type(llvm::LLVMContext& context, DType dtype);
llvm::Type* element_memory_type(llvm::LLVMContext& context, DType dtype);
llvm::Type* value_type(llvm::LLVMContext& context, DType dtype);
llvm::Type* memory_type(llvm::LLVMContext& context, DType dtype);

/// Is this a 16-bit float, whose values travel as i16?
inline bool is_half(DType dtype) {
  return dtype.is_float() && dtype.bits == 16;
}

/// 1 of a scalar.
int lanes_of(llvm::Value* v);
/// `element` with the lanes of `like`.
llvm::Type* with_lanes_of(llvm::Type* element, llvm::Type* like);
llvm::Value* splat(Builder& b, llvm::Value* scalar, int lanes);
/// An integer constant with the type (and lanes) given.
llvm::Constant* int_constant(llvm::Type* type, std::int64_t value);

/// Emits float operations. Every function acts lane by lane, on scalars and vectors alike.
class FloatEmitter {
 public:
  FloatEmitter(Builder& b, const TargetTraits& traits) : b(b), traits(traits) {}

  /// i16 bits of `dtype` (f16 or bf16) to float, exactly; and back, to nearest even.
  llvm::Value* widen(DType dtype, llvm::Value* bits);
  llvm::Value* narrow(DType dtype, llvm::Value* value);
  /// What is one of `dtype`'s values as it is.
  llvm::Value* narrow_exactly(DType dtype, llvm::Value* value);
  /// double to the i16 bits of `dtype` with one rounding.
  llvm::Value* narrow_double(DType dtype, llvm::Value* value);
  /// An integer of 32 bits, the same.
  llvm::Value* narrow_int(DType dtype, llvm::Value* value, bool is_signed);
  /// A float that is a whole number, or one rounded to odd, to the bits of `dtype`.
  llvm::Value* narrow_whole(DType dtype, llvm::Value* value);

  /// NaN if either is NaN, and -0 below +0.
  llvm::Value* minimum(llvm::Value* x, llvm::Value* y);
  llvm::Value* maximum(llvm::Value* x, llvm::Value* y);
  /// Makes instructions of minima and maxima, once it is known which are parts of others alone.
  void expand_extremes();
  /// The least or the largest lane of a vector, as a vector with it in front; null where folding halves with minimum or
  /// maximum is as good.
  llvm::Value* extreme_lane(bool largest, llvm::Value* vector);

  llvm::Value* floor(llvm::Value* x);
  llvm::Value* ceil(llvm::Value* x);
  llvm::Value* trunc(llvm::Value* x);
  llvm::Value* round_even(llvm::Value* x);
  llvm::Value* abs(llvm::Value* x);
  llvm::Value* copysign(llvm::Value* magnitude, llvm::Value* sign);
  llvm::Value* fma(llvm::Value* x, llvm::Value* y, llvm::Value* z);
  /// float and double; the intrinsic `scaleb`.
  llvm::Value* scaleb(llvm::Value* x, llvm::Value* n);
  /// float and double; the intrinsic `reciprocal`.
  llvm::Value* reciprocal(llvm::Value* x);
  /// float and double; the intrinsics `exponent` and `mantissa`.
  llvm::Value* exponent(llvm::Value* x);
  llvm::Value* mantissa(llvm::Value* x);
  /// Vectors of any type; the intrinsic `permute`. A scalar `n` gives a scalar.
  llvm::Value* permute(llvm::Value* v, llvm::Value* n);

 private:
  bool has_ranges(llvm::Type* type) const;
  /// Do several operands at once cost less than one after the other?
  bool joins_extremes(bool largest, llvm::Type* type) const;
  /// vrangeps of two vectors of 128, 256 or 512 bits.
  llvm::Value* range(bool largest, llvm::Value* x, llvm::Value* y);
  /// minimum or maximum of what is no constant; where several are dearer apart, an intrinsic until expand_extremes.
  llvm::Value* extreme(llvm::Intrinsic::ID id, llvm::Value* x, llvm::Value* y);
  /// A vector of 128 bits whose first lane the scalar is.
  llvm::Value* as_lane(llvm::Value* scalar);
  llvm::Value* of_pair(bool largest, llvm::Value* x, llvm::Value* y);
  llvm::Value* minimum_of_pair(llvm::Value* x, llvm::Value* y);
  llvm::Value* maximum_of_pair(llvm::Value* x, llvm::Value* y);
  llvm::Value* of_several(bool largest, llvm::ArrayRef<llvm::Value*> operands);
  llvm::Value* maximum_of_several(llvm::ArrayRef<llvm::Value*> operands);
  /// What is `asked` of each two operands, taken together.
  llvm::Value* of_each_two(llvm::CmpInst::Predicate asked, llvm::Instruction::BinaryOps all,
                           llvm::ArrayRef<llvm::Value*> operands);
  llvm::Value* majority(llvm::Value* x, llvm::Value* y, llvm::Value* z);
  llvm::Value* widen_f16(llvm::Value* bits);
  llvm::Value* narrow_f16(llvm::Value* value);
  llvm::Value* narrow_bf16(llvm::Value* value, bool may_be_nan = true);
  /// The same of what is no denormal, such as whole numbers.
  llvm::Value* narrow_normal(llvm::Value* value, bool may_be_nan);
  /// The same of what is one so rarely that it may take a branch.
  llvm::Value* narrow_mostly_normal(llvm::Value* value);
  llvm::Value* permute_whole(llvm::Value* v, llvm::Value* n);
  llvm::Value* permute_narrow(llvm::Value* v, llvm::Value* n);
  /// What `of` makes of x, which it gets in vectors of 128, 256 or 512 bits.
  llvm::Value* in_registers(llvm::Value* x, llvm::function_ref<llvm::Value*(llvm::Value*)> of);
  llvm::Value* power_of_two(llvm::Value* n, llvm::Type* type);
  llvm::Value* to_odd(llvm::Value* sum, llvm::Value* error);
  llvm::Value* fma_by_double(llvm::Value* x, llvm::Value* y, llvm::Value* z);
  llvm::Value* fma_by_parts(llvm::Value* x, llvm::Value* y, llvm::Value* z);
  llvm::Value* to_bits(llvm::Value* x);
  llvm::Value* from_bits(llvm::Value* bits, llvm::Type* type);

  Builder& b;
  const TargetTraits& traits;
  llvm::SmallVector<llvm::IntrinsicInst*> extremes_;  ///< that are to be expanded
};

}  // namespace lathe::codegen
