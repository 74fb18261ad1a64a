#include "jit/engine/engine.h"

#include <fmt/format.h>
#include <llvm/ExecutionEngine/Orc/LLJIT.h>
#include <llvm/ExecutionEngine/Orc/ObjectLinkingLayer.h>
#include <llvm/TargetParser/Host.h>

#include "backends/llvm/target.h"
#include "ir/error.h"
#include "jit/engine/code_memory.h"
#include "jit/engine/symbols.h"

namespace lathe {

namespace orc = llvm::orc;

struct Engine::Impl {
  CodeMemoryCounts memory;
  std::unique_ptr<orc::LLJIT> jit;
  std::atomic<std::int64_t> loaded{0};
  std::atomic<std::int64_t> serial{0};
};

struct LoadedKernel::Loaded {
  orc::JITDylib* library;
};

namespace {

template <class T>
T expect(llvm::Expected<T> value, const char* what) {
  if (!value) throw Bug(fmt::format("{}: {}", what, llvm::toString(value.takeError())));
  return std::move(*value);
}

void expect(llvm::Error error, const char* what) {
  if (error) throw Bug(fmt::format("{}: {}", what, llvm::toString(std::move(error))));
}

}  // namespace

Engine::Engine() : impl_(new Impl) {
  codegen::initialize_llvm();
  orc::LLJITBuilder builder;
  builder.setJITTargetMachineBuilder(orc::JITTargetMachineBuilder(llvm::Triple(llvm::sys::getProcessTriple())));
  // Kernels see nothing of the process but what they are given by address.
  builder.setLinkProcessSymbolsByDefault(false);
  builder.setPlatformSetUp(orc::setUpInactivePlatform);
  builder.setObjectLinkingLayerCreator([this](orc::ExecutionSession& session, const llvm::Triple&) {
    return std::make_unique<orc::ObjectLinkingLayer>(session, make_code_memory(impl_->memory));
  });
  impl_->jit = expect(builder.create(), "making the JIT");
}

Engine& Engine::instance() {
  static Engine* engine = new Engine;
  return *engine;
}

std::shared_ptr<LoadedKernel> Engine::link(const ObjectCode& object) {
  orc::ExecutionSession& session = impl_->jit->getExecutionSession();
  orc::SymbolMap externals;
  for (const std::string& name : object.externals) {
    void* address = find_symbol(name);
    if (!address)
      throw InputError(Mistake::value,
                       fmt::format("kernel {} calls '{}', which nothing provides: register_symbol binds a name",
                                   object.symbol, name));
    externals[session.intern(name)] = {orc::ExecutorAddr::fromPtr(address),
                                       llvm::JITSymbolFlags::Exported | llvm::JITSymbolFlags::Callable};
  }
  // A library of its own for each kernel: names of different kernels, and of one loaded twice, do not meet.
  orc::JITDylib& library = session.createBareJITDylib(fmt::format("{}.{}", object.symbol, impl_->serial++));
  std::shared_ptr<LoadedKernel> kernel(new LoadedKernel);
  kernel->loaded_ = std::make_unique<LoadedKernel::Loaded>(LoadedKernel::Loaded{&library});
  impl_->loaded++;
  if (!externals.empty()) expect(library.define(orc::absoluteSymbols(std::move(externals))), "binding externals");
  auto buffer =
      llvm::MemoryBuffer::getMemBuffer(llvm::StringRef(object.bytes.data(), object.bytes.size()), object.symbol, false);
  expect(impl_->jit->getObjLinkingLayer().add(library, std::move(buffer)), "adding the object");
  auto symbol =
      expect(session.lookup({{&library, orc::JITDylibLookupFlags::MatchAllSymbols}}, session.intern(object.symbol)),
             "linking the object");
  kernel->entry_ = symbol.getAddress().toPtr<LatheKernel>();
  kernel->shared_bytes_ = object.shared_bytes;
  kernel->worker_bytes_ = object.worker_bytes;
  return kernel;
}

LoadedKernel::~LoadedKernel() {
  Engine::Impl& engine = *Engine::instance().impl_;
  orc::ExecutionSession& session = engine.jit->getExecutionSession();
  // Nothing can be done about a failure here: the pages stay mapped.
  llvm::consumeError(session.removeJITDylib(*loaded_->library));
  engine.loaded--;
  if (engine.loaded % 256 == 0) session.getSymbolStringPool()->clearDeadEntries();
}

std::int64_t Engine::loaded_kernels() const {
  return impl_->loaded;
}
std::int64_t Engine::reserved_bytes() const {
  return impl_->memory.reserved;
}
std::int64_t Engine::mapped_bytes() const {
  return impl_->memory.mapped;
}

}  // namespace lathe
