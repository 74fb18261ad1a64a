#include <fmt/format.h>

#include <algorithm>
#include <unordered_map>
#include <unordered_set>

#include "ir/analysis/regions.h"
#include "ir/error.h"
#include "ir/reduction.h"
#include "ir/structural.h"
#include "ir/visitor.h"
#include "jit/trace/describe.h"
#include "jit/trace/keep_wide.h"
#include "jit/trace/promotion.h"
#include "jit/trace/share_parts.h"
#include "jit/trace/tensor_node.h"

namespace lathe {
namespace {

class Names {
 public:
  std::string unique(const std::string& wanted) {
    std::string name = wanted;
    for (int& count = counts_[wanted]; !used_.insert(name).second;) name = fmt::format("{}_{}", wanted, ++count);
    return name;
  }

 private:
  std::unordered_map<std::string, int> counts_;
  std::unordered_set<std::string> used_;
};

/// The computes that `outputs` need, producers first.
class Order {
 public:
  std::vector<const ComputeNode*> computes;
  std::vector<const TensorNode*> leaves;  ///< inputs and scalars that are read

  void add(const TensorNode* root) {
    // An explicit stack: a long chain of operators must not become a deep recursion.
    struct Entry {
      const ComputeNode* node;
      size_t next;
    };
    std::vector<Entry> stack;
    auto enter = [&](const TensorNode* tensor) {
      if (tensor->definition) {
        if (seen_.insert(tensor->definition.get()).second) stack.push_back({tensor->definition.get(), 0});
      } else if (seen_.insert(tensor).second) {
        leaves.push_back(tensor);
      }
    };
    enter(root);
    while (!stack.empty()) {
      Entry& top = stack.back();
      if (top.next == top.node->sources.size()) {
        computes.push_back(top.node);
        stack.pop_back();
      } else {
        enter(top.node->sources[top.next++].node());
      }
    }
  }

