#include "backends/llvm/emitter.h"

/// Instructions that are emitted once for all that ask for them: the copies of an unrolled body differ in constants,
/// and twice as many instructions as are needed would be made only for LLVM to find the equal ones.
namespace lathe::codegen {

namespace {

constexpr unsigned no_wrap = 1U << 16;  // beside an opcode
constexpr unsigned in_bounds = 1U << 17;

}  // namespace

llvm::Value* FunctionEmitter::add(llvm::Value* x, llvm::Value* y) {
  return known({llvm::Instruction::Add, x, y, nullptr, 0}, [&] { return b.CreateAdd(x, y); });
}

llvm::Value* FunctionEmitter::subtract(llvm::Value* x, llvm::Value* y) {
  return known({llvm::Instruction::Sub, x, y, nullptr, 0}, [&] { return b.CreateSub(x, y); });
}

llvm::Value* FunctionEmitter::multiply(llvm::Value* x, std::int64_t factor, bool wraps) {
  return known({llvm::Instruction::Mul | (wraps ? 0 : no_wrap), x, nullptr, nullptr, factor},
               [&] { return b.CreateMul(x, int_constant(x->getType(), factor), "", false, !wraps); });
}

llvm::Value* FunctionEmitter::offset_by(llvm::Type* type, llvm::Value* pointer, llvm::Value* index, bool inbounds) {
  const auto flags = inbounds ? llvm::GEPNoWrapFlags::inBounds() : llvm::GEPNoWrapFlags::none();
  return known({llvm::Instruction::GetElementPtr | (inbounds ? in_bounds : 0), pointer, index, type, 0},
               [&] { return b.CreateGEP(type, pointer, index, "", flags); });
}

llvm::Value* FunctionEmitter::extreme(llvm::Intrinsic::ID intrinsic, llvm::Value* x, llvm::Value* y) {
  return known({llvm::Instruction::Call, x, y, nullptr, intrinsic},
               [&] { return b.CreateBinaryIntrinsic(intrinsic, x, y); });
}

llvm::Value* FunctionEmitter::compare(llvm::CmpInst::Predicate predicate, llvm::Value* x, llvm::Value* y) {
  return known({llvm::Instruction::FCmp, x, y, nullptr, predicate}, [&] { return b.CreateCmp(predicate, x, y); });
}

llvm::Value* FunctionEmitter::combine(llvm::Instruction::BinaryOps operation, llvm::Value* x, llvm::Value* y) {
  return known({operation, x, y, nullptr, 0}, [&] { return b.CreateBinOp(operation, x, y); });
}

llvm::Value* FunctionEmitter::combine_exactly(llvm::Instruction::BinaryOps operation, llvm::Value* x, llvm::Value* y) {
  return known({operation | no_wrap, x, y, nullptr, 0}, [&]() -> llvm::Value* {
    if (operation == llvm::Instruction::Add) return b.CreateNSWAdd(x, y);
    if (operation == llvm::Instruction::Sub) return b.CreateNSWSub(x, y);
    return b.CreateNSWMul(x, y);
  });
}

llvm::Value* FunctionEmitter::opposite(llvm::Value* x) {
  if (auto* comparison = llvm::dyn_cast<llvm::CmpInst>(x))
    return compare(comparison->getInversePredicate(), comparison->getOperand(0), comparison->getOperand(1));
  return combine(llvm::Instruction::Xor, x, llvm::Constant::getAllOnesValue(x->getType()));
}

llvm::Value* FunctionEmitter::seen_as(llvm::Value* x, llvm::Type* type) {
  if (auto* cast = llvm::dyn_cast<llvm::BitCastInst>(x); cast && cast->getOperand(0)->getType() == type)
    return cast->getOperand(0);
  return known({llvm::Instruction::BitCast, x, nullptr, type, 0}, [&] { return b.CreateBitCast(x, type); });
}

llvm::Value* FunctionEmitter::resized(llvm::Value* x, llvm::Type* type, bool is_signed) {
  const unsigned operation = is_signed ? llvm::Instruction::SExt : llvm::Instruction::ZExt;  // or a truncation
  return known({operation, x, nullptr, type, 0},
               [&] { return is_signed ? b.CreateSExtOrTrunc(x, type) : b.CreateZExtOrTrunc(x, type); });
}

llvm::Value* FunctionEmitter::repeated(llvm::Value* scalar, int lanes) {
  if (lanes == 1) return scalar;
  return known({llvm::Instruction::ShuffleVector, scalar, nullptr, nullptr, lanes},
               [&] { return splat(b, scalar, lanes); });
}

}  // namespace lathe::codegen
