#include "schedule/auto/rule.h"

#include "ir/error.h"

namespace lathe {

bool attempt(RuleContext& context, const std::string& decision, const std::function<void()>& f) {
  const Schedule before = context.schedule;
  const std::set<std::string> scheduled = context.scheduled;
  try {
    f();
  } catch (const Refusal& refusal) {
    context.schedule = before;
    context.scheduled = scheduled;
    context.note("not " + decision + ": " + refusal.message().substr(0, refusal.message().find('\n')));
    return false;
  }
  context.note(decision);
  return true;
}

}  // namespace lathe
