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

enum class Output { object, assembly };

/// Turns modules into code for one device, on one thread. It keeps its passes from module to module: setting them up
/// takes as long as the code of a small kernel.
class CodeGenerator {
 public:
  explicit CodeGenerator(const Device& device);
  ~CodeGenerator();
  llvm::TargetMachine& machine() { return *machine_; }
  /// Cleans the module up and generates code. The module is consumed.
  std::vector<char> generate(llvm::Module& module, Output output);

 private:
  struct Passes;
  std::unique_ptr<llvm::TargetMachine> machine_;
  bool few_slots_ = false;  ///< walk_pointers.h, part_steps.h
  int registers_ = 0;       ///< for vectors
  std::unique_ptr<Passes> to_object_;
};

/// This thread's CodeGenerator for the device. Behind a fatal error of LLVM's it is dropped, half-used as it may be,
/// and the next call makes another.
CodeGenerator& code_generator(const Device& device);

/// Inserts the address sanitizer's checks before every access of functions that have the attribute.
void instrument_addresses(llvm::Module& module, llvm::TargetMachine& machine);

}  // namespace lathe::codegen
