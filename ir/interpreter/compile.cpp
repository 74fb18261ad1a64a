#include <fmt/format.h>

#include <algorithm>

#include "ir/analysis/regions.h"
#include "ir/interpreter/compile_expr.h"
#include "ir/visitor.h"

namespace lathe::interpreter {
namespace {

/// Has flatten_buffers run? Between that pass and the end of its stage, an index that does not fit its buffer's rank
/// tells.
bool is_flat(const Func& func) {
  if (func->stage >= Stage::flatten) return true;
  bool flat = false;
  const auto look = [&](const Buffer& buffer, const std::vector<Expr>& indices) {
    flat = flat || (indices.size() == 1 && buffer->rank() != 1);
  };
  for_each_expr(func->body, [&](const Expr& e) {
    if (const Load* load = e.as<Load>()) look(load->buffer, load->indices);
  });
  for_each_stmt(func->body, [&](const Stmt& s) {
    if (const Store* store = s.as<Store>()) look(store->buffer, store->indices);
  });
  return flat;
}

class StatementCompiler {
 public:
  StatementCompiler(Compiled& program, const InterpreterOptions& options, const Func& func)
      : program_(program), exprs_(program, options, is_flat(func)) {}

  void func(const Func& func) {
    for (const VarRef& scalar : scalar_params(func)) {
      program_.scalars.push_back(exprs_.define(scalar.get(), false));
      scope_[scalar.get()] = {};
    }
    for (const Buffer& buffer : buffer_params(func)) program_.params.push_back(declare(buffer));
    find_workspace_buffers(func);
    program_.entry = exprs_.finish();
    program_.body = statement(func->body);
  }

 private:
  /// What a variable in scope is, as far as the start of a reduction needs it.
  struct InScope {
    Variable variable{nullptr, none, none};
    bool iterates = false;  ///< a loop's, or a reduce iter of an enclosing block
    Expr value;             ///< of a Let
    Statement* loop = nullptr;
  };

  BufferCode declare(const Buffer& buffer) {
    BufferCode code;
    code.buffer = buffer;
    if (const auto& view = buffer->view_of) {
      if (!exprs_.knows(view->buffer)) {
        throw Trap(fmt::format("buffer {} is a view of {}, which is not in scope", buffer->name, view->buffer->name));
      }
      code.view_parent = exprs_.array_of(view->buffer);
      for (const Range& range : view->ranges) code.view_mins.push_back(exprs_.compile(range.min));
    }
    code.array = exprs_.array_of(buffer);
    for (const Expr& extent : buffer->shape) code.shape.push_back(exprs_.compile(extent));
    for (const Expr& stride : strides_of(buffer)) code.strides.push_back(exprs_.compile(stride));
    if (buffer->offset) code.offset = exprs_.compile(buffer->offset);
    return code;
  }

  /// Buffers that are neither parameters nor allocated: plan_storage has given them places in a workspace.
  void find_workspace_buffers(const Func& func) {
    std::unordered_set<const BufferNode*> declared;
    for (const Buffer& buffer : buffer_params(func)) declared.insert(buffer.get());
    for (const Buffer& buffer : allocations(func)) declared.insert(buffer.get());
    const auto use = [&](const Buffer& buffer) {
      if (declared.insert(buffer.get()).second) program_.workspace_buffers.push_back(declare(buffer));
    };
    for_each_stmt(func->body, [&](const Stmt& s) {
      if (const Store* store = s.as<Store>()) use(store->buffer);
    });
    for_each_expr(func->body, [&](const Expr& e) {
      if (const Load* load = e.as<Load>()) use(load->buffer);
      if (const AddressOf* address = e.as<AddressOf>()) use(address->buffer);
    });
  }

  StatementRef statement(const Stmt& s) {
    auto result = std::make_unique<Statement>();
    Statement& out = *result;
    out.kind = s->kind;
    out.source = s;
    switch (s->kind) {
      case StmtKind::For:
        loop(out, s.as<For>());
        break;
      case StmtKind::Block:
        block(out, s.as<Block>());
        break;
      case StmtKind::Store: {
        const Store* node = s.as<Store>();
        out.lanes = node->value->dtype.lanes;
        out.dtype = node->value->dtype.element();
        out.a = exprs_.compile(node->value);
        out.access = exprs_.access(node->buffer, node->indices, node->mask, out.lanes);
        out.code = exprs_.finish();
        break;
      }
      case StmtKind::Let: {
        const Let* node = s.as<Let>();
        out.lanes = node->value->dtype.lanes;
        out.a = exprs_.compile(node->value);
        out.code = exprs_.finish();
        out.variable = exprs_.define(node->variable.get(), false);
        scope_[node->variable.get()] = {out.variable, false, node->value, nullptr};
        child(out, node->body);
        break;
      }
      case StmtKind::If: {
        const If* node = s.as<If>();
        if (!node->condition->dtype.is_scalar()) throw Trap("an If on a vector condition has no meaning");
        out.a = exprs_.compile(node->condition);
        out.code = exprs_.finish();
        child(out, node->then_case);
        if (node->else_case) child(out, node->else_case);
        break;
      }
      case StmtKind::While: {
        const While* node = s.as<While>();
        out.a = exprs_.compile(node->condition);
        out.code = exprs_.finish();
        child(out, node->body);
        break;
      }
      case StmtKind::Seq:
        for (const Stmt& part : s.as<Seq>()->stmts) child(out, part);
        break;
      case StmtKind::Eval:
        out.a = exprs_.compile(s.as<Eval>()->value);
        out.code = exprs_.finish();
        break;
      case StmtKind::Assert: {
        const Assert* node = s.as<Assert>();
        out.lanes = node->condition->dtype.lanes;
        out.a = exprs_.compile(node->condition);
        if (node->index) out.b = exprs_.compile(node->index);
        out.code = exprs_.finish();
        break;
      }
    }
    return result;
  }

