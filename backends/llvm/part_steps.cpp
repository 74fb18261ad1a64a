#include "backends/llvm/part_steps.h"

#include <llvm/IR/IRBuilder.h>
#include <llvm/IR/Instructions.h>
#include <llvm/IR/IntrinsicInst.h>

#include <map>
#include <set>
#include <vector>

namespace lathe::codegen {
namespace {

/// Vectors that LLVM loads together, and what takes up an element beside them.
constexpr std::ptrdiff_t loaded_together = 4, beside = 2;
/// Multiply-adds behind which a vector belongs to another step: the first row of a tile loads each vector as it
/// multiplies it.
constexpr int least_products = 4;

/// Is the block an iteration of a loop, or what a condition leaves out of one?
bool is_iteration(llvm::BasicBlock& block) {
  if (llvm::is_contained(llvm::successors(&block), &block)) return true;
  llvm::BasicBlock *before = block.getSinglePredecessor(), *behind = block.getSingleSuccessor();
  return before && behind && llvm::is_contained(llvm::successors(before), behind);
}

/// Does the multiply-add go on with a sum that comes from before the block?
bool enters(const llvm::IntrinsicInst& fma) {
  const auto* sum = llvm::dyn_cast<llvm::Instruction>(fma.getArgOperand(2));
  return !sum || sum->getParent() != fma.getParent() || llvm::isa<llvm::PHINode>(sum);
}

/// The load of an element that all lanes take; null for anything else.
llvm::LoadInst* broadcast_load(llvm::Value* value) {
  auto* splat = llvm::dyn_cast<llvm::ShuffleVectorInst>(value);
  if (!splat || !splat->isZeroEltSplat()) return nullptr;
  auto* first = llvm::dyn_cast<llvm::InsertElementInst>(splat->getOperand(0));
  return first ? llvm::dyn_cast<llvm::LoadInst>(first->getOperand(1)) : nullptr;
}

/// Has each step load the elements anew that an earlier one has multiplied, as neighbouring places of a window do.
void load_anew(llvm::BasicBlock& block) {
  std::map<llvm::Value*, int> steps;              // in which an element was loaded
  std::map<llvm::Value*, llvm::Value*> replaced;  // in the present one
  int step = 0;
  for (llvm::Instruction& instruction : llvm::make_early_inc_range(block)) {
    if (llvm::isa<llvm::FenceInst>(instruction)) {
      ++step;
      replaced.clear();
    }
    if (broadcast_load(&instruction)) steps[&instruction] = step;
    const auto* call = llvm::dyn_cast<llvm::IntrinsicInst>(&instruction);
    if (!call || call->getIntrinsicID() != llvm::Intrinsic::fma) continue;
    for (llvm::Use& use : instruction.operands()) {
      const auto found = steps.find(use.get());
      if (found == steps.end() || found->second == step) continue;
      llvm::Value*& anew = replaced[use.get()];
      if (!anew) {
        llvm::IRBuilder<> before(&instruction);
        llvm::LoadInst* load = broadcast_load(use.get());
        llvm::Value* element = before.CreateAlignedLoad(load->getType(), load->getPointerOperand(), load->getAlign());
        anew = before.CreateVectorSplat(llvm::cast<llvm::FixedVectorType>(instruction.getType())->getElementCount(),
                                        element);
      }
      use.set(anew);
    }
  }
}

bool part(llvm::BasicBlock& block, int registers) {
  if (!is_iteration(block)) return false;
  std::vector<llvm::LoadInst*> firsts, loads;
  std::map<llvm::Value*, size_t> elements;  // the steps that have loaded them
  std::set<llvm::Value*> kept;              // of these, what later steps multiply too
  int products = 0;
  std::ptrdiff_t sums = 0;
  for (llvm::Instruction& instruction : block) {
    const auto* call = llvm::dyn_cast<llvm::IntrinsicInst>(&instruction);
    const auto called = call ? call->getIntrinsicID() : llvm::Intrinsic::not_intrinsic;
    if (called == llvm::Intrinsic::fma) {
      products += call->getType()->isVectorTy() ? 1 : 0;
      sums += call->getType()->isVectorTy() && enters(*call) ? 1 : 0;
      for (llvm::Value* operand : call->args()) {
        if (broadcast_load(operand) && elements.try_emplace(operand, firsts.size()).first->second < firsts.size())
          kept.insert(operand);
      }
    } else if (called == llvm::Intrinsic::prefetch) {
      continue;
    } else if (auto* load = llvm::dyn_cast<llvm::LoadInst>(&instruction); load && load->getType()->isVectorTy()) {
      if (!loads.empty() && products >= least_products) firsts.push_back(load);
      products = 0;
      loads.push_back(load);
    } else if (instruction.mayWriteToMemory()) {
      return false;
    }
  }
  const auto held = sums + static_cast<std::ptrdiff_t>(kept.size());
  if (firsts.empty() || held + loaded_together + beside <= registers) return false;
  for (llvm::LoadInst* first : firsts) {
    llvm::IRBuilder<>(first).CreateFence(llvm::AtomicOrdering::AcquireRelease, llvm::SyncScope::SingleThread);
  }
  load_anew(block);
  // What is never written may be loaded before any fence.
  for (llvm::LoadInst* load : loads) load->setMetadata(llvm::LLVMContext::MD_invariant_load, nullptr);
  return true;
}

class PartSteps : public llvm::FunctionPass {
 public:
  static char ID;
  explicit PartSteps(int registers) : llvm::FunctionPass(ID), registers_(registers) {}
  llvm::StringRef getPassName() const override { return "Part steps"; }
  void getAnalysisUsage(llvm::AnalysisUsage& usage) const override { usage.setPreservesCFG(); }
  bool runOnFunction(llvm::Function& function) override {
    bool changed = false;
    for (llvm::BasicBlock& block : function) changed |= part(block, registers_);
    return changed;
  }

 private:
  int registers_;
};
char PartSteps::ID = 0;

}  // namespace

llvm::FunctionPass* create_part_steps_pass(int registers) {
  return new PartSteps(registers);
}

}  // namespace lathe::codegen
