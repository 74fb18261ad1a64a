#include "schedule/auto/auto_schedule.h"

#include <algorithm>
#include <iterator>

#include "ir/error.h"
#include "schedule/auto/ask_ahead.h"
#include "schedule/auto/block_memo.h"
#include "schedule/auto/chain_reductions.h"
#include "schedule/auto/coalesce_axes.h"
#include "schedule/auto/cut_choices.h"
#include "schedule/auto/end_ragged.h"
#include "schedule/auto/evaluate_once.h"
#include "schedule/auto/feed_ragged.h"
#include "schedule/auto/fold_stacks.h"
#include "schedule/auto/fuse_rows.h"
#include "schedule/auto/inline_elementwise.h"
#include "schedule/auto/inline_joins.h"
#include "schedule/auto/join_columns.h"
#include "schedule/auto/join_nests.h"
#include "schedule/auto/join_parts.h"
#include "schedule/auto/join_reductions.h"
#include "schedule/auto/join_short_sums.h"
#include "schedule/auto/join_stacked_axes.h"
#include "schedule/auto/join_windows.h"
#include "schedule/auto/look_up_once.h"
#include "schedule/auto/merge_duplicates.h"
#include "schedule/auto/narrow_columns.h"
#include "schedule/auto/near_copies.h"
#include "schedule/auto/pair_rows.h"
#include "schedule/auto/parallel_outer.h"
#include "schedule/auto/part_columns.h"
#include "schedule/auto/part_functions.h"
#include "schedule/auto/prefetch_rows.h"
#include "schedule/auto/reduce_rows.h"
#include "schedule/auto/residue_classes.h"
#include "schedule/auto/rule.h"
#include "schedule/auto/separate_windows.h"
#include "schedule/auto/share_reductions.h"
#include "schedule/auto/single_pass.h"
#include "schedule/auto/split_digits.h"
#include "schedule/auto/split_joined_sums.h"
#include "schedule/auto/stream_outputs.h"
#include "schedule/auto/tile_contractions.h"
#include "schedule/auto/turn_crossed.h"
#include "schedule/auto/turn_nearby.h"
#include "schedule/auto/turn_repeated.h"
#include "schedule/auto/unfold_digits.h"
#include "schedule/auto/unfold_stacks.h"
#include "schedule/auto/vectorize_elementwise.h"
#include "schedule/auto/vectorize_reductions.h"
#include "schedule/auto/vectorize_scans.h"

namespace lathe {
namespace {

constexpr const char* asks = "schedule";
constexpr const char* placed = "scheduled_blocks";

struct Rule {
  const char* name;
  void (*run)(RuleContext& context);
};

constexpr Rule rules[] = {{"merge_duplicates", merge_duplicates},
                          {"evaluate_once", evaluate_once},
                          {"part_functions", part_functions},
                          {"look_up_once", look_up_once},
                          {"inline_joins", inline_joins},
                          {"unfold_stacks", unfold_stacks},
                          {"join_stacked_axes", join_stacked_axes},
                          {"inline_elementwise", inline_elementwise},
                          {"part_tables", part_tables},
                          {"coalesce_axes", coalesce_axes},
                          {"fold_stacks", fold_stacks},
                          {"turn_crossed", turn_crossed},
                          {"chain_reductions", chain_reductions},
                          {"residue_classes", residue_classes},
                          {"split_joined_sums", split_joined_sums},
                          {"unfold_digits", unfold_digits},
                          {"separate_windows", separate_windows},
                          {"join_short_sums", join_short_sums},
                          {"reduce_rows", reduce_rows},
                          {"single_pass", single_pass},
                          {"part_columns", part_columns},
                          {"share_reductions", share_reductions},
                          {"narrow_columns", narrow_columns},
                          {"tile_contractions", tile_contractions},
                          {"near_copies", near_copies},
                          {"join_windows", join_windows},
                          {"fuse_rows", fuse_rows},
                          {"join_nests", join_nests},
                          {"join_columns", join_columns},
                          {"vectorize_reductions", vectorize_reductions},
                          {"vectorize_scans", vectorize_scans},
                          {"feed_ragged", feed_ragged},
                          {"turn_nearby", turn_nearby},
                          {"cut_choices", cut_choices},
                          {"split_digits", split_digits},
                          {"turn_repeated", turn_repeated},
                          {"vectorize_elementwise", vectorize_elementwise},
                          {"join_parts", join_parts},
                          {"pair_rows", pair_rows},
                          {"join_reductions", join_reductions},
                          {"parallel_outer", parallel_outer},
                          {"stream_outputs", stream_outputs},
                          {"prefetch_rows", prefetch_rows},
                          {"ask_ahead", ask_ahead},
                          {"end_ragged", end_ragged}};

Func with_attrs(const Func& func, Annotations attrs) {
  return FuncNode::make(func->name, func->params, func->body, func->facts, std::move(attrs), func->stage);
}

std::string text_attr(const Func& func, const char* name) {
  const auto found = func->attrs.find(name);
  const std::string* text = found == func->attrs.end() ? nullptr : std::get_if<std::string>(&found->second);
  return text ? *text : "";
}

}  // namespace

Func auto_schedule(const Func& func, const Device& device, ScheduleLog* log) {
  Schedule schedule(func);
  schedule.shows_func_when_refused = false;
  schedule.names_places = log != nullptr;
  RuleContext context{schedule, device, log, {}};
  const BlockMemo memo;
  for (const Rule& rule : rules) rule.run(context);
  if (log) log->record = schedule.record();
  return schedule.func();
}

const std::vector<std::string>& scheduling_rules() {
  static const std::vector<std::string> names = [] {
    std::vector<std::string> all;
    for (const Rule& rule : rules) all.emplace_back(rule.name);
    return all;
  }();
  return names;
}

Func ask_for_schedule(const Func& func) {
  Annotations attrs = func->attrs;
  attrs[asks] = "auto";
  return with_attrs(func, std::move(attrs));
}

Func apply_scheduling_rule(const Func& func, const Device& device, const std::string& name) {
  const auto found =
      std::find_if(std::begin(rules), std::end(rules), [&](const Rule& rule) { return name == rule.name; });
  if (found == std::end(rules))
    throw InputError(Mistake::value, unknown_name("scheduling rule", name, scheduling_rules()));
  if (text_attr(func, asks) != "auto") return func;
  Schedule schedule(func);
  schedule.shows_func_when_refused = schedule.names_places = false;
  RuleContext context{schedule, device, nullptr, {}};
  const BlockMemo memo;
  const std::string names = text_attr(func, placed);
  for (size_t from = 0; from < names.size();) {
    const size_t end = std::min(names.find('\n', from), names.size());
    context.scheduled.insert(names.substr(from, end - from));
    from = end + 1;
  }
  found->run(context);
  Annotations attrs = func->attrs;
  attrs.erase(placed);
  if (found + 1 == std::end(rules)) {
    attrs.erase(asks);
  } else if (context.scheduled.size() > 0) {
    attrs[placed] = context.scheduled.text();
  }
  return with_attrs(schedule.func(), std::move(attrs));
}

}  // namespace lathe
