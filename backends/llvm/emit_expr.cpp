#include <llvm/IR/Constants.h>
#include <llvm/IR/Intrinsics.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "backends/llvm/emitter.h"
#include "ir/analysis/exact_floats.h"
#include "ir/error.h"
#include "ir/intrinsics.h"
#include "ir/text/print.h"

namespace lathe::codegen {

void FunctionEmitter::remember(const Expr& e, llvm::Value* value) {
  // A load from memory that the kernel writes holds for one statement only.
  if (!kernel.info.is_stable(e.get())) {
    transient_[e.get()] = value;
    return;
  }
  values_[e.get()] = value;
  value_log_.push_back(e.get());
}

void FunctionEmitter::close_scope(Scope scope) {
  for (; value_log_.size() > scope.values; value_log_.pop_back()) values_.erase(value_log_.back());
  for (; offset_log_.size() > scope.offsets; offset_log_.pop_back()) offsets_.erase(offset_log_.back());
  for (; known_log_.size() > scope.known; known_log_.pop_back()) known_.erase(known_log_.back());
  transient_.clear();
}

llvm::Value* FunctionEmitter::emit(const Expr& e) {
  if (auto found = values_.find(e.get()); found != values_.end()) return found->second;
  if (llvm::Value** known = transient_.find(e.get())) return *known;
  llvm::Value* value = emit_new(e);
  if (e->kind != ExprKind::Var && e->kind != ExprKind::IntImm && e->kind != ExprKind::FloatImm) remember(e, value);
  return value;
}

llvm::Value* FunctionEmitter::emit_new(const Expr& e) {
  switch (e->kind) {
    case ExprKind::IntImm:
      return emit_imm(e->dtype, static_cast<const IntImm*>(e.get())->value);
    case ExprKind::FloatImm: {
      const double value = static_cast<const FloatImm*>(e.get())->value;
      if (!is_half(e->dtype)) return llvm::ConstantFP::get(value_type(context, e->dtype), value);
      llvm::APFloat bits(value);
      bool inexact;
      bits.convert(e->dtype.code == TypeCode::brain ? llvm::APFloat::BFloat() : llvm::APFloat::IEEEhalf(),
                   llvm::APFloat::rmNearestTiesToEven, &inexact);
      return llvm::ConstantInt::get(value_type(context, e->dtype), bits.bitcastToAPInt());
    }
    case ExprKind::Var: {
      auto* var = static_cast<const Var*>(e.get());
      auto found = vars_.find(var);
      LATHE_CHECK(found != vars_.end(), "variable " + var->name + " is not bound in " + kernel.func->name);
      auto stride = strides_.find(var);
      return stride == strides_.end() ? found->second : b.CreateExactSDiv(found->second, b.getInt64(stride->second));
    }
    case ExprKind::Unary: {
      auto* node = static_cast<const Unary*>(e.get());
      return emit_unary(node->op, node->a->dtype, emit(node->a));
    }
    case ExprKind::Binary: {
      auto* node = static_cast<const Binary*>(e.get());
      if (llvm::Value* product = emit_counter_product(e)) return product;
      if (llvm::Value* mask = emit_ramp_comparison(node)) return mask;
      if (llvm::Value* mask = emit_narrow_comparison(node)) return mask;
      if (llvm::Value* inside = emit_range_check(node)) return inside;
      if (llvm::Value* result = emit_ramp_division(node)) return result;
      // A quotient of a loop's counter, which no arithmetic has wrapped, is as a value that of an index.
      if (counters_.count(node->a.as<Var>()) != 0 && is_natural_division(node)) return emit_index(e);
      llvm::Value* a = emit(node->a);
      return emit_binary(node->op, node->a->dtype, a, emit(node->b));
    }
    case ExprKind::Select:
      return emit_select(static_cast<const Select*>(e.get()));
    case ExprKind::Cast: {
      auto* node = static_cast<const Cast*>(e.get());
      if (fits_exactly(node->value, node->dtype)) return floats.narrow_exactly(node->dtype, emit(node->value));
      return emit_cast(node->dtype, node->value->dtype, emit(node->value));
    }
    case ExprKind::Load:
      return emit_load(static_cast<const Load*>(e.get()));
    case ExprKind::Ramp:
      return emit_ramp(static_cast<const Ramp*>(e.get()));
    case ExprKind::Broadcast:
      return repeated(emit(static_cast<const Broadcast*>(e.get())->value), e->dtype.lanes);
    case ExprKind::Shuffle:
      return emit_shuffle(static_cast<const Shuffle*>(e.get()));
    case ExprKind::Call:
      return emit_call(static_cast<const Call*>(e.get()));
    case ExprKind::AddressOf: {
      auto* node = static_cast<const AddressOf*>(e.get());
      llvm::Value* address = element_address(node->buffer.get(), split_offset(node->indices[0]), false);
      return b.CreatePtrToInt(address, b.getInt64Ty());
    }
  }
  throw Bug("unknown expression kind");
}

llvm::Value* FunctionEmitter::emit_imm(DType dtype, std::int64_t value) {
  if (dtype.is_bool()) value = value != 0 ? 1 : 0;
  const unsigned bits = dtype.is_bool() ? 1 : dtype.bits;
  const auto mask = bits == 64 ? ~std::uint64_t{0} : (std::uint64_t{1} << bits) - 1;
  return llvm::ConstantInt::get(value_type(context, dtype),
                                llvm::APInt(bits, static_cast<std::uint64_t>(value) & mask));
}

llvm::Value* FunctionEmitter::loaded_constant(llvm::Value* value) {
  auto* constant = llvm::dyn_cast<llvm::Constant>(value);
  if (!constant || !constant->getType()->isVectorTy() || constant->isZeroValue()) return value;
  if (!llvm::isa_and_nonnull<llvm::ConstantFP>(constant->getSplatValue())) return value;
  llvm::Value*& loaded = loaded_constants_[constant];
  if (!loaded) loaded = load_stored(prologue, constant, constant);
  return loaded;
}

llvm::Value* FunctionEmitter::loaded_mask(llvm::Value* mask) {
  auto* constant = llvm::dyn_cast<llvm::Constant>(mask);
  if (!kernel.traits.mask_words || !constant || constant->isZeroValue() || constant->isAllOnesValue()) return mask;
  const auto lanes = llvm::cast<llvm::FixedVectorType>(constant->getType())->getNumElements();
  if (lanes < 8 || lanes > 64) return mask;
  llvm::Value*& loaded = loaded_constants_[constant];
  if (loaded) return loaded;
  llvm::APInt bits(lanes, 0);
  for (unsigned lane = 0; lane < lanes; ++lane)
    if (constant->getAggregateElement(lane)->isOneValue()) bits.setBit(lane);
  return loaded = prologue.CreateBitCast(load_stored(prologue, constant, llvm::ConstantInt::get(context, bits)),
                                         constant->getType());
}

/// Loads `stored`, which stands for `key`.
llvm::Value* FunctionEmitter::load_stored(llvm::IRBuilderBase& place, llvm::Constant* key, llvm::Constant* stored) {
  llvm::Type* type = stored->getType();
  llvm::GlobalVariable*& variable = kernel.stored_constants[key];
  if (!variable) {
    variable = new llvm::GlobalVariable(kernel.module, type, true, llvm::GlobalValue::PrivateLinkage, stored);
    variable->setAlignment(kernel.module.getDataLayout().getABITypeAlign(type));
    variable->setExternallyInitialized(true);  // otherwise the load would be folded back
  }
  auto* load = place.CreateLoad(type, variable);
  load->setMetadata(llvm::LLVMContext::MD_invariant_load, llvm::MDNode::get(context, {}));
  return load;
}

// ---- indices ----

llvm::Value* FunctionEmitter::emit_counter_product(const Expr& e) {
  if (strides_.empty()) return nullptr;
  auto* node = e.as<Binary>();
  if (!node || node->op != BinaryOp::mul) return nullptr;
  auto* variable = node->a.as<Var>();
  auto* factor = node->b.as<IntImm>();
  auto stride = variable && factor ? strides_.find(variable) : strides_.end();
  if (stride == strides_.end() || factor->value % stride->second != 0) return nullptr;
  const std::int64_t times = factor->value / stride->second;
  return times == 1 ? vars_.at(variable) : multiply(vars_.at(variable), times, false);
}

bool FunctionEmitter::is_pure_index(const Expr& e) {
  if (!(e->dtype == i64)) return false;
  if (e->kind == ExprKind::IntImm) return true;
  if (auto* var = e.as<Var>()) return index_vars_.count(var) != 0;
  auto* node = e.as<Binary>();
  if (!node) return false;
  switch (node->op) {
    case BinaryOp::add:
    case BinaryOp::sub:
    case BinaryOp::mul:
    case BinaryOp::floor_div:
    case BinaryOp::floor_mod:
    case BinaryOp::min:
    case BinaryOp::max:
      return is_pure_index(node->a) && is_pure_index(node->b);
    default:
      return false;
  }
}

bool FunctionEmitter::is_non_negative(const Expr& e) {
  if (!(e->dtype == i64)) return false;
  if (auto* imm = e.as<IntImm>()) return imm->value >= 0;
  if (auto* var = e.as<Var>()) return non_negative_vars_.count(var) != 0;
  auto* node = e.as<Binary>();
  if (!node) return false;
  switch (node->op) {
    case BinaryOp::add:
    case BinaryOp::mul:  // may wrap as a value, never as an index
    case BinaryOp::min:
    case BinaryOp::floor_div:
      return is_non_negative(node->a) && is_non_negative(node->b);
    case BinaryOp::max:
      return is_non_negative(node->a) || is_non_negative(node->b);
    case BinaryOp::floor_mod:
      return is_non_negative(node->b);
    default:
      return false;
  }
}

bool FunctionEmitter::is_natural_division(const Binary* node) {
  const bool division = node->op == BinaryOp::floor_div || node->op == BinaryOp::floor_mod;
  const auto* divisor = node->b.as<IntImm>();
  return division && divisor && divisor->value > 0 && is_non_negative(node->a);
}

llvm::Value* FunctionEmitter::emit_range_check(const Binary* node) {
  const Binary *least = node->a.as<Binary>(), *most = node->b.as<Binary>();
  if (node->op != BinaryOp::logical_and || !least || !most || most->op != BinaryOp::lt) return nullptr;
  const std::int64_t* end = as_int(most->b);
  const Expr& value = most->a;
  const bool from_zero = (least->op == BinaryOp::lt && is_int(least->a, -1) && equal(least->b, value)) ||
                         (least->op == BinaryOp::ge && is_int(least->b, 0) && equal(least->a, value)) ||
                         (least->op == BinaryOp::le && is_int(least->a, 0) && equal(least->b, value));
  if (!from_zero || !end || *end <= 0 || value->kind == ExprKind::Ramp || !value->dtype.is_signed()) return nullptr;
  llvm::Value* given = emit(value);
  return b.CreateICmpULT(given, int_constant(given->getType(), *end));
}

llvm::Value* FunctionEmitter::emit_index(const Expr& e) {
  auto* node = e.as<Binary>();
  if (!node || !(e->dtype == i64)) return emit(e);
  if (auto found = values_.find(e.get()); found != values_.end()) return found->second;
  if (llvm::Value* product = emit_counter_product(e)) return product;
  if (is_natural_division(node)) {
    llvm::Value *a = emit_index(node->a), *c = emit(node->b);
    return combine(node->op == BinaryOp::floor_div ? llvm::Instruction::UDiv : llvm::Instruction::URem, a, c);
  }
  const bool pure = is_pure_index(e);
  const bool arithmetic = node->op == BinaryOp::add || node->op == BinaryOp::sub || node->op == BinaryOp::mul;
  if (!pure || !arithmetic) return emit(e);
  llvm::Value *a = emit_index(node->a), *c = emit_index(node->b);
  if (node->op == BinaryOp::add) return combine_exactly(llvm::Instruction::Add, a, c);
  if (node->op == BinaryOp::sub) return combine_exactly(llvm::Instruction::Sub, a, c);
  return combine_exactly(llvm::Instruction::Mul, a, c);
}

// ---- vectors ----

llvm::Value* FunctionEmitter::emit_ramp(const Ramp* node) {
  const int lanes = node->dtype.lanes;
  llvm::Type* type = value_type(context, node->dtype);
  llvm::SmallVector<llvm::Constant*, 16> steps;
  for (int i = 0; i < lanes; ++i) steps.push_back(int_constant(type->getScalarType(), i));
  llvm::Value* iota = lanes == 1 ? static_cast<llvm::Value*>(steps[0]) : llvm::ConstantVector::get(steps);
  llvm::Value* stride = repeated(emit(node->stride), lanes);
  return add(repeated(emit(node->base), lanes), b.CreateMul(iota, stride));
}

/// Lanes of a masked run of memory that are off are zero already, as the select wants them.
bool FunctionEmitter::selects_what_is_loaded(const Select* node) {
  const Load* load = node->when_true.as<Load>();
  const Ramp* ramp = load && load->mask && load->indices.size() == 1 ? load->indices[0].as<Ramp>() : nullptr;
  const std::int64_t* stride = ramp ? as_int(ramp->stride) : nullptr;
  Expr otherwise = node->when_false;
  if (const Broadcast* all = otherwise.as<Broadcast>()) otherwise = all->value;
  const FloatImm* number = otherwise.as<FloatImm>();
  const std::int64_t* integer = as_int(otherwise);
  const bool zero = (number && number->value == 0 && !std::signbit(number->value)) || (integer && *integer == 0);
  return stride && *stride == 1 && zero && equal(load->mask, node->condition);
}

llvm::Value* FunctionEmitter::emit_select(const Select* node) {
  if (selects_what_is_loaded(node)) return emit(node->when_true);
  llvm::Value* condition = emit(node->condition);
  llvm::Value* when_true = emit(node->when_true);
  return b.CreateSelect(condition, when_true, emit(node->when_false));
}

// ---- calls ----

// Halves are folded down to one lane. Below 128 bits, the least vector register there is, the halves stay in place: a
// narrower type would be widened again, operation by operation.
llvm::Value* FunctionEmitter::emit_reduce(BinaryOp op, DType dtype, llvm::Value* vector) {
  int width = dtype.lanes;
  LATHE_CHECK((width & (width - 1)) == 0, "a lane reduction of " + std::to_string(width) + " lanes");
  if (dtype.is_float() && !is_half(dtype) && (op == BinaryOp::min || op == BinaryOp::max)) {
    if (llvm::Value* extreme = floats.extreme_lane(op == BinaryOp::max, vector))
      return b.CreateExtractElement(extreme, std::uint64_t{0});
  }
  const int least = std::min(width, 128 / dtype.bits);
  // LLVM 19 takes products of bytes whose sum ends in a vector for vpdpbusd, and then leaves a part of its
  // result out (X86ISelLowering, combineVPDPBUSDPattern). A sum that ends in scalars it leaves alone.
  const bool ends_in_scalars = kernel.traits.integer_dot && op == BinaryOp::add && dtype.element() == i32 && width >= 8;
  for (int half = width / 2; half > 0; half /= 2) {
    if (ends_in_scalars && half == 1) {
      return b.CreateAdd(b.CreateExtractElement(vector, std::uint64_t{0}),
                         b.CreateExtractElement(vector, std::uint64_t{1}));
    }
    const int lanes = std::max(half, least);
    std::vector<int> low(lanes), high(lanes, -1);
    for (int i = 0; i < lanes; ++i) low[i] = i;
    for (int i = 0; i < half; ++i) high[i] = i + half;
    llvm::Value* lower = lanes == width ? vector : b.CreateShuffleVector(vector, low);
    vector = emit_binary(op, dtype.with_lanes(lanes), lower, b.CreateShuffleVector(vector, high));
    width = lanes;
  }
  return width > 1 ? b.CreateExtractElement(vector, std::uint64_t{0}) : vector;
}

llvm::Value* FunctionEmitter::emit_call(const Call* node) {
  if (node->call_kind == CallKind::intrinsic && node->callee == "dot") return emit_dot(node);
  if (node->call_kind == CallKind::intrinsic && node->callee == "dot_bytes") return emit_dot_bytes(node);
  if (node->call_kind == CallKind::intrinsic && node->callee == "join_bytes")
    return emit_join_bytes(node->dtype, node->args);
  if (node->call_kind == CallKind::intrinsic && node->callee == "dot_halves") return emit_dot_halves(node);
  if (node->call_kind == CallKind::intrinsic && node->callee == "join_halves") return emit_join_halves(node);
  llvm::SmallVector<llvm::Value*, 4> args;
  for (const Expr& arg : node->args) args.push_back(emit(arg));
  if (node->call_kind == CallKind::extern_scalar) {
    if (node->callee.starts_with("llvm."))
      throw InputError(Mistake::value,
                       "extern callee '" + node->callee + "': LLVM keeps names that start with llvm. to itself");
    llvm::SmallVector<llvm::Type*, 4> types;
    for (llvm::Value* arg : args) types.push_back(arg->getType());
    auto* type = llvm::FunctionType::get(value_type(context, node->dtype), types, false);
    llvm::Function* callee = kernel.module.getFunction(node->callee);
    if (!callee) {
      callee = llvm::Function::Create(type, llvm::Function::ExternalLinkage, node->callee, kernel.module);
      callee->setDoesNotThrow();
      callee->setWillReturn();
      kernel.externals.push_back(node->callee);
    }
    LATHE_CHECK(callee->getFunctionType() == type, "extern " + node->callee + " is called with two signatures");
    llvm::CallInst* call = b.CreateCall(callee, args);
    // What gets no address computes from its arguments alone; it may have an effect only where its value is not used.
    const bool addressed =
        std::any_of(node->args.begin(), node->args.end(), [](const Expr& arg) { return arg.as<AddressOf>(); });
    if (!addressed && node != evaluated_) call->setDoesNotAccessMemory();
    masked_store_ = {};
    ++memory_version_;
    return call;
  }
  const DType dtype = node->args[0]->dtype;
  const std::string& name = node->callee;
  if (name == "fma") {
    if (!is_half(dtype)) {
      if (kernel.traits.fused_multiply_add)
        for (llvm::Value*& arg : args) arg = loaded_constant(arg);
      return floats.fma(args[0], args[1], args[2]);
    }
    // A product of two 16-bit floats is exact in double; the sum is rounded to odd on the way down.
    for (llvm::Value*& arg : args) arg = emit_cast(f64, dtype, arg);
    return emit_cast(dtype, f64, floats.fma(args[0], args[1], args[2]));
  }
  if (name == "scaleb") {
    if (!is_half(dtype)) return floats.scaleb(args[0], args[1]);
    // Exact in double; the only rounding is on the way down.
    for (llvm::Value*& arg : args) arg = emit_cast(f64, dtype, arg);
    return emit_cast(dtype, f64, floats.scaleb(args[0], args[1]));
  }
  if (name == "reciprocal") {
    if (!is_half(dtype)) return floats.reciprocal(args[0]);
    return floats.narrow(dtype, floats.reciprocal(floats.widen(dtype, args[0])));
  }
  if (name == "exponent" || name == "mantissa") {
    const auto part = [&](llvm::Value* x) { return name == "exponent" ? floats.exponent(x) : floats.mantissa(x); };
    if (!is_half(dtype)) return part(args[0]);
    return floats.narrow(dtype, part(floats.widen(dtype, args[0])));
  }
  if (name == "permute") return floats.permute(args[0], args[1]);
  if (name == "reinterpret") {
    llvm::Value* bits =
        dtype.is_bool() ? b.CreateZExt(args[0], with_lanes_of(b.getInt8Ty(), args[0]->getType())) : args[0];
    if (node->dtype.is_bool()) return b.CreateIsNotNull(bits);
    return b.CreateBitCast(bits, value_type(context, node->dtype));
  }
  if (name == "population_count") return b.CreateUnaryIntrinsic(llvm::Intrinsic::ctpop, args[0]);
  if (name == "reduce_add") return emit_reduce(BinaryOp::add, dtype, args[0]);
  if (name == "reduce_mul") return emit_reduce(BinaryOp::mul, dtype, args[0]);
  if (name == "reduce_min") return emit_reduce(BinaryOp::min, dtype, args[0]);
  if (name == "reduce_max") return emit_reduce(BinaryOp::max, dtype, args[0]);
  if (name == "reduce_and")
    return emit_reduce(dtype.is_bool() ? BinaryOp::logical_and : BinaryOp::bit_and, dtype, args[0]);
  if (name == "reduce_or")
    return emit_reduce(dtype.is_bool() ? BinaryOp::logical_or : BinaryOp::bit_or, dtype, args[0]);
  throw Bug("emission does not know the intrinsic " + name + " in " + print(kernel.func));
}

// ---- casts ----

llvm::Value* FunctionEmitter::emit_cast(DType to, DType from, llvm::Value* value) {
  to = to.with_lanes(from.lanes);
  if (to == from) return value;
  llvm::Type* type = value_type(context, to);
  if (to.is_bool()) {
    if (from.is_float()) {
      value = is_half(from) ? floats.widen(from, value) : value;
      return b.CreateFCmpUNE(value, llvm::Constant::getNullValue(value->getType()));
    }
    return b.CreateIsNotNull(value);
  }
  if (from.is_bool() && to.is_float()) {
    // One of two constants under a mask, where a conversion would make integers of the mask first.
    llvm::Value* one = emit(FloatImm::make(to.element(), 1.0));
    return b.CreateSelect(value, splat(b, one, to.lanes), llvm::Constant::getNullValue(type));
  }
  if (is_half(to)) {
    if (from.is_float() && from.bits == 64) return floats.narrow_double(to, value);
    if (!from.is_float() && from.bits == 32) return floats.narrow_int(to, value, from.is_signed());
    // A float holds every integer of 16 bits; those of 64 go through double.
    if (!from.is_float() && from.bits > 16) return floats.narrow_double(to, emit_cast(f64, from, value));
    llvm::Value* real = emit_cast(f32, from, value);
    return from.is_float() ? floats.narrow(to, real) : floats.narrow_whole(to, real);
  }
  if (is_half(from)) return emit_cast(to, f32.with_lanes(from.lanes), floats.widen(from, value));
  if (to.is_float()) {
    if (from.is_float()) return to.bits > from.bits ? b.CreateFPExt(value, type) : b.CreateFPTrunc(value, type);
    return from.is_signed() ? b.CreateSIToFP(value, type) : b.CreateUIToFP(value, type);
  }
  if (from.is_float()) {
    // Out of range LLVM's result is poison; freezing makes it some value.
    return b.CreateFreeze(to.is_signed() ? b.CreateFPToSI(value, type) : b.CreateFPToUI(value, type));
  }
  return resized(value, type, from.is_signed());
}

}  // namespace lathe::codegen
