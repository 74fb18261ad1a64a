#include "backends/cpu/cpu.h"
#include "backends/stages.h"
#include "ir/analysis/simplify.h"
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
#include "schedule/auto/auto_schedule.h"

namespace lathe {
namespace {

Pass pass(std::string name, Func (*run)(const Func&)) {
  return {std::move(name), [run](const Func& func, const Device&) { return run(func); }};
}

Pass pass(std::string name, Func (*run)(const Func&, const Device&)) {
  return {std::move(name), run};
}

Func simplify_func(const Func& func) {
  return with_body(func, simplify(func->body, Bounds(func)));
}

Pipeline cpu_pipeline() {
  Pipeline p;
  for (const std::string& rule : scheduling_rules()) {
    p.append(Stage::tuning, {rule, [rule](const Func& func, const Device& device) {
                               return apply_scheduling_rule(func, device, rule);
                             }});
  }
  p.append(Stage::tuning, pass("simplify", simplify_func));

  p.append(Stage::tiling, pass("mark_shiftable_tiles", mark_shiftable_tiles));
  p.append(Stage::tiling, pass("lower_reductions", lower_reductions));

  p.append(Stage::before_flatten, pass("lower_blocks", lower_blocks));
  p.append(Stage::before_flatten, pass("place_allocations", place_allocations));
  p.append(Stage::before_flatten, pass("compact_buffers", compact_buffers));
  p.append(Stage::before_flatten, pass("pad_temporaries", pad_temporaries));
  p.append(Stage::before_flatten, pass("partition_loops", partition_loops));
  p.append(Stage::before_flatten, pass("vectorize_loops", vectorize_loops));
  p.append(Stage::before_flatten, pass("narrow_places", narrow_places));

  p.append(Stage::flatten,
           {"plan_storage", [](const Func& func, const Device& device) { return plan_storage(func, device); }});
  p.append(Stage::flatten, pass("flatten_buffers", flatten_buffers));

  p.append(Stage::before_emit, pass("device_storage_access", device_storage_access));
  p.append(Stage::before_emit, pass("permute_windows", permute_windows));
  p.append(Stage::before_emit, pass("narrow_vectors", narrow_vectors));
  p.append(Stage::before_emit, pass("form_dots", form_dots));
  p.append(Stage::before_emit, pass("interleave_stores", interleave_stores));
  p.append(Stage::before_emit, pass("contract_fma", contract_fma));
  p.append(Stage::before_emit, pass("lower_math", lower_math));
  p.append(Stage::before_emit, pass("unroll_loops", unroll_loops));
  p.append(Stage::before_emit, pass("carry_values", carry_values));
  p.append(Stage::before_emit, pass("unmask_registers", unmask_registers));
  p.append(Stage::before_emit, pass("transpose_loads", transpose_loads));
  p.append(Stage::before_emit, pass("delay_stores", delay_stores));
  p.append(Stage::before_emit, pass("cut_runs", cut_runs));
  return p;
}

}  // namespace

void register_cpu() {
  static const bool once = [] {
    register_pipeline("cpu", cpu_pipeline());
    register_device(host_device());
    return true;
  }();
  (void)once;
}

}  // namespace lathe
