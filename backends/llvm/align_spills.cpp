#include "backends/llvm/align_spills.h"

#include <llvm/CodeGen/LiveIntervals.h>
#include <llvm/CodeGen/MachineFrameInfo.h>
#include <llvm/CodeGen/MachineFunctionPass.h>
#include <llvm/CodeGen/MachineRegisterInfo.h>
#include <llvm/CodeGen/TargetFrameLowering.h>
#include <llvm/CodeGen/TargetRegisterInfo.h>
#include <llvm/CodeGen/TargetSubtargetInfo.h>

#include <algorithm>
#include <utility>
#include <vector>

namespace lathe::codegen {
namespace {

/// The bytes of the longest vector that will not stay in a register; 0 where all do.
unsigned spilled_bytes(const llvm::MachineFunction& function, const llvm::LiveIntervals& live, int registers,
                       unsigned aligned) {
  const llvm::MachineRegisterInfo& known = function.getRegInfo();
  const llvm::TargetRegisterInfo& target = *function.getSubtarget().getRegisterInfo();
  unsigned longest = 0;
  bool across_calls = false;
  int vectors = 0;
  std::vector<std::pair<llvm::SlotIndex, int>> changes;  // how many more are live from there on
  for (unsigned i = 0; i < known.getNumVirtRegs(); ++i) {
    const llvm::Register reg = llvm::Register::index2VirtReg(i);
    if (known.reg_nodbg_empty(reg) || !live.hasInterval(reg)) continue;
    const unsigned bytes = target.getSpillSize(*known.getRegClass(reg));
    if (bytes <= aligned) continue;
    longest = std::max(longest, bytes);
    ++vectors;
    const llvm::LiveInterval& interval = live.getInterval(reg);
    across_calls |= !live.getRegMaskSlots().empty() && interval.isLiveAtIndexes(live.getRegMaskSlots());
    for (const llvm::LiveRange::Segment& segment : interval.segments) {
      changes.emplace_back(segment.start, 1);
      changes.emplace_back(segment.end, -1);
    }
  }
  if (across_calls) return longest;
  if (vectors <= registers) return 0;
  std::sort(changes.begin(), changes.end());
  int count = 0, most = 0;
  for (const auto& [at, change] : changes) most = std::max(most, count += change);
  return most > registers ? longest : 0;
}

class AlignSpills : public llvm::MachineFunctionPass {
 public:
  static char ID;
  explicit AlignSpills(int registers) : llvm::MachineFunctionPass(ID), registers_(registers) {}
  llvm::StringRef getPassName() const override { return "Align spills"; }
  void getAnalysisUsage(llvm::AnalysisUsage& usage) const override {
    usage.addRequired<llvm::LiveIntervalsWrapperPass>();
    usage.setPreservesAll();
    llvm::MachineFunctionPass::getAnalysisUsage(usage);
  }
  bool runOnMachineFunction(llvm::MachineFunction& function) override {
    const llvm::LiveIntervals& live = getAnalysis<llvm::LiveIntervalsWrapperPass>().getLIS();
    const auto aligned = static_cast<unsigned>(function.getSubtarget().getFrameLowering()->getStackAlign().value());
    const unsigned bytes = spilled_bytes(function, live, registers_, aligned);
    const llvm::MCRegister frame = bytes > 0 ? frame_register(function) : llvm::MCRegister();
    if (!frame) return false;
    function.getRegInfo().reserveReg(frame, function.getSubtarget().getRegisterInfo());
    function.getFrameInfo().ensureMaxAlignment(llvm::Align(bytes));
    return false;
  }

 private:
  /// What an aligned frame is addressed by, if it is still free; none where the target's vectors need no alignment.
  static llvm::MCRegister frame_register(const llvm::MachineFunction& function) {
    const llvm::TargetRegisterInfo& target = *function.getSubtarget().getRegisterInfo();
    for (unsigned reg = 1; reg < target.getNumRegs(); ++reg) {
      if (llvm::StringRef(target.getName(reg)) == "RBP") return reg;
    }
    return {};
  }

  int registers_;
};
char AlignSpills::ID = 0;

}  // namespace

llvm::FunctionPass* create_align_spills_pass(int registers) {
  return new AlignSpills(registers);
}

}  // namespace lathe::codegen
