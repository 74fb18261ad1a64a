#pragma once
#include <llvm/IR/Module.h>
#include <llvm/Target/TargetMachine.h>

#include "backends/llvm/values.h"
#include "ir/device.h"

namespace lathe::codegen {

/// Registers the host's LLVM target once, and turns LLVM's fatal errors into Bugs.
void initialize_llvm();

/// The CPU that the device's features are added to: the oldest of its architecture, so that a masked feature is not
/// implied.
std::string base_cpu(const Device& device);
/// "+avx2,+fma,...": LLVM's form of the features.
std::string feature_string(const Device& device);
TargetTraits traits_of(const Device& device);

/// This thread's TargetMachine for the device.
llvm::TargetMachine& target_machine(const Device& device);
/// Drops this thread's TargetMachines: they may be half-used behind a fatal error.
void abandon_target_machines();

enum class Output { object, assembly };
/// Cleans the module up and generates code. The module is consumed. `prepare` is what instruments the module, if
/// anything.
std::vector<char> generate_code(llvm::Module& module, llvm::TargetMachine& machine, Output output);

/// Inserts the address sanitizer's checks before every access of functions that have the attribute.
void instrument_addresses(llvm::Module& module, llvm::TargetMachine& machine);

}  // namespace lathe::codegen
