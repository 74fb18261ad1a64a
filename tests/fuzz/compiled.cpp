#include "tests/fuzz/compiled.h"

#include <fmt/format.h>
#include <sanitizer/common_interface_defs.h>

#include <algorithm>

#include "ir/abi.h"
#include "jit/engine/engine.h"

namespace lathe::testing {
namespace {

constexpr int workers = 3;

/// A host's own parallel_for that is deterministic and stays on this thread, where a fault can be caught.
std::int32_t run_backwards(LatheContext*, std::int64_t n, std::int64_t grain, LatheParallelBody body, void* closure) {
  grain = std::max<std::int64_t>(grain, 1);
  const std::int64_t pieces = (n + grain - 1) / grain;
  for (std::int64_t piece = pieces; piece-- > 0;) {
    const std::int32_t status =
        body(closure, piece * grain, std::min(n, (piece + 1) * grain), static_cast<std::int32_t>(piece % workers));
    if (status != LATHE_OK) return status;
  }
  return LATHE_OK;
}

/// The sanitizer ends the process: which program it was then goes to stderr behind its report.
void name_on_death([[maybe_unused]] std::string name) {
#if defined(__SANITIZE_ADDRESS__)
  static std::string current;
  current = std::move(name);
  __sanitizer_set_death_callback([] { fmt::print(stderr, "in {}\n", current); });
#endif
}

}  // namespace

CompiledProgram compile_program(const Func& end, const Device& device, bool address_sanitizer) {
  CodegenOptions options;
  options.address_sanitizer = address_sanitizer;
  const ObjectCode object = compile_to_object(end, device, options);
  return {Engine::instance().link(object), object.shared_bytes, object.worker_bytes};
}

std::int32_t run_on(const CompiledProgram& compiled, void* const* pointers) {
  LatheContext context{};
  context.abi_version = LATHE_ABI_VERSION;
  context.thread_count = workers;
  context.parallel_for = run_backwards;
  return compiled.code->entry()(&context, pointers, nullptr);
}

Outcome run_compiled(const GeneratedProgram& program, const CompiledProgram& compiled, Against against) {
  Outcome outcome;
  outcome.arrays = make_arrays(program, against);
  std::vector<void*> pointers;
  for (size_t k = 0; k < outcome.arrays.size(); ++k) {
    const Parameter& p = program.parameters[k];
    pointers.push_back(static_cast<std::byte*>(outcome.arrays[k].data()) - p.layout.offset * p.dtype.bytes());
  }
  const std::int64_t stride = (compiled.worker_bytes + 63) / 64 * 64;
  const GuardedArray shared = guarded_bytes(compiled.shared_bytes, against),
                     own = guarded_bytes(stride * workers, against);
  LatheContext context{};
  context.abi_version = LATHE_ABI_VERSION;
  context.thread_count = workers;
  context.parallel_for = run_backwards;
  context.shared_workspace = shared.begin();
  context.worker_workspace = own.begin();
  context.worker_stride = stride;
  const auto poison = [&](bool poisoned) {
    for (const GuardedArray& array : outcome.arrays) array.poison_gaps(poisoned);
    shared.poison_gaps(poisoned);
    own.poison_gaps(poisoned);
  };
  name_on_death(fmt::format("{} run {}", program.func->name, program.run));
  poison(true);
  const void* fault =
      fault_of([&] { outcome.status = compiled.code->entry()(&context, pointers.data(), program.scalars.data()); });
  poison(false);
  if (context.error.message) outcome.message = context.error.message;
  if (fault) {
    outcome.status = -1;
    outcome.message = "a fault";
    for (size_t k = 0; k < outcome.arrays.size(); ++k) {
      const auto* address = static_cast<const std::byte*>(fault);
      const GuardedArray& array = outcome.arrays[k];
      if (address >= array.begin() - 4096 && address < array.end() + 4096) {
        outcome.message = fmt::format("a fault {} bytes from the start of parameter {}, which has {}",
                                      address - array.begin(), k, array.end() - array.begin());
      }
    }
    return outcome;
  }
  for (const auto& [name, array] : {std::pair("shared", &shared), {"worker", &own}}) {
    if (const std::string damage = array->check(); !damage.empty()) {
      outcome.status = -1;
      outcome.message = fmt::format("the {} workspace: {}", name, damage);
    }
  }
  return outcome;
}

}  // namespace lathe::testing
