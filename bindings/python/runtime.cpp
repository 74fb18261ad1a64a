#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "backends/llvm/version.h"
#include "bindings/cli/cli.h"
#include "bindings/python/bind.h"
#include "bindings/python/torch_flags.h"
#include "jit/cache/kernel_cache.h"
#include "jit/compile.h"
#include "jit/function.h"
#include "jit/runtime/threads.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace lathe::python {
namespace {

nb::dict describe_kernel(const Kernel& kernel) {
  nb::dict row;
  row["name"] = kernel.name;
  row["operators"] = kernel.operators;
  row["shapes"] = kernel.shapes;
  nb::dict phases;
  phases["trace"] = kernel.times.trace;
  phases["schedule"] = kernel.times.schedule;
  phases["lower"] = kernel.times.lower;
  phases["emit"] = kernel.times.emit;
  phases["codegen"] = kernel.times.codegen;
  phases["link"] = kernel.times.link;
  row["compile_ms"] = phases;
  row["calls"] = kernel.calls.load();
  const std::int64_t profiled = kernel.profiled_calls.load();
  row["us_per_call"] = profiled ? nb::object(nb::float_(1e-3 * static_cast<double>(kernel.nanoseconds.load()) /
                                                        static_cast<double>(profiled)))
                                : nb::none();
  return row;
}

nb::dict describe_device() {
  const Device& device = compile_device();
  nb::dict info;
  info["name"] = device.name;
  info["triple"] = device.triple;
  info["cpu"] = device.cpu;
  info["features"] = device.features;
  info["vector_bits"] = device.vector_bits;
  info["cores"] = device.cores;
  info["threads"] = thread_count();
  info["thread_pool"] = shared_threads(thread_count()) > 1 ? "OpenMP" : "oneTBB";
  info["lathe"] = std::string(lathe_version);
  info["llvm"] = std::string(llvm_version());
  return info;
}

}  // namespace

void bind_runtime(nb::module_& module) {
  module.def("_cache_counts", [] {
    const CacheInfo info = KernelCache::instance().info();
    return nb::make_tuple(info.hits, info.misses, info.compiles, info.evictions, info.kernels);
  });
  module.def(
      "cache_clear",
      [] {
        const nb::gil_scoped_release release;
        KernelCache::instance().clear();
      },
      "Evicts every kernel; calls that run finish on the code they have.");
  module.def(
      "set_cache_capacity", [](std::int64_t kernels) { KernelCache::instance().set_capacity(kernels); }, "kernels"_a,
      "Kernels kept at most; beyond it the one looked up longest ago goes.");
  module.def(
      "kernels",
      [] {
        nb::list rows;
        for (const auto& kernel : KernelCache::instance().kernels()) rows.append(describe_kernel(*kernel));
        return rows;
      },
      "One dict a kernel alive: operators, shapes, compile milliseconds by phase, calls, microseconds a call (while "
      "profiling).");
  module.def("set_profiling", &set_profiling, "on"_a, "While on, every call measures its kernel's time.");
  module.def("thread_count", &thread_count, "Worker threads of later calls.");
  module.def("set_thread_count", &set_thread_count, "count"_a,
             "At most 4096; 0 brings the default back: what affinity and cgroup allow.");
  module.def("share_threads", &share_openmp, "on"_a,
             "Whether loops run on PyTorch's OpenMP threads once a kernel has taken one of its tensors (True until "
             "set), or on "
             "Lathe's own.");
  module.def("device_info", &describe_device, "The machine that kernels are compiled for, and the versions.");

  module.def("_use_torch_library", &TorchFlags::use_library, "on"_a,
             "False asks torch's Python methods whether a tensor may be taken, even where its library answers sooner.");
  module.def("_cli", [](const std::vector<std::string>& arguments) {
    std::vector<const char*> argv;
    argv.reserve(arguments.size());
    for (const std::string& argument : arguments) argv.push_back(argument.c_str());
    return cli_main(static_cast<int>(argv.size()), argv.data());
  });
}

}  // namespace lathe::python
