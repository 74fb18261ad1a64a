#include <fmt/format.h>
#include <nanobind/nanobind.h>
#include <nanobind/stl/function.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "backends/cpu/cpu.h"
#include "backends/stages.h"
#include "bindings/python/bind.h"
#include "bindings/python/borrow.h"
#include "bindings/python/call_lists.h"
#include "bindings/python/convert.h"
#include "ir/analysis/check_given.h"
#include "ir/analysis/verify.h"
#include "ir/error.h"
#include "ir/structural.h"
#include "ir/text/parse.h"
#include "ir/text/print.h"
#include "jit/compile.h"
#include "jit/run.h"
#include "schedule/auto/auto_schedule.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace lathe::python {
namespace {

/// A program's arguments, borrowed: arrays in parameter order, scalars by name.
class Arguments {
 public:
  Arguments(const Parameters& parameters, nb::handle arrays, const nb::kwargs& given) {
    size_t at = 0;
    for (const nb::handle array : arrays) {
      Borrowed& borrowed = borrowed_.next();
      const bool known = at < parameters.arrays();
      const ArgumentPlace place{static_cast<Py_ssize_t>(at)};
      const ArrayName name{known ? parameters.name(at).c_str() : "argument", known ? nullptr : &place};
      if (!borrowed.borrow(array.ptr(), known && parameters.written(at), name)) {
        throw InputError(Mistake::type, fmt::format("{}: {} is no array", parameters.func()->name, name.text()));
      }
      views_.push(borrowed.view);
      ++at;
    }
    if (!parameters.scalars().empty() || given.size() > 0) take_scalars(parameters, given);
  }

  std::span<const TensorView> views() const { return views_.span(); }
  const std::vector<std::int64_t>& scalars() const { return scalars_; }

 private:
  void take_scalars(const Parameters& parameters, const nb::kwargs& given) {
    const std::string& program = parameters.func()->name;
    std::vector<std::string> known;
    known.reserve(parameters.scalars().size());
    for (const VarRef& scalar : parameters.scalars()) known.push_back(scalar->name);
    for (const auto& [name, value] : given) {
      const std::string text = nb::cast<std::string>(name);
      if (std::find(known.begin(), known.end(), text) == known.end()) {
        throw InputError(Mistake::value, program + ": " + unknown_name("scalar", text, known));
      }
    }
    for (const VarRef& scalar : parameters.scalars()) {
      if (!given.contains(scalar->name.c_str())) {
        throw InputError(Mistake::value,
                         fmt::format("{}: scalar {} needs a value: {}=VALUE", program, scalar->name, scalar->name));
      }
      const nb::handle value = given[scalar->name.c_str()];
      scalars_.push_back(scalar->dtype.is_float() ? scalar_bits(scalar->dtype, nb::cast<double>(value))
                                                  : nb::cast<std::int64_t>(value));
    }
  }

  ArrayList borrowed_;
  SmallList<TensorView, 8> views_;
  std::vector<std::int64_t> scalars_;
};

/// A compiled program that writes into the arrays it is called with.
struct CompiledProgram {
  Parameters parameters;
  std::shared_ptr<Kernel> kernel;
};

void call(const CompiledProgram& program, const nb::args& arrays, const nb::kwargs& scalars) {
  const Arguments arguments(program.parameters, arrays, scalars);
  const nb::gil_scoped_release release;
  run_kernel(program.parameters, *program.kernel, arguments.views(), arguments.scalars());
}

CompiledProgram compile_program(const Func& func, bool schedule) {
  const nb::gil_scoped_release release;
  check_given(func);
  return {Parameters(func), compile(func, compile_device(), schedule)};
}

void interpret(const Func& func, nb::handle arrays, const nb::kwargs& scalars) {
  const Parameters parameters(func);
  const Arguments arguments(parameters, arrays, scalars);
  const nb::gil_scoped_release release;
  run_interpreted(parameters, arguments.views(), arguments.scalars());
}

nb::dict buffers_of(const Func& func) {
  nb::dict buffers;
  for (const Buffer& buffer : buffer_params(func)) buffers[buffer->name.c_str()] = buffer;
  for (const Buffer& buffer : allocations(func)) buffers[buffer->name.c_str()] = buffer;
  return buffers;
}

Pipeline cpu_pipeline() {
  register_cpu();
  return find_pipeline("cpu");
}

/// One function a pass, and the scheduler among them.
void bind_passes(nb::module_& module) {
  nb::module_ passes = module.def_submodule("passes", "Rewrites of programs: Func in, Func out.");
  nb::list names;
  for (const std::string& name : cpu_pipeline().pass_names()) {
    names.append(name);
    passes.def(
        name.c_str(), [name](const Func& func) { return run_passes(func, compile_device(), cpu_pipeline(), {name}); },
        "func"_a, "A pass of the CPU's pipeline (ir/passes has its contract).");
  }
  passes.def(
      "auto_schedule", [](const Func& func) { return auto_schedule(func, compile_device()); }, "func"_a,
      "Schedules a traced program by analysis alone.");
  passes.attr("names") = names;
}

}  // namespace

