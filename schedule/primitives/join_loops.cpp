#include "schedule/primitives/join_loops.h"

#include <fmt/format.h>

#include <algorithm>
#include <unordered_set>

#include "schedule/access.h"
#include "schedule/carried.h"

namespace lathe {
namespace {

class LoopJoiner {
 public:
  LoopJoiner(const Schedule& schedule, const LoopRef& first, const LoopRef& second)
      : application(fmt::format("join_loops({}, {})", schedule.place(first), schedule.place(second))),
        schedule_(schedule),
        path_(path_to(schedule, first)),
        first_(path_.back()),
        second_(path_to(schedule, second).back()) {}

  const std::string application;

  Stmt run() {
    find_places();
    check_alike();
    const size_t place = find_place();
    const For &first = *first_.as<For>(), &second = *second_.as<For>();
    const Stmt behind = substitute_loops(second.body, {{second.variable.get(), first.variable}});
    const Stmt joined = with_body(first, Seq::make({first.body, behind}));
    require_turns(schedule_, application, 3,
                  "in no iteration does first touch what second has touched in an earlier one, where one of them "
                  "writes it",
                  path_, joined, first.body, behind);
    std::vector<Stmt> stmts = sequence().stmts;
    stmts[place] = joined;
    stmts.erase(stmts.begin() + static_cast<std::ptrdiff_t>(place == from_ ? to_ : from_));
    return replace_last(Path(path_.begin(), path_.end() - 1), Seq::make(std::move(stmts)));
  }

 private:
  const Seq& sequence() const { return *path_[path_.size() - 2].as<Seq>(); }

  [[noreturn]] void refuse_pair(const Stmt& culprit, const std::string& note) const {
    refuse(schedule_, application, 1,
           "both are serial loops with the same range and the same annotations, and second comes behind first in one "
           "sequence",
           culprit, note);
  }

  void find_places() {
    const Seq* around = path_.size() > 1 ? path_[path_.size() - 2].as<Seq>() : nullptr;
    if (!around) refuse_pair(first_, "stands in no sequence");
    const auto begin = around->stmts.begin(), end = around->stmts.end();
    const auto first = std::find(begin, end, first_), second = std::find(begin, end, second_);
    if (second == end) refuse_pair(second_, "stands in another sequence");
    if (second <= first) refuse_pair(second_, "does not come behind it");
    from_ = static_cast<size_t>(first - begin);
    to_ = static_cast<size_t>(second - begin);
  }

  void check_alike() const {
    const For &first = *first_.as<For>(), &second = *second_.as<For>();
    for (const Stmt& loop : {first_, second_}) {
      const ForKind kind = loop.as<For>()->for_kind;
      if (kind != ForKind::serial) refuse_pair(loop, fmt::format("is {}", to_string(kind)));
    }
    if (constant_difference(first.min, second.min) != 0 || constant_difference(first.extent, second.extent) != 0)
      refuse_pair(second_, "has another range");
    if (first.annotations != second.annotations) refuse_pair(second_, "has other annotations");
  }

  /// The place in the sequence of what the joined loop takes the place of.
  size_t find_place() const {
    if (to_ == from_ + 1) return from_;
    const auto begin = sequence().stmts.begin();
    const std::vector<Stmt> before(begin + static_cast<std::ptrdiff_t>(from_),
                                   begin + static_cast<std::ptrdiff_t>(to_));
    if (!depends(before, first_)) return to_;
    const std::vector<Stmt> after(begin + static_cast<std::ptrdiff_t>(from_) + 1,
                                  begin + static_cast<std::ptrdiff_t>(to_) + 1);
    const std::optional<std::pair<Stmt, std::string>> why = depends(after, second_);
    if (!why) return from_;
    refuse(schedule_, application, 2,
           "nothing between them depends on first, or second depends on nothing between them", why->first, why->second);
  }

  /// The statement that keeps `moved`, the first or the last of the statements, from changing places with the others.
  std::optional<std::pair<Stmt, std::string>> depends(const std::vector<Stmt>& stmts, const Stmt& moved) const {
    for (const Stmt& s : stmts) {
      const std::vector<Stmt> bare = bare_statements(s);
      if (!bare.empty()) return std::pair{bare.front(), std::string("is no block")};
    }
    std::unordered_set<const StmtNode*> own;
    for_each_stmt(moved, [&](const Stmt& s) { own.insert(s.get()); });
    const auto wanted = [&](DependenceKind, const Stmt& source, const Stmt& sink) {
      return own.contains(source.get()) != own.contains(sink.get());
    };
    const Stmt scope = Seq::make(stmts);
    for (const Stmt& block : outer_blocks(moved)) {
      const auto found = dependences(scope, block, bounds_at(schedule_.func(), path_), wanted);
      if (found.empty()) continue;
      const bool is_source = found.front().source == block;
      const Region& region = is_source ? found.front().sink_region : found.front().source_region;
      const Stmt& other = is_source ? found.front().sink : found.front().source;
      return std::pair{other, fmt::format("touches {} as {} does", region.buffer->name, block.as<Block>()->f.name)};
    }
    return std::nullopt;
  }

  const Schedule& schedule_;
  const Path path_;
  const Stmt first_, second_;
  size_t from_ = 0, to_ = 0;  ///< places of first and second in the sequence
};

}  // namespace

LoopRef join_loops(Schedule& schedule, const LoopRef& first, const LoopRef& second) {
  LoopJoiner joiner(schedule, first, second);
  Stmt body = joiner.run();
  schedule.commit(std::move(body), joiner.application);
  return first;
}

}  // namespace lathe
