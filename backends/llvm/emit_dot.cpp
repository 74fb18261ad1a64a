#include <llvm/IR/IntrinsicsX86.h>

#include <algorithm>
#include <numeric>
#include <optional>

#include "backends/llvm/emitter.h"
#include "ir/analysis/affine.h"
#include "ir/intrinsics.h"
#include "ir/structural.h"

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

/// The constant that all lanes are; null for anything else.
const std::int64_t* constant_in_lanes(const Expr& e) {
  const Broadcast* same = e.as<Broadcast>();
  return as_int(same ? same->value : e);
}

/// A mask for each neighbour of a group.
Expr stretched(const Expr& mask, int group) {
  if (mask->dtype.is_scalar()) return Broadcast::make(mask, group);
  std::vector<int> lanes;
  for (int i = 0; i < mask->dtype.lanes; ++i) lanes.insert(lanes.end(), static_cast<size_t>(group), i);
  return Shuffle::make({mask}, std::move(lanes));
}

bool same_mask(const Load& a, const Load& b) {
  return a.mask && b.mask ? equal(a.mask, b.mask) : !a.mask && !b.mask;
}

/// One Load of what Loads of the neighbours of a group read, lane by lane.
std::optional<Expr> neighbouring_loads(const std::vector<Expr>& bytes) {
  const Load* first = bytes[0].as<Load>();
  if (!first || first->indices.size() != 1) return std::nullopt;
  const Ramp* steps = first->indices[0].as<Ramp>();
  const int lanes = first->dtype.lanes, group = static_cast<int>(bytes.size());
  if (lanes > 1 && !(steps && is_int(steps->stride, group))) return std::nullopt;
  const Expr from = steps ? steps->base : first->indices[0];
  for (size_t t = 1; t < bytes.size(); ++t) {
    const Load* load = bytes[t].as<Load>();
    const Ramp* ramp = load && load->indices.size() == 1 ? load->indices[0].as<Ramp>() : nullptr;
    if (!load || load->buffer != first->buffer || !same_mask(*load, *first) || load->dtype.lanes != lanes ||
        (lanes > 1 && !(ramp && is_int(ramp->stride, group))))
      return std::nullopt;
    if (const auto apart = to_affine((ramp ? ramp->base : load->indices[0]) - from);
        !apart.terms.empty() || apart.constant != static_cast<std::int64_t>(t))
      return std::nullopt;
  }
  return Load::make(first->buffer, {Ramp::make(from, index(1), group * lanes)},
                    first->mask ? stretched(first->mask, group) : nullptr);
}

}  // namespace

llvm::Value* FunctionEmitter::lanes_from(llvm::Value* vector, int first, int count) {
  std::vector<int> lanes(static_cast<size_t>(count));
  std::iota(lanes.begin(), lanes.end(), first);
  return b.CreateShuffleVector(vector, lanes);
}

/// The 16-bit integers at the even (`odd` 0) or odd places of pairs of 8-bit ones.
llvm::Value* FunctionEmitter::every_other(DType bytes, llvm::Value* vector, int odd) {
  auto* type = llvm::cast<llvm::FixedVectorType>(vector->getType());
  const unsigned count = type->getNumElements() * type->getScalarSizeInBits() / 16;
  llvm::Value* pairs = seen_as(vector, llvm::FixedVectorType::get(b.getInt16Ty(), count));
  llvm::Value* eight = llvm::ConstantInt::get(pairs->getType(), 8);
  if (odd == 0) pairs = combine(llvm::Instruction::Shl, pairs, eight);
  return combine(bytes.is_signed() ? llvm::Instruction::AShr : llvm::Instruction::LShr, pairs, eight);
}

/// The portable form, as ir/intrinsics.h has it (dot_as_sum).
llvm::Value* FunctionEmitter::emit_dot_as_sum(const DotOperands& dot) {
  const int lanes = dot.sum.lanes;
  llvm::Value* total = dot.total;
  llvm::Value* factors[] = {dot.x, dot.y};
  const DType dtypes[] = {dot.a, dot.b};
  for (llvm::Value*& factor : factors) {
    if (dot.parts != dot.group)
      factor = seen_as(factor, value_type(context, dtypes[&factor - factors].with_lanes(lanes * dot.group)));
  }
  for (int t = 0; t < dot.group; ++t) {
    llvm::Value* widened[2];
    for (const size_t k : {0, 1}) {
      std::vector<int> chosen;
      chosen.reserve(static_cast<size_t>(lanes));
      for (int lane = 0; lane < lanes; ++lane) chosen.push_back(lane * dot.group + t);
      llvm::Value* part = dot.group == 1 ? factors[k]
                          : lanes == 1   ? b.CreateExtractElement(factors[k], static_cast<std::uint64_t>(t))
                                         : b.CreateShuffleVector(factors[k], chosen);
      widened[k] = emit_cast(dot.sum, dtypes[k].with_lanes(lanes), part);
    }
    total = emit_binary(BinaryOp::add, dot.sum, total, emit_binary(BinaryOp::mul, dot.sum, widened[0], widened[1]));
  }
  return total;
}

llvm::Value* FunctionEmitter::emit_dot(const Call* node) {
  const DType a = node->args[1]->dtype;
  const int group = a.lanes / node->dtype.lanes;
  llvm::Value* total = emit(node->args[0]);
  llvm::Value* x = emit(node->args[1]);
  return emit_dot(
      {node->dtype, a.element(), node->args[2]->dtype.element(), group, total, x, emit(node->args[2]), group});
}

