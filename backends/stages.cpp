#include "backends/stages.h"

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
  for (const auto& [name, pipeline] : all.pipelines) known.push_back(name);
  throw InputError(Mistake::value, unknown_name("device family", family, known));
}

Func lower(const Func& func, const Device& device, const Pipeline& pipeline, const LowerOptions& options) {
  std::vector<std::string> names = pipeline.pass_names();
  auto check_known = [&](const std::string& name) {
    if (std::find(names.begin(), names.end(), name) == names.end()) refuse_unknown(pipeline, name);
  };
  for (const std::string& name : options.skip) check_known(name);
  if (options.stop_after_pass) check_known(*options.stop_after_pass);

  Func current = func;
  // The passes of `begin` receive what tracing and scheduling leave, which is at stage begin already.
  int first = func->stage == Stage::begin ? 0 : static_cast<int>(func->stage) + 1;
  for (int s = first; s < 7; ++s) {
    Stage stage = static_cast<Stage>(s);
    if (options.stop_after && s > static_cast<int>(*options.stop_after)) break;
    const std::vector<Pass>& passes = pipeline.passes(stage);
    for (size_t i = 0; i < passes.size(); ++i) {
      const Pass& pass = passes[i];
      bool skipped = std::find(options.skip.begin(), options.skip.end(), pass.name) != options.skip.end();
      Func before = current;
      if (!skipped) {
        auto start = std::chrono::steady_clock::now();
        current = pass.run(before, device);
        if (options.timings) {
          std::chrono::duration<double, std::milli> elapsed = std::chrono::steady_clock::now() - start;
          options.timings->push_back({std::string(to_string(stage)), pass.name, elapsed.count()});
        }
      }
      bool last = i + 1 == passes.size();
      if (last) current = with_stage(current, stage);
      if (!skipped) {
        if (options.verify_each) check_verified(current, pass.name);
        if (options.after_pass) {
          bool changed = before->body != current->body && !equal(before->body, current->body);
          options.after_pass(stage, pass.name, current, changed);
        }
      }
      if (options.stop_after_pass && *options.stop_after_pass == pass.name) return current;
    }
    if (passes.empty()) current = with_stage(current, stage);
  }
  return current;
}

}  // namespace lathe
