#include <fmt/format.h>
#include <llvm/IR/Verifier.h>
#include <llvm/Object/ELFObjectFile.h>
#include <llvm/Support/raw_ostream.h>

#include <algorithm>
#include <chrono>

#include "backends/llvm/emit.h"
#include "backends/llvm/emitter.h"
#include "backends/llvm/target.h"
#include "ir/error.h"
#include "ir/structural.h"
#include "ir/text/print.h"

namespace lathe {

namespace {

using namespace codegen;

std::string symbol_of(const Func& func) {
  std::string name;
  for (char c : func->name) name += std::isalnum(static_cast<unsigned char>(c)) ? c : '_';
  return fmt::format("lathe_{}_{:016x}", name, structural_hash(func));
}

std::int64_t attribute(const Func& func, const char* name) {
  auto found = func->attrs.find(name);
  auto* value = found == func->attrs.end() ? nullptr : std::get_if<std::int64_t>(&found->second);
  return value ? *value : 0;
}

/// A Func on its way through LLVM.
struct Compilation {
  Compilation(const Func& func, const Device& device, const CodegenOptions& options)
      : generator(code_generator(device)),
        traits(traits_of(device)),
        context(std::make_unique<llvm::LLVMContext>()),
        module(std::make_unique<llvm::Module>(func->name, *context)),
        symbol(symbol_of(func)) {
    LATHE_CHECK(func->stage == Stage::end,
                fmt::format("emission of {} at stage {}", func->name, to_string(func->stage)));
    if (!options.name_values) context->setDiscardValueNames(true);
    module->setDataLayout(generator.machine().createDataLayout());
    module->setTargetTriple(device.triple);
    module->setPICLevel(llvm::PICLevel::BigPIC);
    KernelModule kernel(*module, func, device, traits, options.name_values);
    kernel.address_sanitizer = options.address_sanitizer;
    FunctionEmitter::emit_kernel(kernel, symbol);
    externals = std::move(kernel.externals);
#ifdef LATHE_VERIFY_LLVM
    std::string problem;
    llvm::raw_string_ostream stream(problem);
    LATHE_CHECK(!llvm::verifyModule(*module, &stream), problem + print(func));
#endif
    if (options.address_sanitizer) instrument_addresses(*module, generator.machine());
  }

  std::vector<char> generate(Output output) {
    try {
      return generator.generate(*module, output);
    } catch (...) {
      static_cast<void>(module.release());
      static_cast<void>(context.release());
      throw;
    }
  }

  CodeGenerator& generator;
  const TargetTraits traits;
  std::unique_ptr<llvm::LLVMContext> context;
  std::unique_ptr<llvm::Module> module;
  std::string symbol;
  std::vector<std::string> externals;
};

/// The names that linking has to bind. Any that the Func did not call is a library call of LLVM's own making.
std::vector<std::string> undefined_symbols(const std::vector<char>& object) {
  std::vector<std::string> result;
  auto file = llvm::cantFail(llvm::object::ObjectFile::createObjectFile(
      llvm::MemoryBufferRef(llvm::StringRef(object.data(), object.size()), "kernel")));
  for (const llvm::object::SymbolRef& symbol : file->symbols()) {
    auto flags = llvm::cantFail(symbol.getFlags());
    auto name = llvm::cantFail(symbol.getName());
    if ((flags & llvm::object::SymbolRef::SF_Undefined) && !name.empty() && name != "_GLOBAL_OFFSET_TABLE_")
      result.push_back(name.str());
  }
  return result;
}

}  // namespace

ObjectCode compile_to_object(const Func& func, const Device& device, const CodegenOptions& options,
                             CodegenTimes* times) {
  using Clock = std::chrono::steady_clock;
  auto milliseconds = [](Clock::duration d) { return std::chrono::duration<double, std::milli>(d).count(); };
  const auto start = Clock::now();
  Compilation compilation(func, device, options);
  const auto emitted = Clock::now();
  ObjectCode object;
  object.bytes = compilation.generate(Output::object);
  for (const std::string& name : undefined_symbols(object.bytes)) {
    const auto& declared = compilation.externals;
    const bool known = std::find(declared.begin(), declared.end(), name) != declared.end();
    LATHE_CHECK(known || (options.address_sanitizer && name.starts_with("__asan_")),
                fmt::format("kernel {} calls {}, which emission should have expanded", func->name, name));
    object.externals.push_back(name);
  }
  object.symbol = compilation.symbol;
  object.shared_bytes = attribute(func, "shared_bytes");
  object.worker_bytes = attribute(func, "worker_bytes");
  if (times) {
    times->emit = milliseconds(emitted - start);
    times->codegen = milliseconds(Clock::now() - emitted);
  }
  return object;
}

std::string llvm_ir_text(const Func& func, const Device& device) {
  CodegenOptions options;
  options.name_values = true;
  options.address_sanitizer = false;
  Compilation compilation(func, device, options);
  std::string text;
  llvm::raw_string_ostream stream(text);
  compilation.module->print(stream, nullptr);
  return text;
}

std::string assembly_text(const Func& func, const Device& device) {
  CodegenOptions options;
  options.address_sanitizer = false;
  Compilation compilation(func, device, options);
  const std::vector<char> text = compilation.generate(Output::assembly);
  return {text.begin(), text.end()};
}

}  // namespace lathe