void bind_program(nb::module_& module) {
  nb::module_ ir = module.def_submodule("ir", "Programs as text.");
  nb::class_<Buffer>(ir, "Buffer", "An array of a program, in some memory space.")
      .def_prop_ro("name", [](const Buffer& buffer) { return buffer->name; })
      .def_prop_ro("dtype", [](const Buffer& buffer) { return buffer->dtype; })
      .def_prop_ro(
          "shape", [](const Buffer& buffer) { return from_shape(buffer->shape); },
          "Constant extents as ints, symbolic ones as expressions.")
      .def_prop_ro(
          "strides", [](const Buffer& buffer) { return from_shape(strides_of(buffer)); }, "In elements.")
      .def_prop_ro("space", [](const Buffer& buffer) { return buffer->space; })
      .def("__repr__", [](const Buffer& buffer) {
        std::string shape;
        for (const Expr& extent : buffer->shape) shape += (shape.empty() ? "" : ", ") + print(extent);
        return fmt::format("<lathe.ir.Buffer {}: {}[{}] @{}>", buffer->name, to_string(buffer->dtype), shape,
                           buffer->space);
      });
  nb::class_<Func>(ir, "Func", "A program in Lathe's intermediate representation.")
      .def("__str__", [](const Func& func) { return print(func); })
      .def("__repr__", [](const Func& func) { return "<lathe.ir.Func " + func->name + ">"; })
      .def(
          "__eq__", [](const Func& a, const Func& b) { return equal(a, b); }, "Structural equality.")
      .def("__eq__", [](const Func&, nb::handle) { return false; })
      .def("__hash__", [](const Func& func) { return structural_hash(func); })
      .def_prop_ro("name", [](const Func& func) { return func->name; })
      .def_prop_ro("stage", [](const Func& func) { return std::string(to_string(func->stage)); })
      .def_prop_ro("buffers", &buffers_of, "Parameters and allocations, by name.")
      .def(
          "verify", [](const Func& func) { check_verified(func, func->name); },
          "Checks every rule of its stage; an InternalError names the one that is broken.");
  ir.def("parse", [](const std::string& text) { return parse_func(text); }, "text"_a, "Reads .tir text.");

  nb::class_<CompiledProgram>(module, "CompiledProgram", "A program as machine code: f(*arrays, **scalars).")
      .def("__call__", &call, "arrays"_a, "scalars"_a,
           "Runs on an array for each buffer parameter, in order; those that the program writes are written in place. "
           "Scalar parameters are given by name.")
      .def_prop_ro("func", [](const CompiledProgram& program) { return program.parameters.func(); })
      .def("__repr__", [](const CompiledProgram& program) {
        return fmt::format("<lathe.CompiledProgram {}>", program.parameters.func()->name);
      });
  module.def("compile", &compile_program, "func"_a, "schedule"_a = false,
             "Compiles a program as it stands, or after the scheduler with schedule=True. Not cached.");
  module.def(
      "interpret", &interpret, "func"_a, "arrays"_a, "scalars"_a,
      "Runs a program on the interpreter, slowly and exactly: an array for each buffer parameter, in order; those "
      "that it writes are written in place. Scalar parameters are given by name.");
  module.def(
      "lower",
      [](const Func& func, const std::optional<std::string>& stop_after, const std::vector<std::string>& skip) {
        LowerOptions options;
        options.skip = skip;
        if (stop_after) {
          options.stop_after = parse_stage(*stop_after);
          if (!options.stop_after) throw InputError(Mistake::value, unknown_name("stage", *stop_after, stage_names()));
        }
        return lower(func, compile_device(), cpu_pipeline(), options);
      },
      "func"_a, "stop_after"_a = nb::none(), "skip"_a = std::vector<std::string>(),
      "Runs the CPU's stages of lowering that lie ahead, to the last one or to `stop_after`.");
  bind_passes(module);
}

}  // namespace lathe::python