llvm::Value* FunctionEmitter::emit_dot_bytes(const Call* node) {
  const auto bytes = [](const Expr& word) { return word->dtype.is_signed() ? i8 : u8; };
  llvm::Value* total = emit(node->args[0]);
  llvm::Value* x = emit(node->args[1]);
  return emit_dot({node->dtype, bytes(node->args[1]), bytes(node->args[2]), 4, total, x, emit(node->args[2]), 1});
}

llvm::Value* FunctionEmitter::emit_dot_halves(const Call* node) {
  llvm::Value* total = emit(node->args[0]);
  llvm::Value* x = emit(node->args[1]);
  return emit_dot({node->dtype, bf16, bf16, 2, total, x, emit(node->args[2]), 1});
}

llvm::Value* FunctionEmitter::emit_dot(DotOperands dot) {
  const int lanes = dot.sum.lanes, group = dot.group;
  if ((lanes & (lanes - 1)) != 0 || lanes < 4) return emit_dot_as_sum(dot);
  int width = lanes;
  const bool swapped = dot.a == i8 && dot.b == u8;
  if (swapped) {
    std::swap(dot.a, dot.b);
    std::swap(dot.x, dot.y);
  }
  const DType first = dot.a, second = dot.b;
  const bool groups = (group == 4 && first.bits == 8) || (group == 2 && first.bits == 16);
  const bool bytes = dot.sum.element() == i32 && group == 4 && first.bits == 8 && second.bits == 8;
  const auto whole = [&](int n) { return find_instruction(kernel.traits, n, first, second); };
  const auto pair = [&](int n) { return pair_instruction(kernel.traits, n); };
  const bool fits = dot.sum.element() == (first == bf16 ? f32 : i32);
  while (width >= 4 && !(groups && fits && whole(width)) && !(bytes && pair(width))) width /= 2;
  if (width < 4) return emit_dot_as_sum(dot);
  std::vector<llvm::Value*> level;
  for (int at = 0; at < lanes; at += width) {
    const auto part = [&](llvm::Value* v, int scale) {
      return width == lanes ? v : lanes_from(v, at * scale, width * scale);
    };
    llvm::Value *t = part(dot.total, 1), *p = part(dot.x, dot.parts), *q = part(dot.y, dot.parts);
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

llvm::Value* FunctionEmitter::emit_join_bytes(DType word, const std::vector<Expr>& bytes) {
  const auto all = [&](auto&& same) { return std::all_of(bytes.begin() + 1, bytes.end(), same); };
  const auto parts = [&](auto&& of) {
    std::vector<Expr> found;
    found.reserve(bytes.size());
    for (const Expr& e : bytes) found.push_back(of(e));
    return found;
  };
  // What is done to each of the bytes is done to the word.
  if (bytes[0].as<Cast>() && std::all_of(bytes.begin(), bytes.end(), [](const Expr& e) {
        const Cast* cast = e.as<Cast>();
        return cast && cast->value->dtype.bits == 8 && cast->value->dtype.is_integer();
      }))
    return emit_join_bytes(word, parts([](const Expr& e) { return e.as<Cast>()->value; }));
  const Binary* flip = bytes[0].as<Binary>();
  const std::int64_t* flipped = flip && flip->op == BinaryOp::bit_xor ? constant_in_lanes(flip->b) : nullptr;
  if (flipped && all([&](const Expr& e) {
        const Binary* other = e.as<Binary>();
        const std::int64_t* bits = other && other->op == BinaryOp::bit_xor ? constant_in_lanes(other->b) : nullptr;
        return bits && *bits == *flipped;
      })) {
    llvm::Value* joined = emit_join_bytes(word, parts([](const Expr& e) { return e.as<Binary>()->a; }));
    const std::uint64_t pattern = (static_cast<std::uint64_t>(*flipped) & 0xff) * 0x01010101;
    return b.CreateXor(joined, llvm::ConstantInt::get(joined->getType(), pattern));
  }
  const Select* choice = bytes[0].as<Select>();
  if (choice && all([&](const Expr& e) {
        const Select* other = e.as<Select>();
        return other && identical(other->condition, choice->condition);
      })) {
    llvm::Value* condition = emit(choice->condition);
    llvm::Value* chosen = emit_join_bytes(word, parts([](const Expr& e) { return e.as<Select>()->when_true; }));
    return b.CreateSelect(condition, chosen,
                          emit_join_bytes(word, parts([](const Expr& e) { return e.as<Select>()->when_false; })));
  }
  if (const auto neighbours = neighbouring_loads(bytes)) {
    made_here_.push_back(*neighbours);
    return seen_as(emit(made_here_.back()), value_type(context, word));
  }
  llvm::Value* joined = nullptr;
  for (size_t t = 0; t < bytes.size(); ++t) {
    llvm::Value* part = b.CreateZExt(emit(bytes[t]), value_type(context, word));
    if (t > 0) part = b.CreateShl(part, llvm::ConstantInt::get(part->getType(), 8 * t));
    joined = joined ? b.CreateOr(joined, part) : part;
  }
  return joined;
}

llvm::Value* FunctionEmitter::emit_join_halves(const Call* node) {
  const auto neighbours = neighbouring_loads(node->args);
  made_here_.push_back(neighbours ? *neighbours : join_halves_as_sum(*node));
  llvm::Value* joined = emit(made_here_.back());
  return neighbours ? seen_as(joined, value_type(context, node->dtype)) : joined;
}

}  // namespace lathe::codegen
