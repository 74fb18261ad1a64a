#include "schedule/finite_sums.h"

#include <fmt/format.h>

#include <algorithm>

#include "ir/reduction.h"
#include "ir/structural.h"
#include "schedule/access.h"
#include "schedule/rewrite.h"

namespace lathe {

bool FiniteOperand::operator==(const FiniteOperand& other) const {
  return buffer == other.buffer &&
         std::equal(ranges.begin(), ranges.end(), other.ranges.begin(), other.ranges.end(),
                    [](const Range& a, const Range& b) { return equal(a.min, b.min) && equal(a.extent, b.extent); });
}

bool uses_loop(const FiniteOperand& operand, const For& loop) {
  return std::any_of(operand.ranges.begin(), operand.ranges.end(),
                     [&](const Range& range) { return uses_var(range.min, loop.variable.get()); });
}

FiniteSum sum_of_zeros(const Schedule& schedule, const FiniteOperand& operand, const std::vector<const For*>& around,
                       const std::vector<const For*>& within) {
  const DType dtype = operand.buffer->dtype;
  FiniteSum made;
  Block::Fields fields;
  fields.name = made.block = schedule.unique_name(operand.buffer->name + "_zeros");
  std::vector<Expr> shape, at, here;
  std::vector<std::pair<VarRef, Range>> loops;
  Substitution iters;
  const auto add = [&](const std::string& name, const Range& domain, IterKind kind, const For* loop = nullptr) {
    const VarRef variable = Var::make("v" + name), driving = loop ? loop->variable : Var::make(name);
    fields.iters.push_back({variable, domain, kind});
    fields.bindings.emplace_back(driving);
    if (!loop) loops.emplace_back(driving, domain);
    return variable;
  };
  for (const std::vector<const For*>* group : {&around, &within}) {
    for (const For* loop : *group) {
      if (!uses_loop(operand, *loop)) continue;
      const VarRef variable =
          add(loop->variable->name, {loop->min, loop->extent}, IterKind::space, group == &around ? loop : nullptr);
      iters[loop->variable.get()] = variable;
      shape.push_back(loop->extent);
      at.push_back(Expr(variable) - loop->min);
      here.push_back(Expr(loop->variable) - loop->min);
    }
  }
  if (shape.empty()) {
    shape.push_back(index(1));
    at.push_back(index(0));
    here.push_back(index(0));
  }
  std::vector<Expr> indices;
  for (size_t d = 0; d < operand.ranges.size(); ++d) {
    const Expr low = substitute(operand.ranges[d].min, iters);
    if (is_int(operand.ranges[d].extent, 1)) {
      indices.push_back(low);
    } else {
      indices.push_back(low + Expr(add(fmt::format("d{}", d), {index(0), operand.ranges[d].extent}, IterKind::reduce)));
    }
  }
  made.sums = BufferNode::make(schedule.unique_name(operand.buffer->name + "_zeros"), dtype, shape);
  const Reducer reducer = simple_reducer(BinaryOp::add, dtype);
  const std::vector<ReductionOutput> outputs{{made.sums, at}};
  fields.reducer = reducer;
  fields.init = make_init(reducer, outputs);
  fields.body = make_update(reducer, outputs, {load(operand.buffer, indices) * constant(dtype, 0)});
  const Stmt block = Block::make(std::move(fields));
  made.nest = with_inferred_regions(*block.as<Block>());
  for (size_t i = loops.size(); i-- > 0;)
    made.nest = For::make(loops[i].first, loops[i].second.min, loops[i].second.extent, ForKind::serial, made.nest);
  made.guard = ne(load(made.sums, here), constant(dtype, 0));
  return made;
}

}  // namespace lathe
