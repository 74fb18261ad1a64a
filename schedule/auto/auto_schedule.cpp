#include "schedule/auto/auto_schedule.h"

#include "schedule/auto/inline_elementwise.h"
#include "schedule/auto/parallel_outer.h"
#include "schedule/auto/rule.h"
#include "schedule/auto/vectorize_elementwise.h"

namespace lathe {

Func auto_schedule(const Func& func, const Device& device, ScheduleLog* log) {
  Schedule schedule(func);
  RuleContext context{schedule, device, log, {}};
  inline_elementwise(context);
  vectorize_elementwise(context);
  parallel_outer(context);
  return schedule.func();
}

}  // namespace lathe
