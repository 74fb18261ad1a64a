#include <fmt/format.h>
#include <gtest/gtest.h>

#include "backends/cpu/cpu.h"
#include "ir/structural.h"
#include "ir/text/parse.h"
#include "ir/text/print.h"
#include "tests/fuzz/compare.h"
#include "tests/fuzz/seeds.h"
#include "tests/fuzz/stages.h"
#include "tests/fuzz/tir_generator.h"

namespace lathe::testing {
namespace {

/// How many programs used which memory of the described device.
struct SpaceCensus {
  int spm = 0, vmem = 0, too_large = 0;
  void add(const Func& end) {
    spm += end->attrs.contains("space_spm_bytes");
    vmem += end->attrs.contains("space_vmem_bytes");
  }
};

/// Every form of the program computes what the traced one does, and comes back from its text. Empty, or what failed.
std::string check_forms(const GeneratedProgram& program, const Device& device, const Pipeline& pipeline, bool schedule,
                        SpaceCensus* census = nullptr) {
  std::string failure;
  try {
    std::vector<GeneratedProgram> runs;
    std::vector<Outcome> references;
    for (size_t k = 0; k < program.runs.size(); ++k) {
      runs.push_back(with_run(program, k));
      references.push_back(run_interpreted(runs[k], program.func, true));
    }
    const Func end = for_each_form(program, device, pipeline, schedule, [&](const std::string& form, const Func& func) {
      if (!failure.empty()) return;
      std::string what;
      size_t k = 0;
      try {
        if (!equal(parse_func(print(func)), func)) what = "its text gives another program";
        for (; k < runs.size() && what.empty(); ++k)
          what = compare(runs[k], references[k], run_interpreted(runs[k], func));
      } catch (const Error& error) {
        what = error.what();
      }
      if (!what.empty()) failure = report(runs[std::min(k, runs.size() - 1)], form, what, func);
    });
    if (census) census->add(end);
  } catch (const Refusal& refusal) {
    const bool overflow = refusal.subject == "plan_storage" && refusal.condition == 4;
    if (overflow && census) {
      ++census->too_large;
    } else if (failure.empty()) {
      failure = report(program, "on its way", refusal.what(), program.func);
    }
  } catch (const Error& error) {
    if (failure.empty()) failure = report(program, "on its way", error.what(), program.func);
  }
  return failure;
}

/// This machine with caches so small that arrays of a random program leave them, and its rows do not.
Device with_small_caches() {
  Device device = host_device();
  device.cores = 2;
  device.caches = {{1 << 9, 8, 64, false}, {1 << 11, 8, 64, false}, {1 << 13, 16, 64, true}};
  return device;
}

/// Runs the seeds and fails with the first few reports; one would do, but a summary of several finds causes faster.
/// What does not fit a described space is refused: such programs may be few.
void check_seeds(std::uint64_t count, bool schedule, GeneratedProgram (*source)(std::uint64_t), const Device& device,
                 bool described = false) {
  register_cpu();
  const Pipeline pipeline = described ? described_pipeline() : find_pipeline("cpu");
  const Seeds range = seeds(count);
  int failures = 0;
  SpaceCensus census;
  for (std::uint64_t seed = range.first; seed < range.last; ++seed) {
    const std::string failure = check_forms(source(seed), device, pipeline, schedule, described ? &census : nullptr);
    if (failure.empty()) continue;
    if (++failures <= 3) ADD_FAILURE() << failure;
    if (failures > 3) ADD_FAILURE() << failure.substr(0, failure.find("\ntraced:"));
  }
  if (!described || range.chosen) return;
  std::printf("of %d programs %d used spm, %d vmem, %d were too large for one\n", static_cast<int>(count), census.spm,
              census.vmem, census.too_large);
  EXPECT_GT(census.spm, 20);
  EXPECT_GT(census.vmem, 20);
  EXPECT_LT(census.too_large, 20);
}

GeneratedProgram traced(std::uint64_t seed) {
  return generate(seed);
}

TEST(Fuzz, EveryPassKeepsTheMeaningOfTracedPrograms) {
  check_seeds(300, false, traced, host_device());
}

TEST(Fuzz, SchedulingAndEveryPassKeepTheMeaning) {
  check_seeds(600, true, traced, host_device());
}

TEST(Fuzz, SchedulingForSmallCachesKeepsTheMeaning) {
  check_seeds(600, true, traced, with_small_caches());
}

TEST(Fuzz, EveryPassKeepsTheMeaningOfTir) {
  check_seeds(300, false, generate_tir, host_device());
}

TEST(Fuzz, EveryPassKeepsTheMeaningForADescribedDevice) {
  check_seeds(300, true, traced, described_device(), true);
}

}  // namespace
}  // namespace lathe::testing
