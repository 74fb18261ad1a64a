#include "schedule/record.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <functional>
#include <map>

#include "ir/error.h"
#include "ir/text/parse.h"
#include "ir/visitor.h"
#include "schedule/primitives/annotate.h"
#include "schedule/primitives/annotate_buffer_access.h"
#include "schedule/primitives/bind.h"
#include "schedule/primitives/blockize.h"
#include "schedule/primitives/cache_cast.h"
#include "schedule/primitives/cache_padding.h"
#include "schedule/primitives/cache_read.h"
#include "schedule/primitives/cache_write.h"
#include "schedule/primitives/compute_apart.h"
#include "schedule/primitives/compute_at.h"
#include "schedule/primitives/compute_inline.h"
#include "schedule/primitives/compute_once.h"
#include "schedule/primitives/decompose_padding.h"
#include "schedule/primitives/decompose_reduction.h"
#include "schedule/primitives/distribute.h"
#include "schedule/primitives/double_buffer.h"
#include "schedule/primitives/drop_result.h"
#include "schedule/primitives/end_masked.h"
#include "schedule/primitives/fold_choices.h"
#include "schedule/primitives/fold_columns.h"
#include "schedule/primitives/fold_lanes.h"
#include "schedule/primitives/fuse.h"
#include "schedule/primitives/fuse_reduction_epilogue.h"
#include "schedule/primitives/fuse_reductions.h"
#include "schedule/primitives/group_bytes.h"
#include "schedule/primitives/hoist_factor.h"
#include "schedule/primitives/hoist_offset.h"
#include "schedule/primitives/join_blocks.h"
#include "schedule/primitives/join_iters.h"
#include "schedule/primitives/join_loops.h"
#include "schedule/primitives/join_rows.h"
#include "schedule/primitives/merge_equal.h"
#include "schedule/primitives/pad_einsum.h"
#include "schedule/primitives/parallel.h"
#include "schedule/primitives/partition.h"
#include "schedule/primitives/reindex.h"
#include "schedule/primitives/reorder.h"
#include "schedule/primitives/reverse_compute_at.h"
#include "schedule/primitives/reverse_compute_inline.h"
#include "schedule/primitives/rfactor.h"
#include "schedule/primitives/rolling_buffer.h"
#include "schedule/primitives/scan_lanes.h"
#include "schedule/primitives/separate_window.h"
#include "schedule/primitives/set_space.h"
#include "schedule/primitives/shift_operand.h"
#include "schedule/primitives/shift_squares.h"
#include "schedule/primitives/skip_masked.h"
#include "schedule/primitives/split.h"
#include "schedule/primitives/split_domain.h"
#include "schedule/primitives/split_iter.h"
#include "schedule/primitives/split_residues.h"
#include "schedule/primitives/storage_align.h"
#include "schedule/primitives/tensorize.h"
#include "schedule/primitives/transform_layout.h"
#include "schedule/primitives/unfold_reduction.h"
#include "schedule/primitives/unroll.h"
#include "schedule/primitives/vectorize.h"

namespace lathe {
namespace {

/// One line, taken apart: NAME(argument, ..).
class Line {
 public:
  Line(const Schedule& schedule, const std::string& text) : schedule_(schedule), text_(text) {
    const size_t open = text.find('(');
    if (open == std::string::npos || text.back() != ')') fail("NAME(argument, ..)");
    name = text.substr(0, open);
    size_t start = open + 1;
    int depth = 0;
    bool quoted = false;
    for (size_t i = start; i < text.size(); ++i) {
      if (text[i] == '"') quoted = !quoted;
      if (!quoted && (text[i] == '(' || text[i] == '[')) ++depth;
      if (!quoted && i + 1 != text.size() && (text[i] == ')' || text[i] == ']')) --depth;
      const bool ends = text[i] == ',' && !quoted && depth == 0;
      if (!ends && i + 1 != text.size()) continue;
      std::string argument = text.substr(start, i - start);
      argument.erase(0, argument.find_first_not_of(' '));
      if (!argument.empty()) arguments_.push_back(std::move(argument));
      start = i + 1;
    }
  }

