#include "backends/stages.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <mutex>

#include "ir/analysis/verify.h"
#include "ir/error.h"
#include "ir/structural.h"

namespace lathe {
namespace {

struct Place {
  int stage;
  size_t index;
};

std::optional<Place> find_pass(const std::vector<Pass>* stages, const std::string& name) {
  for (int s = 0; s < 7; ++s) {
    for (size_t i = 0; i < stages[s].size(); ++i) {
      if (stages[s][i].name == name) return Place{s, i};
    }
  }
  return std::nullopt;
}

struct Registry {
  std::mutex mutex;
  std::map<std::string, Pipeline> pipelines;
};

Registry& registry() {
  static Registry instance;
  return instance;
}

void refuse_second(const Pipeline& pipeline, const std::string& name) {
  for (const std::string& known : pipeline.pass_names()) {
    if (known == name) throw InputError(Mistake::value, "a pass named '" + name + "' is in the pipeline already");
  }
}

[[noreturn]] void refuse_unknown(const Pipeline& pipeline, const std::string& name) {
  throw InputError(Mistake::value, unknown_name("pass", name, pipeline.pass_names()));
}

}  // namespace

void Pipeline::append(Stage stage, Pass pass) {
  refuse_second(*this, pass.name);
  stages_[static_cast<int>(stage)].push_back(std::move(pass));
}

void Pipeline::insert_before(const std::string& anchor, Pass pass) {
  refuse_second(*this, pass.name);
  auto place = find_pass(stages_, anchor);
  if (!place) refuse_unknown(*this, anchor);
  auto& passes = stages_[place->stage];
  passes.insert(passes.begin() + static_cast<std::ptrdiff_t>(place->index), std::move(pass));
}

void Pipeline::insert_after(const std::string& anchor, Pass pass) {
  refuse_second(*this, pass.name);
  auto place = find_pass(stages_, anchor);
  if (!place) refuse_unknown(*this, anchor);
  auto& passes = stages_[place->stage];
  passes.insert(passes.begin() + static_cast<std::ptrdiff_t>(place->index) + 1, std::move(pass));
}

void Pipeline::replace(const std::string& name, Pass pass) {
  auto place = find_pass(stages_, name);
  if (!place) refuse_unknown(*this, name);
  if (pass.name != name) refuse_second(*this, pass.name);
  stages_[place->stage][place->index] = std::move(pass);
}

void Pipeline::remove(const std::string& name) {
  auto place = find_pass(stages_, name);
  if (!place) refuse_unknown(*this, name);
  auto& passes = stages_[place->stage];
  passes.erase(passes.begin() + static_cast<std::ptrdiff_t>(place->index));
}

const std::vector<Pass>& Pipeline::passes(Stage stage) const {
  return stages_[static_cast<int>(stage)];
}

std::vector<std::string> Pipeline::pass_names() const {
  std::vector<std::string> names;
  for (const auto& passes : stages_) {
    for (const Pass& pass : passes) names.push_back(pass.name);
  }
  return names;
}

Stage Pipeline::stage_of(const std::string& name) const {
  auto place = find_pass(stages_, name);
  if (!place) refuse_unknown(*this, name);
  return static_cast<Stage>(place->stage);
}

void register_pipeline(const std::string& family, Pipeline pipeline) {
  Registry& all = registry();
  std::lock_guard lock(all.mutex);
  if (!all.pipelines.emplace(family, std::move(pipeline)).second) {
    throw InputError(Mistake::value, "a pipeline for device family '" + family + "' is registered already");
  }
}

Pipeline find_pipeline(const std::string& family) {
  Registry& all = registry();
  std::lock_guard lock(all.mutex);
  auto found = all.pipelines.find(family);
  if (found != all.pipelines.end()) return found->second;
  std::vector<std::string> known;
  known.reserve(all.pipelines.size());
  for (const auto& [name, pipeline] : all.pipelines) known.push_back(name);
  throw InputError(Mistake::value, unknown_name("device family", family, known));
}

namespace {

constexpr const char* last_pass = "last_pass";

Func with_last_pass(const Func& func, const std::string* name) {
  Annotations attrs = func->attrs;
  attrs.erase(last_pass);
  if (name) attrs[last_pass] = *name;
  return FuncNode::make(func->name, func->params, func->body, func->facts, std::move(attrs), func->stage);
}

/// Runs one pass as the options want it; what it left is seen by `after_pass` at `reached`.
Func run_pass(const Pass& pass, const Func& before, const Device& device, Stage stage, Stage reached,
              const LowerOptions& options) {
  const auto start = std::chrono::steady_clock::now();
  Func after = pass.run(before, device);
  if (options.timings) {
    const std::chrono::duration<double, std::milli> elapsed = std::chrono::steady_clock::now() - start;
    options.timings->push_back({std::string(to_string(stage)), pass.name, elapsed.count()});
  }
  after = with_stage(after, reached);
  if (options.verify_each) check_verified(after, pass.name, &device);
  if (options.after_pass) {
    const bool changed = before->body != after->body && !equal(before->body, after->body);
    options.after_pass(stage, pass.name, after, changed);
  }
  return after;
}

bool contains(const std::vector<std::string>& names, const std::string& name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

}  // namespace

Func run_passes(const Func& func, const Device& device, const Pipeline& pipeline, const std::vector<std::string>& names,
                const LowerOptions& options) {
  for (const std::string& name : names) pipeline.stage_of(name);
  Func current = func;
  for (const std::string& name : names) {
    const Stage stage = pipeline.stage_of(name);
    const std::vector<Pass>& passes = pipeline.passes(stage);
    const auto pass = std::find_if(passes.begin(), passes.end(), [&](const Pass& p) { return p.name == name; });
    // Behind the last pass of a stage lie also the stages after it that have none.
    int behind = std::max(0, static_cast<int>(stage) - 1);
    if (pass + 1 == passes.end()) {
      for (behind = static_cast<int>(stage); behind < 6 && pipeline.passes(static_cast<Stage>(behind + 1)).empty();)
        ++behind;
    }
    const Stage reached = std::max(current->stage, static_cast<Stage>(behind));
    current = run_pass(*pass, current, device, stage, reached, options);
  }
  return current;
}

Func lower(const Func& func, const Device& device, const Pipeline& pipeline, const LowerOptions& options) {
  for (const std::string& name : options.skip) pipeline.stage_of(name);
  if (options.stop_after_pass) pipeline.stage_of(*options.stop_after_pass);
  for (const Finding& finding : verify_spaces(func, device)) {
    if (!finding.proved_wrong) continue;
    throw Refusal(
        "lower", 1,
        fmt::format(
            "lower refused: condition 1, loops and accesses of {} are to axes and memory that {} has and lets reach: "
            "{}",
            func->name, device.name, finding.message));
  }

  Func current = func;
  // The passes of `begin` receive what tracing and scheduling leave, which is at stage begin already.
  int first = func->stage == Stage::begin ? 0 : static_cast<int>(func->stage) + 1;
  size_t from = 0;
  if (const auto found = func->attrs.find(last_pass); found != func->attrs.end()) {
    const std::string* name = std::get_if<std::string>(&found->second);
    if (!name) throw InputError(Mistake::value, "attribute last_pass: expected the name of a pass in quotes");
    first = static_cast<int>(pipeline.stage_of(*name));
    const std::vector<Pass>& passes = pipeline.passes(static_cast<Stage>(first));
    while (passes[from].name != *name) ++from;
    ++from;
    current = with_last_pass(func, nullptr);
  }
  for (int s = first; s < 7; ++s, from = 0) {
    const auto stage = static_cast<Stage>(s);
    if (options.stop_after && s > static_cast<int>(*options.stop_after)) break;
    const std::vector<Pass>& passes = pipeline.passes(stage);
    for (size_t i = from; i < passes.size(); ++i) {
      const Pass& pass = passes[i];
      const bool last = i + 1 == passes.size();
      if (!contains(options.skip, pass.name)) {
        current = run_pass(pass, current, device, stage, last ? stage : current->stage, options);
      }
      if (options.stop_after_pass && *options.stop_after_pass == pass.name) {
        return last ? with_stage(current, stage) : with_last_pass(current, &pass.name);
      }
    }
    current = with_stage(current, stage);
  }
  return current;
}

}  // namespace lathe
