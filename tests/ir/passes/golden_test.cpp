// Every file in cases/ is one test: the pass that it names turns the Func above `# after` into the one below, and both
// do the same. LATHE_UPDATE_GOLDEN=1 writes what the passes give now.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>

#include "ir/analysis/simplify.h"
#include "ir/analysis/verify.h"
#include "ir/passes/carry_values.h"
#include "ir/passes/compact_buffers.h"
#include "ir/passes/contract_fma.h"
#include "ir/passes/cut_runs.h"
#include "ir/passes/delay_stores.h"
#include "ir/passes/device_storage_access.h"
#include "ir/passes/flatten_buffers.h"
#include "ir/passes/form_dots.h"
#include "ir/passes/interleave_stores.h"
#include "ir/passes/lower_blocks.h"
#include "ir/passes/lower_math.h"
#include "ir/passes/lower_reductions.h"
#include "ir/passes/mark_shiftable_tiles.h"
#include "ir/passes/narrow_places.h"
#include "ir/passes/narrow_vectors.h"
#include "ir/passes/pad_temporaries.h"
#include "ir/passes/partition_loops.h"
#include "ir/passes/permute_windows.h"
#include "ir/passes/place_allocations.h"
#include "ir/passes/plan_storage.h"
#include "ir/passes/transpose_loads.h"
#include "ir/passes/unmask_registers.h"
#include "ir/passes/unroll_loops.h"
#include "ir/passes/vectorize_loops.h"
#include "ir/structural.h"
#include "ir/text/device.h"
#include "ir/text/parse.h"
#include "ir/text/print.h"
#include "tests/ir/passes/golden.h"