  size_t size() const { return arguments_.size(); }
  BlockRef block(size_t i) const { return schedule_.block(at(i, "a block")); }
  LoopRef loop(size_t i) const {
    const std::string& place = at(i, "a loop");
    const size_t dot = place.rfind('.');
    if (dot == std::string::npos) fail("a loop as BLOCK.DEPTH");
    return schedule_.loop(place.substr(0, dot), static_cast<size_t>(number(place.substr(dot + 1))));
  }
  std::int64_t integer(size_t i) const { return number(at(i, "an integer")); }
  bool is_string(size_t i) const { return i < size() && arguments_[i].starts_with('"'); }
  std::string string(size_t i) const {
    const std::string& quoted = at(i, "a string");
    if (quoted.size() < 2 || quoted.front() != '"' || quoted.back() != '"') fail("a string in quotes");
    return quoted.substr(1, quoted.size() - 2);
  }
  std::vector<std::int64_t> integers(size_t from) const {
    std::vector<std::int64_t> found;
    for (size_t i = from; i < size(); ++i) found.push_back(integer(i));
    return found;
  }
  std::vector<BlockRef> blocks(size_t from, size_t end) const {
    std::vector<BlockRef> found;
    for (size_t i = from; i < end; ++i) found.push_back(block(i));
    return found;
  }
  std::vector<LoopRef> loops(size_t from = 0) const {
    std::vector<LoopRef> found;
    found.reserve(size());
    for (size_t i = from; i < size(); ++i) found.push_back(loop(i));
    return found;
  }
  [[noreturn]] void fail(const std::string& expected) const {
    throw InputError(Mistake::syntax, fmt::format("record line '{}': expected {}", text_, expected));
  }

  std::string name;

 private:
  const std::string& at(size_t i, const char* what) const {
    if (i >= arguments_.size()) fail(fmt::format("{} as argument {}", what, i + 1));
    return arguments_[i];
  }
  std::int64_t number(const std::string& digits) const {
    std::int64_t value = 0;
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
    if (error != std::errc() || end != digits.data() + digits.size()) fail("an integer");
    return value;
  }