  void child(Statement& parent, const Stmt& s) {
    parent.children.push_back(statement(s));
    parent.has_init = parent.has_init || parent.children.back()->has_init;
  }

  void loop(Statement& out, const For* node) {
    out.for_kind = node->for_kind;
    out.a = exprs_.compile(node->min);
    out.b = exprs_.compile(node->extent);
    out.code = exprs_.finish();
    out.variable = exprs_.define(node->variable.get(), true);
    scope_[node->variable.get()] = {out.variable, true, nullptr, &out};
    for (const auto& [buffer, array] : allocated_) {
      if (node->annotations.contains(private_key(buffer))) out.privates.push_back(array);
    }
    child(out, node->body);
  }

  /// Adds the loops and iters that `e` follows, through Lets, to `found`.
  void iterating_vars(const Expr& e, std::vector<const Var*>* found) {
    for (const VarRef& var : used_vars(e)) {
      const auto known = scope_.find(var.get());
      if (known == scope_.end()) continue;
      if (known->second.value) {
        iterating_vars(known->second.value, found);
      } else if (known->second.iterates && std::find(found->begin(), found->end(), var.get()) == found->end()) {
        found->push_back(var.get());
      }
    }
  }

  void block(Statement& out, const Block* node) {
    const Block::Fields& f = node->f;
    out.block = std::make_unique<BlockCode>();
    BlockCode& code = *out.block;

    std::vector<const Var*> reduce_vars, space_vars;
    for (size_t i = 0; i < f.iters.size(); ++i) {
      iterating_vars(f.bindings[i], f.iters[i].kind == IterKind::reduce ? &reduce_vars : &space_vars);
    }
    std::erase_if(reduce_vars, [&](const Var* var) {
      return std::find(space_vars.begin(), space_vars.end(), var) != space_vars.end();
    });
    if (f.init) {
      out.has_init = true;
      for (const Var* var : reduce_vars) {
        const InScope& in_scope = scope_.at(var);
        code.reduce_variables.push_back(in_scope.variable);
        if (in_scope.loop) in_scope.loop->reduces = true;
      }
    }

    std::vector<int> bindings;
    bindings.reserve(f.bindings.size());
    for (const Expr& binding : f.bindings) bindings.push_back(exprs_.compile(binding));
    if (f.predicate) code.predicate = exprs_.compile(f.predicate);
    out.code = exprs_.finish();

    for (size_t i = 0; i < f.iters.size(); ++i) {
      const Iter& iter = f.iters[i];
      const Variable variable = exprs_.define(iter.variable.get(), true);
      scope_[iter.variable.get()] = {variable, iter.kind == IterKind::reduce, nullptr, nullptr};
      bool shared = false;
      if (iter.kind == IterKind::reduce) {
        std::vector<const Var*> vars;
        iterating_vars(f.bindings[i], &vars);
        shared = std::find_first_of(vars.begin(), vars.end(), space_vars.begin(), space_vars.end()) != vars.end();
      }
      code.iters.push_back({variable, iter.kind, bindings[i], none, none, shared});
    }
    for (size_t i = 0; i < f.iters.size(); ++i) {
      code.iters[i].domain_min = exprs_.compile(f.iters[i].domain.min);
      code.iters[i].domain_extent = exprs_.compile(f.iters[i].domain.extent);
    }
    code.domains = exprs_.finish();
    const size_t around = allocated_.size();
    for (const Buffer& buffer : f.allocs) {
      code.allocs.push_back(declare(buffer));
      allocated_.emplace_back(buffer, code.allocs.back().array);
    }
    code.buffers_code = exprs_.finish();
    if (f.init) code.init = statement(f.init);
    child(out, f.body);
    allocated_.resize(around);
  }

  Compiled& program_;
  ExprCompiler exprs_;
  std::unordered_map<const Var*, InScope> scope_;
  std::vector<std::pair<Buffer, int>> allocated_;  ///< around the statement, and their arrays
};

}  // namespace

Compiled compile(const Func& func, const InterpreterOptions& options) {
  Compiled program;
  program.func = func;
  StatementCompiler(program, options, func).func(func);
  return program;
}

}  // namespace lathe::interpreter
