#include "backends/llvm/target.h"

#include <llvm/Analysis/BasicAliasAnalysis.h>
#include <llvm/Analysis/ScopedNoAliasAA.h>
#include <llvm/Analysis/TargetLibraryInfo.h>
#include <llvm/Analysis/TargetTransformInfo.h>
#include <llvm/IR/LegacyPassManager.h>
#include <llvm/InitializePasses.h>
#include <llvm/MC/MCContext.h>
#include <llvm/MC/TargetRegistry.h>
#include <llvm/Support/CommandLine.h>
#include <llvm/Support/ErrorHandling.h>
#include <llvm/Support/SmallVectorMemoryBuffer.h>
#include <llvm/Support/TargetSelect.h>
#include <llvm/Support/raw_ostream.h>
#include <llvm/TargetParser/Triple.h>
#include <llvm/Transforms/Scalar.h>

#include <map>
#include <memory>
#include <mutex>
#include <string_view>
#include <unordered_set>
#include <utility>

#include "backends/llvm/align_spills.h"
#include "backends/llvm/part_steps.h"
#include "backends/llvm/walk_pointers.h"
#include "ir/error.h"

namespace lathe::codegen {

namespace {

// Unwinding through LLVM's frames runs none of their destructors; whoever catches abandons what LLVM had in hand.
void on_fatal_error(void*, const char* reason, bool) {
  throw Bug(std::string("LLVM cannot go on: ") + reason);
}

void switch_option(llvm::StringRef name, llvm::StringRef value) {
  auto& options = llvm::cl::getRegisteredOptions();
  if (auto found = options.find(name); found != options.end()) found->second->addOccurrence(1, name, value);
}

}  // namespace

void initialize_llvm() {
  static std::once_flag once;
  std::call_once(once, [] {
    llvm::InitializeNativeTarget();
    llvm::InitializeNativeTargetAsmPrinter();
    llvm::install_fatal_error_handler(on_fatal_error);
    // Loops are laid out in TIR. Strength reduction takes a fifth of the time that code generation takes, and neither
    // products, softmax nor attention run faster for it; scheduling before register allocation takes a sixteenth, and
    // no kernel spills more without it. Only LLVM's own command line can switch these off.
    switch_option("disable-lsr", "true");
    switch_option("enable-misched", "false");
  });
}

std::string base_cpu(const Device& device) {
  return llvm::Triple(device.triple).getArch() == llvm::Triple::x86_64 ? "x86-64" : "generic";
}

std::string feature_string(const Device& device) {
  std::string result;
  for (const std::string& feature : device.features) {
    // Its insertq has no VEX form, and takes some 400 cycles between AVX's instructions (measured on Zen 3: sums of 19
    // bytes 43 times as long).
    if (feature != "sse4a") result += (result.empty() ? "+" : ",+") + feature;
  }
  return result;
}

TargetTraits traits_of(const Device& device) {
  TargetTraits traits;
  const llvm::Triple triple(device.triple);
  traits.fused_multiply_add = device.fused_multiply_add;
  if (triple.isX86()) {
    traits.half_conversion = device.has_feature("f16c") || device.has_feature("avx512fp16");
    traits.rounding = device.has_feature("sse4.1");
    traits.scales_by_exponent = device.has_feature("avx512f") && device.has_feature("avx512vl");
    traits.wide_vectors = device.vector_bits >= 512;
    if (traits.wide_vectors)
      traits.least_permuted = device.has_feature("avx512vbmi") ? 8 : device.has_feature("avx512bw") ? 16 : 0;
    traits.integer_dot =
        (device.has_feature("avx512vnni") && device.has_feature("avx512vl")) || device.has_feature("avxvnni");
    traits.bfloat_dot = device.has_feature("avx512bf16") && device.has_feature("avx512vl");
    traits.pair_products = device.vector_bits;
    traits.permutes = traits.reciprocals = traits.float_parts =
        device.has_feature("avx512f") && device.has_feature("avx512vl");
    traits.permutes_eight = device.has_feature("avx2");
    traits.ternary_logic = device.has_feature("avx512f") && device.has_feature("avx512vl");
    traits.mask_words =
        device.has_feature("avx512bw") && device.has_feature("avx512dq") && device.has_feature("avx512vl");
    traits.second_extremes = device.has_feature("avx");
    traits.ranges = device.has_feature("avx512dq") && device.has_feature("avx512vl");
  } else if (triple.isAArch64()) {
    traits.half_conversion = traits.rounding = true;
  }
  return traits;
}

namespace {

/// LLVM keeps these for what no kernel has, or they find nothing in one: garbage collection, exceptions, coroutines,
/// thread-local variables, stack slots, profiles, debug information, hardening, x87, what instruction selection has
/// already merged, what LLVM's own command line switches off here; or they move single instructions, and no kernel gets
/// shorter or spills less for it. Each costs its share of the analyses that are kept up between passes. Names are LLVM
/// 19's; one that another version has not is simply never met.
const std::unordered_set<std::string_view>& idle_passes() {
  static const std::unordered_set<std::string_view> names = {
      "Expand large div/rem",
      "Expand large fp convert",
      "Lower AMX intrinsics",
      "Lower AMX type for load/store",
      "Merge contiguous icmps into a memcmp",
      "Expand memcmp() to load/stores",
      "Lower Garbage Collection Instructions",
      "Shadow Stack GC Lowering",
      "Lower constant intrinsics",
      "Replace intrinsics with calls to vector library",
      "Partially inline calls to library functions",
      "Expand vector predication intrinsics",
      "Instrument function entry/exit with calls to e.g. mcount() (post inlining)",
      "TLS Variable Hoist",
      "Expand indirectbr instructions",
      "Exception handling preparation",
      "Prepare callbr",
      "Safe Stack instrumentation pass",
      "Insert stack protectors",
      "Assignment Tracking Analysis",
      "Local Dynamic TLS Access Clean-up",
      "X86 PIC Global Base Reg Initialization",
      "Argument Stack Rebase",
      "X86 Windows Fixup Buffer Security Check",
      "X86 speculative load hardening",
      "X86 DynAlloca Expander",
      "Tile Register Pre-configure",
      "Tile Register Configure",
      "Register Allocation Pass Scoring",
      "X86 Lower Tile Copy",
      "X86 Load Value Injection (LVI) Load Hardening",
      "Remove Redundant DEBUG_VALUE analysis",
      "Fixup Statepoint Caller Saved",
      "Insert KCFI indirect call checks",
      "Analyze Machine Code For Garbage Collection",
      "Insert fentry calls",
      "Insert XRay ops",
      "Implement the 'patchable-function' attribute",
      "X86 Indirect Branch Tracking",
      "X86 Domain Reassignment Pass",
      "Machine Common Subexpression Elimination",
      "X86 Atom pad short functions",
      "X86 Discriminate Memory Operands",
      "X86 Insert Cache Prefetches",
      "X86 insert wait instruction",
      "Contiguously Lay Out Funclets",
      "StackMap Liveness Analysis",
      "Live DEBUG_VALUE analysis",
      "Machine Sanitizer Binary Metadata",
      "Stack Frame Layout Analysis",
      "X86 Speculative Execution Side Effect Suppression",
      "X86 Indirect Thunks",
      "X86 Return Thunks",
      "Check CFA info and insert CFI instructions if needed",
      "X86 Load Value Injection (LVI) Ret-Hardening",
      "Pseudo Probe Inserter",
      "Constant Hoisting",
      "Interleaved Access Pass",
      "X86 Partial Reduction",
      "Early Tail Duplication",
      "Optimize machine instruction PHIs",
      "Merge disjoint stack slots",
      "Local Stack Slot Allocation",
      "Remove dead machine instructions",
      "Early If-Conversion",
      "Machine InstCombiner",
      "X86 cmov Conversion",
      "Live Range Shrink",
      "X86 Fixup SetCC",
      "X86 LEA Optimize",
      "X86 Optimize Call Frame",
      "X86 Avoid Store Forwarding Blocks",
      "Rename Disconnected Subregister Components",
      "Machine Instruction Scheduler",
      "Machine Loop Invariant Code Motion",
      "X86 FP Stackifier",
      "Shrink Wrapping analysis",
      "Machine Copy Propagation Pass",
      "PostRA Machine Sink",
      "Machine Late Instructions Cleanup Pass",
      "Stack Slot Coloring",
      "Tail Duplication",
      "Post RA top-down list latency scheduler"};
  return names;
}

/// The first pass of each stage of code generation but the first. A pass manager runs all passes of a function before
/// it goes on to the next, and their code is more than a core's own caches hold: taken stage by stage over all
/// functions of a kernel, half as much of it comes from the last cache (four nests: 47 in the place of 91 thousand
/// lines).
bool begins_stage(std::string_view pass) {
  return pass == "X86 DAG->DAG Instruction Selection" || pass == "Process Implicit Definitions" ||
         pass == "Prologue/Epilogue Insertion & Frame Finalization";
}

/// Ends a run of function passes: what comes after it waits for all functions.
class StageEnd : public llvm::ModulePass {
 public:
  StageEnd() : ModulePass(id) {}
  bool runOnModule(llvm::Module&) override { return false; }
  void getAnalysisUsage(llvm::AnalysisUsage& usage) const override { usage.setPreservesAll(); }

