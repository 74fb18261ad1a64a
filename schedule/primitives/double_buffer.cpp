#include "schedule/primitives/double_buffer.h"

#include <fmt/format.h>

#include <algorithm>
#include <unordered_map>

#include "ir/analysis/simplify.h"
#include "schedule/access.h"
#include "schedule/carried.h"
#include "schedule/rewrite_accesses.h"
#include "schedule/staged_producer.h"

namespace lathe {
namespace {

/// How far the tile moves with one iteration, by dimension; 0 where it does not, or where its first place is not proved
/// to be in the buffer.
std::vector<std::int64_t> steps_of(const StagedProducer& staged, const Bounds& around) {
  const For& loop = staged.loop();
  const Block& block = staged.block();
  std::vector<Axis> axes;
  for (size_t level = staged.nest_level; level + 1 < staged.path.size(); ++level) {
    const For& own = *staged.path[level].as<For>();
    axes.push_back({own.variable, {own.min, own.extent}});
  }
  Substitution bindings;
  for (size_t i = 0; i < block.f.iters.size(); ++i) bindings[block.f.iters[i].variable.get()] = block.f.bindings[i];
  std::vector<std::int64_t> steps(staged.buffer->rank(), 0);
  if (block.f.writes.size() != 1) return steps;
  const Region written = substitute(block.f.writes[0], bindings);
  for (size_t d = 0; d < steps.size(); ++d) {
    const auto range = eliminate(written.ranges[d], axes);
    if (!range || uses_var(range->extent, loop.variable.get())) continue;
    const auto parts = split_linear(range->min, loop.variable);
    if (!parts || parts->first <= 0) continue;
    const Expr first = parts->second + loop.min * parts->first;
    if (proves(around, ge(first, index(0))) && proves(around, le(first + range->extent, staged.buffer->shape[d]))) {
      steps[d] = parts->first;
    }
  }
  return steps;
}

}  // namespace

BlockRef double_buffer(Schedule& schedule, const BlockRef& block, const LoopRef& loop) {
  const std::string application = fmt::format("double_buffer({}, {})", block.name, schedule.place(loop));
  const StagedProducer staged = require_staged(schedule, application, block, loop);
  const For& node = staged.loop();
  const Var* variable = node.variable.get();
  const std::vector<VarRef> scalars = scalar_params(schedule.func());
  const std::vector<VarRef> used = used_vars(node.extent);
  if (has_load(node.extent) || std::any_of(used.begin(), used.end(), [&](const VarRef& var) {
        return std::find(scalars.begin(), scalars.end(), var) == scalars.end();
      }))
    refuse(schedule, application, 7, "loop is as long whatever loops around it and data say",
           staged.path[static_cast<size_t>(staged.loop_level)], "ends elsewhere in each iteration");
  for (const Stmt& s : outer_blocks(node.body)) {
    const Block& reader = *s.as<Block>();
    if (!reader.f.init || !reads(reader, staged.buffer)) continue;
    refuse(schedule, application, 6, "no reader has an init", s, "has one", "decompose_reduction takes it out");
  }

  const Path loop_path(staged.path.begin(), staged.path.begin() + static_cast<std::ptrdiff_t>(staged.loop_level) + 1);
  const Bounds around = bounds_at(schedule.func(), loop_path);
  const std::vector<std::int64_t> steps = steps_of(staged, around);
  const std::string first_name = schedule.unique_name(block.name + "_first");
  // Which iteration a block's instance belongs to, as an iter of its own: its body may not use the loop.
  std::unordered_map<std::string, VarRef> turns;
  const auto with_turn = [&](const Stmt& s, const Expr& binding) {
    return rewrite_blocks(s, [&](const Block& at) -> Stmt {
      if (!reads(at, staged.buffer) && !writes(at, staged.buffer)) return Stmt(&at);
      const VarRef turn = Var::make("v" + node.variable->name);
      turns[at.f.name] = turn;
      return with_fields(at, [&](Block::Fields& f) {
        f.iters.push_back({turn, {node.min, node.extent}, IterKind::ordered});
        f.bindings.push_back(binding);
      });
    });
  };
  const Stmt before = with_turn(first_iteration(schedule, staged, first_name), node.min);
  const Expr next = Expr(node.variable) + 1;
  Stmt ahead = rewrite_blocks(substitute_loops(staged.nest(), {{variable, next}}),
                              [&](const Block& at) { return add_predicate(at, lt(next, node.min + node.extent)); });
  std::vector<Stmt> stmts;
  const Stmt& body = node.body;
  for (const Stmt& s : body.as<Seq>() ? body.as<Seq>()->stmts : std::vector<Stmt>{body}) {
    stmts.push_back(s == staged.nest() ? with_turn(ahead, next) : with_turn(s, node.variable));
  }
  const Stmt changed = Seq::make({before, with_body(node, Seq::make(std::move(stmts)))});

  std::vector<Expr> shape = staged.buffer->shape;
  shape.insert(shape.begin(), index(2));
  std::vector<Expr> strides = staged.buffer->strides;
  if (!strides.empty()) strides.insert(strides.begin(), strides[0] * staged.buffer->shape[0]);
  const Buffer halves =
      BufferNode::make(staged.buffer->name, staged.buffer->dtype, std::move(shape), staged.buffer->space,
                       std::move(strides), staged.buffer->offset, staged.buffer->alignment);
  const Stmt result = rewrite_accesses(schedule.func(), replace_last(loop_path, changed), staged.buffer, halves,
                                       [&](const Block& at, const std::vector<Expr>& indices) {
                                         const Expr turn = Expr(turns.at(at.f.name)) - node.min;
                                         std::vector<Expr> made{floor_mod(turn, index(2))};
                                         for (size_t d = 0; d < indices.size(); ++d)
                                           made.push_back(steps[d] ? indices[d] - turn * steps[d] : indices[d]);
                                         return made;
                                       });
  schedule.commit(result, application);
  return {first_name};
}

}  // namespace lathe
