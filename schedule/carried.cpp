#include "schedule/carried.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdlib>
#include <limits>
#include <unordered_set>

#include "ir/storage.h"
#include "ir/text/print.h"
#include "schedule/access.h"

namespace lathe {

Bounds bounds_at(const Func& func, const Path& path) {
  Bounds bounds(func);
  for (size_t i = 0; i + 1 < path.size(); ++i) {
    if (const For* loop = path[i].as<For>()) {
      bounds.bind(loop->variable, Range{loop->min, loop->extent});
    } else if (const Let* let = path[i].as<Let>()) {
      bounds.bind_value(let->variable, let->value);
    } else if (const If* node = path[i].as<If>()) {
      bounds.assume(path[i + 1] == node->then_case ? node->condition : logical_not(node->condition));
    } else if (const Block* block = path[i].as<Block>()) {
      if (block->f.predicate) bounds.assume(block->f.predicate);
      for (const Iter& iter : block->f.iters) bounds.bind(iter.variable, iter.domain);
    }
  }
  return bounds;
}

void refuse_carried(const Schedule& schedule, const std::string& application, int condition, const std::string& text,
                    const CarriedDependence& carried, const std::vector<const For*>& nest, const std::string& advice) {
  const CarriedDependence::Access &first = carried.first, &second = carried.second;
  std::vector<std::string> steps, loops;
  for (size_t i = 0; i < nest.size(); ++i) {
    loops.push_back(nest[i]->variable->name);
    if (const auto& back = carried.distance[i]) {
      steps.push_back(fmt::format("{} {} {}", loops.back(), *back < 0 ? '+' : '-', std::abs(*back)));
    }
  }
  const std::string where =
      steps.size() == nest.size()
          ? fmt::format("at {}", fmt::join(steps, ", "))
          : fmt::format("in {} iteration of {}", nest.size() == 1 ? "an earlier" : "another", fmt::join(loops, ", "));
  const std::string who =
      first.block ? "block " + first.block.as<Block>()->f.name : std::string("a statement in no block");
  const std::string note =
      fmt::format("may {} {}, which {} {} as {} {}", second.is_write ? "write" : "read", print(second.region), who,
                  first.is_write ? "writes" : "reads", print(first.region), where);
  refuse(schedule, application, condition, text, second.block ? second.block : Stmt(nest.back()), note, advice);
}

void refuse_dependence(const Schedule& schedule, const std::string& application, int condition, const std::string& text,
                       const Dependence& dependence, const Stmt& block) {
  const bool is_source = dependence.source == block;
  const bool source_writes = dependence.kind != DependenceKind::anti,
             sink_writes = dependence.kind != DependenceKind::flow;
  const auto verb = [](bool write) { return write ? "writes" : "reads"; };
  const std::string source = fmt::format("{} {}", verb(source_writes), print(dependence.source_region)),
                    sink = fmt::format("{} {}", verb(sink_writes), print(dependence.sink_region));
  refuse(
      schedule, application, condition, text, is_source ? dependence.sink : dependence.source,
      fmt::format("{}, where {} {}", is_source ? sink : source, block.as<Block>()->f.name, is_source ? source : sink));
}

void require_apart(const Schedule& schedule, const std::string& application, int condition, const std::string& text,
                   const Path& path, const std::function<bool(const Buffer&)>& considered, const std::string& advice) {
  const auto found = carried_dependences(path.back(), bounds_at(schedule.func(), path), 1, considered);
  if (!found.empty()) {
    refuse_carried(schedule, application, condition, text, found.front(), {path.back().as<For>()}, advice);
  }
}

namespace {

/// The storages that a statement writes, and those that it touches at all.
struct Touched {
  std::unordered_set<const BufferNode*> written, all;