 private:
  static char id;
};
char StageEnd::id = 0;

/// A pass manager that takes no idle passes, ends each stage for all functions before the next, and aligns spills.
class KernelPassManager : public llvm::legacy::PassManager {
 public:
  KernelPassManager(int registers, bool x86) : registers_(registers), x86_(x86) {}
  void add(llvm::Pass* pass) override {
    if (idle_passes().contains(pass->getPassName())) {
      delete pass;
      return;
    }
    if (begins_stage(pass->getPassName())) llvm::legacy::PassManager::add(new StageEnd());
    if (pass->getPassName() == "Greedy Register Allocator") {
      // x86 runs it for the registers of matrix tiles (AMX) first, which no kernel has.
      if (x86_ && !std::exchange(tiles_left_out_, true)) {
        delete pass;
        return;
      }
      llvm::legacy::PassManager::add(create_align_spills_pass(registers_));
    }
    llvm::legacy::PassManager::add(pass);
  }

 private:
  int registers_;
  bool x86_, tiles_left_out_ = false;
};

}  // namespace

struct CodeGenerator::Passes {
  Passes(llvm::TargetMachine& machine, Output output, bool few_slots, int registers)
      : stream(bytes), manager(registers, machine.getTargetTriple().isX86()) {
    manager.add(llvm::createTargetTransformInfoWrapperPass(machine.getTargetIRAnalysis()));
    manager.add(llvm::createBasicAAWrapperPass());
    manager.add(llvm::createScopedNoAliasAAWrapperPass());
    manager.add(llvm::createEarlyCSEPass());
    manager.add(llvm::createLICMPass());
    if (few_slots) {
      manager.add(create_walk_pointers_pass());
      manager.add(create_part_steps_pass(registers));
    }
    const auto type =
        output == Output::object ? llvm::CodeGenFileType::ObjectFile : llvm::CodeGenFileType::AssemblyFile;
    LATHE_CHECK(!machine.addPassesToEmitFile(manager, stream, nullptr, type, true), "LLVM's target cannot emit code");
  }

