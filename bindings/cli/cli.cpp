#include "bindings/cli/cli.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <numeric>

#include "backends/cpu/cpu.h"
#include "backends/llvm/version.h"
#include "backends/stages.h"
#include "bindings/cli/npy.h"
#include "ir/analysis/check_given.h"
#include "ir/error.h"
#include "ir/text/device.h"
#include "ir/text/parse.h"
#include "ir/text/print.h"
#include "jit/cache/signature.h"
#include "jit/compile.h"
#include "jit/explain.h"
#include "jit/run.h"
#include "jit/runtime/threads.h"
#include "schedule/auto/auto_schedule.h"

namespace lathe {
namespace {

std::string read_text(const std::string& path) {
  std::ifstream file(path);
  if (!file) throw InputError(Mistake::value, path + ": cannot be opened");
  return {std::istreambuf_iterator<char>(file), {}};
}

Func read_func(const std::string& path) {
  return parse_func(read_text(path), path);
}

/// The device that a file describes; this host when none is named.
Device read_device(const std::string& path) {
  return path.empty() ? compile_device() : parse_device(read_text(path), path);
}

struct DumpChoices {
  std::string stage = "scheduled", after, stop_after, resume, device;
  std::vector<std::string> skip;
  bool time = false, verify_each = false;
};

void print_timings(const std::vector<PassTiming>& timings) {
  double total = 0;
  for (const PassTiming& t : timings) {
    fmt::print(stderr, "{:<15} {:<22} {:>8.3f} ms\n", t.stage, t.pass, t.milliseconds);
    total += t.milliseconds;
  }
  fmt::print(stderr, "{:<15} {:<22} {:>8.3f} ms\n", "", "all passes", total);
}

/// What lowering options ask for goes through the runner of passes; plain stages through stage_text.
void dump(const std::string& path, const DumpChoices& choices) {
  const Func func = read_func(choices.resume.empty() ? path : choices.resume);
  const Device device = read_device(choices.device);
  const bool lowers = !choices.after.empty() || !choices.stop_after.empty() || !choices.resume.empty() ||
                      !choices.skip.empty() || choices.time || choices.verify_each;
  if (!lowers) {
    fmt::print("{}", stage_text(func, device, choices.stage));
    return;
  }
  register_cpu();
  const Pipeline pipeline = find_pipeline(device.family);
  std::vector<PassTiming> timings;
  LowerOptions options;
  options.skip = choices.skip;
  options.verify_each = choices.verify_each;
  options.timings = &timings;
  if (!choices.after.empty()) options.stop_after_pass = choices.after;
  if (!choices.stop_after.empty()) {
    options.stop_after = parse_stage(choices.stop_after);
    if (!options.stop_after) {
      throw InputError(Mistake::value, unknown_name("stage", choices.stop_after, stage_names()));
    }
  }
  const bool fresh = func->stage == Stage::begin && !func->attrs.contains("last_pass");
  const Func lowered = lower(fresh ? ask_for_schedule(func) : func, device, pipeline, options);
  fmt::print("{}", print(lowered));
  if (choices.time) print_timings(timings);
}

/// Runs passes by name; `auto_schedule` is one of them.
void opt(const std::string& path, const std::vector<std::string>& passes, bool verify_each,
         const std::string& device_path) {
  register_cpu();
  const Device device = read_device(device_path);
  Pipeline pipeline = find_pipeline(device.family);
  pipeline.insert_before("simplify",
                         {"auto_schedule", [](const Func& func, const Device& on) { return auto_schedule(func, on); }});
  LowerOptions options;
  options.verify_each = verify_each;
  // Naming a rule of the scheduler asks for it.
  const std::vector<std::string> rules = scheduling_rules();
  const bool asks = std::any_of(passes.begin(), passes.end(), [&](const std::string& pass) {
    return std::find(rules.begin(), rules.end(), pass) != rules.end();
  });
  const Func func = read_func(path);
  fmt::print("{}", print(run_passes(asks ? ask_for_schedule(func) : func, device, pipeline, passes, options)));
}

void explain(const std::string& path, bool html, const std::string& output, const std::string& device_path) {
  const std::vector<ExplainStep> steps = explain_steps(read_func(path), read_device(device_path));
  const std::string text = html ? explain_html(steps) : explain_text(steps);
  if (output.empty()) {
    fmt::print("{}", text);
    return;
  }
  std::ofstream file(output);
  file << text;
  file.flush();
  if (!file) throw InputError(Mistake::value, output + ": cannot be written");
}

/// "name=value" pairs for scalar parameters.
std::vector<std::int64_t> parse_scalars(const Func& func, const std::vector<std::string>& given) {
  std::vector<std::int64_t> values;
  std::vector<std::string> names;
  for (const VarRef& scalar : scalar_params(func)) {
    names.push_back(scalar->name);
    values.push_back(0);
  }
  std::vector<bool> seen(names.size(), false);
  for (const std::string& pair : given) {
    const size_t equals = pair.find('=');
    const std::string name = pair.substr(0, equals);
    const auto at = static_cast<size_t>(std::find(names.begin(), names.end(), name) - names.begin());
    if (equals == std::string::npos || at == names.size()) {
      throw InputError(Mistake::value, "--scalar " + pair + ": " + unknown_name("scalar", name, names));
    }
    const std::string text = pair.substr(equals + 1);
    values[at] = scalar_params(func)[at]->dtype.is_float()
                     ? scalar_bits(scalar_params(func)[at]->dtype, std::stod(text))
                     : std::stoll(text);
    seen[at] = true;
  }
  for (size_t i = 0; i < names.size(); ++i) {
    if (!seen[i])
      throw InputError(Mistake::value, fmt::format("scalar {} needs a value: --scalar {}=VALUE", names[i], names[i]));
  }
  return values;
}

/// The shape of an output, its symbolic extents taken from the scalars.
std::vector<std::int64_t> output_shape(const Func& func, const Buffer& buffer,
                                       const std::vector<std::int64_t>& scalars) {
  std::vector<std::int64_t> shape;
  for (const Expr& extent : buffer->shape) shape.push_back(evaluate_extent(func, extent, scalars));
  return shape;
}

void run(const std::string& path, const std::vector<std::string>& inputs, const std::vector<std::string>& outputs,
         const std::vector<std::string>& scalar_texts, bool interpreted) {
  const Func func = read_func(path);
  check_given(func);
  const std::vector<Buffer> buffers = buffer_params(func);
  const std::vector<bool> written = written_params(func);
  const auto input_count = static_cast<size_t>(std::count(written.begin(), written.end(), false));
  if (inputs.size() != input_count) {
    throw InputError(Mistake::value, fmt::format("{} reads {} arrays, {} were given with --input", func->name,
                                                 input_count, inputs.size()));
  }
  if (outputs.size() > buffers.size() - input_count) {
    throw InputError(Mistake::value, fmt::format("{} writes {} arrays, {} were named with --output", func->name,
                                                 buffers.size() - input_count, outputs.size()));
  }
  const std::vector<std::int64_t> scalars = parse_scalars(func, scalar_texts);
  std::vector<Array> arrays;
  arrays.reserve(buffers.size());
  size_t next = 0;
  for (size_t i = 0; i < buffers.size(); ++i) {
    arrays.push_back(written[i] ? Array::zeros(buffers[i]->dtype, output_shape(func, buffers[i], scalars))
                                : read_npy(inputs[next++]));
  }
  std::vector<TensorView> views;
  views.reserve(arrays.size());
  for (Array& array : arrays) views.push_back(array.view());
  if (interpreted) {
    run_interpreted(Parameters(func), views, scalars);
  } else {
    run_kernel(Parameters(func), *compile(func, compile_device()), views, scalars);
  }
  next = 0;
  for (size_t i = 0; i < buffers.size(); ++i) {
    if (!written[i]) continue;
    if (next < outputs.size()) {
      write_npy(outputs[next++], arrays[i]);
    } else {
      fmt::print("{} = {}\n", buffers[i]->name, summarize(views[i]));
    }
  }
}

void info(const std::string& device_path) {
  if (!device_path.empty()) {
    fmt::print("{}", print_device(read_device(device_path)));
    return;
  }
  const Device& device = compile_device();
  fmt::print("lathe        {} (ABI {})\nllvm         {}\n", lathe_version, LATHE_ABI_VERSION, llvm_version());
  fmt::print("host         {}, {}\nthreads      {} of {} cores\n", device.triple, device.cpu, thread_count(),
             device.cores);
  fmt::print("vectors      {} registers of {} bits{}\n", device.vector_registers, device.vector_bits,
             device.fused_multiply_add ? ", fused multiply-add" : "");
  for (size_t i = 0; i < device.caches.size(); ++i) {
    const CacheLevel& cache = device.caches[i];
    fmt::print("cache L{}     {} KiB, {} ways, lines of {}{}\n", i + 1, cache.bytes >> 10, cache.ways, cache.line_bytes,
               cache.shared ? ", shared" : "");
  }
  for (const MemorySpace& space : device.spaces) {
    fmt::print("space        {}{}\n", space.name, space.reachable_from(host_agent) ? "" : ", out of the host's reach");
  }
  fmt::print("features     {}\n", fmt::join(device.features, " "));
}

}  // namespace

int cli_main(int argc, const char* const* argv) {
  CLI::App app(
      "Lathe compiles tensor operators at run time. LATHE_CPU_FEATURES=baseline|avx2|avx512|native, or a list such "
      "as -avx512f, masks the host's features.");
  app.name("lathe");
  app.require_subcommand(1);
  app.set_version_flag("--version", lathe_version);

  std::string file;
  DumpChoices choices;
  CLI::App* dump_command = app.add_subcommand("dump", "print a program as it stands after a stage or a pass");
  CLI::Option* dump_file = dump_command->add_option("file", file, "a .tir file");
  const std::vector<std::string> stages = text_stages();
  CLI::Option* stage_option =
      dump_command->add_option("--stage", choices.stage, fmt::format("one of {}", fmt::join(stages, ", ")))
          ->capture_default_str();
  CLI::Option* after =
      dump_command->add_option("--after", choices.after, "stop after this pass")->excludes(stage_option);
  dump_command->add_option("--stop-after", choices.stop_after, "stop after this stage of lowering")
      ->excludes(stage_option)
      ->excludes(after);
  CLI::Option* resume = dump_command->add_option("--resume", choices.resume, "go on from a program that dump printed")
                            ->excludes(dump_file);
  dump_command->add_option("--skip", choices.skip, "leave a pass out; may be repeated")->excludes(stage_option);
  dump_command->add_flag("--time", choices.time, "the time of each pass, on standard error")->excludes(stage_option);
  dump_command->add_flag("--verify-each", choices.verify_each, "verify the program after each pass")
      ->excludes(stage_option);
  dump_command->callback([&] {
    if (file.empty() && resume->empty()) throw CLI::RequiredError("file or --resume");
  });

  const char* device_help = "a file that describes the device to lower for; this host when not given";
  dump_command->add_option("--device", choices.device, device_help);

  std::vector<std::string> passes;
  bool verify_each = false;
  CLI::App* opt_command = app.add_subcommand("opt", "run passes by name and print the program");
  opt_command->add_option("file", file, "a .tir file")->required();
  opt_command->add_option("--passes", passes, "names of passes, in order: a,b,c")->required()->delimiter(',');
  opt_command->add_flag("--verify-each", verify_each, "verify the program after each pass");
  opt_command->add_option("--device", choices.device, device_help);

  bool html = false;
  std::string output;
  CLI::App* explain_command =
      app.add_subcommand("explain", "print what each schedule primitive and each pass does to a program");
  explain_command->add_option("file", file, "a .tir file")->required();
  explain_command->add_flag("--html", html, "as a page: side by side, changed lines marked");
  explain_command->add_option("--device", choices.device, device_help);
  explain_command->add_option("-o,--output", output, "where to write it; standard output when not given");

  std::vector<std::string> inputs, outputs, scalars;
  bool interpreted = false;
  CLI::App* run_command = app.add_subcommand("run", "compile a program and run it on .npy arrays");
  run_command->add_option("file", file, "a .tir file")->required();
  run_command->add_option("--input", inputs, "an array for each buffer that the program reads, in order");
  run_command->add_option("--output", outputs, "where to write each result; printed when not given");
  run_command->add_option("--scalar", scalars, "NAME=VALUE for each scalar parameter");
  run_command->add_flag("--interpret", interpreted, "run the interpreter instead of compiling");

  CLI::App* info_command = app.add_subcommand("info", "print host, device and versions");
  info_command->add_option("--device", choices.device, "check and print the device that this file describes instead");

  if (argc > 1 && argv[1][0] != '-') {
    std::vector<std::string> known;
    for (const CLI::App* command : app.get_subcommands(nullptr)) known.push_back(command->get_name());
    if (std::find(known.begin(), known.end(), argv[1]) == known.end()) {
      fmt::print(stderr, "lathe: {}\n", unknown_name("command", argv[1], known));
      return 2;
    }
  }
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    const int status = app.exit(error);
    return status == 0 ? 0 : 2;
  }
  try {
    if (*dump_command) dump(file, choices);
    if (*opt_command) opt(file, passes, verify_each, choices.device);
    if (*explain_command) explain(file, html, output, choices.device);
    if (*run_command) run(file, inputs, outputs, scalars, interpreted);
    if (*info_command) info(choices.device);
    return 0;
  } catch (const Bug& error) {
    fmt::print(stderr, "lathe: {}\n", error.what());
    return 70;
  } catch (const Error& error) {
    fmt::print(stderr, "lathe: {}\n", error.what());
    return 1;
  } catch (const std::exception& error) {
    fmt::print(stderr, "lathe: {}\n", error.what());
    return 1;
  }
}

}  // namespace lathe
