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

#include "ir/error.h"

namespace lathe::codegen {

namespace {

// Unwinding through LLVM's frames runs none of their destructors; whoever catches abandons what LLVM had in hand.
void on_fatal_error(void*, const char* reason, bool) {
  throw Bug(std::string("LLVM cannot go on: ") + reason);
}

}  // namespace

void initialize_llvm() {
  static std::once_flag once;
  std::call_once(once, [] {
    llvm::InitializeNativeTarget();
    llvm::InitializeNativeTargetAsmPrinter();
    llvm::install_fatal_error_handler(on_fatal_error);
    // Loops are laid out in TIR. Strength reduction takes a fifth of the time that code generation takes, and neither
    // products, softmax nor attention run faster for it; only LLVM's own command line can switch it off.
    auto& options = llvm::cl::getRegisteredOptions();
    if (auto found = options.find("disable-lsr"); found != options.end())
      found->second->addOccurrence(1, "disable-lsr", "true");
  });
}

std::string base_cpu(const Device& device) {
  return llvm::Triple(device.triple).getArch() == llvm::Triple::x86_64 ? "x86-64" : "generic";
}

std::string feature_string(const Device& device) {
  std::string result;
  for (const std::string& feature : device.features) result += (result.empty() ? "+" : ",+") + feature;
  return result;
}

TargetTraits traits_of(const Device& device) {
  TargetTraits traits;
  const llvm::Triple triple(device.triple);
  traits.fused_multiply_add = device.fused_multiply_add;
  if (triple.isX86()) {
    traits.half_conversion = device.has_feature("f16c") || device.has_feature("avx512fp16");
    traits.rounding = device.has_feature("sse4.1");
    traits.ternary_logic = device.has_feature("avx512f") && device.has_feature("avx512vl");
  } else if (triple.isAArch64()) {
    traits.half_conversion = traits.rounding = true;
  }
  return traits;
}

namespace {

using Machines = std::map<std::string, std::unique_ptr<llvm::TargetMachine>>;
Machines& machines() {
  thread_local Machines mine;
  return mine;
}

}  // namespace

llvm::TargetMachine& target_machine(const Device& device) {
  initialize_llvm();
  auto& machine = machines()[device.triple + "/" + device.cpu + "/" + feature_string(device)];
  if (machine) return *machine;
  std::string error;
  const llvm::Target* target = llvm::TargetRegistry::lookupTarget(device.triple, error);
  if (!target) throw InputError(Mistake::value, "no LLVM target for '" + device.triple + "': " + error);
  llvm::TargetOptions options;
  // Whatever may be fused is fused in TIR.
  options.AllowFPOpFusion = llvm::FPOpFusion::Strict;
  options.TrapUnreachable = false;
  machine.reset(target->createTargetMachine(device.triple, base_cpu(device), feature_string(device), options,
                                            llvm::Reloc::PIC_, llvm::CodeModel::Small, llvm::CodeGenOptLevel::Less,
                                            true));
  LATHE_CHECK(machine, "LLVM made no TargetMachine for " + device.triple);
  return *machine;
}

void abandon_target_machines() {
  for (auto& [key, machine] : machines()) machine.release();
  machines().clear();
}

std::vector<char> generate_code(llvm::Module& module, llvm::TargetMachine& machine, Output output) {
  llvm::SmallVector<char, 0> buffer;
  llvm::raw_svector_ostream stream(buffer);
  auto passes = std::make_unique<llvm::legacy::PassManager>();
  try {
    passes->add(llvm::createTargetTransformInfoWrapperPass(machine.getTargetIRAnalysis()));
    passes->add(llvm::createBasicAAWrapperPass());
    passes->add(llvm::createScopedNoAliasAAWrapperPass());
    passes->add(llvm::createEarlyCSEPass());
    passes->add(llvm::createLICMPass());
    llvm::MCContext* context = nullptr;
    const bool unsupported =
        output == Output::object
            ? machine.addPassesToEmitMC(*passes, context, stream, true)
            : machine.addPassesToEmitFile(*passes, stream, nullptr, llvm::CodeGenFileType::AssemblyFile, true);
    LATHE_CHECK(!unsupported, "LLVM's target cannot emit code");
    passes->run(module);
  } catch (...) {
    passes.release();
    abandon_target_machines();
    throw;
  }
  return {buffer.begin(), buffer.end()};
}

}  // namespace lathe::codegen