  const Schedule& schedule_;
  const std::string& text_;
  std::vector<std::string> arguments_;
};

using Apply = std::function<void(Schedule&, const Line&)>;

void annotate_access(Schedule& schedule, const Line& line) {
  const std::string access = line.string(2);
  if (access != "read" && access != "write") line.fail("\"read\" or \"write\" as argument 3");
  const bool trusted = line.size() > 4;
  if (trusted && line.string(4) != "trusted") line.fail("\"trusted\" or nothing as argument 5");
  std::vector<VarRef> names;
  const BlockRef block = line.block(0);
  const size_t iters = schedule.node(block).f.iters.size();
  names.reserve(iters);
  for (size_t i = 0; i < iters; ++i) names.push_back(Var::make(fmt::format("i{}", i)));
  const std::vector<VarRef> scalars = scalar_params(schedule.func());
  for (size_t i = 0; i < scalars.size(); ++i) names.push_back(Var::make(fmt::format("p{}", i), scalars[i]->dtype));
  const std::vector<Range> ranges = parse_ranges(line.string(3), names, "record");
  const auto region = [&](const std::vector<Expr>& at) {
    Substitution map;
    for (size_t i = 0; i < names.size(); ++i) map[names[i].get()] = i < iters ? at[i] : Expr(scalars[i - iters]);
    std::vector<Range> result;
    result.reserve(ranges.size());
    for (const Range& range : ranges) result.push_back({substitute(range.min, map), substitute(range.extent, map)});
    return result;
  };
  annotate_buffer_access(schedule, block, line.string(1), access == "write" ? BufferAccess::write : BufferAccess::read,
                         region, trusted ? HintCheck::never : HintCheck::when_unproved);
}

const std::map<std::string, Apply>& primitives() {
  static const std::map<std::string, Apply> table = {
      {"annotate", [](Schedule& s, const Line& l) { annotate(s, l.loop(0), l.string(1), l.integer(2)); }},
      {"annotate_buffer_access", annotate_access},
      {"bind", [](Schedule& s, const Line& l) { bind_loop(s, l.loop(0), l.string(1)); }},
      {"blockize", [](Schedule& s, const Line& l) { blockize(s, l.loop(0)); }},
      {"cache_cast", [](Schedule& s, const Line& l) { cache_cast(s, l.block(0), l.string(1), l.string(2)); }},
      {"cache_padding",
       [](Schedule& s, const Line& l) {
         cache_padding(s, l.block(0), l.string(1), l.string(2), l.size() > 3 ? l.integer(3) : 1);
       }},
      {"cache_read",
       [](Schedule& s, const Line& l) {
         const auto place = l.size() > 3 ? std::optional(static_cast<size_t>(l.integer(3))) : std::nullopt;
         cache_read(s, l.block(0), l.string(1), l.string(2), place);
       }},
      {"cache_write",
       [](Schedule& s, const Line& l) {
         cache_write(s, l.block(0), l.string(1), l.size() > 2 ? std::optional(l.string(2)) : std::nullopt);
       }},
      {"compute_apart",
       [](Schedule& s, const Line& l) {
         if (l.is_string(1)) {
           compute_apart(s, l.block(0), l.string(1));
           return;
         }
         const std::vector<std::int64_t> iters = l.integers(1);
         compute_apart(s, l.block(0), std::vector<size_t>(iters.begin(), iters.end()));
       }},
      {"compute_at", [](Schedule& s, const Line& l) { compute_at(s, l.block(0), l.loop(1)); }},
      {"compute_inline", [](Schedule& s, const Line& l) { compute_inline(s, l.block(0)); }},
      {"compute_once", [](Schedule& s, const Line& l) { compute_once(s, l.block(0), l.loop(1)); }},
      {"split_domain", [](Schedule& s, const Line& l) { split_domain(s, l.block(0), l.loop(1), l.integer(2)); }},
      {"decompose_padding", [](Schedule& s, const Line& l) { decompose_padding(s, l.block(0), l.loop(1)); }},
      {"decompose_reduction", [](Schedule& s, const Line& l) { decompose_reduction(s, l.block(0), l.loop(1)); }},
      {"distribute", [](Schedule& s, const Line& l) { distribute(s, l.loop(0), l.block(1)); }},
      {"double_buffer", [](Schedule& s, const Line& l) { double_buffer(s, l.block(0), l.loop(1)); }},
      {"drop_result", [](Schedule& s, const Line& l) { drop_result(s, l.block(0), l.string(1)); }},
      {"end_masked", [](Schedule& s, const Line& l) { end_masked(s, l.block(0), l.loop(1)); }},
      {"fold_choices", [](Schedule& s, const Line& l) { fold_choices(s, l.block(0), l.loop(1)); }},
      {"fold_columns", [](Schedule& s, const Line& l) { fold_columns(s, l.block(0), l.loop(1), l.integer(2)); }},
      {"fold_lanes", [](Schedule& s, const Line& l) { fold_lanes(s, l.block(0), l.integer(1)); }},
      {"fuse", [](Schedule& s, const Line& l) { fuse(s, l.loop(0), l.loop(1)); }},
      {"fuse_reduction_epilogue",
       [](Schedule& s, const Line& l) { fuse_reduction_epilogue(s, l.block(0), l.block(1)); }},
      {"fuse_reductions",
       [](Schedule& s, const Line& l) {
         fuse_reductions(s, l.block(0), l.blocks(1, l.size() - 1), l.integer(l.size() - 1));
       }},
      {"group_bytes", [](Schedule& s, const Line& l) { group_bytes(s, l.block(0), l.loop(1)); }},
      {"hoist_factor", [](Schedule& s, const Line& l) { hoist_factor(s, l.block(0), l.string(1)); }},
      {"hoist_offset", [](Schedule& s, const Line& l) { hoist_offset(s, l.block(0), l.string(1)); }},
      {"join_blocks", [](Schedule& s, const Line& l) { join_blocks(s, l.block(0), l.block(1)); }},
      {"join_iters", [](Schedule& s, const Line& l) { join_iters(s, l.block(0), l.loop(1), l.loop(2)); }},
      {"join_loops", [](Schedule& s, const Line& l) { join_loops(s, l.loop(0), l.loop(1)); }},
      {"join_rows", [](Schedule& s, const Line& l) { join_rows(s, l.loop(0), l.loop(1), l.integer(2)); }},
      {"merge_equal", [](Schedule& s, const Line& l) { merge_equal(s, l.block(0), l.block(1)); }},
      {"pad_einsum", [](Schedule& s, const Line& l) { pad_einsum(s, l.block(0), l.integers(1)); }},
      {"parallel", [](Schedule& s, const Line& l) { parallel(s, l.loop(0), l.integer(1)); }},
      {"partition",
       [](Schedule& s, const Line& l) {
         partition(s, l.loop(0), l.size() > 1 ? std::optional(l.integer(1)) : std::nullopt);
       }},
      {"reindex",
       [](Schedule& s, const Line& l) {
         reindex(s, l.block(0), l.string(1), l.size() > 2 ? std::optional<size_t>(l.integer(2)) : std::nullopt);
       }},
      {"reorder", [](Schedule& s, const Line& l) { reorder(s, l.loops()); }},
      {"reverse_compute_at", [](Schedule& s, const Line& l) { reverse_compute_at(s, l.block(0), l.loop(1)); }},
      {"reverse_compute_inline", [](Schedule& s, const Line& l) { reverse_compute_inline(s, l.block(0)); }},
      {"rfactor", [](Schedule& s, const Line& l) { rfactor(s, l.block(0), l.loop(1)); }},
      {"rolling_buffer", [](Schedule& s, const Line& l) { rolling_buffer(s, l.block(0), l.loop(1)); }},
      {"scan_lanes", [](Schedule& s, const Line& l) { scan_lanes(s, l.block(0), l.integer(1)); }},
      {"separate_window",
       [](Schedule& s, const Line& l) {
         separate_window(s, l.block(0), l.loop(1), l.loop(2), l.size() > 3 ? l.integer(3) : 0);
       }},
      {"set_space", [](Schedule& s, const Line& l) { set_space(s, l.block(0), l.string(1)); }},
      {"shift_operand", [](Schedule& s, const Line& l) { shift_operand(s, l.block(0), l.string(1)); }},
      {"shift_squares", [](Schedule& s, const Line& l) { shift_squares(s, l.block(0), l.block(1), l.integer(2)); }},
      {"skip_masked", [](Schedule& s, const Line& l) { skip_masked(s, l.block(0), l.loops(1)); }},
      {"split", [](Schedule& s, const Line& l) { split(s, l.loop(0), l.integer(1)); }},
      {"split_iter", [](Schedule& s, const Line& l) { split_iter(s, l.block(0), l.loop(1), l.integer(2)); }},
      {"split_residues", [](Schedule& s, const Line& l) { split_residues(s, l.block(0)); }},
      {"storage_align",
       [](Schedule& s, const Line& l) {
         storage_align(s, l.block(0), l.string(1), l.integer(2), l.integer(3), l.integer(4));
       }},
      {"tensorize",
       [](Schedule& s, const Line& l) {
         std::string text = l.string(1);
         std::replace(text.begin(), text.end(), '\'', '"');
         tensorize(s, l.block(0), parse_func(text, "record"));
       }},
      {"transform_layout",
       [](Schedule& s, const Line& l) { transform_layout(s, l.block(0), l.string(1), parse_layout_map(l.string(2))); }},
      {"unfold_reduction", [](Schedule& s, const Line& l) { unfold_reduction(s, l.block(0), l.loop(1)); }},
      {"unroll", [](Schedule& s, const Line& l) { unroll(s, l.loop(0)); }},
      {"vectorize", [](Schedule& s, const Line& l) { vectorize(s, l.loop(0)); }},
  };
  return table;
}

}  // namespace

void replay(Schedule& schedule, std::span<const std::string> record) {
  for (const std::string& text : record) {
    const Line line(schedule, text);
    const auto found = primitives().find(line.name);
    if (found == primitives().end()) {
      std::vector<std::string> known;
      for (const auto& [name, apply] : primitives()) known.push_back(name);
      throw InputError(Mistake::syntax,
                       fmt::format("record line '{}': {}", text, unknown_name("primitive", line.name, known)));
    }
    found->second(schedule, line);
  }
}

}  // namespace lathe
