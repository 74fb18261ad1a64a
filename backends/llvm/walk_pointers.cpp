#include "backends/llvm/walk_pointers.h"

#include <llvm/IR/Constants.h>
#include <llvm/IR/IRBuilder.h>
#include <llvm/IR/Instructions.h>
#include <llvm/IR/IntrinsicInst.h>
#include <llvm/IR/Module.h>
#include <llvm/Transforms/Utils/Local.h>

#include <optional>
#include <vector>

namespace lathe::codegen {
namespace {

/// Pointers of one loop, beyond which general registers run short.
constexpr size_t most_pointers = 4;
/// Multiply-adds from which on a loop is one over a tile.
constexpr std::ptrdiff_t least_products = 8;

/// A loop that is entered from one place and goes on from one, with its counter.
struct Loop {
  llvm::BasicBlock* block;  ///< the first
  llvm::BasicBlock *before, *last;
  llvm::PHINode* counter;
  std::int64_t step;
};

std::optional<Loop> loop_at(llvm::BasicBlock& block) {
  const llvm::SmallVector<llvm::BasicBlock*, 3> predecessors(llvm::predecessors(&block));
  if (predecessors.size() != 2) return std::nullopt;
  for (llvm::PHINode& phi : block.phis()) {
    if (!phi.getType()->isIntegerTy(64)) continue;
    for (size_t i = 0; i < 2; ++i) {
      auto* next = llvm::dyn_cast<llvm::BinaryOperator>(phi.getIncomingValueForBlock(predecessors[i]));
      if (!next || next->getOpcode() != llvm::Instruction::Add || next->getOperand(0) != &phi) continue;
      if (auto* step = llvm::dyn_cast<llvm::ConstantInt>(next->getOperand(1)))
        return Loop{&block, predecessors[1 - i], predecessors[i], &phi, step->getSExtValue()};
    }
  }
  return std::nullopt;
}

/// value = rest + factor * counter, the rest as it is before the loop.
struct Linear {
  llvm::Value* rest;  ///< null for 0
  std::int64_t factor;
};

std::optional<Linear> linear(llvm::Value* value, const Loop& loop, llvm::IRBuilder<>& before) {
  if (value == loop.counter) return Linear{nullptr, 1};
  auto* instruction = llvm::dyn_cast<llvm::Instruction>(value);
  if (!instruction || instruction->getParent() != loop.block) return Linear{value, 0};
  auto* node = llvm::dyn_cast<llvm::BinaryOperator>(instruction);
  if (!node) return std::nullopt;
  if (node->getOpcode() == llvm::Instruction::Add) {
    const auto a = linear(node->getOperand(0), loop, before), b = linear(node->getOperand(1), loop, before);
    if (!a || !b) return std::nullopt;
    return Linear{!a->rest ? b->rest : !b->rest ? a->rest : before.CreateAdd(a->rest, b->rest), a->factor + b->factor};
  }
  if (node->getOpcode() == llvm::Instruction::Sub) {
    const auto a = linear(node->getOperand(0), loop, before), b = linear(node->getOperand(1), loop, before);
    if (!a || !b) return std::nullopt;
    llvm::Value* from = a->rest || !b->rest ? a->rest : before.getInt64(0);
    return Linear{b->rest ? before.CreateSub(from, b->rest) : from, a->factor - b->factor};
  }
  auto* constant = llvm::dyn_cast<llvm::ConstantInt>(node->getOperand(1));
  const bool shift = node->getOpcode() == llvm::Instruction::Shl;
  if (!constant || (node->getOpcode() != llvm::Instruction::Mul && !shift)) return std::nullopt;
  const auto a = linear(node->getOperand(0), loop, before);
  if (!a) return std::nullopt;
  const std::int64_t by = shift ? std::int64_t{1} << constant->getSExtValue() : constant->getSExtValue();
  return Linear{a->rest ? before.CreateMul(a->rest, before.getInt64(by)) : nullptr, a->factor * by};
}

/// Does the block loop by itself over many multiply-adds? They ask for more addresses than one counter can index at no
/// cost, and wait for the issue slots that its multiples take.
bool is_tile(const llvm::BasicBlock& block) {
  if (!llvm::is_contained(llvm::successors(&block), &block)) return false;
  const auto is_product = [](const llvm::Instruction& instruction) {
    const auto* call = llvm::dyn_cast<llvm::IntrinsicInst>(&instruction);
    return call && call->getIntrinsicID() == llvm::Intrinsic::fma && call->getType()->isVectorTy();
  };
  return llvm::count_if(block, is_product) >= least_products;
}

bool walk(const Loop& loop) {
  std::vector<llvm::GetElementPtrInst*> addresses;
  for (llvm::Instruction& instruction : *loop.block) {
    auto* address = llvm::dyn_cast<llvm::GetElementPtrInst>(&instruction);
    if (!address || address->getNumIndices() != 1 || address->getType()->isVectorTy()) continue;
    const auto is_inside = [&](llvm::Value* value) {
      auto* node = llvm::dyn_cast<llvm::Instruction>(value);
      return node && node->getParent() == loop.block;
    };
    if (!is_inside(address->getPointerOperand()) && is_inside(address->getOperand(1))) addresses.push_back(address);
  }
  if (addresses.size() > most_pointers) return false;
  llvm::IRBuilder<> before(loop.before->getTerminator()), end(loop.last->getTerminator());
  const llvm::DataLayout& layout = loop.block->getModule()->getDataLayout();
  bool changed = false;
  for (llvm::GetElementPtrInst* address : addresses) {
    const auto form = linear(address->getOperand(1), loop, before);
    if (!form || form->factor == 0) continue;
    const auto bytes = static_cast<std::int64_t>(layout.getTypeAllocSize(address->getSourceElementType()));
    llvm::Value* first_counter = loop.counter->getIncomingValueForBlock(loop.before);
    llvm::Value* first = address->getPointerOperand();
    if (form->rest) first = before.CreateGEP(address->getSourceElementType(), first, form->rest);
    auto* start = llvm::dyn_cast<llvm::ConstantInt>(first_counter);
    if (!start || !start->isZero()) {
      first = before.CreateGEP(before.getInt8Ty(), first,
                               before.CreateMul(first_counter, before.getInt64(form->factor * bytes)));
    }
    llvm::PHINode* pointer = llvm::PHINode::Create(address->getType(), 2, "", loop.block->begin());
    pointer->addIncoming(first, loop.before);
    pointer->addIncoming(end.CreateGEP(end.getInt8Ty(), pointer, end.getInt64(loop.step * form->factor * bytes)),
                         loop.last);
    llvm::Value* index = address->getOperand(1);
    address->replaceAllUsesWith(pointer);
    address->eraseFromParent();
    llvm::RecursivelyDeleteTriviallyDeadInstructions(index);
    changed = true;
  }
  return changed;
}

class WalkPointers : public llvm::FunctionPass {
 public:
  static char ID;
  WalkPointers() : llvm::FunctionPass(ID) {}
  llvm::StringRef getPassName() const override { return "Walk pointers"; }
  void getAnalysisUsage(llvm::AnalysisUsage& usage) const override { usage.setPreservesCFG(); }
  bool runOnFunction(llvm::Function& function) override {
    bool changed = false;
    for (llvm::BasicBlock& block : function) {
      if (!is_tile(block)) continue;
      // Where the pointers of a loop begin is what changes in the loop around it.
      for (auto loop = loop_at(block); loop && walk(*loop); loop = loop_at(*loop->before)) changed = true;
    }
    return changed;
  }
};
char WalkPointers::ID = 0;

}  // namespace

llvm::FunctionPass* create_walk_pointers_pass() {
  return new WalkPointers;
}

}  // namespace lathe::codegen
