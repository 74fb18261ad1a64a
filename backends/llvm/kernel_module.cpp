#include <fmt/format.h>
#include <llvm/IR/Constants.h>
#include <llvm/IR/Verifier.h>

#include <algorithm>
#include <map>
#include <set>
#include <sstream>

#include "backends/llvm/emitter.h"
#include "backends/llvm/target.h"
#include "ir/error.h"
#include "ir/storage.h"

namespace lathe::codegen {

namespace {

/// Pieces of a workspace that are told apart: each is a scope, and is listed for all others.
constexpr std::int64_t most_pieces = 8;

}  // namespace

/// The planner may give two buffers of one workspace the same bytes, by turns: these are of one class.
void KernelModule::tell_pieces_apart() {
  struct Bytes {
    const BufferNode* buffer;
    std::int64_t begin, end;
  };
  std::map<std::string, std::vector<Bytes>> spaces;
  std::set<std::string> unknown;
  for (const Buffer& buffer : info.buffers()) {
    const BufferNode* storage = storage_of(buffer);
    if (storage->space == space::registers || param_index.contains(storage)) continue;
    const auto span = storage == buffer.get() ? constant_span(buffer) : std::nullopt;
    if (span) {
      const std::int64_t element = buffer->dtype.bytes();
      spaces[buffer->space].push_back({storage, span->first * element, span->end * element});
    } else {
      unknown.insert(storage->space);
    }
  }
  for (auto& [space, buffers] : spaces) {
    if (unknown.contains(space)) continue;
    std::sort(buffers.begin(), buffers.end(), [](const Bytes& a, const Bytes& b) { return a.begin < b.begin; });
    std::int64_t piece = 0, end = 0;
    std::unordered_map<const BufferNode*, std::int64_t> pieces;
    for (const Bytes& bytes : buffers) {
      if (bytes.begin >= end) ++piece;
      end = std::max(end, bytes.end);
      pieces[bytes.buffer] = piece;
    }
    if (piece <= most_pieces) piece_of_.merge(pieces);
  }
}

std::string KernelModule::alias_class(const BufferNode* buffer) const {
  const BufferNode* storage = storage_of(buffer);
  if (const auto param = param_index.find(storage); param != param_index.end())
    return fmt::format("parameter {}", param->second);
  const auto piece = piece_of_.find(storage);
  return piece == piece_of_.end() ? storage->space : fmt::format("{} {}", storage->space, piece->second);
}

KernelModule::KernelModule(llvm::Module& module, const Func& func, const Device& device, const TargetTraits& traits,
                           bool name_values)
    : module(module),
      context(module.getContext()),
      func(func),
      device(device),
      traits(traits),
      info(func),
      name_values(name_values) {
  int index = 0;
  for (const Buffer& buffer : buffer_params(func)) param_index[buffer.get()] = index++;
  if (auto found = func->attrs.find("may_alias"); found != func->attrs.end()) {
    std::stringstream names(std::get<std::string>(found->second));
    for (std::string one; std::getline(names, one, ',');)
      for (const Buffer& buffer : buffer_params(func))
        if (buffer->name == one) may_alias.insert(buffer.get());
  }
  refuse_large_register_buffers();
  tell_pieces_apart();
  llvm::MDBuilder metadata(context);
  llvm::MDNode* domain = metadata.createAnonymousAliasScopeDomain();
  std::vector<std::pair<std::string, llvm::MDNode*>> classes;
  for (const Buffer& buffer : info.buffers()) {
    if (buffer->space == space::registers || may_alias.count(storage_of(buffer))) continue;
    const std::string alias = alias_class(buffer.get());
    if (scopes_.count(alias)) continue;
    scopes_[alias] = {};
    classes.emplace_back(alias, metadata.createAnonymousAliasScope(domain));
  }
  for (auto& [alias, scope] : classes) {
    std::vector<llvm::Metadata*> others;
    for (auto& [other, other_scope] : classes)
      if (other != alias) others.push_back(other_scope);
    scopes_[alias] = {llvm::MDNode::get(context, {scope}),
                      others.empty() ? nullptr : llvm::MDNode::get(context, others)};
  }
}

/// Each alone: how many are live together is the register allocator's to see.
void KernelModule::refuse_large_register_buffers() const {
  const std::int64_t capacity = std::int64_t{device.vector_registers} * device.vector_bits;
  std::unordered_map<const BufferNode*, std::int64_t> bits;
  for (const Slot& slot : info.slots()) bits[slot.buffer] += std::int64_t{slot.lanes} * slot.buffer->dtype.bits;
  for (auto& [buffer, used] : bits)
    if (used > capacity)
      throw Refusal(
          "emit", 5,
          fmt::format("register buffer {} takes {} bits, and the register file of {} holds {} ({} of {} bits)",
                      buffer->name, used, device.cpu, capacity, device.vector_registers, device.vector_bits));
}

KernelModule::AliasScopes KernelModule::alias_scopes(const BufferNode* buffer) const {
  if (may_alias.count(storage_of(buffer))) return {};
  return scopes_.at(alias_class(buffer));
}

llvm::Function* KernelModule::make_function(const std::string& name, llvm::ArrayRef<llvm::Type*> params,
                                            bool external) {
  auto* type = llvm::FunctionType::get(llvm::Type::getInt32Ty(context), params, false);
  auto* function = llvm::Function::Create(
      type, external ? llvm::Function::ExternalLinkage : llvm::Function::InternalLinkage, name, module);
  if (external) function->setVisibility(llvm::GlobalValue::HiddenVisibility);
  function->setDSOLocal(true);
  function->setDoesNotThrow();
  function->addFnAttr("target-cpu", base_cpu(device));
  function->addFnAttr("target-features", feature_string(device));
  if (!device.cpu.empty()) function->addFnAttr("tune-cpu", device.cpu);
  if (device.has_feature("sve")) {
    // Registers are as wide as the device says: vectors of that many bits live in one, instead of several of NEON's.
    const unsigned scale = static_cast<unsigned>(device.vector_bits) / 128;
    function->addFnAttr(llvm::Attribute::getWithVScaleRangeArgs(context, scale, scale));
  }
  function->addFnAttr("prefer-vector-width", std::to_string(device.vector_bits));
  function->addFnAttr("no-builtins");
  if (address_sanitizer) function->addFnAttr(llvm::Attribute::SanitizeAddress);
  return function;
}

void FunctionEmitter::emit_kernel(KernelModule& kernel, const std::string& symbol) {
  llvm::Type* pointer = llvm::PointerType::get(kernel.context, 0);
  llvm::Function* function = kernel.make_function(symbol, {pointer, pointer, pointer}, true);
  FunctionEmitter emitter(kernel, function, false);
  Builder& top = emitter.prologue;
  emitter.context_argument = function->getArg(0);
  emitter.buffers_argument = function->getArg(1);
  emitter.worker = top.getInt32(0);
  int position = 0;
  for (const VarRef& param : scalar_params(kernel.func)) {
    llvm::Value* address = top.CreateConstInBoundsGEP1_64(top.getInt64Ty(), function->getArg(2), position++);
    auto* word = top.CreateLoad(top.getInt64Ty(), address);
    word->setMetadata(llvm::LLVMContext::MD_invariant_load, llvm::MDNode::get(kernel.context, {}));
    const DType dtype = param->dtype;
    llvm::Value* value = word;
    if (dtype.is_bool())
      value = top.CreateIsNotNull(top.CreateTrunc(word, top.getInt8Ty()));
    else if (dtype.bits < 64)
      value = top.CreateTrunc(word, top.getIntNTy(dtype.bits));
    if (dtype.is_float() && dtype.bits > 16)
      value = top.CreateBitCast(value, element_value_type(kernel.context, dtype));
    emitter.name(value, param->name);
    emitter.vars_[param.get()] = value;
    if (dtype == i64) emitter.index_vars_.insert(param.get());
  }
  for (const Fact& fact : kernel.func->facts)
    if (fact.min && *fact.min >= 0) emitter.non_negative_vars_.insert(fact.variable.get());
  // A register buffer that no block allocates belongs to the whole kernel.
  std::unordered_set<const BufferNode*> allocated;
  for (const Buffer& buffer : allocations(kernel.func)) allocated.insert(buffer.get());
  for (size_t slot = 0; slot < kernel.info.slots().size(); ++slot) {
    const Slot& s = kernel.info.slots()[slot];
    if (!allocated.count(s.buffer))
      emitter.slots_[slot] = llvm::UndefValue::get(value_type(kernel.context, s.buffer->dtype.with_lanes(s.lanes)));
  }
  emitter.emit(kernel.func->body);
  emitter.finish();
}

}  // namespace lathe::codegen
