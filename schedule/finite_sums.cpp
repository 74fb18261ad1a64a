#include "schedule/finite_sums.h"

#include <fmt/format.h>

#include <algorithm>

#include "ir/reduction.h"
#include "ir/structural.h"
#include "schedule/access.h"
#include "schedule/rewrite.h"

namespace lathe {
namespace {

/// A block in loops of its own, but for iters that loops around it drive.
struct Nest {
  Block::Fields fields;
  std::vector<std::pair<VarRef, Range>> loops;

  VarRef add(const std::string& name, const Range& domain, IterKind kind, const VarRef& outer = nullptr) {
    const VarRef variable = Var::make("v" + name), driving = outer ? outer : Var::make(name);
    fields.iters.push_back({variable, domain, kind});
    fields.bindings.emplace_back(driving);
    if (!outer) loops.emplace_back(driving, domain);
    return variable;
  }

  Stmt statement() && {
    const Stmt block = Block::make(std::move(fields));
    Stmt nest = with_inferred_regions(*block.as<Block>());
    for (size_t i = loops.size(); i-- > 0;)
      nest = For::make(loops[i].first, loops[i].second.min, loops[i].second.extent, ForKind::serial, nest);
    return nest;
  }
};

}  // namespace

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
                       const std::vector<const For*>& within, const std::vector<std::string>& names) {
  const DType dtype = operand.buffer->dtype;
  FiniteSum made;
  Nest sums, marks;
  made.block = sums.fields.name = schedule.unique_name(operand.buffer->name + "_zeros", names);
  made.marks = marks.fields.name = schedule.unique_name(operand.buffer->name + "_odd", names);
  std::vector<Expr> shape, at, mark_at, here;
  Substitution iters;
  for (const std::vector<const For*>* group : {&around, &within}) {
    for (const For* loop : *group) {
      if (!uses_loop(operand, *loop)) continue;
      const Range domain{loop->min, loop->extent};
      const VarRef outer = group == &around ? loop->variable : nullptr;
      const VarRef variable = sums.add(loop->variable->name, domain, IterKind::space, outer);
      iters[loop->variable.get()] = variable;
      shape.push_back(loop->extent);
      at.push_back(Expr(variable) - loop->min);
      mark_at.push_back(Expr(marks.add(loop->variable->name, domain, IterKind::space, outer)) - loop->min);
      here.push_back(Expr(loop->variable) - loop->min);
    }
  }
  if (shape.empty()) {
    shape.push_back(index(1));
    for (std::vector<Expr>* indices : {&at, &mark_at, &here}) indices->push_back(index(0));
  }
  std::vector<Expr> indices;
  for (size_t d = 0; d < operand.ranges.size(); ++d) {
    const Expr low = substitute(operand.ranges[d].min, iters);
    if (is_int(operand.ranges[d].extent, 1)) {
      indices.push_back(low);
    } else {
      const Range steps{index(0), operand.ranges[d].extent};
      indices.push_back(low + Expr(sums.add(fmt::format("d{}", d), steps, IterKind::reduce)));
    }
  }
  const Buffer zeros = BufferNode::make(made.block, dtype, shape);
  const Buffer odd = BufferNode::make(made.marks, boolean, shape);
  const Reducer reducer = simple_reducer(BinaryOp::add, dtype);
  const std::vector<ReductionOutput> outputs{{zeros, at}};
  sums.fields.reducer = reducer;
  sums.fields.init = make_init(reducer, outputs);
  sums.fields.body = make_update(reducer, outputs, {load(operand.buffer, indices) * constant(dtype, 0)});
  marks.fields.body = Store::make(odd, mark_at, ne(load(zeros, mark_at), constant(dtype, 0)));
  made.nests = {std::move(sums).statement(), std::move(marks).statement()};
  made.buffers = {zeros, odd};
  made.guard = load(odd, here);
  return made;
}

}  // namespace lathe
