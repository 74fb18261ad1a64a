#include "schedule/auto/auto_schedule.h"

#include "schedule/auto/fuse_rows.h"
#include "schedule/auto/inline_elementwise.h"
#include "schedule/auto/parallel_outer.h"
#include "schedule/auto/rule.h"
#include "schedule/auto/tile_contractions.h"
#include "schedule/auto/vectorize_elementwise.h"
#include "schedule/auto/vectorize_reductions.h"

namespace lathe {

Func auto_schedule(const Func& func, const Device& device, ScheduleLog* log) {
  Schedule schedule(func);
  schedule.shows_func_when_refused = false;
  RuleContext context{schedule, device, log, {}};
  inline_elementwise(context);
  tile_contractions(context);
  fuse_rows(context);
  vectorize_reductions(context);
  vectorize_elementwise(context);
  parallel_outer(context);
  if (log) log->record = schedule.record();
  return schedule.func();
}

}  // namespace lathe