 private:
  std::unordered_set<const void*> seen_;
};

/// Loops over the iters around one Block of the body. What it reads joins `read`.
Stmt make_nest(const std::string& name, const std::vector<Iter>& iters, const std::optional<Reducer>& reducer,
               Stmt init, std::vector<Stmt> body, const Bounds& bounds, std::unordered_set<const BufferNode*>& read) {
  std::vector<VarRef> loops;
  std::vector<Expr> bindings;
  for (const Iter& iter : iters) {
    loops.push_back(Var::make(iter.variable->name.substr(1)));
    bindings.push_back(loops.back());
  }
  Stmt stmt = Block::make({.name = name,
                           .iters = iters,
                           .bindings = std::move(bindings),
                           .predicate = nullptr,
                           .reads = {},
                           .writes = {},
                           .allocs = {},
                           .reducer = reducer,
                           .init = std::move(init),
                           .body = Seq::make(std::move(body)),
                           .annotations = {}});
  stmt = infer_regions(stmt, bounds);
  for (const Region& region : stmt.as<Block>()->f.reads) read.insert(region.buffer.get());
  for (size_t d = loops.size(); d-- > 0;) {
    stmt = For::make(loops[d], index(0), iters[d].domain.extent, ForKind::serial, stmt);
  }
  return stmt;
}

/// What the output holds before the first instance.
Stmt make_beginning(const Beginning& begin, const Buffer& output, const std::string& name, const BufferMap& map,
                    const Bounds& bounds, std::unordered_set<const BufferNode*>& read) {
  const Stmt store = Store::make(map.at(output.get()), begin.indices, replace_widened(begin.value, map));
  return make_nest(name, begin.iters, std::nullopt, nullptr, {store}, bounds, read);
}

/// One loop nest around one Block; buffers are replaced by `map`. What it reads joins `read`.
Stmt make_nest(const ComputeNode& node, const std::string& name, const BufferMap& map, const Bounds& bounds,
               std::unordered_set<const BufferNode*>& read) {
  std::vector<Expr> values;
  values.reserve(node.values.size());
  for (size_t k = 0; k < node.values.size(); ++k) {
    const bool unrounded = map.at(node.buffers[k].get())->dtype != node.buffers[k]->dtype;
    values.push_back(unrounded ? replace_unrounded(node.values[k], map) : replace_widened(node.values[k], map));
  }
  std::vector<Stmt> lets;
  for (auto& [part, value] : share_parts(values)) lets.push_back(Let::make(part, value, Seq::make({})));
  std::vector<ReductionOutput> outputs;
  outputs.reserve(node.buffers.size());
  std::vector<Expr> indices;
  indices.reserve(node.indices.size());
  for (const Expr& place : node.indices) indices.push_back(replace_widened(place, map));
  for (const Buffer& buffer : node.buffers) outputs.push_back({map.at(buffer.get()), indices});

  std::vector<Stmt> body;
  body.reserve(node.requirements.size() + 1);
  for (const Requirement& requirement : node.requirements) {
    body.push_back(Assert::make(replace_widened(requirement.condition, map), requirement.message,
                                replace_widened(requirement.index, map)));
  }
  Stmt init;
  if (node.reducer) {
    init = make_init(*node.reducer, outputs);
    body.push_back(make_update(*node.reducer, outputs, values, lets));
  } else {
    for (size_t k = 0; k < values.size(); ++k) body.push_back(Store::make(outputs[k].buffer, indices, values[k]));
    for (size_t i = lets.size(); i-- > 0;) {
      const Let* let = lets[i].as<Let>();
      body = {Let::make(let->variable, let->value, Seq::make(std::move(body)))};
    }
  }
  return make_nest(name, node.iters, node.reducer, std::move(init), std::move(body), bounds, read);
}

/// Gathers the parameters, refusing tensors that stand in them twice or are read without standing in them.
class Parameters {
 public:
  Parameters(const std::string& func, const std::vector<Tensor>& inputs) : func_(func) {
    for (const Tensor& tensor : inputs) {
      const TensorNode* node = tensor.node();
      if (node->kind != TensorKind::input && node->kind != TensorKind::scalar) {
        fail_value(func, fmt::format("{} stands among the inputs but is computed; expected an input or a scalar",
                                     describe(tensor)));
      }
      if (!known_.insert(node).second) fail_value(func, fmt::format("input '{}' occurs twice", node->name));
      if (names.unique(node->name) != node->name)
        fail_value(func, fmt::format("two inputs are named '{}'", node->name));
      if (node->kind == TensorKind::scalar) {
        scalars_.insert(node->value.get());
        params.push_back(VarRef(node->value.as<Var>()));
      } else {
        params.push_back(node->buffer);
      }
    }
  }

  void check_known(const TensorNode* leaf) const {
    if (!known_.count(leaf)) {
      fail_value(func_, fmt::format("'{}' is read, but is not among the inputs: it is a tensor of another trace, which "
                                    "has no value here, or was left out of them",
                                    leaf->name));
    }
  }

  /// Variables of symbolic extents become scalar parameters behind all others: those of an expression but the iters
  /// that it is evaluated for.
  void add_symbols(const Expr& expr, const std::vector<Iter>& bound = {}) {
    if (expr.as<IntImm>()) return;
    for (const VarRef& variable : used_vars(expr)) {
      if (std::any_of(bound.begin(), bound.end(), [&](const Iter& iter) { return iter.variable == variable; }))
        continue;
      if (!scalars_.insert(variable.get()).second) continue;
      params.push_back(variable);
      facts.push_back({.variable = variable, .min = 2, .max = std::nullopt, .multiple_of = 1, .equals = nullptr});
    }
  }

  /// What a node speaks of: an extent stands in no loop of its own where the tensor of that length was folded away.
  void add_symbols(const ComputeNode& node) {
    for (const Iter& iter : node.iters) add_symbols(iter.domain.extent);
    if (node.begin) {
      for (const Iter& iter : node.begin->iters) add_symbols(iter.domain.extent);
    }
    for (const Requirement& requirement : node.requirements) add_symbols(requirement.condition, node.iters);
    for (const Expr& place : node.indices) add_symbols(place, node.iters);
    for (const Expr& value : node.values) add_symbols(value, node.iters);
  }