namespace lathe::testing {
namespace {

Func contract_with_fma(const Func& func) {
  Device device;
  device.fused_multiply_add = true;
  return contract_fma(func, device);
}

Func carry_in_registers(const Func& func) {
  Device device;
  device.vector_bits = 256;
  device.vector_registers = 16;
  return carry_values(func, device);
}

Func lower_reductions_with_masks(const Func& func) {
  Device device;
  device.mask_registers = 8;
  device.fused_multiply_add = true;
  return lower_reductions(func, device);
}

Func lower_math_with_fma(const Func& func) {
  Device device;
  device.fused_multiply_add = true;
  return lower_math(func, device);
}

Func permute_wide_windows(const Func& func) {
  Device device;
  device.vector_bits = 512;
  device.features = {"avx512f", "avx512vl", "avx512bw", "avx512vbmi"};
  return permute_windows(func, device);
}

template <Func (*pass)(const Func&, const Device&)>
Func with_masks(const Func& func) {
  Device device;
  device.mask_registers = 8;
  return pass(func, device);
}

template <Func (*pass)(const Func&, const Device&)>
Func without_masks(const Func& func) {
  return pass(func, Device());
}

/// What the cases' axes and spaces are.
const Device& described_device() {
  static const Device device = parse_device(R"(
device described {
  axis core 4
  space vmem { unit_bits 32 max_simd_bits 256 capacity_bits 32768 head_address 65536 + core * 4096 reach {core} per core }
  space spm { max_simd_bits 256 capacity_bits 16384 head_address 0x100 reach {host, core} }
  space tile { unit_bits 256 max_simd_bits 256 capacity_bits 65536 opaque_index reach {core} per core }
  intrinsic func dot4(a: i8[4], b: u8[4], c: i32[]) {
    for t in [0, 4) { c[] = c[] + cast<i32>(a[t]) * cast<i32>(b[t]) }
  }
})");
  return device;
}

template <Func (*pass)(const Func&, const Device&)>
Func for_described_device(const Func& func) {
  return pass(func, described_device());
}

Func plan_described_storage(const Func& func, const Device& device) {
  return plan_storage(func, device);
}

const std::map<std::string, std::function<Func(const Func&)>>& passes() {
  static const std::map<std::string, std::function<Func(const Func&)>> all = {
      {"mark_shiftable_tiles", mark_shiftable_tiles},
      {"lower_reductions", lower_reductions_with_masks},
      {"lower_blocks", lower_blocks},
      {"place_allocations", for_described_device<place_allocations>},
      {"compact_buffers", compact_buffers},
      {"pad_temporaries", with_masks<pad_temporaries>},
      {"partition_loops", partition_loops},
      {"vectorize_loops", vectorize_loops},
      {"carry_values", carry_in_registers},
      {"unmask_registers", unmask_registers},
      {"transpose_loads", transpose_loads},
      {"delay_stores", delay_stores},
      {"cut_runs", with_masks<cut_runs>},
      {"unroll_loops", unroll_loops},
      {"plan_storage", for_described_device<plan_described_storage>},
      {"device_storage_access", for_described_device<device_storage_access>},
      {"flatten_buffers", [](const Func& f) { return with_stage(flatten_buffers(f), Stage::flatten); }},
      {"form_dots", for_described_device<form_dots>},
      {"interleave_stores", without_masks<interleave_stores>},
      {"interleave_many_stores", with_masks<interleave_stores>},
      {"permute_windows", permute_wide_windows},
      {"narrow_places", narrow_places},
      {"narrow_vectors", without_masks<narrow_vectors>},
      {"narrow_vectors_beside_runs", with_masks<narrow_vectors>},
      {"contract_fma", contract_with_fma},
      {"lower_math", lower_math_with_fma}};
  return all;
}

std::vector<std::string> case_files() {
  std::vector<std::string> files;
  for (const auto& entry : std::filesystem::directory_iterator(LATHE_TEST_DIR "/cases")) {
    if (entry.path().extension() == ".tir") files.push_back(entry.path().filename().string());
  }
  std::sort(files.begin(), files.end());
  return files;
}

class Golden : public ::testing::TestWithParam<std::string> {};

TEST_P(Golden, TransformsAsWrittenAndKeepsTheMeaning) {
  GoldenCase c = read_case(std::string(LATHE_TEST_DIR "/cases/") + GetParam());
  Func before = parse_func(c.before, GetParam());
  ASSERT_TRUE(passes().count(c.pass)) << "no pass " << c.pass;
  for (const Finding& finding : verify(before)) EXPECT_FALSE(finding.proved_wrong) << "before: " << finding.message;

  Func after = passes().at(c.pass)(before);
  std::string text = print(after);
  if (std::getenv("LATHE_UPDATE_GOLDEN")) {
    write_case(c, text);
  } else {
    EXPECT_EQ(text, c.after);
  }
  EXPECT_TRUE(equal(parse_func(text), after)) << text;
  for (const Finding& finding : verify(after))
    EXPECT_FALSE(finding.proved_wrong) << "after: " << finding.message << "\n" << text;
  for (const std::vector<std::int64_t>& scalars : c.runs) {
    EXPECT_EQ(run(before, scalars, 1), run(after, scalars, 1)) << text;
  }
}

INSTANTIATE_TEST_SUITE_P(Cases, Golden, ::testing::ValuesIn(case_files()), [](const auto& info) {
  std::string name = info.param.substr(0, info.param.size() - 4);
  std::replace_if(name.begin(), name.end(), [](char ch) { return !std::isalnum(static_cast<unsigned char>(ch)); }, '_');
  return name;
});

TEST(Golden, EveryPassHasACaseThatMustNotTransform) {
  std::map<std::string, bool> has_one;
  for (const auto& [name, pass] : passes()) has_one[name] = false;
  for (const std::string& file : case_files()) {
    GoldenCase c = read_case(std::string(LATHE_TEST_DIR "/cases/") + file);
    if (equal(parse_func(c.before), parse_func(c.after))) has_one[c.pass] = true;
  }
  for (const auto& [name, found] : has_one) EXPECT_TRUE(found || name == "flatten_buffers") << name;
}

}  // namespace
}  // namespace lathe::testing
