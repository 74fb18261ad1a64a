#include "tests/fuzz/stages.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "backends/cpu/cpu.h"
#include "backends/stages.h"
#include "ir/interpreter/interpreter.h"
#include "ir/passes/math/vector_library.h"
#include "ir/text/print.h"
#include "schedule/auto/auto_schedule.h"

namespace lathe::testing {

Func for_each_form(const GeneratedProgram& program, const Device& device, bool schedule,
                   const std::function<void(const std::string& form, const Func& func)>& f) {
  static const bool library_known = [] {
    register_cpu();
    math::for_each_library_meaning(register_interpreter_extern);
    return true;
  }();
  (void)library_known;
  Func func = program.func;
  if (schedule) {
    func = auto_schedule(func, device);
    f("scheduled", func);
  }
  LowerOptions options;
  options.after_pass = [&](Stage stage, const std::string& pass, const Func& after, bool changed) {
    // Within a stage the Func still carries the last one's name; its contents are this stage's already.
    const bool flat = stage > Stage::flatten || (stage == Stage::flatten && pass == "flatten_buffers");
    if (changed) f("after " + pass, flat ? with_stage(after, stage) : after);
  };
  return lower(func, device, find_pipeline("cpu"), options);
}

std::string report(const GeneratedProgram& program, const std::string& form, const std::string& what,
                   const Func& func) {
  std::string operators;
  for (const std::string& name : program.operators) operators += " " + name;
  return fmt::format("seed {} run {} {}: {}\noperators:{}\nscalars: {}\ntraced:\n{}\n{}:\n{}", program.seed,
                     program.run, form, what, operators, fmt::join(program.scalars, ", "), print(program.func), form,
                     print(func));
}

}  // namespace lathe::testing