  llvm::SmallVector<char, 0> bytes;
  llvm::raw_svector_ostream stream;
  KernelPassManager manager;
};

namespace {

using Generators = std::map<std::string, std::unique_ptr<CodeGenerator>>;
Generators& generators() {
  thread_local Generators mine;
  return mine;
}

}  // namespace

CodeGenerator::CodeGenerator(const Device& device)
    : few_slots_(tiles_fill_slots(device)), registers_(device.vector_registers) {
  initialize_llvm();
  std::string error;
  const llvm::Target* target = llvm::TargetRegistry::lookupTarget(device.triple, error);
  if (!target) throw InputError(Mistake::value, "no LLVM target for '" + device.triple + "': " + error);
  llvm::TargetOptions options;
  // Whatever may be fused is fused in TIR.
  options.AllowFPOpFusion = llvm::FPOpFusion::Strict;
  options.TrapUnreachable = false;
  machine_.reset(target->createTargetMachine(device.triple, base_cpu(device), feature_string(device), options,
                                             llvm::Reloc::PIC_, llvm::CodeModel::Small, llvm::CodeGenOptLevel::Less,
                                             true));
  LATHE_CHECK(machine_, "LLVM made no TargetMachine for " + device.triple);
}

CodeGenerator::~CodeGenerator() = default;

std::vector<char> CodeGenerator::generate(llvm::Module& module, Output output) {
  std::unique_ptr<Passes> to_assembly;
  std::unique_ptr<Passes>& passes = output == Output::object ? to_object_ : to_assembly;
  if (!passes) passes = std::make_unique<Passes>(*machine_, output, few_slots_, registers_);
  passes->bytes.clear();
  try {
    passes->manager.run(module);
  } catch (...) {
    static_cast<void>(to_assembly.release());
    for (auto& [key, generator] : generators()) static_cast<void>(generator.release());
    generators().clear();
    throw;
  }
  return {passes->bytes.begin(), passes->bytes.end()};
}

CodeGenerator& code_generator(const Device& device) {
  auto& generator =
      generators()[device.triple + "/" + device.cpu + "/" + feature_string(device) + "/" +
                   std::to_string(device.vector_registers) + (tiles_fill_slots(device) ? "/few slots" : "")];
  if (!generator) generator = std::make_unique<CodeGenerator>(device);
  return *generator;
}

}  // namespace lathe::codegen
