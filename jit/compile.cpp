#include "jit/compile.h"

#include <algorithm>
#include <chrono>

#include "backends/cpu/cpu.h"
#include "backends/llvm/emit.h"
#include "backends/stages.h"
#include "ir/error.h"
#include "ir/text/print.h"
#include "jit/engine/engine.h"
#include "schedule/auto/auto_schedule.h"

namespace lathe {
namespace {

class Stopwatch {
 public:
  /// Milliseconds since the last lap, or since construction.
  double lap() {
    const auto now = std::chrono::steady_clock::now();
    const double ms = std::chrono::duration<double, std::milli>(now - last_).count();
    last_ = now;
    return ms;
  }

 private:
  std::chrono::steady_clock::time_point last_ = std::chrono::steady_clock::now();
};

std::string describe_params(const Func& func) {
  std::string inputs, outputs;
  const std::vector<Buffer> buffers = buffer_params(func);
  const std::vector<bool> written = written_params(func);
  for (size_t i = 0; i < buffers.size(); ++i) {
    std::string& list = written[i] ? outputs : inputs;
    list += (list.empty() ? "" : ", ") + to_string(buffers[i]->dtype) + "[";
    for (size_t d = 0; d < buffers[i]->rank(); ++d) list += (d ? ", " : "") + print(buffers[i]->shape[d]);
    list += "]";
  }
  return inputs + " -> " + outputs;
}

const Pipeline& pipeline() {
  static const Pipeline cpu = [] {
    register_cpu();
    return find_pipeline("cpu");
  }();
  return cpu;
}

/// Their sums are f32, and no operation of IEEE.
Device without_float_dots(Device device) {
  std::erase_if(device.intrinsics, [](const Func& dot) { return buffer_params(dot).back()->dtype.is_float(); });
  return device;
}

}  // namespace

const Device& compile_device(Precision precision) {
  static const Device device = host_device();
  static const Device strict = without_float_dots(device);
  return precision == Precision::strict ? strict : device;
}

std::shared_ptr<Kernel> compile(const Func& func, const Device& device, bool schedule, CompileTimes times) {
  Stopwatch watch;
  auto kernel = std::make_shared<Kernel>();
  kernel->name = func->name;
  kernel->shapes = describe_params(func);
  if (const auto found = func->attrs.find("operators"); found != func->attrs.end()) {
    if (const std::string* text = std::get_if<std::string>(&found->second)) kernel->operators = *text;
  }
  Func current = schedule && func->stage == Stage::begin ? ask_for_schedule(func) : func;
  LowerOptions tuning;
  tuning.stop_after = Stage::tuning;
  if (current->stage < Stage::tuning) current = lower(current, device, pipeline(), tuning);
  times.schedule = watch.lap();
  current = lower(current, device, pipeline());
  times.lower = watch.lap();
  CodegenTimes codegen;
  const ObjectCode object = compile_to_object(current, device, CodegenOptions(), &codegen);
  times.emit = codegen.emit;
  times.codegen = codegen.codegen;
  watch.lap();
  kernel->code = Engine::instance().link(object);
  times.link = watch.lap();
  kernel->entry = kernel->code->entry();
  kernel->shared_bytes = object.shared_bytes;
  kernel->worker_bytes = object.worker_bytes;
  kernel->times = times;
  return kernel;
}

std::vector<std::string> text_stages() {
  std::vector<std::string> names{"traced", "scheduled"};
  for (const std::string& stage : stage_names()) names.push_back(stage);
  names.insert(names.end(), {"llvm", "asm"});
  return names;
}

std::string stage_text(const Func& func, const Device& device, const std::string& stage) {
  const std::vector<std::string> known = text_stages();
  if (std::find(known.begin(), known.end(), stage) == known.end()) {
    throw InputError(Mistake::value, unknown_name("stage", stage, known));
  }
  if (stage == "traced") return print(func);
  Func current = func->stage == Stage::begin ? auto_schedule(func, device) : func;
  if (stage == "scheduled") return print(current);
  LowerOptions options;
  options.stop_after = parse_stage(stage);
  register_cpu();
  current = lower(current, device, find_pipeline(device.family), options);
  if (stage == "llvm") return llvm_ir_text(current, device);
  if (stage == "asm") return assembly_text(current, device);
  return print(current);
}

}  // namespace lathe