  Names names;
  std::vector<Param> params;
  std::vector<Fact> facts;

 private:
  const std::string& func_;
  std::unordered_set<const TensorNode*> known_;
  std::unordered_set<const ExprNode*> scalars_;
};

}  // namespace

Func make_func(std::string name, const std::vector<Tensor>& inputs, const std::vector<Tensor>& outputs,
               Precision precision) {
  Parameters parameters(name, inputs);
  BufferMap buffers;
  std::vector<Region> writes;
  std::vector<Tensor> copied;  // keeps the copies of outputs alive
  Order order;
  for (size_t k = 0; k < outputs.size(); ++k) {
    Tensor output = outputs[k];
    if (output.node()->kind != TensorKind::compute || buffers.count(output.node()->buffer.get())) {
      output = compute(output.shape(), [&](const Indices& i) { return outputs[k].at(i); }, "copy");
      copied.push_back(output);
    }
    const std::string wanted = outputs.size() == 1 ? "out" : fmt::format("out{}", k);
    Buffer target = BufferNode::make(parameters.names.unique(wanted), output.dtype(), output.shape());
    buffers.emplace(output.node()->buffer.get(), target);
    parameters.params.push_back(target);
    writes.push_back(full_region(target));
    order.add(output.node());
  }
  for (const TensorNode* leaf : order.leaves) parameters.check_known(leaf);
  std::unordered_set<const BufferNode*> wide;
  if (precision == Precision::standard) wide = kept_wide(order.computes, buffers);

  for (const Tensor& tensor : inputs) {
    for (const Expr& extent : tensor.shape()) parameters.add_symbols(extent);
  }
  Names block_names;
  block_names.unique("root");
  std::vector<Buffer> allocs;
  std::vector<Stmt> nests;
  std::unordered_set<const BufferNode*> read;
  std::string operators;
  for (const ComputeNode* node : order.computes) {
    const std::string block = block_names.unique(node->name);
    for (size_t k = 0; k < node->buffers.size(); ++k) {
      const Buffer& buffer = node->buffers[k];
      if (buffers.count(buffer.get())) continue;
      const std::string suffix = node->buffers.size() > 1 ? fmt::format("_{}", k) : "";
      const DType dtype = wide.contains(buffer.get()) ? arithmetic_type(buffer->dtype) : buffer->dtype;
      Buffer target = BufferNode::make(parameters.names.unique(block + suffix), dtype, buffer->shape);
      buffers.emplace(buffer.get(), target);
      allocs.push_back(target);
    }
    parameters.add_symbols(*node);
    Bounds bounds;
    for (const Fact& fact : parameters.facts)
      bounds.bind(fact.variable, Interval{fact.min, fact.max, fact.multiple_of, 0});
    if (const std::optional<Beginning>& begin = node->begin) {
      const std::string own = block_names.unique(node->name + "_begin");
      nests.push_back(make_beginning(*begin, node->buffers[0], own, buffers, bounds, read));
    }
    nests.push_back(make_nest(*node, block, buffers, bounds, read));
    if (!node->is_step) operators += (operators.empty() ? "" : ",") + node->name;
  }

  std::vector<Region> reads;
  for (const Param& param : parameters.params) {
    const Buffer* buffer = std::get_if<Buffer>(&param);
    if (buffer && read.count(buffer->get())) reads.push_back(full_region(*buffer));
  }
  Stmt root = Block::make({.name = "root",
                           .iters = {},
                           .bindings = {},
                           .predicate = nullptr,
                           .reads = std::move(reads),
                           .writes = std::move(writes),
                           .allocs = std::move(allocs),
                           .reducer = std::nullopt,
                           .init = nullptr,
                           .body = Seq::make(std::move(nests)),
                           .annotations = {}});
  return FuncNode::make(std::move(name), std::move(parameters.params), root, std::move(parameters.facts),
                        {{"operators", operators}});
}

}  // namespace lathe
