#include "schedule/primitives/rfactor.h"

#include <fmt/format.h>

#include <algorithm>
#include <unordered_set>

#include "ir/analysis/regions.h"
#include "ir/conjuncts.h"
#include "ir/reduction.h"
#include "schedule/access.h"
#include "schedule/commutes.h"
#include "schedule/rewrite.h"

namespace lathe {
namespace {

using VarSet = std::unordered_set<const Var*>;

bool uses_any(const Expr& e, const VarSet& variables) {
  for (const VarRef& used : used_vars(e)) {
    if (variables.contains(used.get())) return true;
  }
  return false;
}

struct Factoring {
  const Block& block;
  const Reducer& reducer;
  const For& loop;
  std::vector<const For*> reduce_loops;  ///< outermost first
  ReductionParts parts;
};

Stmt partial_block(const Factoring& factoring, const std::string& name, const std::vector<Buffer>& buffers) {
  const Block& block = factoring.block;
  Block::Fields f;
  f.name = name;
  f.predicate = block.f.predicate;
  const Reducer reducer = with_new_variables(factoring.reducer);
  f.reducer = reducer;
  Substitution loops_to_iters, iters;
  for (size_t i = 0; i < block.f.iters.size(); ++i) {
    if (block.f.iters[i].kind != IterKind::space) continue;
    const VarRef variable = Var::make(block.f.iters[i].variable->name);
    iters[block.f.iters[i].variable.get()] = variable;
    f.iters.push_back({variable, block.f.iters[i].domain, IterKind::space});
    f.bindings.push_back(block.f.bindings[i]);
  }
  VarRef lane;
  for (const For* loop : factoring.reduce_loops) {
    const VarRef variable = Var::make("v" + loop->variable->name);
    loops_to_iters[loop->variable.get()] = variable;
    const bool factored = loop == &factoring.loop;
    if (factored) lane = variable;
    f.iters.push_back({variable, {loop->min, loop->extent}, factored ? IterKind::space : IterKind::reduce});
    f.bindings.emplace_back(loop->variable);
  }
  for (size_t i = 0; i < block.f.iters.size(); ++i) {
    if (block.f.iters[i].kind != IterKind::space) {
      iters[block.f.iters[i].variable.get()] = substitute(block.f.bindings[i], loops_to_iters);
    }
  }
  std::vector<ReductionOutput> outputs;
  for (size_t k = 0; k < buffers.size(); ++k) {
    std::vector<Expr> indices;
    for (const Expr& e : factoring.parts.outputs[k].indices) indices.push_back(substitute(e, iters));
    indices.emplace_back(lane);
    outputs.push_back({buffers[k], std::move(indices)});
  }
  std::vector<Stmt> lets;
  for (const Stmt& s : factoring.parts.lets) {
    const Let* let = s.as<Let>();
    const VarRef variable = Var::make(let->variable->name, let->variable->dtype);
    lets.push_back(Let::make(variable, substitute(let->value, iters), Seq::make({})));
    iters[let->variable.get()] = variable;
  }
  std::vector<Expr> terms;
  terms.reserve(factoring.parts.terms.size());
  for (const Expr& term : factoring.parts.terms) terms.push_back(substitute(term, iters));
  f.init = make_init(reducer, outputs);
  f.body = make_update(reducer, outputs, terms, lets);
  for (const Region& region : block.f.reads) {
    if (is_hint(region)) f.reads.push_back(substitute(region, iters));
  }
  const Stmt made = Block::make(std::move(f));
  return with_inferred_regions(*made.as<Block>());
}

Stmt final_block(const Factoring& factoring, const std::vector<Buffer>& buffers, const VarRef& lane_loop) {
  const Block& block = factoring.block;
  Block::Fields f = block.f;
  f.iters.clear();
  f.bindings.clear();
  f.predicate = nullptr;
  for (size_t i = 0; i < block.f.iters.size(); ++i) {
    if (block.f.iters[i].kind != IterKind::space) continue;
    f.iters.push_back(block.f.iters[i]);
    f.bindings.push_back(block.f.bindings[i]);
  }
  const VarRef lane = Var::make("v" + lane_loop->name);
  f.iters.push_back({lane, {index(0), factoring.loop.extent}, IterKind::reduce});
  f.bindings.emplace_back(lane_loop);
  std::vector<Expr> terms;
  for (size_t k = 0; k < buffers.size(); ++k) {
    std::vector<Expr> indices = factoring.parts.outputs[k].indices;
    indices.emplace_back(lane);
    terms.push_back(load(buffers[k], indices));
  }
  f.body = make_update(factoring.reducer, factoring.parts.outputs, terms);
  const Stmt made = Block::make(std::move(f));
  return with_inferred_regions(*made.as<Block>());
}

}  // namespace

BlockRef rfactor(Schedule& schedule, const BlockRef& block, const LoopRef& loop) {
  const Path path = path_to(schedule, block), loop_path = path_to(schedule, loop);
  const Block& node = *path.back().as<Block>();
  const std::string application = fmt::format("rfactor({}, {})", block.name, schedule.place(loop));
  const std::optional<ReductionParts> parts = match_update(node);
  if (!parts || !node.f.reducer || !node.f.init) {
    refuse(schedule, application, 1, "block is a reduction with an init, its body the canonical update", path.back(),
           node.f.reducer ? "has no init, or another body" : "is no reduction");
  }
  const std::string driven =
      "loop is around block, has a constant extent and starts at 0, and drives reduce iters alone";
  const For& factored = *loop_path.back().as<For>();
  Factoring factoring{node, *node.f.reducer, factored, {}, *parts};
  size_t outermost = path.size();
  VarSet reduce_vars;
  for (size_t level = 0; level < path.size(); ++level) {
    const For* around = path[level].as<For>();
    if (!around) continue;
    bool drives = false;
    for (size_t i = 0; i < node.f.iters.size(); ++i) {
      drives |= node.f.iters[i].kind != IterKind::space && uses_var(node.f.bindings[i], around->variable.get());
    }
    if (!drives) continue;
    factoring.reduce_loops.push_back(around);
    reduce_vars.insert(around->variable.get());
    if (outermost == path.size()) outermost = level;
  }
  const std::int64_t* extent = as_int(factored.extent);
  if (!reduce_vars.contains(factored.variable.get()) || !extent || *extent < 1 || !is_int(factored.min, 0)) {
    refuse(schedule, application, 2, driven, loop_path.back(), "is no such loop");
  }
  for (size_t i = 0; i < node.f.iters.size(); ++i) {
    if (node.f.iters[i].kind == IterKind::space && uses_any(node.f.bindings[i], reduce_vars)) {
      refuse(schedule, application, 3, "no space iter is bound to a loop that drives a reduce iter", path.back(),
             fmt::format("binds {} so", node.f.iters[i].variable->name));
    }
  }
  const std::string alone = "below the outermost loop that drives a reduce iter there is no other block";
  for (size_t level = outermost; level + 1 < path.size(); ++level) {
    if (!path[level].as<For>()) refuse(schedule, application, 4, alone, path[level], "stands between");
  }
  const auto first = std::find_if(factoring.reduce_loops.begin(), factoring.reduce_loops.end(),
                                  [&](const For* around) { return around == &factored || !is_int(around->extent, 1); });
  const bool outside = *first == &factored;
  if (!outside && !folds_in_any_order(*node.f.reducer)) {
    refuse(schedule, application, 5,
           "the reducer folds in any order, or loop is around all others that drive a reduce iter", loop_path.back(),
           "would take steps of others between its own");
  }

  std::vector<Buffer> buffers;
  Stmt body = schedule.func()->body;
  for (const ReductionOutput& output : parts->outputs) {
    std::vector<Expr> shape = output.buffer->shape;
    shape.push_back(factored.extent);
    buffers.push_back(BufferNode::make(schedule.unique_name(output.buffer->name + "_rf"), output.buffer->dtype, shape));
  }
  const std::string name = schedule.unique_name(block.name + "_rf");
  const Stmt partial = partial_block(factoring, name, buffers);
  const Stmt partial_nest =
      replace_last(Path(path.begin() + static_cast<std::ptrdiff_t>(outermost), path.end()), partial);

  const VarRef lane_loop = Var::make(factored.variable->name);
  Expr predicate;
  for (const Expr& condition : conjuncts_of(node.f.predicate)) {
    if (!uses_any(condition, reduce_vars)) predicate = logical_and(predicate, condition);
  }
  Stmt final_nest = final_block(factoring, buffers, lane_loop);
  if (predicate) final_nest = add_predicate(*final_nest.as<Block>(), predicate);
  std::vector<Expr> needed = final_nest.as<Block>()->f.bindings;
  if (predicate) needed.push_back(predicate);
  final_nest = For::make(lane_loop, index(0), factored.extent, ForKind::serial, final_nest);
  for (size_t level = path.size(); level-- > outermost;) {
    const For* around = path[level].as<For>();
    if (!around || reduce_vars.contains(around->variable.get())) continue;
    bool used = false;
    for (const Expr& e : needed) used |= uses_var(e, around->variable.get());
    if (!used) continue;
    const VarRef variable = Var::make(around->variable->name);
    final_nest = For::make(variable, around->min, around->extent, around->for_kind,
                           substitute_loops(final_nest, {{around->variable.get(), variable}}), around->annotations,
                           around->thread_axis);
  }
  Path outer(path.begin(), path.begin() + static_cast<std::ptrdiff_t>(outermost) + 1);
  body = replace_last(outer, Seq::make({partial_nest, final_nest}));
  for (const Buffer& buffer : buffers) body = add_allocation(body, buffer);
  schedule.commit(body, application);
  return {name};
}

}  // namespace lathe