  explicit Touched(const Stmt& body) {
    for_each_stmt(body, [&](const Stmt& s) {
      const Block* block = s.as<Block>();
      const Store* store = s.as<Store>();
      if (store) written.insert(storage_of(store->buffer));
      for (size_t i = 0; block && i < block->f.writes.size(); ++i)
        written.insert(storage_of(block->f.writes[i].buffer));
      for (size_t i = 0; block && i < block->f.reads.size(); ++i) all.insert(storage_of(block->f.reads[i].buffer));
    });
    for_each_expr(body, [&](const Expr& e) {
      if (const Load* load = e.as<Load>()) all.insert(storage_of(load->buffer));
      if (const AddressOf* address = e.as<AddressOf>()) written.insert(storage_of(address->buffer));
    });
    all.insert(written.begin(), written.end());
  }
};

}  // namespace

void require_turns(const Schedule& schedule, const std::string& application, int condition, const std::string& text,
                   const Path& path, const Stmt& loop, const Stmt& front, const Stmt& behind) {
  std::unordered_set<const StmtNode*> own;
  for_each_stmt(behind, [&](const Stmt& s) { own.insert(s.get()); });
  const Touched first(front), second(behind);
  const auto met = [&](const Buffer& buffer) {
    const BufferNode* storage = storage_of(buffer);
    return (first.written.contains(storage) && second.all.contains(storage)) ||
           (second.written.contains(storage) && first.all.contains(storage));
  };
  const auto found =
      carried_dependences(loop, bounds_at(schedule.func(), path), std::numeric_limits<size_t>::max(), met);
  for (const CarriedDependence& carried : found) {
    const auto is_behind = [&](const CarriedDependence::Access& access) {
      return !access.block || own.contains(access.block.get());
    };
    const bool from_behind = is_behind(carried.first), to_front = !carried.second.block || !is_behind(carried.second);
    if (from_behind && to_front) refuse_carried(schedule, application, condition, text, carried, {loop.as<For>()});
  }
}

std::vector<ExposedRead> exposed_reads_of(const Func& func, const Block& producer, const Stmt& body) {
  const auto written = [&](const Buffer& buffer) { return writes(producer, buffer); };
  std::vector<ExposedRead> found;
  for_each_stmt(body, [&](const Stmt& s) {
    const Block* around = s.as<Block>();
    if (!around || std::none_of(around->f.allocs.begin(), around->f.allocs.end(), written)) return;
    for (ExposedRead& read : exposed_reads(around->f.body, Bounds(func), written)) {
      if (!read.block) read.block = s;
      found.push_back(std::move(read));
    }
  });
  return found;
}

namespace {

/// Each loop in one binding, and in it the digits of a number: 12*a + 3*b + c with b < 4 and c < 3.
bool are_digits(const std::vector<const For*>& loops, const std::vector<Expr>& bindings) {
  size_t found = 0;
  for (const Expr& binding : bindings) {
    std::vector<std::pair<std::int64_t, std::int64_t>> digits;
    for (const auto& [atom, coefficient] : linear_form(binding).terms) {
      for (const For* loop : loops) {
        if (atom != Expr(loop->variable)) {
          if (uses_var(atom, loop->variable.get())) return false;
          continue;
        }
        const std::int64_t* extent = as_int(loop->extent);
        // The leading digit may have any range.
        digits.emplace_back(coefficient < 0 ? -coefficient : coefficient, extent ? *extent : -1);
      }
    }
    std::sort(digits.begin(), digits.end());
    std::int64_t reach = 0;
    for (size_t i = 0; i < digits.size(); ++i) {
      if (digits[i].first <= reach) return false;
      if (digits[i].second < 0 && i + 1 < digits.size()) return false;
      reach += digits[i].first * std::max<std::int64_t>(digits[i].second - 1, 0);
    }
    found += digits.size();
  }
  return found == loops.size();
}

}  // namespace

const For* repeating_loop(const std::vector<const For*>& all, const std::vector<Expr>& bindings, const Bounds& outer) {
  std::vector<const For*> loops;
  for (const For* loop : all) {
    if (!is_int(loop->extent, 1)) loops.push_back(loop);
  }
  if (loops.empty() || are_digits(loops, bindings)) return nullptr;
  // A store at the bindings meets itself where they are the same again.
  const Buffer places =
      BufferNode::make("instances", boolean, std::vector<Expr>(bindings.size(), index(1) * (std::int64_t{1} << 40)));
  Stmt body = Store::make(places, bindings, constant(boolean, 0));
  std::vector<Stmt> kept;
  std::vector<const For*> nest(loops.size());
  for (size_t i = loops.size(); i-- > 0;) {
    body = For::make(loops[i]->variable, loops[i]->min, loops[i]->extent, ForKind::serial, body);
    kept.push_back(body);
    nest[i] = body.as<For>();
  }
  const NestDependences dependences(nest, outer);
  for (size_t q = 0; q < nest.size(); ++q) {
    std::vector<Direction> directions(nest.size(), Direction::any);
    for (size_t i = 0; i < q; ++i) directions[i] = Direction::equal;
    directions[q] = Direction::later;
    if (!dependences.find(directions, 1).empty()) return loops[q];
  }
  return nullptr;
}

}  // namespace lathe
